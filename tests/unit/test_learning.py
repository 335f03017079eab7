"""`learn`: what is trained on what, and that its predictions are the model's."""

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from campaigns import CLASSES, Make, N
from hedgerow import Campaign, CampaignError, InputError, Pairs
from hedgerow.campaign import learning
from hedgerow.campaign.answers import Answer
from hedgerow.campaign.predictions import find_model, load_predictions
from hedgerow.errors import EngineError
from hedgerow.models.heads import LinearHead, PairAnswers, PerceptronHead

BLACK_BOX = Path(__file__).resolve().parents[2] / "examples" / "black_box.py"
TRUTH = np.arange(N) % 3
EMBEDDINGS = (3 * np.eye(4)[TRUTH] + np.random.default_rng(2).normal(0, 1, (N, 4))).astype(np.float32)
SETS = np.stack([TRUTH == 0, TRUTH < 2, EMBEDDINGS[:, 3] > 0], axis=1)
# Writes the labels that it got to labels.npy in its folder, and predicts 0.25 for every class.
SPY = """
import sys, shutil, numpy as np, pyarrow as pa, pyarrow.parquet as pq
given = dict(zip(sys.argv[3::2], sys.argv[4::2]))
if sys.argv[2] == "fit":
    shutil.copy(given["--labels"], sys.argv[1] + "/labels.npy")
    shutil.copy(given["--features"], sys.argv[1] + "/features.npy")
else:
    n = len(np.load(given["--features"]))
    pq.write_table(pa.table({f"p_{place}": np.full(n, 0.25) for place in range(3)}), given["--out"])
"""


def tell(campaign: Campaign, rows: Any) -> None:
    """The true answers about some rows, in one source."""
    kind = campaign.status().kind
    answers = []
    for row in rows:
        if kind == "multi-class":
            answers.append(Answer(f"r{row}", "answer", CLASSES[TRUTH[row]], "ana"))
        elif kind == "multi-label":
            names = tuple(name for name, has in zip(CLASSES, SETS[row], strict=True) if has)
            answers.append(Answer(f"r{row}", "answer" if names else "none-of-these", names or None, "ana"))
        else:
            answers += [
                Answer(f"r{row}", "answer", int(SETS[row, place]), "ana", class_=name)
                for place, name in enumerate(CLASSES)
                if (row + place) % 2
            ]
    campaign.ingest(answers, again=True)


def split(campaign: Campaign) -> tuple[list[int], list[int]]:
    """(rows to train on, the holdout)."""
    held = sorted(set(campaign.batch(1)["row"].tolist()))
    return [row for row in range(60) if row not in held], held


def load(campaign: Campaign) -> Any:
    with campaign._database.read() as connection:
        row = find_model(connection, None)
        return load_predictions(connection, campaign._shelf, campaign._holdings, row)


@pytest.mark.parametrize("head", ["linear", "perceptron"])
def test_a_head_for_rows(make: Make, head: str) -> None:
    campaign = make(embeddings=EMBEDDINGS)
    rows, held = split(campaign)
    tell(campaign, [*rows, *held])
    done = campaign.learn(head=head, seed=5)
    trainer = LinearHead(3) if head == "linear" else PerceptronHead(3)
    expected = trainer.fit(EMBEDDINGS[rows], TRUTH[rows], seed=5).probabilities(EMBEDDINGS)
    stored, whole = load(campaign)
    np.testing.assert_array_equal(whole.array(), expected)
    np.testing.assert_array_equal(stored.guess, expected.argmax(axis=1))
    np.testing.assert_allclose(stored.margin, np.diff(np.sort(expected), axis=1)[:, -1], atol=1e-6)
    assert (done.model.name, done.model.rows, done.labels, done.classes) == ("model-1", N, len(rows), (3, 3))
    assert done.model.settings["head"] == head
    assert done.measured.value == np.mean(expected.argmax(axis=1)[held] == TRUTH[held])
    assert json.loads(json.dumps(done.to_json()))["holdout"]["n"] == 10
    assert len(campaign.batch(campaign.next(8))["guess"]) == 8
    assert [entry.command for entry in campaign.log()][-2:] == ["learn", "next"]


def test_a_head_for_sets(make: Make) -> None:
    campaign = make(kind="multi-label", embeddings=EMBEDDINGS)
    rows, held = split(campaign)
    tell(campaign, [*rows, *held])
    done = campaign.learn(keep=False)
    expected = LinearHead(3).fit(EMBEDDINGS[rows], SETS[rows], seed=0).probabilities(EMBEDDINGS)
    stored, whole = load(campaign)
    assert whole is None
    np.testing.assert_allclose(stored.probability, expected.max(axis=1))
    assert done.measured.metric == "average precision"
    assert done.measured.value is not None
    assert done.measured.value > 0.8
    assert str(done).startswith(f"{len(rows)} labels of 3 of 3 classes -> model-1, a linear head")


@pytest.mark.parametrize("listed", [False, True])
def test_a_head_for_pairs(make: Make, listed: bool) -> None:
    options: dict[str, Any] = {}
    if listed:
        shuffled = np.random.default_rng(1).permutation(3 * N)
        options["pairs"] = Pairs(shuffled // 3, (shuffled % 3).astype(np.int32))
    campaign = make(kind="pairs", embeddings=EMBEDDINGS, **options)
    rows, held = split(campaign)
    tell(campaign, [*rows, *held])
    done = campaign.learn()
    asked = [(row, place) for row in rows for place in range(3) if (row + place) % 2]
    at, classes = np.array(asked).T
    expected = LinearHead(3).fit(EMBEDDINGS[at], PairAnswers(classes, SETS[at, classes]), seed=0)
    pairs = campaign._holdings.pairs
    found = expected.probabilities(EMBEDDINGS)[pairs.rows, pairs.classes]
    np.testing.assert_allclose(load(campaign)[0].probability, found, atol=1e-6)
    assert done.labels == len(asked)
    assert done.measured.n == 15


def test_the_holdout_is_never_trained_on(make: Make) -> None:
    campaign = make(embeddings=EMBEDDINGS)
    rows, held = split(campaign)
    tell(campaign, rows)
    campaign.learn()
    before = load(campaign)[1].array()
    tell(campaign, held)
    campaign.learn()
    np.testing.assert_array_equal(load(campaign)[1].array(), before)


def test_chunks_change_nothing(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    campaign = make(kind="multi-label", embeddings=EMBEDDINGS)
    tell(campaign, split(campaign)[0])
    campaign.learn(name="whole")
    before = load(campaign)[1].array()
    monkeypatch.setattr(learning, "CHUNK_ENTRIES", 4 * 7)
    campaign.learn(name="parts")
    np.testing.assert_allclose(load(campaign)[1].array(), before, atol=1e-6)
    assert campaign.curve()[0].value == campaign.curve()[1].value


def test_one_class_so_far(make: Make) -> None:
    campaign = make(embeddings=EMBEDDINGS)
    row = split(campaign)[0][0]
    tell(campaign, [row])
    done = campaign.learn()
    assert str(done) == (
        "1 label of 1 of 3 classes -> model-1, a linear head on the embeddings\nholdout: no labels yet"
    )
    assert set(load(campaign)[0].guess.tolist()) == {TRUTH[row]}


# Programs.


def test_the_users_own_program(make: Make) -> None:
    campaign = make(embeddings=EMBEDDINGS)
    rows, held = split(campaign)
    tell(campaign, [*rows, *held])
    command = f"{sys.executable} {BLACK_BOX}"
    done = campaign.learn(program=command, name="mine")
    assert done.model.settings == {"program": command, "seed": 0}
    assert done.measured.value is not None
    assert done.measured.value > 0.7
    assert done.measured.model == "mine"


@pytest.mark.parametrize("kind", ["multi-label", "pairs"])
def test_a_program_gets_yes_no_and_unknown(make: Make, kind: str, tmp_path: Path) -> None:
    campaign = make(kind=kind, embeddings=EMBEDDINGS, holdout=0)
    tell(campaign, (7, 4, 5))
    (tmp_path / "spy.py").write_text(SPY)
    campaign.learn(program=f"{sys.executable} '{tmp_path / 'spy.py'}' '{tmp_path}'")
    given = np.load(tmp_path / "labels.npy")
    expected = SETS[[4, 5, 7]].astype(np.int64)
    if kind == "pairs":
        asked = (np.array([[4], [5], [7]]) + np.arange(3)) % 2 == 1
        expected = np.where(asked, expected, -1)
    np.testing.assert_array_equal(given, expected)
    np.testing.assert_array_equal(np.load(tmp_path / "features.npy"), EMBEDDINGS[[4, 5, 7]])
    assert set(load(campaign)[0].probability.tolist()) == {0.25}


def test_a_large_pool_comes_to_a_program_in_parts(make: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    campaign = make(embeddings=EMBEDDINGS)
    tell(campaign, split(campaign)[0])
    command = f"{sys.executable} {BLACK_BOX}"
    campaign.learn(program=command)
    before = load(campaign)[1].array()
    monkeypatch.setattr(learning, "PROGRAM_ENTRIES", 4 * 50)
    campaign.learn(program=command)
    np.testing.assert_allclose(load(campaign)[1].array(), before, atol=1e-6)


# What is refused.


def test_wrong_calls(make: Make) -> None:
    campaign = make(embeddings=EMBEDDINGS)
    with pytest.raises(CampaignError, match="there are no labels to train on: reserve a batch"):
        campaign.learn()
    rows, held = split(campaign)
    tell(campaign, held)
    with pytest.raises(CampaignError, match="those of the holdout are for measuring only"):
        campaign.learn()
    tell(campaign, rows)
    with pytest.raises(InputError, match="did you mean 'linear'"):
        campaign.learn(head="linaer")
    with pytest.raises(InputError, match="a head or a program, not both"):
        campaign.learn(head="linear", program="x")
    with pytest.raises(InputError, match="'no-such-program' cannot be run"):
        campaign.learn(program="no-such-program")
    with pytest.raises(InputError, match="command must name a program"):
        campaign.learn(program=" ")
    with pytest.raises(InputError, match="cannot be read as a command"):
        campaign.learn(program="python 'train.py")
    with pytest.raises(EngineError, match="fit failed"):
        campaign.learn(program=f"{sys.executable} -c 'import sys; sys.exit(1)'")
    campaign.learn(name="one")
    with pytest.raises(CampaignError, match="'one' is registered already"):
        campaign.learn(name="one")
    assert len(campaign.status().models) == 1


def test_a_pool_without_embeddings(make: Make) -> None:
    campaign = make(embeddings=None, clusters=None)
    tell(campaign, range(5))
    with pytest.raises(CampaignError, match="has no embeddings to train on: begin one with them"):
        campaign.learn()

"""Clusters and batches as people browse them, and why a row was picked: worked out by hand on twelve rows."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from hedgerow import Campaign, CampaignError, InputError
from hedgerow.campaign.gallery import order_by_cluster
from hedgerow.campaign.reasons import compare

# Rows 0 to 4 are cluster 0, rows 5 to 8 cluster 1, rows 9 to 11 cluster 2.
CLUSTERS = np.array([0, 0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2])
CLASSES = ["cat", "dog", "fox"]
EMBEDDINGS = np.array([[np.cos(angle), np.sin(angle)] for angle in np.arange(12) / 10], np.float32)


@pytest.fixture
def campaign(tmp_path: Path) -> Iterator[Campaign]:
    (tmp_path / "pool.csv").write_text("id,text\n" + "".join(f"r{row},text {row}\n" for row in range(12)))
    with Campaign.init(
        tmp_path / "campaign", tmp_path / "pool.csv", classes=CLASSES, embeddings=EMBEDDINGS, clusters=CLUSTERS
    ) as made:
        yield made


def answer(campaign: Campaign, said: dict[int, str], who: str = "ana") -> None:
    """Answers by row."""
    tasks = campaign.batch(1)
    by_row = dict(zip(tasks["row"].tolist(), tasks["task"].tolist(), strict=True))
    for row, value in said.items():
        campaign.answer(who, by_row[row], value)


def test_clusters_are_counted(campaign: Campaign) -> None:
    campaign.next(12, strategy="random")
    answer(campaign, {0: "cat", 1: "cat", 2: "dog", 5: "fox"})
    total, found = campaign.list_clusters()
    assert total == 3
    assert [(one.cluster, one.size, one.labeled, one.label) for one in found] == [
        (0, 5, 3, "cat"), (1, 4, 1, "fox"), (2, 3, 0, None),
    ]  # fmt: skip
    assert [one.purity for one in found] == [pytest.approx(2 / 3), 1.0, None]
    assert [one.margin for one in found] == [None] * 3
    assert [one.cluster for one in campaign.list_clusters("purity", 2)[1]] == [0, 1]
    assert campaign.count_clusters() == (3, 2)


def test_the_mean_margin_is_that_of_the_newest_model(campaign: Campaign) -> None:
    sure, unsure = [1.0, 0.0, 0.0], [0.5, 0.25, 0.25]
    campaign.predict(np.array([sure] * 12))
    campaign.predict(np.array([sure] * 5 + [unsure] * 4 + [sure, sure, unsure]))
    found = campaign.list_clusters("margin")[1]
    assert [(one.cluster, one.margin) for one in found] == [
        (1, pytest.approx(0.25)), (2, pytest.approx(0.75)), (0, pytest.approx(1.0)),
    ]  # fmt: skip


def test_a_cluster_is_read_a_page_at_a_time(campaign: Campaign) -> None:
    campaign.next(12, strategy="random")
    answer(campaign, {6: "dog"})
    page = campaign.browse_cluster(1, start=1, n=2)
    assert page.total == 4
    assert [(one.row, one.id, one.content, one.label) for one in page.rows] == [
        (6, "r6", "text 6", "dog"), (7, "r7", "text 7", None),
    ]  # fmt: skip
    assert campaign.browse_cluster(99).rows == ()


def test_a_batch_is_read_cluster_by_cluster(campaign: Campaign) -> None:
    campaign.next(12, strategy="random", seed=3)
    tasks = campaign.batch(1)
    page = campaign.browse_batch(1, n=100)
    assert page.total == 12
    first = {cluster: tasks["pick"][tasks["cluster"] == cluster].min() for cluster in range(3)}
    expected = sorted(
        zip(tasks["row"].tolist(), tasks["pick"].tolist(), strict=True),
        key=lambda one: (first[CLUSTERS[one[0]]], one[1]),
    )
    assert [one.row for one in page.rows] == [row for row, _ in expected]
    answer(campaign, {4: "cat"})
    assert [(one.row, one.state, one.label) for one in campaign.browse_batch(1, state="settled").rows] == [
        (4, "settled", "cat")
    ]
    assert campaign.browse_batch(1, state="open", start=10).total == 11
    assert len(campaign.browse_batch(1, state="open", start=10).rows) == 1
    with pytest.raises(InputError, match="open, answered"):
        campaign.browse_batch(1, state="lost")
    with pytest.raises(CampaignError, match="no batch 7"):
        campaign.browse_batch(7)


def list_rows(campaign: Campaign, **wanted: str) -> set[int]:
    return {one.row for one in campaign.browse_batch(1, **wanted).rows}


def test_a_batch_is_filtered_by_label_guess_and_person(campaign: Campaign) -> None:
    campaign.next(12, strategy="random", answers=2)
    assert list_rows(campaign, guess="cat") == set()
    guesses = np.array([0, 0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2])
    campaign.predict(np.where(np.arange(3) == guesses[:, None], 0.8, 0.1))
    answer(campaign, {0: "cat", 1: "cat", 2: "dog", 5: "fox"})
    answer(campaign, {0: "cat", 1: "dog", 6: "dog"}, "ben")
    campaign.answer(
        "ben", campaign.batch(1)["task"].tolist()[campaign.batch(1)["row"].tolist().index(6)], kind="retract"
    )
    assert list_rows(campaign, annotator="ana") == {0, 1, 2, 5}
    assert list_rows(campaign, annotator="ben") == {0, 1}
    assert list_rows(campaign, annotator="nobody") == set()
    assert list_rows(campaign, label="cat") == {0}
    assert list_rows(campaign, label="dog") == {2}
    assert list_rows(campaign, guess="fox") == {9, 10, 11}
    assert list_rows(campaign, guess="cat", label="dog", annotator="ana") == {2}
    assert list_rows(campaign, state="disputed", guess="cat") == {1}
    with pytest.raises(InputError, match="not a class of the campaign: cow"):
        campaign.browse_batch(1, label="cow")


def test_named_rows_are_reserved_if_they_are_candidates(campaign: Campaign) -> None:
    campaign.next(3, strategy="random", seed=1)
    rows = campaign.batch(1)["row"].tolist()
    answer(campaign, {rows[0]: "cat"})
    rest = sorted(set(range(12)) - set(rows))
    assert campaign.reserve([*rows, *rest[:4]], reason="lasso of ana") == 2
    assert sorted(campaign.batch(2)["row"].tolist()) == rest[:4]
    assert campaign.open_batches()[-1]["strategy"] == "lasso of ana"
    with pytest.raises(CampaignError, match="nothing to ask"):
        campaign.reserve(rest[:4])
    with pytest.raises(InputError, match="rows"):
        campaign.reserve([12])


def test_rows_are_ordered_by_the_first_pick_of_their_cluster() -> None:
    rows, picks, labels = np.array([3, 1, 2, 0]), np.array([0, 1, 2, 3]), np.array([7, 5, 5, 7])
    assert rows[order_by_cluster(rows, picks, labels)].tolist() == [3, 0, 1, 2]
    assert rows[order_by_cluster(rows, picks, None)].tolist() == [3, 1, 2, 0]
    assert order_by_cluster(rows[:0], picks[:0], labels).tolist() == []


def test_a_reason_has_the_guess_the_cluster_and_the_nearest_labeled_rows(campaign: Campaign) -> None:
    campaign.predict(np.array([[0.2, 0.5, 0.3]] * 12))
    campaign.next(12, strategy="margin")
    answer(campaign, {0: "cat", 4: "dog", 11: "fox"})
    task = int(campaign.batch(1)["task"][campaign.batch(1)["row"].tolist().index(3)])
    why = campaign.explain(task, 1)
    assert (why.strategy, why.model, why.guess) == ("margin", "model-1", "dog")
    assert (why.probability, why.margin) == (pytest.approx(0.5), pytest.approx(0.2))
    assert (why.cluster, why.size, why.labeled) == (0, 5, 2)
    assert [(one.row, one.label) for one in why.neighbors] == [(4, "dog"), (0, "cat"), (11, "fox")]
    assert why.neighbors[0].similarity == pytest.approx(np.cos(0.1), abs=1e-6)
    with pytest.raises(CampaignError, match="no batch 5"):
        campaign.explain(task, 5)
    with pytest.raises(CampaignError, match="no task 999"):
        campaign.explain(999, 1)


def test_labels_of_the_holdout_are_never_shown(tmp_path: Path) -> None:
    (tmp_path / "pool.csv").write_text("id\n" + "".join(f"r{row}\n" for row in range(12)))
    with Campaign.init(
        tmp_path / "campaign",
        tmp_path / "pool.csv",
        classes=CLASSES,
        embeddings=EMBEDDINGS,
        clusters=CLUSTERS,
        holdout=6,
    ) as campaign:
        for one in campaign.claim("ana", 30):
            campaign.answer("ana", one.task, "cat")
        campaign.next(6, strategy="random")
        (task,) = campaign.claim("ana", 1)
        why = campaign.explain(task.task, task.batch)
        assert (why.labeled, why.neighbors, why.guess, why.margin) == (0, (), None, None)
        assert sum(one.labeled for one in campaign.list_clusters()[1]) == 0
        assert campaign.read_content(0) is None


@pytest.mark.parametrize(("kind", "label"), [("pairs", "yes"), ("multi-label", "cat, fox")])
def test_other_kinds_of_campaigns(kind: str, label: str, tmp_path: Path) -> None:
    (tmp_path / "pool.csv").write_text("id\n" + "".join(f"r{row}\n" for row in range(12)))
    with Campaign.init(
        tmp_path / "campaign",
        tmp_path / "pool.csv",
        classes=CLASSES,
        kind=kind,
        embeddings=EMBEDDINGS,
        clusters=CLUSTERS,
    ) as campaign:
        campaign.predict(np.full((12, 3), 0.8))
        campaign.next(36 if kind == "pairs" else 12, strategy="margin")
        tasks = campaign.claim("ana", 30)
        value = 1 if kind == "pairs" else ["cat", "fox"]
        same = [one for one in tasks if one.class_ == tasks[0].class_][:2]
        campaign.answer("ana", same[0].task, value)
        why = campaign.explain(same[1].task, 1)
        assert [one.label for one in why.neighbors] == [label]
        assert why.guess == ("yes" if kind == "pairs" else "cat")
        assert label in {one.label for one in campaign.browse_batch(1).rows}
        assert sum(one.labeled for one in campaign.list_clusters()[1]) == 1
        name = same[0].class_ or "fox"
        assert [one.task for one in campaign.browse_batch(1, label=name, annotator="ana").rows] == [same[0].task]
        other = next(one for one in CLASSES if one not in (name, "cat"))
        assert campaign.browse_batch(1, label=other).total == 0
        guessed = {one.class_ for one in campaign.browse_batch(1, guess="cat").rows}
        assert guessed == ({"cat"} if kind == "pairs" else {None})
        if kind == "pairs":
            with pytest.raises(CampaignError, match="`next` chooses them"):
                campaign.reserve([0])


def test_a_campaign_without_clusters_says_so(tmp_path: Path) -> None:
    (tmp_path / "pool.csv").write_text("id\n" + "".join(f"r{row}\n" for row in range(12)))
    with Campaign.init(tmp_path / "campaign", tmp_path / "pool.csv", classes=CLASSES) as campaign:
        campaign.next(3)
        assert [one.cluster for one in campaign.browse_batch(1).rows] == [None] * 3
        for call in (campaign.list_clusters, lambda: campaign.browse_cluster(0)):
            with pytest.raises(CampaignError, match="has no clusters"):
                call()
        (task,) = campaign.claim("ana", 1)
        assert campaign.explain(task.task, 1).cluster is None
        assert campaign.count_clusters() is None


def test_an_outline_and_open_batches(campaign: Campaign) -> None:
    outline = campaign.outline()
    assert (outline.kind, outline.content, outline.rows, outline.classes) == ("multi-class", "text", 12, tuple(CLASSES))
    assert campaign.open_batches() == ()
    campaign.next(4, strategy="random", answers=2)
    (task,) = campaign.claim("ana", 1)
    campaign.answer("ana", task.task, "cat")
    (batch,) = campaign.open_batches()
    assert (batch["wanted"], batch["lacking"], batch["tasks"]) == (8, 7, {"open": 3, "answered": 1})
    assert campaign.read_content(3) == "text 3"
    with pytest.raises(InputError, match="no row 12"):
        campaign.read_content(12)
    before = campaign.outline().edition
    campaign.add_class("owl")
    assert campaign.outline().edition != before


def test_cosines() -> None:
    found = compare(np.array([[1, 0], [0, 2], [3, 3], [0, 0], [5, 0]], np.float32))
    assert found == pytest.approx([1, 0, np.sqrt(0.5), 0])

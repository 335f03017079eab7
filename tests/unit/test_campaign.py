"""The verbs of a campaign, on SQLite and on PostgreSQL, for each kind of campaign."""

import itertools
import json
from collections import Counter
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from threading import Event
from typing import Any

import numpy as np
import pytest
import sqlalchemy as sa

import hedgerow
from campaigns import CLASSES, Make, N
from hedgerow import Campaign, CampaignError, InputError, Pairs, PoolExhaustedError
from hedgerow.campaign import planning
from hedgerow.campaign.answers import Answer


def chances(seed: int = 0) -> Any:
    return np.random.default_rng(seed).dirichlet(np.ones(len(CLASSES)), N)


def rows_of(campaign: Campaign, batch: int) -> set[int]:
    return set(campaign.batch(batch)["row"].tolist())


def count(campaign: Campaign, batch: int) -> dict[str, int]:
    return next(dict(one["tasks"]) for one in campaign.status().batches if one["id"] == batch)


def read_settings(campaign: Campaign, batch: int) -> str:
    with campaign._database.read() as connection:
        return str(connection.execute(sa.text(f"SELECT settings FROM batch WHERE id = {batch}")).scalar_one())


def label(campaign: Campaign, id_: str) -> tuple[Any, str]:
    found = campaign.labels()
    at = found["id"].tolist().index(id_)
    return found["label"][at], found["how"][at]


# Choosing.


def test_batches_never_overlap_and_never_touch_the_holdout(make: Make) -> None:
    campaign = make()
    holdout = rows_of(campaign, 1)
    first, second = campaign.next(20), campaign.next(20, strategy="random")
    campaign.predict(chances())
    third = campaign.next(20)
    picked = [rows_of(campaign, batch) for batch in (first, second, third)]
    assert len(holdout) == 10
    assert [len(rows) for rows in picked] == [20, 20, 20]
    assert len(holdout.union(*picked)) == 70
    with pytest.raises(PoolExhaustedError, match="only 50 are unlabeled"):
        campaign.next(51)
    assert len(rows_of(campaign, campaign.next(60, allow_short=True))) == 50


def test_the_first_batch_is_spread_over_the_clusters(make: Make) -> None:
    campaign = make()
    clusters = campaign.batch(campaign.next(8))["cluster"]
    assert len(set(clusters.tolist())) == 8
    assert campaign.status().batches[1]["kind"] == "cold"


def test_hedge_counts_the_labels_outside_the_holdout(make: Make) -> None:
    campaign = make()
    asked = campaign.batch(campaign.next(15, strategy="random"))["task"].tolist()
    for task in [*asked[:12], *campaign.batch(1)["task"].tolist()[:5]]:
        campaign.answer("ana", task, CLASSES[0])
    campaign.predict(chances())
    batch = campaign.next(20, strategy="hedge")
    assert len(rows_of(campaign, batch)) == 20
    settings = next(one for one in campaign.status().batches if one["id"] == batch)
    assert settings["strategy"] == "hedge"
    options = json.loads(read_settings(campaign, batch))["options"]
    assert (options["labels"], options["classes"]) == (12, len(CLASSES))


def test_weights_of_a_batch_are_kept_and_exported_with_the_labels(make: Make, tmp_path: Path) -> None:
    campaign = make()
    campaign.answer("ana", campaign.batch(campaign.next(1, strategy="random"))["task"].item(), CLASSES[0])
    assert "weight" not in campaign.labels()
    campaign.predict(chances())
    batch = campaign.batch(campaign.next(20, strategy="hedge", seed=3))
    closed = sorted(rows_of(campaign, 1) | rows_of(campaign, 2))
    clusters = campaign._holdings.labels
    again = hedgerow.select(
        hedgerow.Hedge(labels=1), 20, probabilities=chances(), clusters=clusters, labeled=closed, seed=3
    )
    assert batch["row"].tolist() == again.rows.tolist()
    assert again.weights is not None
    np.testing.assert_allclose(batch["weight"], again.weights, rtol=1e-12)
    for task in batch["task"].tolist()[:5]:
        campaign.answer("ana", task, CLASSES[1])
    campaign.next(20, strategy="margin")  # a strategy without weights changes nothing
    found = campaign.labels()
    weights = dict(zip(found["row"].tolist(), found["weight"].tolist(), strict=True))
    known = dict(zip(again.rows.tolist()[:5], again.weights.tolist(), strict=False))
    assert {row: weight for row, weight in weights.items() if not np.isnan(weight)} == pytest.approx(known)
    assert len(weights) == 6  # that of the random batch has none
    campaign.export_labels(tmp_path / "labels.csv")
    head, *lines = (tmp_path / "labels.csv").read_text().splitlines()
    assert head == "id,label,how,support,round,split,weight"
    assert sum(line.endswith(",") for line in lines) == 1


def test_weights_of_pairs_are_kept(make: Make) -> None:
    pairs = Pairs(np.repeat(np.arange(N), 2), np.tile(np.array([0, 2], np.int32), N))
    campaign = make(kind="pairs", pairs=pairs, holdout=5)
    campaign.predict(np.random.default_rng(0).random(len(pairs)))
    batch = campaign.batch(campaign.next(12, strategy="hedge"))
    np.testing.assert_allclose(batch["weight"], 2 * (N - 5) / 12)  # nothing is labeled: all are as likely


def test_the_default_follows_from_what_there_is(make: Make) -> None:
    def find_next() -> str:
        batch = campaign.next(3)
        return next(str(one["strategy"]) for one in campaign.status().batches if one["id"] == batch)

    campaign = make()
    assert find_next() == "spread"
    campaign.predict(chances())  # by a model whose labels are not in the campaign
    assert find_next() == "cluster-margin"
    campaign.answer("ana", campaign.batch(2)["task"].tolist()[0], CLASSES[0])
    assert find_next() == "hedge"


def test_the_default_for_pairs(make: Make) -> None:
    pairs = Pairs(np.repeat(np.arange(N), 2), np.tile(np.array([0, 2], np.int32), N))
    campaign = make(kind="pairs", pairs=pairs, holdout=5)
    campaign.predict(np.random.default_rng(0).random(len(pairs)))
    campaign.next(12)
    assert campaign.status().batches[1]["strategy"] == "stochastic-margin"


def test_one_seed_gives_one_batch_whatever_else_is_open(make: Make, tmp_path: Path) -> None:
    campaign = make()
    campaign.predict(chances())
    first = campaign.batch(campaign.next(15, seed=3))["row"].tolist()
    campaign.undo(2)
    assert campaign.batch(campaign.next(15, seed=3))["row"].tolist() == first


def test_the_picks_are_those_of_select(make: Make) -> None:
    campaign = make()
    campaign.predict(chances())
    holdout = np.array(sorted(rows_of(campaign, 1)))
    picked = campaign.batch(campaign.next(15, strategy="margin"))["row"].tolist()
    assert picked == hedgerow.select("margin", 15, probabilities=chances(), labeled=holdout).rows.tolist()


@pytest.mark.parametrize(
    "strategy", ["cluster-margin", "badge", "coreset", "typiclust", "uherding", "entropy", "random", "spread"]
)
def test_strategies_by_name(make: Make, strategy: str) -> None:
    campaign = make()
    campaign.predict(chances())
    assert len(rows_of(campaign, campaign.next(7, strategy=strategy))) == 7
    assert campaign.status().batches[1]["strategy"] == strategy


@pytest.mark.parametrize("strategy", ["coreset", "typiclust", "probcover", "maxherding"])
def test_strategies_on_embeddings_alone_choose_a_first_batch(make: Make, strategy: str) -> None:
    """The holdout is never picked, and is no label either: the choice is that of a pool without it."""
    campaign = make()
    holdout = np.array(sorted(rows_of(campaign, 1)))
    picked = campaign.batch(campaign.next(6, strategy=strategy, seed=2))["row"]
    assert campaign.status().batches[1]["kind"] == "cold"
    rest = np.setdiff1d(np.arange(N), holdout)
    embeddings = np.random.default_rng(1).normal(size=(N, 4)).astype(np.float32)
    assert set(picked) <= set(rest)
    alone = hedgerow.select(strategy, 6, embeddings=embeddings[rest], seed=2)
    assert picked.tolist() == rest[alone.rows].tolist()


def test_strategies_have_options_and_need_a_model(make: Make) -> None:
    campaign = make()
    with pytest.raises(CampaignError, match="needs a model"):
        campaign.next(5, strategy="margin")
    campaign.predict(chances())
    with pytest.raises(InputError, match="has no option 'speed'"):
        campaign.next(5, strategy="cluster-margin", options={"speed": "2"})
    campaign.next(5, strategy="cluster-margin", options={"margin_factor": "2"})
    assert campaign.status().batches[1]["size"] == 5


def test_predictions_are_matched_by_id_and_may_be_partial(make: Make, tmp_path: Path) -> None:
    campaign = make(holdout=0)
    p = chances()
    columns = {"id": np.array([f"r{row}" for row in range(N)], np.object_)}
    columns |= {f"p{place}": p[:, place] for place in range(3)}
    import pyarrow as pa

    shuffled = np.random.default_rng(5).permutation(N)
    campaign.predict(pa.table({name: values[shuffled] for name, values in columns.items()}))
    expected = np.argsort(np.sort(p)[:, 2] - np.sort(p)[:, 1], kind="stable")[:10]
    assert rows_of(campaign, campaign.next(10, strategy="margin")) == set(expected.tolist())
    half = pa.table({name: values[:50] for name, values in columns.items()})
    with pytest.raises(InputError, match=r"lacks 70 of the 120 ids.*--partial"):
        campaign.predict(half)
    assert campaign.predict(half, partial=True, name="half").rows == 50
    assert max(rows_of(campaign, campaign.next(20, model="half"))) < 50
    with pytest.raises(CampaignError, match="no model called 'third'"):
        campaign.next(5, model="third")


# Answers.


def test_the_summary_adds_up_and_rejects_go_to_a_file(make: Make, tmp_path: Path) -> None:
    campaign = make()
    batch = campaign.next(10)
    ids = campaign.batch(batch)["id"].tolist()
    other = next(f"r{row}" for row in range(N) if row not in rows_of(campaign, batch) | rows_of(campaign, 1))
    answers = [Answer(id_, "answer", "cat", "ana", 10) for id_ in ids]
    answers += [Answer(ids[0], "answer", "dog", "ana", 20), Answer(ids[1], "answer", "dog", "ana", 5)]
    answers += [Answer(ids[2], "answer", "cat", "ana", 10), Answer(other, "answer", "fox", "ben")]
    answers += [
        Answer("r999", "answer", "cat"),
        Answer(ids[3], "answer", "cow"),
        Answer(ids[4], "answer", ("cat", "dog")),
    ]
    done = campaign.ingest(answers, rejects=tmp_path / "rejects.jsonl")
    assert done.counts == {
        "new": 10, "corrected": 1, "unchanged": 1, "stale": 1, "unsolicited": 1, "unknown id": 1, "unknown class": 1,
        "unreadable": 1,
    }  # fmt: skip
    assert sum(done.counts.values()) == done.rows == len(answers)
    rejects = [json.loads(line) for line in (tmp_path / "rejects.jsonl").read_text().splitlines()]
    assert [one["reason"] for one in rejects] == ["unknown id", "unknown class", "unreadable"]
    assert json.loads(rejects[1]["text"]) == {"id": ids[3], "kind": "answer", "value": "cow"}
    assert label(campaign, ids[0]) == ("dog", "majority")
    assert label(campaign, ids[1]) == ("cat", "majority")
    assert label(campaign, other) == ("fox", "majority")
    assert count(campaign, batch) == {"settled": 10}


def test_twice_is_once_and_an_old_file_reverts_nothing(make: Make) -> None:
    campaign = make()
    id_ = campaign.batch(campaign.next(1))["id"][0]
    first, second = [Answer(id_, "answer", "cat", "ana", 1)], [Answer(id_, "answer", "dog", "ana", 2)]
    assert campaign.ingest(first).counts["new"] == 1
    assert campaign.ingest(second).counts["corrected"] == 1
    with pytest.raises(CampaignError, match=r"was ingested before \(source 1\)"):
        campaign.ingest(first)
    assert campaign.ingest(first, again=True).counts["stale"] == 1
    assert label(campaign, id_) == ("dog", "majority")
    assert campaign.ingest([Answer(id_, "answer", "dog", "ana", 9)]).counts["unchanged"] == 1
    assert campaign.ingest([Answer(id_, "answer", "cat", "ana", 5)]).counts["stale"] == 1


def test_without_times_files_count_in_the_order_in_which_they_come(make: Make) -> None:
    campaign = make()
    id_ = campaign.batch(campaign.next(1))["id"][0]
    said = [campaign.ingest([Answer(id_, "answer", value, "ana", external=key)]).counts for value, key in
            [("cat", "1"), ("dog", "2"), ("cat", "3")]]  # fmt: skip
    assert [dict(+Counter(one)) for one in said] == [{"new": 1}, {"corrected": 1}, {"corrected": 1}]
    again = campaign.ingest([Answer(id_, "answer", "dog", "ana", external="2"), Answer("r999", "skip")])
    assert (again.counts["unchanged"], again.counts["unknown id"]) == (1, 1)
    assert label(campaign, id_) == ("cat", "majority")


def test_several_people_vote_and_a_tie_is_decided_by_an_expert(make: Make) -> None:
    campaign = make()
    batch = campaign.next(3, answers=2)
    ids = campaign.batch(batch)["id"].tolist()
    campaign.ingest([Answer(id_, "answer", "cat", "ana") for id_ in ids])
    assert count(campaign, batch) == {"answered": 3}
    campaign.ingest([Answer(ids[0], "answer", "cat", "ben"), Answer(ids[1], "answer", "dog", "ben")])
    assert count(campaign, batch) == {"settled": 1, "disputed": 1, "answered": 1}
    assert label(campaign, ids[1]) == (None, "disputed")
    (asked,) = campaign.claim("eva", 5, expert=True)
    assert asked.id == ids[1]
    campaign.answer("eva", asked.task, "fox", kind="adjudicate")
    assert label(campaign, ids[1]) == ("fox", "adjudicated")
    assert count(campaign, batch) == {"settled": 2, "answered": 1}


def test_other_kinds_of_answers_have_their_own_consequences(make: Make) -> None:
    campaign = make()
    batch = campaign.next(5)
    tasks = campaign.batch(batch)["task"].tolist()
    for task, kind in zip(tasks, ["unsure", "none-of-these", "skip", "broken"], strict=False):
        assert campaign.answer("ana", task, kind=kind) == "new"
    states = dict(zip(tasks, campaign.batch(batch)["state"].tolist(), strict=True))
    assert list(states.values()) == ["settled", "settled", "open", "void", "open"]
    assert campaign.status().labels == {"broken": 1, "none-of-these": 1, "unsure": 1}
    assert [one.task for one in campaign.claim("ana", 5, batch=batch)] == [tasks[4]]
    assert [one.task for one in campaign.claim("ben", 5, batch=batch)] == [tasks[2]]


def test_a_retraction_brings_back_what_was_said_before(make: Make) -> None:
    campaign = make()
    batch = campaign.next(2)
    ids = campaign.batch(batch)["id"].tolist()
    campaign.ingest([Answer(ids[0], "answer", "cat", "ana", 1)])
    wrong = campaign.ingest([Answer(id_, "answer", "fox", "ana", 2) for id_ in ids]).source
    assert campaign.retract(source=wrong) == 2
    assert label(campaign, ids[0]) == ("cat", "majority")
    assert count(campaign, batch) == {"settled": 1, "open": 1}
    with pytest.raises(CampaignError, match="is retracted already"):
        campaign.retract(source=wrong)
    assert campaign.ingest([Answer(id_, "answer", "fox", "ana", 2) for id_ in ids]).counts["corrected"] == 1
    assert campaign.status().annotators == {"ana": 3}
    assert campaign.retract(annotator="ana") == 3
    assert campaign.status().annotators == {}
    assert count(campaign, batch) == {"open": 2}
    assert campaign.status().labels == {}
    with pytest.raises(CampaignError, match="no annotator 'zoe'"):
        campaign.retract(annotator="zoe")


def answer_three(campaign: Campaign) -> tuple[int, dict[str, Any]]:
    """A batch of three rows, of which b has answered the last and a the others."""
    batch = campaign.next(3)
    columns = campaign.batch(batch)
    campaign.ingest([Answer(id_, "answer", "cat", name) for id_, name in zip(columns["id"], "aab", strict=True)])
    return batch, columns


def test_rows_whose_answers_are_taken_back_while_they_are_reserved_are_chosen_again(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    campaign = make()
    batch, columns = answer_three(campaign)
    real, times = planning._draw_wanted, itertools.count()

    def meanwhile(n: int, wish: Any) -> Any:
        if next(times) == 0:
            campaign.answer("b", int(columns["task"][2]), kind="retract")
        return real(n, wish)

    monkeypatch.setattr(planning, "_draw_wanted", meanwhile)
    monkeypatch.setattr(planning, "CHUNK", 1)
    again = planning.reserve_rows(campaign._database, columns["row"], reason="test")
    assert campaign.batch(again)["row"].tolist() == columns["row"][:2].tolist()
    assert count(campaign, batch) == {"settled": 2, "open": 1}
    assert {one["state"] for one in campaign.status().batches} == {"open"}


def test_a_retraction_waits_while_a_batch_is_reserved(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    campaign = make()
    batch, columns = answer_three(campaign)
    real = planning._draw_wanted
    with ThreadPoolExecutor(1) as threads:
        retracted: list[Future[int]] = []

        def meanwhile(n: int, wish: Any) -> Any:
            retracted.append(threads.submit(campaign.retract, annotator="b"))
            return real(n, wish)

        monkeypatch.setattr(planning, "_draw_wanted", meanwhile)
        again = planning.reserve_rows(campaign._database, columns["row"], reason="test")
        assert retracted[0].result() == 1
    assert campaign.batch(again)["row"].tolist() == columns["row"].tolist()
    assert count(campaign, again) == {"open": 1, "answered": 2}
    assert count(campaign, batch) == {"settled": 3}  # the newest task about a row asks
    assert len(campaign.labels()["row"]) == 2


@pytest.mark.parametrize("by_file", [False, True])
def test_an_answer_taken_back_waits_while_its_row_is_reserved_again(
    make: Make, monkeypatch: pytest.MonkeyPatch, by_file: bool
) -> None:
    campaign = make()
    batch, columns = answer_three(campaign)
    real, real_wait = planning._write_tasks, planning.wait
    waits = Event()

    def take_back() -> object:
        if by_file:
            return campaign.ingest([Answer(columns["id"][2], "skip", None, "b")]).counts["corrected"]
        return campaign.answer("b", int(columns["task"][2]), kind="skip")

    def wait(database: Any) -> None:
        waits.set()
        real_wait(database)

    with ThreadPoolExecutor(1) as threads:
        taken: list[Future[object]] = []

        def write(*given: Any) -> None:
            real(*given)
            monkeypatch.setattr(planning, "wait", wait)
            taken.append(threads.submit(take_back))
            assert waits.wait(60)

        monkeypatch.setattr(planning, "_write_tasks", write)
        again = planning.reserve_rows(campaign._database, columns["row"], reason="test")
        assert taken[0].result() == (1 if by_file else "corrected")
    assert count(campaign, batch) == {"settled": 3}  # the newest task about a row asks
    assert count(campaign, again) == {"open": 1, "answered": 2}
    assert len(campaign.labels()["row"]) == 2


def test_people_have_one_name_in_all_channels(make: Make) -> None:
    campaign = make()
    campaign.alias("python", "5", "ana")
    id_ = campaign.batch(campaign.next(1))["id"][0]
    campaign.ingest([Answer(id_, "answer", "cat", "5")])
    campaign.answer("ana", int(campaign.batch(2)["task"][0]), "dog")
    assert campaign.status().annotators == {"ana": 2}
    assert label(campaign, id_) == ("dog", "majority")


# Leases.


def test_two_people_never_get_one_task_until_a_lease_ends(make: Make) -> None:
    campaign = make()
    batch = campaign.next(6)
    first = {one.task for one in campaign.claim("ana", 3, batch=batch)}
    assert {one.task for one in campaign.claim("ana", 3, batch=batch)} == first
    second = {one.task for one in campaign.claim("ben", 3, batch=batch)}
    assert len(second) == 1  # half of an even share of what is open
    assert not first & second
    assert campaign.release("ana") == 3
    assert first & {one.task for one in campaign.claim("cid", 6, batch=batch)}
    campaign.claim("dan", 1, batch=batch, seconds=1e-6)
    assert all(one.content == f"text {one.row}" and one.id == f"r{one.row}" for one in campaign.claim("dan", 6))


def test_the_same_key_is_one_answer_and_a_late_one_is_a_vote_more(make: Make) -> None:
    campaign = make()
    batch = campaign.next(1)
    (asked,) = campaign.claim("ana", 1, batch=batch)
    assert campaign.answer("ana", asked.task, "cat", key="k1", seconds=2.5) == "new"
    assert campaign.answer("ana", asked.task, "dog", key="k1") == "unchanged"
    assert campaign.answer("ben", asked.task, "cat", key="k2") == "new"
    assert campaign.labels()["given"].tolist() == [2]
    assert campaign.answer("ana", asked.task, kind="retract", key="k3") == "corrected"
    assert campaign.labels()["given"].tolist() == [1]
    with pytest.raises(InputError, match="'cow' is not a class of the campaign: cat, dog, fox"):
        campaign.answer("ana", asked.task, "cow")
    with pytest.raises(CampaignError, match="no task 999999"):
        campaign.answer("ana", 999999, "cat")


def test_a_clock_that_is_set_back_loses_no_answer(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    from hedgerow.campaign import database

    campaign = make()
    batch = campaign.next(2)
    task = campaign.claim("ana", 1, batch=batch)[0].task
    campaign.answer("ana", task, "cat")
    real = database.now
    monkeypatch.setattr(database, "now", lambda: real() - 10**12)
    assert campaign.answer("ana", task, "dog") == "corrected"
    assert campaign.labels()["label"].tolist() == ["dog"]
    assert len(campaign.claim("ben", 2, batch=batch)) == 1


# Ending.


def test_a_batch_is_undone_before_the_first_answer_and_closed_after_it(make: Make) -> None:
    campaign = make()
    batch = campaign.next(4)
    ids = campaign.batch(batch)["id"].tolist()
    campaign.undo(batch)
    assert count(campaign, batch) == {"void": 4}
    assert campaign.ingest([Answer(ids[0], "answer", "cat", "ana")]).counts["unsolicited"] == 1
    second = campaign.next(4)
    campaign.answer("ana", int(campaign.batch(second)["task"][0]), "dog")
    with pytest.raises(CampaignError, match="has 1 answers and cannot be undone"):
        campaign.undo(second)
    assert campaign.close(second) == "short"
    assert count(campaign, second) == {"settled": 1, "void": 3}
    with pytest.raises(CampaignError, match=r"is closed \(short\) already"):
        campaign.close(second)
    with pytest.raises(CampaignError, match="holdout cannot be undone"):
        campaign.undo(1)
    campaign.retract(annotator="ana")
    assert count(campaign, second) == {"void": 4}
    assert [entry.command for entry in campaign.log()] == ["init", "next", "undo", "ingest", "next", "close", "retract"]


def test_doubled_tasks_want_two_answers(make: Make) -> None:
    campaign = make()
    batch = campaign.next(10, double=0.3)
    campaign.ingest([Answer(id_, "answer", "cat", "ana") for id_ in campaign.batch(batch)["id"]])
    assert count(campaign, batch) == {"settled": 7, "answered": 3}
    with pytest.raises(InputError, match="share between 0 and 1"):
        campaign.next(10, double=3)


# Other kinds of campaigns.


def test_multi_label(make: Make) -> None:
    campaign = make(kind="multi-label")
    batch = campaign.next(4)
    ids = campaign.batch(batch)["id"].tolist()
    answers = [Answer(ids[0], "answer", ("fox", "cat"), "ana"), Answer(ids[1], "answer", (), "ana")]
    answers += [Answer(ids[2], "answer", "dog", "ana"), Answer(ids[3], "answer", ("cat", "cow"), "ana")]
    done = campaign.ingest(answers)
    assert (done.counts["new"], done.counts["unknown class"]) == (3, 1)
    assert label(campaign, ids[0]) == (("cat", "fox"), "majority")
    assert label(campaign, ids[1]) == ((), "none-of-these")
    assert campaign.ingest([Answer(ids[0], "answer", ("cat", "fox"), "ana")]).counts["unchanged"] == 1
    campaign.predict(np.random.default_rng(0).random((N, 3)))
    assert len(rows_of(campaign, campaign.next(5))) == 5


def test_pairs(make: Make) -> None:
    pairs = Pairs(np.repeat(np.arange(N), 2), np.tile(np.array([0, 2], np.int32), N))
    campaign = make(kind="pairs", pairs=pairs, holdout=5)
    held = campaign.batch(1)
    assert len(held["row"]) == 10
    batch = campaign.next(12)
    columns = campaign.batch(batch)
    assert not set(held["row"].tolist()) & set(columns["row"].tolist())
    asked = list(zip(columns["id"].tolist(), columns["class"].tolist(), strict=True))
    done = campaign.ingest([Answer(id_, "answer", 1, "ana", class_=name) for id_, name in asked[:10]])
    assert done.counts["new"] == 10
    bad = [Answer(asked[0][0], "answer", 1, "ana"), Answer(asked[0][0], "answer", "cat", "ana", class_="cat")]
    bad += [Answer(asked[0][0], "answer", 1, "ana", class_="cow")]
    done = campaign.ingest(bad)
    assert (done.counts["unreadable"], done.counts["unknown class"]) == (2, 1)
    assert count(campaign, batch) == {"settled": 10, "open": 2}
    campaign.predict(np.random.default_rng(0).random((N, 3)))
    for strategy in ("cluster-margin", "margin", "random"):
        more = campaign.batch(campaign.next(20, strategy=strategy))
        new = set(zip(more["id"].tolist(), more["class"].tolist(), strict=True))
        assert len(new) == 20
        assert not new & set(asked)
        asked += new
    one = campaign.claim("ben", 1, batch=batch)[0]
    assert one.class_ in ("cat", "fox")
    assert campaign.answer("ben", one.task, 0) == "new"
    assert set(campaign.labels()["label"].tolist()) == {0, 1}


def test_all_pairs_are_asked_about_if_none_are_listed(make: Make) -> None:
    campaign = make(kind="pairs", holdout=0)
    assert len(rows_of(campaign, campaign.next(360))) == N


# Opening.


def test_a_campaign_is_opened_again(make: Make, url: str | None, tmp_path: Path) -> None:
    campaign = make()
    batch = campaign.next(5)
    expected = campaign.batch(batch)["row"].tolist()
    campaign.close_files()
    with Campaign.open(tmp_path / "campaign", database=url, verify=True) as again:
        assert again.batch(batch)["row"].tolist() == expected
        assert "120 rows, multi-class, 3 classes" in repr(again)
    with pytest.raises(CampaignError, match="holds a campaign already"):
        make()


def test_an_export_has_what_annotators_and_models_need(make: Make, tmp_path: Path) -> None:
    import pyarrow.parquet as pq

    campaign = make()
    campaign.predict(chances())
    batch = campaign.next(5)
    assert campaign.export(batch, tmp_path / "batch.parquet") == [tmp_path / "batch.parquet"]
    table = pq.read_table(tmp_path / "batch.parquet").to_pydict()
    assert {"id", "text", "cluster", "margin", "guess", "probability", "pick", "task"} <= set(table)
    best = chances()[table["row"]].argmax(axis=1)
    assert table["guess"] == [CLASSES[place] for place in best]
    (tasks,) = campaign.export(batch, tmp_path / "tasks.json", to="label-studio")
    assert [task["data"]["hedgerow_id"] for task in json.loads(tasks.read_text())] == table["id"]
    with pytest.raises(CampaignError, match="there is no batch 99"):
        campaign.export(99, tmp_path / "none.csv")

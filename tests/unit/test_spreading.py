"""Labels carried over to the rest of pure clusters: which, with what error, and that people's answers rule."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from campaigns import CLASSES, Make, N, begin
from hedgerow import Campaign, CampaignError, InputError
from hedgerow.campaign.answers import Answer
from hedgerow.campaign.spreading import Carried, translate
from hedgerow.campaign.tables import WHOLE_ROW
from hedgerow.campaign.verdicts import NO_VALUE
from shell import Run, one_line

TENS = (np.arange(N) // 10).astype(np.int32)  # twelve clusters of ten
FREE = {"max_error": 0.5}  # four rows of the holdout can show that


def say(campaign: Campaign, rows: Any, value: Any = None, kind: str = "answer", who: str = "ana") -> None:
    campaign.ingest([Answer(f"r{row}", kind, value, who) for row in rows])


def split(campaign: Campaign, cluster: int) -> tuple[list[int], list[int]]:
    """The rows of a cluster: (outside the holdout, in it)."""
    held = set(campaign.batch(1)["row"].tolist())
    rows = range(10 * cluster, 10 * cluster + 10)
    return [row for row in rows if row not in held], [row for row in rows if row in held]


def carried(campaign: Campaign) -> dict[str, Any]:
    found = campaign.labels(spread=True)
    return {
        one: label for one, label, how in zip(found["id"], found["label"], found["how"], strict=True) if how == "spread"
    }


def start(make: Make, **options: Any) -> Campaign:
    return make(**{"clusters": TENS, "holdout": 48, **options})


def test_a_pure_cluster_gives_its_label_to_the_rest(make: Make) -> None:
    campaign = start(make)
    expected = {}
    for cluster, label in enumerate(CLASSES):  # of clusters 3 to 11 nobody said anything
        free, held = split(campaign, cluster)
        say(campaign, free[:3], label)
        say(campaign, held, label)
        expected |= {f"r{row}": label for row in free[3:]}
    checked = sum(len(split(campaign, cluster)[1]) for cluster in range(3))
    done = campaign.spread(**FREE)
    assert (done.run, done.state, done.rows, done.clusters) == (1, "current", len(expected), 3)
    assert (done.holdout.checked, done.holdout.wrong) == (checked, 0)
    assert carried(campaign) == expected
    assert "spread" not in campaign.labels()["how"]
    assert set(campaign.labels(spread=True)["support"]) == {1, 3}


def test_the_share_that_agrees_must_reach_the_purity(make: Make) -> None:
    campaign = start(make, holdout=0)
    say(campaign, range(4), "cat")
    say(campaign, [4], "dog")  # 4 of 5
    say(campaign, [10, 11], "cat")  # too few
    say(campaign, [20, 21, 22], "fox")
    say(campaign, [23], kind="unsure")  # 3 of 4
    say(campaign, [30, 31, 32], "fox")
    say(campaign, [33], kind="none-of-these")
    say(campaign, [40, 41, 42], "fox")
    say(campaign, [43], kind="broken")  # does not count: 3 of 3
    rows = {purity: campaign.spread(purity=purity, unmeasured=True, trial=True).rows for purity in (0.95, 0.8, 0.75)}
    assert rows == {0.95: 6, 0.8: 11, 0.75: 23}
    assert campaign.spread(least=2, unmeasured=True, trial=True).rows == 14
    assert campaign.spreads() == []


def test_without_enough_of_the_holdout_the_error_is_not_estimated(make: Make) -> None:
    campaign = start(make)
    free, held = split(campaign, 0)
    say(campaign, free[:3], "cat")
    say(campaign, held, "cat")
    with pytest.raises(
        CampaignError,
        match=rf"cannot be estimated: {len(held)} labels of the holdout are in pure clusters, and at least 73 are "
        r"needed to show an error of at most 5\.0%.*--unmeasured",
    ):
        campaign.spread()
    assert campaign.spreads() == []
    assert campaign.spread(unmeasured=True).rows == len(free) - 3


def test_a_large_error_on_the_holdout_is_refused(make: Make) -> None:
    campaign = start(make, holdout=80)
    total = 0
    for cluster in range(12):
        free, held = split(campaign, cluster)
        if len(free) > 3:
            total += len(held)
            say(campaign, free[:3], "cat")
            say(campaign, held, "dog")
    assert total > 4
    for unmeasured in (False, True):
        with pytest.raises(CampaignError, match=rf"error on the holdout is 100\.0% \(.*{total} of {total}\)"):
            campaign.spread(unmeasured=unmeasured, **FREE)
    assert campaign.spread(max_error=1).holdout.wrong == total


def test_the_holdout_never_gets_a_label_nor_gives_one(make: Make) -> None:
    campaign = start(make)
    free, held = split(campaign, 0)
    say(campaign, held, "cat")
    with pytest.raises(CampaignError, match="nothing to spread: no cluster with unlabeled rows has at least 3 labels"):
        campaign.spread(unmeasured=True)
    say(campaign, free[:3], "dog")
    trial = campaign.spread(trial=True)
    assert (trial.run, trial.state, trial.holdout.wrong) == (None, "trial", len(held))
    campaign.spread(max_error=1)
    assert not set(carried(campaign)) & {f"r{row}" for row in held}


def test_what_a_person_says_rules(make: Make) -> None:
    campaign = start(make, holdout=0)
    say(campaign, range(3), "cat")
    campaign.spread(unmeasured=True)
    assert sorted(campaign.batch(campaign.next(N - 3))["row"].tolist()) == list(range(3, N))  # all are candidates
    say(campaign, [3], "dog")
    say(campaign, [4], "cat")
    say(campaign, [5], kind="unsure")
    assert set(carried(campaign)) == {"r6", "r7", "r8", "r9"}
    (run,) = campaign.spreads()
    assert (run.later.checked, run.later.wrong) == (2, 1)
    assert str(run).startswith("spread 1 (current): 7 labels in 1 clusters; error not measured; later contradicted by")
    assert "50.0% (9.5% to 90.5%, 1 of 2)" in str(run)
    say(campaign, [6], kind="none-of-these")
    assert campaign.spreads()[0].later.wrong == 2
    campaign.retract(annotator="ana")
    assert len(carried(campaign)) == 7


def test_a_run_replaces_the_one_before_and_can_be_undone(make: Make) -> None:
    campaign = start(make, holdout=0)
    with pytest.raises(CampaignError, match="no labels were spread"):
        campaign.labels(spread=True)
    say(campaign, range(3), "cat")
    campaign.spread(unmeasured=True)
    say(campaign, range(10, 13), "dog")
    assert campaign.spread(unmeasured=True).run == 2
    assert [run.state for run in campaign.spreads()] == ["replaced", "current"]
    assert len(carried(campaign)) == 14
    campaign.undo_spread(2)
    assert [run.state for run in campaign.spreads()] == ["current", "undone"]
    assert len(carried(campaign)) == 7
    with pytest.raises(CampaignError, match="spread 2 is undone already"):
        campaign.undo_spread(2)
    with pytest.raises(CampaignError, match="there is no spread 5"):
        campaign.undo_spread(5)
    assert [entry.command for entry in campaign.log()][-4:] == ["spread", "ingest", "spread", "spread"]


def test_sets_of_classes_must_agree_as_a_whole(make: Make) -> None:
    campaign = start(make, kind="multi-label", holdout=0)
    say(campaign, range(3), ("cat", "fox"))
    say(campaign, range(10, 12), ("cat", "fox"))
    say(campaign, [12], ("cat",))
    say(campaign, range(20, 23), ())
    campaign.spread(unmeasured=True)
    assert carried(campaign) == {f"r{row}": ("cat", "fox") for row in range(3, 10)} | {
        f"r{row}": () for row in range(23, 30)
    }
    say(campaign, [3], ())
    say(campaign, [23], ())
    assert (campaign.spreads()[0].later.checked, campaign.spreads()[0].later.wrong) == (2, 1)


def test_pairs_by_class(make: Make) -> None:
    campaign = start(make, kind="pairs", holdout=40)
    free, held = split(campaign, 0)
    yes = [Answer(f"r{row}", "answer", 1, "ana", class_="cat") for row in free[:3]]
    no = [Answer(f"r{row}", "answer", 0, "ana", class_="dog") for row in free[:3]]
    mixed = [Answer(f"r{row}", "answer", row % 2, "ana", class_="fox") for row in range(free[0], free[0] + 2)]
    check = [Answer(f"r{row}", "answer", 1, "ana", class_=name) for row in held for name in ("cat", "dog")]
    campaign.ingest([*yes, *no, *mixed, *check])
    done = campaign.spread(max_error=1)
    assert (done.rows, done.clusters) == (2 * (len(free) - 3), 1)
    assert (done.holdout.checked, done.holdout.wrong) == (2 * len(held), len(held))
    found = campaign.labels(spread=True)
    lines = zip(found["id"], found["class"], found["label"], found["how"], strict=True)
    spread = {(one, class_): label for one, class_, label, how in lines if how == "spread"}
    assert spread == {(f"r{row}", name): label for row in free[3:] for name, label in (("cat", 1), ("dog", 0))}


def test_exports_have_them_only_if_asked(make: Make, tmp_path: Path) -> None:
    campaign = start(make)
    free, _ = split(campaign, 0)
    say(campaign, free[:3], "cat")
    campaign.spread(unmeasured=True)
    assert campaign.export_labels(tmp_path / "people.csv").rows == 3
    done = campaign.export_labels(tmp_path / "all.csv", spread=True)
    assert done.rows == len(free)
    lines = [line.split(",") for line in (tmp_path / "all.csv").read_text().splitlines()[1:]]
    assert [line[0] for line in lines] == [f"r{row}" for row in free]
    assert [line[2] for line in lines] == ["majority"] * 3 + ["spread"] * (len(free) - 3)
    assert campaign.export_labels(tmp_path / "held.csv", spread=True, split="holdout").rows == 0


def test_labels_follow_classes_that_change() -> None:
    """Class 1 was merged into 0, and 2 was split; of pairs, a yes to 1 is one to 0."""
    numbers = np.arange(4)
    rows = Carried(numbers, np.full(4, WHOLE_ROW), np.array([0, 1, 2, 3]), numbers)
    meaning = np.array([[WHOLE_ROW, 1, WHOLE_ROW, 0, 5], [WHOLE_ROW, 2, NO_VALUE, NO_VALUE, 5]])
    found = translate(rows, meaning)
    assert (found.row.tolist(), found.value.tolist(), found.support.tolist()) == ([0, 1, 3], [0, 0, 3], [0, 1, 3])
    pairs = Carried(np.array([7, 7, 8]), np.array([0, 1, 1]), np.array([1, 1, 0]), np.array([3, 4, 5]))
    found = translate(pairs, np.array([[1, 0, NO_VALUE, NO_VALUE, 5], [1, 1, 0, 1, 5]]))
    assert (found.row.tolist(), found.class_.tolist(), found.support.tolist()) == ([7], [0], [3])


@pytest.mark.parametrize("kind", ["multi-class", "multi-label", "pairs"])
def test_labels_of_merged_and_split_classes(make: Make, kind: str) -> None:
    campaign = start(make, kind=kind, holdout=0)
    for cluster, name in enumerate(CLASSES):
        rows = range(10 * cluster, 10 * cluster + 3)
        if kind == "pairs":
            campaign.ingest([Answer(f"r{row}", "answer", 1, "ana", class_=name) for row in rows])
        else:
            say(campaign, rows, (name,) if kind == "multi-label" else name)
    campaign.spread(unmeasured=True)
    campaign.merge_classes("dog", "cat")
    campaign.split_class("fox", ["red fox", "arctic fox"])
    found = campaign.labels(spread=True)
    mine = found["how"] == "spread"
    assert found["row"][mine].tolist() == [*range(3, 10), *range(13, 20)]
    named = found["class"][mine] if kind == "pairs" else found["label"][mine]
    assert set(named) == {("cat",) if kind == "multi-label" else "cat"}
    say_cat = {"multi-label": ("cat",), "pairs": 1}.get(kind, "cat")
    campaign.ingest([Answer("r13", "answer", say_cat, "ben", class_="cat" if kind == "pairs" else None)])
    assert (campaign.spreads()[0].later.checked, campaign.spreads()[0].later.wrong) == (1, 0)


def test_a_file_that_changed_is_refused(tmp_path: Path) -> None:
    with begin(tmp_path, None, clusters=TENS) as campaign:
        say(campaign, split(campaign, 0)[0][:3], "cat")
        campaign.spread(unmeasured=True)
        (file,) = (tmp_path / "campaign" / "artifacts").glob("spread-*.parquet")
        file.write_bytes(file.read_bytes()[:-1])
        from hedgerow import StoreError

        with pytest.raises(StoreError, match=r"\(spread\) changed after it was registered"):
            campaign.labels(spread=True)


def test_wrong_calls(make: Make) -> None:
    campaign = start(make)
    for purity in (0.5, 1.1, float("nan")):
        with pytest.raises(InputError, match="purity must be"):
            campaign.spread(purity=purity)
    for error in (0, 1.5):
        with pytest.raises(InputError, match="max_error must be above 0 and at most 1"):
            campaign.spread(max_error=error)
    with pytest.raises(InputError, match="least must be at least 1"):
        campaign.spread(least=0)


def test_clusters_are_needed(make: Make) -> None:
    with pytest.raises(CampaignError, match="spread needs clusters, which this campaign does not have"):
        make(clusters=None).spread()


def test_the_command(run: Run, tmp_path: Path) -> None:
    with begin(tmp_path, None, clusters=TENS, holdout=0) as campaign:
        say(campaign, range(3), "cat")
    folder = tmp_path / "campaign"
    one_line(run("campaign", "spread", folder), 1, "cannot be estimated", "--unmeasured")
    done = run("campaign", "spread", folder, "--dry-run")
    assert done.out == "trial: 7 labels in 1 clusters; error not measured\n"
    assert run("campaign", "spread", folder, "--list").out == "no labels were spread\n"
    done = run("campaign", "spread", folder, "--unmeasured", "--purity", 0.9, "--json")
    assert json.loads(done.out)["rule"] == {"purity": 0.9, "least": 3, "max_error": 0.05, "unmeasured": True}
    assert run("campaign", "labels", folder, "--with-spread").out.count("spread") == 7
    assert json.loads(run("campaign", "spread", folder, "--list", "--json").out)["runs"][0]["state"] == "current"
    assert run("campaign", "spread", folder, "--undo", 1).out == "spread 1 is undone\n"
    one_line(run("campaign", "labels", folder, "--with-spread"), 1, "no labels were spread")
    one_line(run("campaign", "spread", folder, "--undo", 1, "--list"), 1, "--list or --undo")

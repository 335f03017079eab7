"""Classes that change midway: what happens to votes, verdicts, tasks, files, models and pairs."""

import csv
import itertools
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hedgerow import Campaign, CampaignError, InputError, Pairs
from hedgerow.campaign import classes as changes
from hedgerow.campaign import planning, verdicts
from hedgerow.campaign.answers import Answer
from shell import Run, one_line

N = 20
Make = Callable[..., Campaign]
_numbers = itertools.count()


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest) -> str | None:
    """None for SQLite."""
    if request.param == "sqlite":
        return None
    return str(request.getfixturevalue("server").create(f"classes{next(_numbers)}"))


def begin(folder: Path, url: str | None = None, **options: Any) -> Campaign:
    with (folder / "pool.csv").open("w", newline="") as file:
        csv.writer(file).writerows([("id", "text"), *((f"r{row}", f"text {row}") for row in range(N))])
    given = {"classes": ["cat", "dog", "fox"], "database": url, **options}
    return Campaign.init(folder / "campaign", folder / "pool.csv", **given)


@pytest.fixture
def make(url: str | None, tmp_path: Path) -> Iterator[Make]:
    opened: list[Campaign] = []

    def start(**options: Any) -> Campaign:
        opened.append(begin(tmp_path, url, **options))
        return opened[-1]

    yield start
    for campaign in opened:
        campaign.close_files()


def say(campaign: Campaign, who: str, *said: tuple[int, Any], class_: str | None = None) -> dict[str, int]:
    """Answers of one person about rows."""
    done = campaign.ingest([Answer(f"r{row}", "answer", value, who, class_=class_) for row, value in said], again=True)
    return {name: count for name, count in done.counts.items() if count}


def labels(campaign: Campaign) -> dict[Any, tuple[Any, str]]:
    """(label, how) by row, or by (row, class)."""
    found = campaign.labels()
    keys = found["row"].tolist()
    if "class" in found:
        keys = list(zip(keys, found["class"].tolist(), strict=True))
    return dict(zip(keys, zip(found["label"].tolist(), found["how"].tolist(), strict=True), strict=True))


def states(campaign: Campaign, batch: int) -> list[str]:
    found: list[str] = campaign.batch(batch)["state"].tolist()
    return found


def claimed(campaign: Campaign, who: str, batch: int) -> list[tuple[int, str | None]]:
    found = [(one.row, one.class_) for one in campaign.claim(who, 30, batch=batch)]
    campaign.release(who)
    return found


# Adding and renaming.


def test_a_new_class_can_be_named_and_needs_a_column(make: Make) -> None:
    campaign = make()
    say(campaign, "ana", (0, "cat"))
    campaign.predict(np.full((N, 3), 1 / 3), name="old")
    assert say(campaign, "ana", (1, "owl")) == {"unknown class": 1}
    assert campaign.add_class("owl") == 3
    assert say(campaign, "ana", (1, "owl")) == {"unsolicited": 1}
    assert labels(campaign) == {0: ("cat", "majority"), 1: ("owl", "majority")}
    with pytest.raises(InputError, match=r"3 columns, but the campaign has 4 classes.*cat, dog, fox, owl"):
        campaign.predict(np.full((N, 3), 1 / 3))
    campaign.predict(np.eye(4)[np.full(N, 3)] * 0.7 + 0.075, name="new")
    assert set(campaign.batch(campaign.next(3, model="new"))["guess"]) == {"owl"}
    assert set(campaign.batch(campaign.next(3, model="old"))["guess"]) == {"cat"}


def test_a_renamed_class_is_still_understood_by_its_former_name(make: Make) -> None:
    campaign = make()
    say(campaign, "ana", (0, "cat"))
    campaign.rename_class("cat", "feline")
    assert say(campaign, "ben", (0, "cat"), (1, "feline")) == {"unsolicited": 2}
    assert labels(campaign) == {0: ("feline", "majority"), 1: ("feline", "majority")}
    for name in ("cat", "dog"):
        with pytest.raises(InputError, match="choose another name"):
            campaign.add_class(name)
    with pytest.raises(InputError, match="'cat' is a former name of the class 'feline'"):
        campaign.rename_class("dog", "cat")
    campaign.rename_class("feline", "cat")  # back
    assert vars(campaign.classes()[0]) == {
        "id": 0, "name": "cat", "labels": 2, "state": "in use", "former_names": ("feline",)
    }  # fmt: skip
    assert campaign.log(1)[0].outcome == {"class": 0, "from": "feline", "to": "cat"}


# Merging.


def test_votes_for_merged_classes_agree(make: Make) -> None:
    campaign = make(holdout=0)
    batch = planning.reserve_rows(campaign._database, np.arange(3), reason="test", answers=2)
    say(campaign, "ana", (0, "dog"), (1, "dog"), (2, "cat"))
    say(campaign, "ben", (0, "fox"), (1, "dog"), (2, "fox"))
    assert states(campaign, batch) == ["disputed", "settled", "disputed"]
    campaign.merge_classes("dog", "fox")
    assert labels(campaign) == {0: ("fox", "majority"), 1: ("fox", "majority"), 2: (None, "disputed")}
    assert states(campaign, batch) == ["settled", "settled", "disputed"]
    assert say(campaign, "ben", (0, "dog"), (1, "fox")) == {"unchanged": 2}  # the same class by now
    assert campaign.status().classes == ("cat", "fox")
    assert [one.state for one in campaign.classes()] == ["in use", "merged into fox", "in use"]
    assert [one.labels for one in campaign.classes()] == [0, 0, 2]
    with pytest.raises(InputError, match=r"'dog' was merged into fox: name a class in use \(cat, fox\)"):
        campaign.merge_classes("dog", "cat")
    with pytest.raises(InputError, match="only two classes"):
        campaign.merge_classes("cat", "fox")
    with pytest.raises(InputError, match="into itself"):
        campaign.merge_classes("cat", "cat")
    with pytest.raises(InputError, match="'cow' is not a class of the campaign: cat, fox"):
        campaign.rename_class("cow", "ox")


def test_merges_follow_one_another(make: Make) -> None:
    campaign = make(classes=["a", "b", "c", "d"])
    say(campaign, "ana", (0, "a"), (1, "b"), (2, "c"))
    campaign.merge_classes("a", "b")
    campaign.merge_classes("b", "c")
    assert {row: label for row, (label, _) in labels(campaign).items()} == {0: "c", 1: "c", 2: "c"}
    assert say(campaign, "ana", (3, "a")) == {"unsolicited": 1}
    campaign.split_class("c", ["x", "y"])
    assert labels(campaign) == {}
    assert say(campaign, "ana", (3, "a")) == {"unknown class": 1}


def test_merged_sets_of_classes_are_the_same_set(make: Make) -> None:
    campaign = make(kind="multi-label")
    say(campaign, "ana", (0, ("cat", "dog")), (1, ("dog",)), (2, ("cat", "dog", "fox")))
    say(campaign, "ben", (0, ("cat", "fox")), (1, ("dog", "fox")), (2, ("cat", "fox")))
    campaign.merge_classes("dog", "fox")
    expected = {0: (("cat", "fox"), "majority"), 1: (("fox",), "majority"), 2: (("cat", "fox"), "majority")}
    assert labels(campaign) == expected
    assert [one.labels for one in campaign.classes()] == [2, 0, 3]
    assert say(campaign, "ana", (0, ("dog", "cat"))) == {"unchanged": 1}


def test_a_yes_to_either_of_merged_pairs_is_a_yes(make: Make) -> None:
    campaign = make(kind="pairs")
    batch = planning.reserve_rows(campaign._database, np.array([5, 5, 6, 7]), np.array([1, 2, 1, 1]), reason="test")
    say(campaign, "ana", (0, 1), (1, 0), (2, 1), (3, 1), class_="dog")
    say(campaign, "ana", (0, 0), (1, 0), (4, 1), class_="fox")
    say(campaign, "ana", (3, 0), class_="dog")  # corrected before the merge
    campaign.merge_classes("dog", "fox")
    # 0: yes to one and no to the other; 1: no to both; 2: yes to one; 3: a no to dog says nothing about fox
    found = {row: label for (row, name), (label, _) in labels(campaign).items() if name == "fox"}
    assert found == {0: 1, 1: 0, 2: 1, 4: 1}
    assert len(labels(campaign)) == 4
    assert sorted(zip(campaign.batch(batch)["class"].tolist(), states(campaign, batch), strict=True)) == [
        ("fox", "open"), ("fox", "open"), ("fox", "open"), ("fox", "void")
    ]  # fmt: skip
    assert sorted(claimed(campaign, "ben", batch)) == [(5, "fox"), (6, "fox"), (7, "fox")]
    say(campaign, "ana", (0, 0), class_="fox")  # about the merged class: counts
    assert labels(campaign)[0, "fox"] == (0, "majority")
    say(campaign, "ana", (8, 0), (9, 1), class_="dog")  # a late file: a yes counts, a no does not
    assert (8, "fox") not in labels(campaign)
    assert labels(campaign)[9, "fox"] == (1, "majority")
    assert len(campaign._holdings.pairs) == 2 * N


def test_what_was_said_after_a_merge_is_not_undone_by_the_next(make: Make) -> None:
    campaign = make(kind="pairs")
    say(campaign, "ana", (0, 1), (1, 1), class_="cat")
    campaign.merge_classes("cat", "dog")
    say(campaign, "ana", (0, 0), class_="dog")
    campaign.merge_classes("dog", "fox")
    assert labels(campaign) == {(1, "fox"): (1, "majority")}
    campaign.split_class("fox", ["red", "arctic"])
    assert labels(campaign) == {}
    batch = campaign.relabel("fox")
    assert sorted(claimed(campaign, "ben", batch)) == [(1, "arctic"), (1, "red")]


# Splitting.


def test_answers_that_name_a_split_class_say_nothing_and_are_asked_again(make: Make) -> None:
    campaign = make(holdout=2)
    held = campaign.batch(1)["row"].tolist()
    free = [row for row in range(N) if row not in held]
    say(campaign, "ana", (free[0], "dog"), (free[1], "cat"), (held[0], "dog"), (free[2], "cat"))
    say(campaign, "ana", (free[2], "dog"))  # the last word was dog: cat does not come back
    say(campaign, "ben", (free[1], "dog"))
    batch = campaign.split_class("dog", ["hound", "puppy"], relabel=True)
    assert labels(campaign) == {free[1]: ("cat", "majority")}
    assert batch is not None
    assert campaign.batch(batch)["row"].tolist() == [free[0], free[2]]
    assert states(campaign, 1) == ["open", "open"]
    assert claimed(campaign, "ana", batch) == [(free[0], None), (free[2], None)]  # also who answered before
    assert say(campaign, "ana", (free[0], "puppy")) == {"new": 1}
    assert states(campaign, batch) == ["settled", "open"]
    done = campaign.ingest([Answer("r5", "answer", "dog", "cid")])
    assert done.rejects[0].detail == "dog was split into hound, puppy"
    with pytest.raises(InputError, match="'dog' was split into hound, puppy"):
        campaign.split_class("dog", ["x", "y"])
    assert campaign.status().classes == ("cat", "fox", "hound", "puppy")


def test_a_split_that_leaves_nothing_to_ask_makes_no_batch(make: Make) -> None:
    campaign = make()
    batch = planning.reserve_rows(campaign._database, np.array([3]), reason="test")
    say(campaign, "ana", (3, "dog"))
    assert campaign.split_class("dog", ["hound", "puppy"], relabel=True) is None
    assert states(campaign, batch) == ["open"]  # its own batch asks again
    say(campaign, "ana", (5, "fox"))
    campaign.set_budget(labels=1)
    with pytest.raises(CampaignError, match=r"fox is split into red, arctic, but no batch was reserved: .*budget"):
        campaign.split_class("fox", ["red", "arctic"], relabel=True)
    assert campaign.status().classes == ("cat", "hound", "puppy", "red", "arctic")


def test_sets_with_a_split_class_are_asked_again(make: Make) -> None:
    campaign = make(kind="multi-label")
    say(campaign, "ana", (0, ("cat", "dog")), (1, ("cat",)), (2, ()))
    batch = campaign.split_class("dog", ["hound", "puppy"], relabel=True)
    assert labels(campaign) == {1: (("cat",), "majority"), 2: ((), "none-of-these")}
    assert batch is not None
    assert campaign.batch(batch)["row"].tolist() == [0]
    assert say(campaign, "ana", (0, ("cat", "puppy"))) == {"new": 1}
    assert say(campaign, "ana", (1, ("dog",))) == {"unknown class": 1}


def test_pairs_of_a_split_class_are_replaced_by_new_ones(make: Make) -> None:
    campaign = make(kind="pairs", holdout=2)
    held = campaign.batch(1)["row"].tolist()
    free = [row for row in range(N) if row not in held]
    first = planning.reserve_rows(campaign._database, np.array(free[:3]), np.full(3, 1), reason="test")
    say(campaign, "ana", (free[0], 1), (free[1], 0), class_="dog")
    batch = campaign.split_class("dog", ["hound", "puppy"], relabel=True)
    assert labels(campaign) == {}
    assert states(campaign, first) == ["settled", "settled", "void"]
    assert batch is not None
    assert sorted(claimed(campaign, "ana", batch)) == [(free[0], "hound"), (free[0], "puppy")]
    new = campaign.batch(batch - 1)  # the holdout is asked about the new classes as well
    assert sorted(zip(new["row"].tolist(), new["class"].tolist(), strict=True)) == sorted(
        itertools.product(sorted(set(held)), ["hound", "puppy"])
    )
    assert len(campaign._holdings.pairs) == 4 * N
    assert say(campaign, "ana", (free[2], 1), class_="dog") == {"unknown class": 1}
    assert say(campaign, "ana", (free[2], 1), class_="puppy") == {"unsolicited": 1}


def test_a_new_class_makes_new_pairs_also_in_the_holdout(make: Make) -> None:
    campaign = make(kind="pairs", holdout=2)
    campaign.predict(np.random.default_rng(0).random((N, 3)), name="old")
    campaign.add_class("owl")
    assert campaign.batch(2)["class"].tolist() == ["owl", "owl"]
    assert "owl" not in campaign.batch(campaign.next(20, model="old"))["class"].tolist()
    campaign.predict(np.random.default_rng(0).random((N, 4)))
    assert "owl" in campaign.batch(campaign.next(30, strategy="random"))["class"].tolist()


def test_predictions_of_pairs_follow_merged_classes(make: Make) -> None:
    campaign = make(kind="pairs")
    chances = np.full((N, 3), 0.9)
    chances[3] = [0.9, 0.2, 0.45]  # the larger of dog's and fox's is the nearest to a half
    campaign.predict(chances)
    campaign.merge_classes("dog", "fox")
    picked = campaign.batch(campaign.next(1, strategy="margin"))
    assert (picked["row"].tolist(), picked["class"].tolist()) == ([3], ["fox"])
    assert picked["probability"].tolist() == pytest.approx([0.45])


def test_listed_pairs_follow_the_classes(make: Make) -> None:
    campaign = make(kind="pairs", pairs=Pairs([0, 0, 1, 2], [1, 2, 1, 0]), holdout=0)
    campaign.predict(np.random.default_rng(0).random((N, 3)))
    campaign.merge_classes("dog", "fox")
    held = campaign._holdings.pairs
    assert list(zip(held.rows.tolist(), held.classes.tolist(), strict=True)) == [(0, 2), (1, 2), (2, 0)]
    campaign.split_class("fox", ["red", "arctic"])
    held = campaign._holdings.pairs
    assert list(zip(held.rows.tolist(), held.classes.tolist(), strict=True)) == [(0, 3), (0, 4), (1, 3), (1, 4), (2, 0)]
    campaign.add_class("owl")
    assert len(campaign._holdings.pairs) == 5
    assert campaign.batch(campaign.next(1))["class"].tolist() == ["cat"]  # the only one that the model knows


def test_what_cannot_be_split_is_refused(tmp_path: Path) -> None:
    with begin(tmp_path) as campaign:
        with pytest.raises(InputError, match="at least two"):
            campaign.split_class("dog", ["hound"])
        with pytest.raises(InputError, match="a class 'cat' already"):
            campaign.split_class("dog", ["hound", "cat"])
        with pytest.raises(InputError, match="a class 'dog' already"):
            campaign.split_class("dog", ["dog", "puppy"])
        with pytest.raises(InputError, match="'dog' was not split"):
            campaign.relabel("dog")
        assert [one.name for one in campaign.classes()] == ["cat", "dog", "fox"]
        campaign.split_class("dog", ["hound", "puppy"])
        with pytest.raises(CampaignError, match="nothing to ask again"):
            campaign.relabel("dog")
        with pytest.raises(InputError, match="empty name"):
            campaign.add_class(" ")


def test_an_interrupted_change_is_finished_when_the_campaign_is_opened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(changes, "CHUNK", 4)
    with begin(tmp_path) as campaign:
        say(campaign, "ana", *((row, "dog") for row in range(10)))
        real, calls = changes._recode_chunk, itertools.count()

        def stop(*arguments: Any) -> Any:
            if next(calls) == 1:
                raise KeyboardInterrupt
            return real(*arguments)

        with monkeypatch.context() as patch:
            patch.setattr(changes, "_recode_chunk", stop)
            with pytest.raises(KeyboardInterrupt):
                campaign.split_class("dog", ["hound", "puppy"])
        assert len(labels(campaign)) == 6
    with Campaign.open(tmp_path / "campaign") as campaign:
        assert labels(campaign) == {}
        assert campaign.batch(campaign.relabel("dog"))["row"].tolist() == list(range(10))


# Anything in any order.


def dump(campaign: Campaign) -> list[Any]:
    with campaign._database.read() as connection:
        import sqlalchemy as sa

        held = connection.execute(sa.text('SELECT * FROM verdict ORDER BY "row", "class"')).all()
        tasks = connection.execute(sa.text('SELECT id, "row", "class", given, state FROM task ORDER BY id')).all()
    return [*map(tuple, held), *map(tuple, tasks)]


def answer_at_random(campaign: Campaign, kind: str, rng: np.random.Generator) -> None:
    names = [one.name for one in campaign.classes() if not one.state.startswith("split")]
    names = [name for name in names if name in campaign._holdings.class_ids]
    rows = rng.integers(0, campaign.status().rows, 12).tolist()
    said = []
    ids = campaign._holdings.ids.array()
    for row in rows:
        name, who = names[rng.integers(len(names))], f"p{rng.integers(3)}"
        other = names[rng.integers(len(names))]
        value: Any = {"multi-class": name, "multi-label": (name, other), "pairs": int(rng.integers(2))}[kind]
        what = ["answer", "answer", "answer", "unsure", "broken", "adjudicate"][rng.integers(6)]
        given = value if what in ("answer", "adjudicate") else None
        said.append(Answer(str(ids[row]), what, given, who, class_=name if kind == "pairs" else None))
    campaign.ingest(said, again=True)


@pytest.mark.parametrize("kind", ["multi-class", "multi-label", "pairs"])
@pytest.mark.parametrize("seed", range(3))
def test_verdicts_are_those_of_the_events_whatever_happens(
    kind: str, seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(changes, "CHUNK", 7)
    rng = np.random.default_rng(seed)
    with begin(tmp_path, kind=kind, classes=["a", "b", "c", "d"], holdout=3) as campaign:
        for number in range(12):
            in_use = [one.name for one in campaign.classes() if one.state == "in use"]
            verb = ["answer", "next", "grow", "retire", "merge", "split", "retract", "close"][rng.integers(8)]
            answer_at_random(campaign, kind, rng)
            if verb == "next":
                campaign.next(4, strategy="random", seed=number, allow_short=True, answers=2)
            elif verb == "grow":
                path = tmp_path / f"{number}.csv"
                path.write_text("id,text\n" + "".join(f"g{number}-{at},x\n" for at in range(3)))
                campaign.grow(path, seed=number)
            elif verb == "retire":
                ids = campaign._holdings.ids.array()[rng.integers(0, campaign.status().rows, 2)]
                campaign.retire(np.array(sorted(set(ids)), np.object_))
            elif verb == "merge" and len(in_use) > 2:
                campaign.merge_classes(*rng.choice(in_use, 2, replace=False).tolist())
            elif verb == "split":
                campaign.split_class(str(rng.choice(in_use)), [f"s{number}", f"t{number}"])
            elif verb == "retract":
                campaign.retract(annotator="p0")
            elif verb == "close":
                live = [one["id"] for one in campaign.status().batches if one["state"] == "open"]
                if live:
                    campaign.close(live[-1])
            before = dump(campaign)
            with campaign._database.write() as connection:
                verdicts.refresh(campaign._database, connection, np.arange(campaign.status().rows))
            assert dump(campaign) == before, verb
            assert all(name in {*in_use, f"s{number}", f"t{number}"} for name in named(campaign, kind))


def named(campaign: Campaign, kind: str) -> set[str]:
    """The classes that labels name."""
    found = campaign.labels()
    if kind == "pairs":
        return set(found["class"].tolist())
    if kind == "multi-label":
        return {name for label in found["label"].tolist() if label for name in label}
    return {label for label in found["label"].tolist() if label}


def test_the_commands(run: Run, tmp_path: Path) -> None:
    begin(tmp_path).close_files()
    folder = tmp_path / "campaign"
    (tmp_path / "labels.csv").write_text("id,label\nr1,cat\nr2,dog\nr3,fox\n")
    run("campaign", "ingest", folder, tmp_path / "labels.csv", "--annotator", "ana")
    assert run("campaign", "classes", "add", folder, "owl").out == "owl is a class\n"
    assert run("campaign", "classes", "rename", folder, "owl", "bird").out == "owl is now called bird\n"
    assert run("campaign", "classes", "merge", folder, "dog", "cat").out == "dog is merged into cat\n"
    done = run("campaign", "classes", "split", folder, "fox", "red", "arctic", "--relabel")
    assert done.out == "fox is split into red, arctic; batch 1 asks again\n"
    listed = run("campaign", "classes", "list", folder).out.splitlines()
    assert [line.strip() for line in listed] == [
        "2  cat", "0  dog (merged into cat)", "0  fox (split into red, arctic)", "0  bird (formerly owl)", "0  red",
        "0  arctic",
    ]  # fmt: skip
    one_line(run("campaign", "classes", "relabel", folder, "fox"), 1, "nothing to ask again")
    one_line(run("campaign", "classes", "merge", folder, "cow", "cat"), 1, "'cow' is not a class of the campaign")

"""Rows that must go: retired, restored, and purged from the files."""

import csv
import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hedgerow import Campaign, CampaignError, InputError
from hedgerow.campaign import retiring
from hedgerow.campaign.answers import Answer
from hedgerow.campaign.planning import reserve_rows
from shell import Run, one_line

N = 20
_numbers = itertools.count()


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest) -> str | None:
    """None for SQLite."""
    if request.param == "sqlite":
        return None
    return str(request.getfixturevalue("server").create(f"retire{next(_numbers)}"))


def write_table(path: Path, ids: list[Any]) -> Path:
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([("id", "text"), *((one, f"secret {one}") for one in ids)])
    return path


def list_ids(path: Path, *ids: Any) -> Path:
    path.write_text("".join(f"{one}\n" for one in ids))
    return path


def begin(folder: Path, url: str | None = None, **options: Any) -> Campaign:
    pool = write_table(folder / "pool.csv", [f"r{row}" for row in range(N)])
    return Campaign.init(folder / "campaign", pool, **{"classes": ["cat", "dog"], "database": url, **options})


@pytest.fixture
def campaign(url: str | None, tmp_path: Path) -> Iterator[Campaign]:
    with begin(tmp_path, url, holdout=5) as made:
        yield made


def states(campaign: Campaign, batch: int) -> dict[int, str]:
    columns = campaign.batch(batch)
    return dict(zip(columns["row"].tolist(), columns["state"].tolist(), strict=True))


def read_files(campaign: Campaign) -> set[Any]:
    """All that the campaign's files hold in their columns."""
    import pyarrow.parquet as pq

    files = [pq.read_table(path) for path in (campaign.folder / "artifacts").glob("*.parquet")]
    return {value for file in files for column in file.columns for value in column.to_pylist()}


def test_retired_rows_are_neither_asked_about_nor_exported(campaign: Campaign, tmp_path: Path) -> None:
    held = sorted(states(campaign, 1))
    free = [row for row in range(N) if row not in held]
    batch = reserve_rows(campaign._database, np.array(free[:4]), reason="test")
    answers = [Answer(f"r{row}", "answer", "cat", "ana") for row in (free[0], free[1], held[0], held[1])]
    campaign.ingest(answers)
    campaign.claim("ben", 2, batch=batch)
    gone = [free[0], free[2], free[10], held[0], held[2]]
    done = campaign.retire(list_ids(tmp_path / "gone.txt", *(f"r{row}" for row in gone)), reason="consent")
    assert (done.rows, done.before, done.unknown) == (5, 0, 0)
    assert campaign.labels()["row"].tolist() == sorted([free[1], held[1]])
    assert campaign.status().labels == {"majority": 2}
    assert states(campaign, batch) == {free[0]: "settled", free[1]: "settled", free[2]: "void", free[3]: "open"}
    assert [one.row for one in campaign.claim("ben", 9, batch=batch)] == [free[3]]
    assert states(campaign, 1)[held[2]] == "void"
    picked = set(campaign.batch(campaign.next(99, allow_short=True))["row"].tolist())
    assert picked == set(free[4:]) - {free[10]}
    status = campaign.status()
    assert (status.rows, status.retired, status.holdout) == (N, 5, 3)
    assert "20 rows (5 retired)" in str(status)
    assert campaign.log(2)[0].outcome == {"rows": 5, "before": 0, "reason": "consent"}


def test_answers_about_retired_rows_are_kept_and_do_not_count(campaign: Campaign, tmp_path: Path) -> None:
    batch = campaign.next(2)
    first, second = campaign.batch(batch)["id"].tolist()
    campaign.retire(list_ids(tmp_path / "gone.txt", first))
    assert campaign.ingest([Answer(first, "answer", "cat", "ana", 1)]).counts["unsolicited"] == 1
    assert campaign.ingest([Answer(first, "answer", "cat", "ana", 1), Answer(second, "skip")]).counts["unchanged"] == 1
    assert campaign.labels()["row"].tolist() == []
    campaign.retract(annotator="ana")  # computes the verdicts and tasks of these rows again
    assert sorted(states(campaign, batch).values()) == ["open", "void"]
    again = campaign.retire(list_ids(tmp_path / "gone.txt", first, second))
    assert (again.rows, again.before) == (1, 1)


def test_an_unknown_id_is_refused(campaign: Campaign, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="1 of the ids listed are not in the pool, the first is r99"):
        campaign.retire(list_ids(tmp_path / "gone.txt", "r1", "r99"))
    with pytest.raises(InputError, match="none of the 2 ids listed is in the pool"):
        campaign.purge(list_ids(tmp_path / "gone.txt", "r98", "r99"))
    assert campaign.status().retired == 0


def test_restored_rows_are_what_they_were(campaign: Campaign, tmp_path: Path) -> None:
    held = sorted(states(campaign, 1))
    free = [row for row in range(N) if row not in held]
    batch = reserve_rows(campaign._database, np.array(free[:4]), reason="test")
    other = reserve_rows(campaign._database, np.array(free[4:6]), reason="test")
    campaign.ingest([Answer(f"r{row}", "answer", "cat", "ana") for row in (free[0], held[0])])
    before = states(campaign, batch), states(campaign, 1), campaign.labels()["row"].tolist()
    gone = list_ids(tmp_path / "gone.txt", *(f"r{row}" for row in (*free[:5], held[0], held[1])))
    campaign.retire(gone)
    campaign.close(other)
    assert campaign.labels()["row"].tolist() == []
    done = campaign.restore(gone, reason="wrong list")
    assert (done.rows, done.others) == (7, 0)
    assert (states(campaign, batch), states(campaign, 1), campaign.labels()["row"].tolist()) == before
    assert states(campaign, other) == {free[4]: "void", free[5]: "void"}  # its batch was closed meanwhile
    assert {one.row for one in campaign.claim("ben", 9, batch=batch)} == set(free[1:4])
    assert campaign.log(1)[0].outcome == {"rows": 7, "others": 0, "reason": "wrong list"}
    assert campaign.status().retired == 0
    again = campaign.restore(gone)
    assert (again.rows, again.others) == (0, 7)
    assert free[4] in campaign.batch(campaign.next(99, allow_short=True))["row"].tolist()


def test_what_happened_while_a_row_was_retired_counts_once_it_is_restored(campaign: Campaign, tmp_path: Path) -> None:
    batch = campaign.next(3)
    first, second, third = campaign.batch(batch)["id"].tolist()
    campaign.ingest([Answer(second, "answer", "dog", "ana")])
    gone = list_ids(tmp_path / "gone.txt", first, second, third)
    campaign.retire(gone)
    campaign.ingest([Answer(first, "answer", "cat", "ben")])
    campaign.retract(annotator="ana")
    campaign.add_class("fox")
    campaign.merge_classes("cat", "fox")
    campaign.restore(gone)
    columns = campaign.batch(batch)
    assert dict(zip(columns["id"], columns["state"], strict=True)) == {first: "settled", second: "open", third: "open"}
    labels = campaign.labels()
    assert list(zip(labels["id"], labels["label"], strict=True)) == [(first, "fox")]


def test_purged_rows_and_unknown_ids_are_not_restored(campaign: Campaign, tmp_path: Path) -> None:
    campaign.retire(list_ids(tmp_path / "gone.txt", "r1", "r2"))
    campaign.purge(list_ids(tmp_path / "purged.txt", "r2"))
    with pytest.raises(InputError, match=r"1 of the ids listed .* the first is r2 .* purged, which cannot be undone"):
        campaign.restore(list_ids(tmp_path / "back.txt", "r1", "r2"))
    with pytest.raises(CampaignError, match="1 of the 2 rows were purged"):
        campaign.restore(list_ids(tmp_path / "back.txt", "r1", "purged:2"))
    assert campaign.status().retired == 2
    assert campaign.restore(list_ids(tmp_path / "back.txt", "r1")).rows == 1


def test_an_interrupted_restore_is_complete_once_it_is_run_again(
    campaign: Campaign, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    campaign.ingest([Answer(f"r{row}", "answer", "cat", "ana") for row in range(6)])
    gone = list_ids(tmp_path / "gone.txt", *(f"r{row}" for row in range(6)))
    campaign.retire(gone)
    monkeypatch.setattr(retiring, "CHUNK", 2)
    real, calls = retiring.verdicts.refresh, itertools.count()

    def stop(*given: Any) -> None:
        real(*given)
        if next(calls) == 1:
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(retiring.verdicts, "refresh", stop)
        with pytest.raises(KeyboardInterrupt):
            campaign.restore(gone)
    assert campaign.labels()["row"].tolist() == [0, 1]
    done = campaign.restore(gone)
    assert (done.rows, done.others) == (4, 2)
    assert campaign.labels()["row"].tolist() == list(range(6))


def test_a_purge_removes_ids_and_contents_from_the_files(campaign: Campaign, tmp_path: Path) -> None:
    campaign.grow(write_table(tmp_path / "more.csv", [f"s{row}" for row in range(5)]), holdout=None)
    campaign.ingest([Answer("r3", "answer", "cat", "ana"), Answer("s2", "answer", "cat", "ana")])
    before = {path.name for path in (campaign.folder / "artifacts").iterdir()}
    assert "secret r3" in read_files(campaign)
    done = campaign.purge(list_ids(tmp_path / "gone.txt", "r3", "s2", "r99"), reason="request 7")
    assert (done.rows, done.before, done.unknown) == (2, 0, 1)
    assert not {"secret r3", "secret s2", "r3", "s2"} & read_files(campaign)
    after = {path.name for path in (campaign.folder / "artifacts").iterdir()}
    assert len(after) == len(before)
    ids = campaign._holdings.ids.array().tolist()
    assert [ids[row] for row in (2, 3, 4, 21, 22, 23)] == ["r2", "purged:3", "r4", "s1", "purged:22", "s3"]
    taken, contents = campaign._holdings.take(np.array([2, 3, 22]))
    assert taken.tolist() == ["r2", "purged:3", "purged:22"]
    assert contents is not None
    assert contents.tolist() == ["secret r2", "", ""]
    assert campaign.labels()["row"].tolist() == []
    assert campaign.ingest([Answer("r3", "answer", "dog", "ben")]).counts["unknown id"] == 1
    with Campaign.open(campaign.folder, database=_url(campaign), verify=True) as opened:
        assert opened.status().retired == 2
    again = campaign.purge(list_ids(tmp_path / "gone.txt", "r3", "r4"))
    assert (again.rows, again.unknown) == (1, 1)


def _url(campaign: Campaign) -> str | None:
    engine = campaign._database.engine
    return None if engine.dialect.name == "sqlite" else engine.url.render_as_string(hide_password=False)


def test_an_interrupted_purge_is_finished_when_the_campaign_is_opened(
    campaign: Campaign, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stop(*_: Any) -> bool:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(retiring, "_switch", stop)
        with pytest.raises(KeyboardInterrupt):
            campaign.purge(list_ids(tmp_path / "gone.txt", "r3"))
    assert "secret r3" in read_files(campaign)
    with Campaign.open(campaign.folder, database=_url(campaign)) as opened:
        assert opened._holdings.ids.array().tolist()[3] == "purged:3"
        assert not {"secret r3", "r3"} & read_files(opened)


def test_placeholders_are_ids_that_no_row_has(tmp_path: Path) -> None:
    pool = write_table(tmp_path / "pool.csv", ["a", "purged:0", "c"])
    with Campaign.init(tmp_path / "campaign", pool, classes=["cat", "dog"]) as campaign:
        campaign.purge(list_ids(tmp_path / "gone.txt", "a", "c"))
        assert campaign._holdings.ids.array().tolist() == ["_purged:0", "purged:0", "_purged:2"]
    numbered = write_table(tmp_path / "numbers.csv", [5, -1, 7])
    with Campaign.init(tmp_path / "other", numbered, classes=["cat", "dog"]) as campaign:
        campaign.purge(list_ids(tmp_path / "gone.txt", 7))
        assert campaign._holdings.ids.array().tolist() == [5, -1, -3]
        campaign.purge(list_ids(tmp_path / "gone.txt", 5))
        assert campaign._holdings.ids.array().tolist() == [-(2**63), -1, -3]


def test_a_purge_waits_for_a_half_done_ingest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from hedgerow.campaign import ingesting

    def stop(*_: Any) -> Any:
        raise KeyboardInterrupt

    with begin(tmp_path) as campaign:
        with monkeypatch.context() as patch:
            patch.setattr(ingesting, "apply", stop)
            with pytest.raises(KeyboardInterrupt):
                campaign.ingest([Answer("r3", "answer", "cat")])
        with pytest.raises(CampaignError, match="is not finished"):
            campaign.purge(list_ids(tmp_path / "gone.txt", "r3"))
        assert campaign.status().retired == 0


def test_a_row_that_is_retired_while_a_batch_is_written_is_void(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from hedgerow.campaign import planning

    with begin(tmp_path) as campaign:
        real = planning._draw_wanted

        def meanwhile(n: int, wish: Any) -> Any:
            campaign.retire(list_ids(tmp_path / "gone.txt", "r3"))
            return real(n, wish)

        monkeypatch.setattr(planning, "_draw_wanted", meanwhile)
        batch = reserve_rows(campaign._database, np.array([3, 4]), reason="test")
        assert states(campaign, batch) == {3: "void", 4: "open"}


@pytest.mark.parametrize("kind", ["multi-label", "pairs"])
def test_other_kinds_of_campaigns(kind: str, tmp_path: Path) -> None:
    with begin(tmp_path, kind=kind) as campaign:
        pair = {"class_": "dog"} if kind == "pairs" else {}
        value: Any = 1 if kind == "pairs" else ("cat", "dog")
        campaign.ingest([Answer(id_, "answer", value, "ana", **pair) for id_ in ("r1", "r2")])
        campaign.retire(list_ids(tmp_path / "gone.txt", "r1", "r3"))
        assert campaign.labels()["row"].tolist() == [2]
        campaign.restore(list_ids(tmp_path / "back.txt", "r1"))
        assert campaign.labels()["row"].tolist() == [1, 2]
        campaign.retire(list_ids(tmp_path / "back.txt", "r1"))
        campaign.purge(list_ids(tmp_path / "gone.txt", "r3"))
        rows = campaign.batch(campaign.next(99, allow_short=True))["row"].tolist()
        assert not {1, 3} & set(rows)
        assert len(rows) == (18 * 2 - 1 if kind == "pairs" else 17)


def test_the_commands(run: Run, tmp_path: Path) -> None:
    begin(tmp_path).close_files()
    listed = list_ids(tmp_path / "gone.txt", "r1", "r2")
    assert run("campaign", "retire", tmp_path / "campaign", listed).out == "2 rows retired\n"
    back = list_ids(tmp_path / "back.txt", "r1", "r3")
    assert run("campaign", "restore", tmp_path / "campaign", back).out == "1 rows restored (1 were not retired)\n"
    assert run("campaign", "retire", tmp_path / "campaign", listed).out == "1 rows retired (1 retired before)\n"
    again = list_ids(tmp_path / "again.txt", "r2", "r3", "r99")
    one_line(run("campaign", "retire", tmp_path / "campaign", again), 1, "first is r99")
    purged = run("campaign", "purge", tmp_path / "campaign", again, "--reason", "request 7")
    assert purged.out == "2 rows purged (1 retired before, 1 not in the pool)\n"
    status = run("campaign", "status", tmp_path / "campaign").out
    assert status.startswith("multi-class campaign: 20 rows (3 retired), holdout 0\n")

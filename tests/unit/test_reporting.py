"""The report of a campaign: one page that needs nothing but itself, whatever the campaign holds."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from campaigns import CLASSES, Make, N
from hedgerow import Campaign, StoreError
from hedgerow.campaign import reporting
from hedgerow.campaign.answers import Answer
from page import check_self_contained

KINDS = ["multi-class", "multi-label", "pairs"]
EVIL = "<script>alert(1)</script> & $x$ 猫"


def write(campaign: Campaign, folder: Path) -> str:
    path = campaign.report(folder / "report.html", force=True)
    text = path.read_text(encoding="utf-8")
    check_self_contained(text)
    return text


def answer(row: int, kind: str, who: str, name: str) -> Answer:
    if kind == "pairs":
        return Answer(f"r{row}", "answer", row % 2, who, seconds=2.0 + row % 3, class_=name)
    return Answer(f"r{row}", "answer", name if kind == "multi-class" else (name,), who, seconds=2.0 + row % 3)


@pytest.mark.parametrize("kind", KINDS)
def test_a_campaign_with_everything(make: Make, tmp_path: Path, kind: str) -> None:
    names = [EVIL, *CLASSES[1:]]
    campaign = make(kind=kind, classes=names)
    held = set(campaign.batch(1)["row"].tolist())
    campaign.ingest([answer(row, kind, "<b>ana</b>", names[row % 2]) for row in held])
    for first in (0, 30, 60):
        rows = [row for row in range(first, first + 30) if row not in held]
        campaign.ingest([answer(row, kind, "<b>ana</b>", names[row % 2]) for row in rows])
        campaign.ingest([answer(row, kind, "ben", names[row % 2 if row % 5 else 2]) for row in rows[:10]])
        campaign.learn()
    campaign.next(5)
    text = write(campaign, tmp_path)
    assert "<script" not in text
    assert "<b>ana" not in text
    assert "&lt;b&gt;ana&lt;/b&gt;" in text
    assert "&lt;script&gt;alert(1)&lt;/script&gt; &amp; $x$ 猫" in text
    for heading in ("Learning curve", "Stop labeling?", "Labels per class", "Clusters with labels", "Batches"):
        assert f"<h2>{heading}</h2>" in text
    chosen = "stochastic-margin" if kind == "pairs" else "hedge"
    for part in ("model-3", "Krippendorff", "Cohen", "median", "Bloodgood", "spent", chosen, "95 % interval"):
        assert part in text
    assert text.count('<svg class="figure"') == 2
    assert "default-src 'none'" in text


@pytest.mark.parametrize("kind", KINDS)
def test_a_campaign_with_nothing(make: Make, tmp_path: Path, kind: str) -> None:
    text = write(make(kind=kind, holdout=0, embeddings=None, clusters=None), tmp_path)
    for part in ("There is no model yet", "Nothing was asked yet", "No task has two answers yet", "how long it took"):
        assert part in text
    assert "Labels per class" not in text
    assert "Clusters with labels" not in text


def test_a_holdout_without_labels(make: Make, tmp_path: Path) -> None:
    campaign = make()
    campaign.predict(np.full((N, 3), 1 / 3))
    text = write(campaign, tmp_path)
    assert "The holdout has no labels yet" in text
    assert "not known" in text


def test_many_classes_are_summed_up(make: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reporting, "MOST_CLASSES", 2)
    campaign = make()
    campaign.ingest([Answer(f"r{row}", "answer", CLASSES[row % 2], "ana") for row in range(20)])
    text = write(campaign, tmp_path)
    assert "The 2 of 3 classes with the most labels" in text
    assert "1 of 3 classes are without a label to train on" in text


def test_clusters_get_labels_batch_by_batch(make: Make) -> None:
    labels = np.arange(N) // 10  # twelve clusters of ten
    campaign = make(clusters=labels, holdout=0, embeddings=None)
    batches = [campaign.next(4), campaign.next(6)]
    told: list[Any] = []
    for batch in batches:
        told.append(campaign.batch(batch)["row"].tolist())
        campaign.ingest([Answer(f"r{row}", "answer", "cat", "ana") for row in told[-1]])
    with campaign._database.read() as connection:
        truth = reporting.read_truth(connection, campaign._holdings, holdout=False)
        found = reporting._read_coverage(connection, campaign._holdings, truth)
    first, both = (len({row // 10 for row in rows}) for rows in (told[0], told[0] + told[1]))
    assert found.tolist() == [[batches[0], 4, first, 10 * first], [batches[1], 10, both, 10 * both]]
    assert first == 4  # the first batch is spread


def test_a_file_that_is_there(make: Make, tmp_path: Path) -> None:
    campaign = make(embeddings=None, clusters=None)
    campaign.report(tmp_path / "report.html")
    with pytest.raises(StoreError, match="exists: pass --force"):
        campaign.report(tmp_path / "report.html")
    with pytest.raises(StoreError, match="does not exist"):
        campaign.report(tmp_path / "absent" / "report.html")

"""The files of a campaign: named by content, checked, swept."""

import os
from pathlib import Path

import numpy as np
import pytest

from hedgerow import Campaign, CampaignError, StoreError
from hedgerow.campaign import artifacts
from hedgerow.campaign.artifacts import Shelf


@pytest.fixture
def embeddings(tmp_path: Path) -> Path:
    np.save(tmp_path / "e.npy", np.random.default_rng(0).normal(size=(50, 4)).astype(np.float32))
    return tmp_path / "e.npy"


@pytest.fixture
def folder(tmp_path: Path, embeddings: Path) -> Path:
    Campaign.init(tmp_path / "c", embeddings, classes=["a", "b"]).close_files()
    return tmp_path / "c"


def touch_back(path: Path, content: bytes) -> None:
    """Other content with the old time."""
    stat = path.stat()
    path.write_bytes(content)
    os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns))


def test_files_of_ours_are_named_by_their_content(folder: Path) -> None:
    held = sorted(path for path in (folder / "artifacts").iterdir() if path.suffix == ".parquet")
    assert [path.name for path in held] == [
        f"{path.name.split('-')[0]}-{artifacts.hash_file(path)}.parquet" for path in held
    ]
    assert {path.name.split("-")[0] for path in held} == {"pool", "clusters"}


def test_a_file_that_grew_is_refused(folder: Path, embeddings: Path) -> None:
    embeddings.write_bytes(embeddings.read_bytes() + b"x")
    with pytest.raises(
        StoreError, match=r"e.npy \(embeddings\) changed after it was registered: it has 929 bytes, not"
    ):
        Campaign.open(folder, verify=True)
    with Campaign.open(folder) as campaign:  # not used yet, and so not looked at
        campaign.predict(np.full((50, 2), 0.5))
        with pytest.raises(StoreError, match="changed after it was registered"):
            campaign.next(3, strategy="coreset")
        assert campaign.next(3) == 1


def test_other_bytes_are_refused_with_what_differs(folder: Path, embeddings: Path) -> None:
    whole = bytearray(embeddings.read_bytes())
    whole[-1] ^= 1
    embeddings.write_bytes(whole)
    with Campaign.open(folder) as campaign:
        campaign.predict(np.full((50, 2), 0.5))
        with pytest.raises(StoreError, match="sampled blocks have other bytes"):
            campaign.next(3, strategy="coreset")


def test_verify_reads_all(folder: Path, embeddings: Path) -> None:
    whole = bytearray(embeddings.read_bytes())
    whole[-1] ^= 1
    touch_back(embeddings, bytes(whole))
    Campaign.open(folder).close_files()
    with pytest.raises(StoreError, match="sampled blocks have other bytes"):
        Campaign.open(folder, verify=True)


def test_a_byte_between_the_samples(tmp_path: Path) -> None:
    path = tmp_path / "big.bin"
    path.write_bytes(bytes(artifacts.BLOCK * artifacts.SAMPLES * 2))
    taken = artifacts.take_print(path, whole=True)
    held = artifacts.Artifact(1, "embeddings", path, taken.sha256, taken.sample, taken.bytes, taken.mtime)
    artifacts.check(held, verify=True)
    with path.open("r+b") as file:
        file.seek(artifacts.BLOCK + 10)
        file.write(b"x")
    with pytest.raises(StoreError, match="its SHA-256 is another one"):
        artifacts.check(held)
    never_hashed = artifacts.Artifact(1, "embeddings", path, None, taken.sample, taken.bytes, taken.mtime)
    with pytest.raises(StoreError, match="written to later"):
        artifacts.check(never_hashed)


def test_a_file_that_was_only_touched_is_accepted(folder: Path, embeddings: Path) -> None:
    os.utime(embeddings)
    with Campaign.open(folder, verify=True) as campaign:
        campaign.predict(np.full((50, 2), 0.5))
        assert campaign.next(3, strategy="coreset") == 1


def test_a_missing_file_is_named(folder: Path, embeddings: Path) -> None:
    embeddings.unlink()
    with pytest.raises(StoreError, match=r"e.npy \(embeddings\) is missing"):
        Campaign.open(folder, verify=True)


def test_orphans_are_swept_but_not_while_somebody_writes(folder: Path) -> None:
    held = {path.name for path in (folder / "artifacts").iterdir()}
    orphan = folder / "artifacts" / f"scores-{'0' * 64}.parquet"
    orphan.write_bytes(b"half")
    with Shelf(folder.resolve() / "artifacts").hold():
        Campaign.open(folder).close_files()
        assert orphan.exists()
    Campaign.open(folder).close_files()
    assert {path.name for path in (folder / "artifacts").iterdir()} == held


def test_an_interrupted_init_continues(tmp_path: Path, embeddings: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from hedgerow.campaign import registering

    with monkeypatch.context() as patch:
        patch.setattr(registering, "_finish", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt()))
        with pytest.raises(KeyboardInterrupt):
            Campaign.init(tmp_path / "c", embeddings, classes=["a", "b"], holdout=5)
    with pytest.raises(CampaignError, match=r"init of .* was interrupted"):
        Campaign.open(tmp_path / "c")
    with pytest.raises(CampaignError, match="was begun with other arguments"):
        Campaign.init(tmp_path / "c", embeddings, classes=["a", "b"], holdout=6)
    with pytest.raises(CampaignError, match="was begun with another pool"):
        Campaign.init(tmp_path / "c", np.eye(9, dtype=np.float32), classes=["a", "b"], holdout=5)
    with Campaign.init(tmp_path / "c", embeddings, classes=["a", "b"], holdout=5) as campaign:
        assert campaign.status().holdout == 5
    assert not (tmp_path / "c" / "work").exists()
    with pytest.raises(CampaignError, match="holds a campaign already"):
        Campaign.init(tmp_path / "c", embeddings, classes=["a", "b"], holdout=5)

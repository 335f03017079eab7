"""A program as a trainer: paths in, Parquet out, and every way in which it can let us down."""

import sys
from pathlib import Path

import numpy as np
import pytest

from hedgerow.errors import EngineError, InputError
from hedgerow.models import ProgramTrainer

BLACK_BOX = Path(__file__).resolve().parents[2] / "examples" / "black_box.py"
LABELS = np.arange(40) % 4
FEATURES = 2 * np.eye(4)[LABELS] + np.random.default_rng(0).normal(0, 0.2, (40, 4))


def write(folder: Path, text: str) -> ProgramTrainer:
    (folder / "program.py").write_text(text)
    return ProgramTrainer((sys.executable, "program.py"), 4, str(folder))


def test_the_example_learns() -> None:
    model = ProgramTrainer((sys.executable, str(BLACK_BOX)), classes=4).fit(FEATURES, LABELS, seed=0)
    found = model.probabilities(FEATURES)
    np.testing.assert_array_equal(found.argmax(axis=1), LABELS)
    np.testing.assert_allclose(found.sum(axis=1), 1)
    np.testing.assert_allclose(model.embeddings(FEATURES[:3]), FEATURES[:3])
    home = model.path
    assert home.is_dir()
    del model
    assert not home.exists()


def test_a_program_that_fails_is_told_with_what_it_said(tmp_path: Path) -> None:
    trainer = write(tmp_path, "import sys; sys.exit('no memory left')")
    with pytest.raises(EngineError, match=r"fit failed with exit code 1; last lines .*: no memory left"):
        trainer.fit(FEATURES, LABELS, seed=0)


def test_a_program_that_writes_nothing_or_too_little(tmp_path: Path) -> None:
    model = write(tmp_path, "").fit(FEATURES, LABELS, seed=0)
    with pytest.raises(EngineError, match=r"predict succeeded but did not write out\.parquet"):
        model.probabilities(FEATURES)
    lines = "import sys, pyarrow as pa, pyarrow.parquet as pq\n"
    lines += "if sys.argv[1] == 'predict':\n    pq.write_table(pa.table({'p_0': [0.5], 'p_1': [0.5]}), sys.argv[-1])"
    model = write(tmp_path, lines).fit(FEATURES, LABELS, seed=0)
    with pytest.raises(EngineError, match="wrote probabilities of shape 1 x 2, but 40 x 4 is needed"):
        model.probabilities(FEATURES)


def test_a_program_that_is_not_there() -> None:
    with pytest.raises(InputError, match="'no-such-program' cannot be run"):
        ProgramTrainer(("no-such-program",), 4).fit(FEATURES, LABELS, seed=0)
    with pytest.raises(InputError, match="command must name a program"):
        ProgramTrainer((), 4).fit(FEATURES, LABELS, seed=0)


def test_labels_of_several_classes(tmp_path: Path) -> None:
    answers = np.eye(4, dtype=np.int8)[LABELS]
    answers[0] = -1
    lines = "import sys, numpy as np\nif sys.argv[1] == 'fit':\n    np.save('got.npy', np.load(sys.argv[5]))"
    write(tmp_path, lines).fit(FEATURES, answers, seed=0)
    np.testing.assert_array_equal(np.load(tmp_path / "got.npy"), answers)
    for wrong in (answers[:, :3], answers + 3):
        with pytest.raises(InputError, match="1, 0 or -1 for each of 4 classes"):
            write(tmp_path, lines).fit(FEATURES, wrong, seed=0)
    with pytest.raises(InputError, match="features"):
        write(tmp_path, lines).fit(FEATURES, answers[:3], seed=0)

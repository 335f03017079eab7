"""An external program as a `Trainer`: it gets paths and writes Parquet.

The command is run in two ways, with these arguments appended:

    fit --features F.npy --labels L.npy --classes C --seed S --model FOLDER
    predict --model FOLDER --features F.npy --out OUT.parquet

F holds one row of float numbers per example. L holds class numbers 0 to C - 1, one per row; in a task where classes do
not exclude each other, int8 (rows, C): 1 for yes, 0 for no, -1 for not known. `fit` writes whatever it needs to the
empty FOLDER. `predict` writes one row per row of F: columns `p_0`, `p_1`, ... (or
one list column `probabilities`), and also `e_0`, `e_1`, ... (or `embeddings`) if strategies or clusters need
embeddings. The folder is deleted with the model. The program must make sure that the same seed gives the same model.

The command runs with the rights of the user: whoever constructs a `ProgramTrainer` runs code.
"""

import shutil
import subprocess
import tempfile
import weakref
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from hedgerow import checks, pool
from hedgerow.errors import EngineError, InputError
from hedgerow.models.protocol import Floats, Labels, check_labels

LAST_LINES = 3  # of the standard error of a failed program, for the message


@dataclass(frozen=True)
class ProgramTrainer:
    """`command`: a program and its first arguments, such as ("python", "train.py"); `folder`: where it runs.

    Labels are class numbers, or a matrix of 1, 0 and -1: yes, no, not known.
    """

    command: tuple[str, ...]
    classes: int
    folder: str | None = None

    def fit(self, features: Any, labels: Labels, *, seed: int) -> "FittedProgram":
        if not self.command:
            raise InputError('command must name a program, such as ["python", "train.py"]; got an empty one')
        _check(labels, features, self.classes)
        model = FittedProgram(self, Path(tempfile.mkdtemp(prefix="hedgerow-")))
        weakref.finalize(model, shutil.rmtree, model.path, ignore_errors=True)
        (model.path / "model").mkdir()
        np.save(model.path / "features.npy", features)
        np.save(model.path / "labels.npy", labels)
        given = {"features": "features.npy", "labels": "labels.npy", "model": "model"}
        numbers = ["--classes", str(self.classes), "--seed", str(checks.seed(seed))]
        model.call("fit", given, numbers)
        return model


def _check(labels: Labels, features: Any, classes: int) -> None:
    if np.ndim(labels) != 2:
        check_labels(labels, features, classes)
        return
    checks.same_length({"features": len(features), "labels": len(labels)})
    if labels.shape[1] != classes or not np.isin(labels, (-1, 0, 1)).all():
        raise InputError(
            f"labels must be 1, 0 or -1 for each of {classes} classes, got {checks.shape_text(labels.shape)}"
        )


@dataclass(frozen=True, eq=False)
class FittedProgram:
    """A model that a program trained, in a folder that is deleted with this record."""

    trainer: ProgramTrainer
    path: Path

    def probabilities(self, features: Any) -> Floats:
        return self._predict(features, "probabilities", self.trainer.classes)

    def embeddings(self, features: Any) -> Floats:
        return self._predict(features, "embeddings", None)

    def _predict(self, features: Any, name: str, width: int | None) -> Floats:
        out = self.path / "out.parquet"
        np.save(self.path / "asked.npy", features)
        self.call("predict", {"model": "model", "features": "asked.npy", "out": "out.parquet"}, [])
        if not out.exists():
            raise EngineError(f"{self.trainer.command[0]} predict succeeded but did not write {out.name}")
        found = np.array(pool.as_matrix(out, name))
        out.unlink()
        shape = (len(features), found.shape[1] if width is None else width)
        if found.shape != shape:
            raise EngineError(
                f"{self.trainer.command[0]} predict wrote {name} of shape {checks.shape_text(found.shape)}, "
                f"but {checks.shape_text(shape)} is needed"
            )
        return found

    def call(self, verb: str, paths: dict[str, str], more: Sequence[str]) -> None:
        """Run the program; an error has the last lines of its standard error."""
        named = [part for key, name in paths.items() for part in (f"--{key}", str(self.path / name))]
        command = [*self.trainer.command, verb, *named, *more]
        try:
            done = subprocess.run(command, cwd=self.trainer.folder, capture_output=True, text=True, check=False)
        except OSError as error:
            raise InputError(f"the program {command[0]!r} cannot be run: {error.strerror or error}") from error
        if done.returncode:
            last = " | ".join(done.stderr.strip().splitlines()[-LAST_LINES:]) or "nothing"
            raise EngineError(
                f"{command[0]} {verb} failed with exit code {done.returncode}; last lines of its standard error: {last}"
            )

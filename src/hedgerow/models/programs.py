"""A program as a `Trainer`: paths in, Parquet out, for training that is a black box.

The command is called in two ways, with what follows added to it:

    fit --features F.npy --labels L.npy --classes C --seed S --model FOLDER
    predict --model FOLDER --features F.npy --out OUT.parquet

`fit` leaves whatever it likes in the empty FOLDER. `predict` writes a row for each row of F: the columns `p_0`, `p_1`,
... (or one list column `probabilities`), and beside them `e_0`, `e_1`, ... (or `embeddings`) if strategies or clusters
need embeddings. The folder lives as long as the model. That the same seed gives the same model is the program's part.
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

TOLD_LINES = 3  # of what a failed program said last


@dataclass(frozen=True)
class ProgramTrainer:
    """`command` and its first arguments, such as ("python", "train.py"); `folder` is where it is run."""

    command: tuple[str, ...]
    classes: int
    folder: str | None = None

    def fit(self, features: Any, labels: Labels, *, seed: int) -> "FittedProgram":
        if not self.command:
            raise InputError('command must name a program, such as ["python", "train.py"]; got none')
        check_labels(labels, features, self.classes)
        model = FittedProgram(self, Path(tempfile.mkdtemp(prefix="hedgerow-")))
        weakref.finalize(model, shutil.rmtree, model.path, ignore_errors=True)
        (model.path / "model").mkdir()
        np.save(model.path / "features.npy", features)
        np.save(model.path / "labels.npy", labels)
        given = {"features": "features.npy", "labels": "labels.npy", "model": "model"}
        numbers = ["--classes", str(self.classes), "--seed", str(checks.seed(seed))]
        model.call("fit", given, numbers)
        return model


@dataclass(frozen=True, eq=False)
class FittedProgram:
    """What a program trained, in a folder that goes with this record."""

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
            raise EngineError(f"{self.trainer.command[0]} predict ended well but wrote no {out.name}")
        found = np.array(pool.as_matrix(out, name))
        out.unlink()
        shape = (len(features), found.shape[1] if width is None else width)
        if found.shape != shape:
            raise EngineError(
                f"{self.trainer.command[0]} predict wrote {name} of {checks.shape_text(found.shape)}, "
                f"but {checks.shape_text(shape)} were asked for"
            )
        return found

    def call(self, verb: str, paths: dict[str, str], more: Sequence[str]) -> None:
        """Run the program to its end; a failure is told with what it said last."""
        named = [part for key, name in paths.items() for part in (f"--{key}", str(self.path / name))]
        command = [*self.trainer.command, verb, *named, *more]
        try:
            done = subprocess.run(command, cwd=self.trainer.folder, capture_output=True, text=True, check=False)
        except OSError as error:
            raise InputError(f"the program {command[0]!r} cannot be run: {error.strerror or error}") from error
        if done.returncode:
            said = " | ".join(done.stderr.strip().splitlines()[-TOLD_LINES:]) or "nothing"
            raise EngineError(f"{command[0]} {verb} failed with code {done.returncode} and said: {said}")

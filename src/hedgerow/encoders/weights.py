"""Weights of networks, read from the files that packages carry, without the libraries that wrote them.

A file is read only if its SHA-256 is the one that is known: a package that changes is refused, not trusted. Two
formats: safetensors, and torch's own before version 1.6, a pickle, which is read with a reader that can make nothing
but arrays.
"""

import hashlib
import importlib.util
import io
import json
import pickle
from collections import OrderedDict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from hedgerow.errors import StoreError

Arrays = dict[str, npt.NDArray[Any]]

DTYPES = {"FloatStorage": "<f4", "LongStorage": "<i8", "F32": "<f4", "I64": "<i8"}
TORCH_MAGIC = 0x1950A86A20F9469CFC6C


def find_package_file(package: str, name: str) -> Path | None:
    """A file of an installed package, which is not imported; None if the package or the file is not there."""
    found = importlib.util.find_spec(package)
    folders = [] if found is None else list(found.submodule_search_locations or ())
    return next((path for folder in folders if (path := Path(folder) / name).is_file()), None)


def read_trusted(path: Path, sha256: str) -> bytes:
    """All bytes of a file whose SHA-256 is known."""
    content = path.read_bytes()
    taken = hashlib.sha256(content).hexdigest()
    if taken != sha256:
        raise StoreError(
            f"{path} is not the file that hedgerow knows (SHA-256 {taken[:12]}..., not {sha256[:12]}...): "
            "install the package again in the version that hedgerow names"
        )
    return content


def read_safetensors(content: bytes) -> Arrays:
    """The arrays of a safetensors file: the length of the heading, the heading as JSON, and the bytes."""
    length = int.from_bytes(content[:8], "little")
    heading = json.loads(content[8 : 8 + length])
    arrays = {}
    for name, entry in heading.items():
        if name != "__metadata__":
            start, stop = (8 + length + offset for offset in entry["data_offsets"])
            arrays[name] = np.frombuffer(content[start:stop], DTYPES[entry["dtype"]]).reshape(entry["shape"])
    return arrays


def read_torch(content: bytes) -> Arrays:
    """The arrays of a state dictionary that torch wrote before version 1.6.

    The file: three small pickles (a number, the version, the system), the dictionary, in which a tensor is a view of a
    numbered storage, the list of storages, and their bytes, each after its length.
    """
    file = io.BytesIO(content)
    if _ArrayReader(file).load() != TORCH_MAGIC:
        raise StoreError("these are not weights that torch wrote before version 1.6")
    for _ in range(2):
        _ArrayReader(file).load()
    reader = _ArrayReader(file)
    views = reader.load()
    storages = {}
    for key in _ArrayReader(file).load():
        count, dtype = int.from_bytes(file.read(8), "little"), np.dtype(reader.dtypes[key])
        storages[key] = np.frombuffer(file.read(count * dtype.itemsize), dtype)
    return {name: view.of(storages) for name, view in views.items()}


class _View:
    """A tensor: part of a storage."""

    def __init__(self, key: str, offset: int, shape: Sequence[int], strides: Sequence[int], *_: Any) -> None:
        self.key, self.offset, self.shape, self.strides = key, offset, tuple(shape), tuple(strides)

    def of(self, storages: Arrays) -> npt.NDArray[Any]:
        """The array."""
        flat = storages[self.key][self.offset :]
        strides = [step * flat.itemsize for step in self.strides]
        return np.ascontiguousarray(np.lib.stride_tricks.as_strided(flat, self.shape, strides, writeable=False))


class _ArrayReader(pickle.Unpickler):
    """Reads a pickle that holds nothing but a dictionary of tensors."""

    def __init__(self, file: io.BytesIO) -> None:
        super().__init__(file)
        self.dtypes: dict[str, str] = {}

    def find_class(self, module: str, name: str) -> Any:
        """The few things that such a pickle names."""
        if (module, name) == ("collections", "OrderedDict"):
            return OrderedDict
        if (module, name) == ("torch._utils", "_rebuild_tensor_v2"):
            return _View
        if module == "torch" and name in DTYPES:
            return DTYPES[name]
        raise StoreError(f"the weights name {module}.{name}, which weights have no need of")

    def persistent_load(self, mark: Any) -> str:
        """The key of a storage; its type is remembered."""
        _, dtype, key, *_ = mark
        self.dtypes[key] = dtype
        return str(key)

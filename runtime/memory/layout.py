"""Which arrays lie in a slot, and where: the struct of arrays that every ring and board is made of."""

from __future__ import annotations

import json
import math
import zlib
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from mmap import mmap

import numpy as np

ALIGNMENT = 64  #: bytes; a cache line, so that no two fields share one and vector loads are aligned

Views = dict[str, np.ndarray]


@dataclass(frozen=True)
class Field:
    """One named array of a fixed type and shape. `dtype` is a NumPy name such as "float32"; objects are refused."""

    name: str
    dtype: str
    shape: tuple[int, ...]

    def __post_init__(self) -> None:
        if np.dtype(self.dtype).hasobject:
            raise ValueError(f"field {self.name!r}: dtype {self.dtype!r} holds Python objects, which cannot be shared")
        if any(extent < 0 for extent in self.shape):
            raise ValueError(f"field {self.name!r}: negative extent in shape {self.shape}")

    @property
    def nbytes(self) -> int:
        """Bytes of the array itself, without padding."""
        return np.dtype(self.dtype).itemsize * math.prod(self.shape)


@dataclass(frozen=True)
class Layout:
    """Fields one after another, each on a 64-byte boundary."""

    fields: tuple[Field, ...]

    def __post_init__(self) -> None:
        names = [field.name for field in self.fields]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise ValueError(f"a layout names each field once; twice: {', '.join(twice)}")
        if not names:
            raise ValueError("a layout needs at least one field")

    @cached_property
    def offsets(self) -> dict[str, int]:
        """Field name → byte offset from the start of the slot's payload."""
        return self._placed[0]

    @property
    def nbytes(self) -> int:
        """Bytes of one slot's payload, padded to a 64-byte boundary."""
        return self._placed[1]

    @cached_property
    def _placed(self) -> tuple[dict[str, int], int]:
        offsets, end = {}, 0
        for field in self.fields:
            offsets[field.name] = end
            end = align(end + field.nbytes)
        return offsets, max(end, ALIGNMENT)

    @cached_property
    def digest(self) -> int:
        """A 32-bit check that two processes mean the same layout."""
        return zlib.crc32(self.to_json().encode())

    def views(self, buffer: memoryview | mmap, offset: int = 0) -> Views:
        """Arrays over `buffer` from byte `offset` on; no copy, and the arrays keep the buffer alive."""
        return {field.name: view(buffer, offset + self.offsets[field.name], field) for field in self.fields}

    def to_json(self) -> str:
        """The layout as text; `from_json` gives an equal one."""
        return json.dumps([[field.name, field.dtype, list(field.shape)] for field in self.fields])

    @classmethod
    def from_json(cls, text: str) -> Layout:
        """The layout that `to_json` wrote."""
        return cls(tuple(Field(name, dtype, tuple(shape)) for name, dtype, shape in json.loads(text)))


def view(buffer: memoryview | mmap, offset: int, field: Field) -> np.ndarray:
    """One array over `buffer` from byte `offset` on.

    Made with frombuffer because that holds the buffer; `np.ndarray(buffer=…)` would let the mapping be closed under it.
    """
    return np.frombuffer(buffer, np.uint8, field.nbytes, offset).view(field.dtype).reshape(field.shape)


def align(nbytes: int, to: int = ALIGNMENT) -> int:
    """`nbytes` rounded up to a multiple of `to`."""
    return -(-nbytes // to) * to


def poison(arrays: Iterable[np.ndarray]) -> None:
    """Fill with values nobody would write (NaN, -1, the largest unsigned, True), so that unwritten cells are loud."""
    for array in arrays:
        match array.dtype.kind:
            case "f" | "c":
                array.fill(np.nan)
            case "i":
                array.fill(-1)
            case "u":
                array.fill(np.iinfo(array.dtype).max)
            case "b":
                array.fill(True)
            case _:
                array.view(np.uint8).fill(0xFF)

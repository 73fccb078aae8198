"""How bytes are made fewer on slow links. Pure functions of arrays; sender and receiver compute the same float32.

A board's publications differ little from one to the next. `BoardEncoder` keeps what the receiver has and sends the
difference to it, quantised in blocks of 1024 values to int8 with one float32 scale each (or to float16). What rounding
left out is part of the next difference (error feedback), so errors do not add up: a value that stays put is met to a
127th of the last step, then to a 127th of that. The first publication of a join, and every one that has values which
are not finite, is a keyframe: all bytes as they are. Fields of other types than float32 always travel as they are.
"""

from __future__ import annotations

from enum import IntEnum, StrEnum
from typing import TYPE_CHECKING

import numpy as np
import zstandard

if TYPE_CHECKING:
    from collections.abc import Mapping

    from runtime.memory.layout import Layout

BLOCK = 1024  #: values that share a scale
_LEVELS = 127.0
_ZSTD_LEVEL = 3
_LARGEST_HALF = float(np.finfo(np.float16).max)
_LARGEST = float(np.finfo(np.float32).max)


class BoardCodec(StrEnum):
    """What a board's publications become on the way."""

    PLAIN = "plain"
    INT8 = "int8"
    FP16 = "fp16"


class Form(IntEnum):
    """What a coded publication holds."""

    KEYFRAME = 0
    DELTA = 1


def compress(data: memoryview) -> bytes:
    """Zstandard, at a level that keeps up with a 1 Gbit/s link on one core."""
    return zstandard.ZstdCompressor(level=_ZSTD_LEVEL).compress(data)


def decompress(data: memoryview, most: int) -> bytes:
    """What `compress` was given. ValueError if that is damaged or longer than `most` bytes."""
    try:
        size = zstandard.get_frame_parameters(data).content_size
        if size > most:
            raise ValueError(f"compressed data claims {size} bytes, at most {most} may come")
        return zstandard.ZstdDecompressor().decompress(data, max_output_size=most)
    except zstandard.ZstdError as problem:
        raise ValueError(f"damaged compressed data: {problem}") from problem


def compressed_bound(nbytes: int) -> int:
    """The most bytes that `compress` makes of `nbytes`."""
    return nbytes + (nbytes >> 7) + 1024


def quantise(delta: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Finite float32 [n] → int8 [n] and float32 scales, one for each started block. Error at most half a scale."""
    blocks = -(-delta.size // BLOCK)
    padded = np.zeros(blocks * BLOCK, np.float32)
    padded[: delta.size] = delta
    rows = padded.reshape(blocks, BLOCK)
    scales = np.abs(rows).max(axis=1, initial=0.0) / np.float32(_LEVELS)
    divisor = np.where(scales > 0.0, scales, np.float32(1.0))
    levels = np.clip(np.rint(rows / divisor[:, None]), -_LEVELS, _LEVELS).astype(np.int8)
    return levels.reshape(-1)[: delta.size], scales.astype(np.float32)


def dequantise(levels: np.ndarray, scales: np.ndarray) -> np.ndarray:
    """What the receiver makes of `quantise`: float32 [n]."""
    spread = np.repeat(scales, BLOCK)[: levels.size]
    values: np.ndarray = levels.astype(np.float32) * spread
    return values


class _Deltas:
    """Both ends: the float32 values that the receiver has, and where the parts of a message lie."""

    def __init__(self, layout: Layout, codec: BoardCodec) -> None:
        self._codec = codec
        self._floats = [field.name for field in layout.fields if field.dtype == "float32"]
        self._others = [field for field in layout.fields if field.dtype != "float32"]
        self._sizes = {field.name: int(np.prod(field.shape)) for field in layout.fields}
        self._shapes = {field.name: field.shape for field in layout.fields}
        self._known = np.zeros(sum(self._sizes[name] for name in self._floats), np.float32)
        self._keyed = False

    def _gather(self, views: Mapping[str, np.ndarray]) -> np.ndarray:
        parts = [views[name].reshape(-1) for name in self._floats]
        return np.concatenate(parts) if parts else self._known


class BoardEncoder(_Deltas):
    """The sender's end. One for each join, so that its first message is a keyframe."""

    def encode(self, views: Mapping[str, np.ndarray]) -> tuple[Form, bytes]:
        """A publication's fields → the form of the message and its bytes."""
        values = self._gather(views)
        rest = b"".join(np.ascontiguousarray(views[field.name]).tobytes() for field in self._others)
        with np.errstate(over="ignore", invalid="ignore"):
            delta = values - self._known
        if not self._keyed or not self._representable(delta):
            self._known, self._keyed = values.copy(), bool(np.isfinite(values).all())
            return Form.KEYFRAME, compress(memoryview(values.tobytes() + rest))
        if self._codec is BoardCodec.FP16:
            half = delta.astype(np.float16)
            self._known = self._known + half.astype(np.float32)
            return Form.DELTA, compress(memoryview(half.tobytes() + rest))
        levels, scales = quantise(delta)
        self._known = self._known + dequantise(levels, scales)
        return Form.DELTA, compress(memoryview(scales.tobytes() + levels.tobytes() + rest))

    def _representable(self, delta: np.ndarray) -> bool:
        largest = float(np.abs(delta).max(initial=0.0))  # NaN and infinity fail either comparison
        return largest < (_LARGEST_HALF if self._codec is BoardCodec.FP16 else _LARGEST)


class BoardDecoder(_Deltas):
    """The receiver's end, one for each join."""

    def decode(self, form: Form, data: memoryview, into: Mapping[str, np.ndarray]) -> None:
        """Fill every field of `into`. ValueError for a message that cannot be of this board."""
        count = self._known.size
        raw = decompress(data, self._longest)
        rest = sum(field.nbytes for field in self._others)
        blocks = -(-count // BLOCK)
        body = 4 * count
        if form is Form.DELTA:
            body = 2 * count if self._codec is BoardCodec.FP16 else 4 * blocks + count
        if len(raw) != body + rest or (form is Form.DELTA and not self._keyed):
            raise ValueError(f"{form.name.lower()} of {len(raw)} bytes, expected {body + rest}, after a keyframe")
        if form is Form.KEYFRAME:
            self._known, self._keyed = np.frombuffer(raw, np.float32, count).copy(), True
        elif self._codec is BoardCodec.FP16:
            self._known = self._known + np.frombuffer(raw, np.float16, count).astype(np.float32)
        else:
            scales = np.frombuffer(raw, np.float32, blocks)
            self._known = self._known + dequantise(np.frombuffer(raw, np.int8, count, 4 * blocks), scales)
        self._scatter(raw, body, into)

    @property
    def _longest(self) -> int:
        scales = 4 * -(-self._known.size // BLOCK)
        return 4 * self._known.size + scales + sum(field.nbytes for field in self._others)

    def _scatter(self, raw: bytes, body: int, into: Mapping[str, np.ndarray]) -> None:
        at = 0
        for name in self._floats:
            size = self._sizes[name]
            np.copyto(into[name], self._known[at : at + size].reshape(self._shapes[name]))
            at += size
        for field in self._others:
            values = np.frombuffer(raw, np.uint8, field.nbytes, body).view(field.dtype)
            np.copyto(into[field.name], values.reshape(field.shape))
            body += field.nbytes


def message_bound(layout: Layout) -> int:
    """The most bytes that one coded publication takes."""
    return compressed_bound(layout.nbytes)

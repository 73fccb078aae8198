"""Slots on slow links: floating-point fields rounded to 15 significant bits, bytes sorted by rank, then compressed.

The last bits of measured numbers are noise, which no compression makes smaller: of a CartPole fragment they are more
than half of what is left. Rounding errs by 2⁻¹⁵ of a value at most, less than a float16 would, and knows no smaller
range: what is too large to be rounded up, infinite or no number stays as it is. Then the first bytes of all of a
field's values stand together, then the second ones, so that like is beside like. Other fields come through untouched.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from runtime.courier.codec import compress, decompress
from runtime.memory.ring import SLOT_HEADER_BYTES

if TYPE_CHECKING:
    from runtime.memory.ring import RingSpec

#: By type: the unsigned integer of its size, the bits that are dropped, and the largest exponent of a number, in place.
_ROUNDED: dict[np.dtype, tuple[type[np.unsignedinteger], int, int]] = {
    np.dtype(np.float32): (np.uint32, 9, 0x7F00_0000),
    np.dtype(np.float64): (np.uint64, 38, 0x7FE0_0000_0000_0000),
}


def rounded(values: np.ndarray) -> np.ndarray:
    """Float32 or float64 with 15 significant bits, to nearest; the same values rounded again are the same."""
    kind, dropped, largest = _ROUNDED[values.dtype]
    bits = values.view(kind)
    half, mask = kind(1 << (dropped - 1)), kind((1 << 8 * values.itemsize) - (1 << dropped))
    # A carry into the exponent is what it should be, the next power of two; out of the largest it would be infinity.
    roundable = (bits & kind(largest)) < kind(largest)
    made: np.ndarray = np.where(roundable, (bits + half) & mask, bits).view(values.dtype)
    return made


class SlotCodec:
    """Neighbouring slots of one ring as they lie, headers included, to and from a message."""

    def __init__(self, spec: RingSpec) -> None:
        self._stride = spec.stride
        self._spans = _spans(spec)

    def encode(self, stretch: memoryview) -> bytes:
        """One or several whole slots → the message."""
        slots = np.frombuffer(stretch, np.uint8).reshape(-1, self._stride)
        parts = []
        for start, end, dtype in self._spans:
            columns = np.ascontiguousarray(slots[:, start:end])
            if dtype in _ROUNDED:
                columns = rounded(columns.view(dtype)).view(np.uint8)
            parts.append(columns.reshape(-1, dtype.itemsize).T.tobytes())
        return compress(memoryview(b"".join(parts)))

    def decode(self, message: memoryview, most: int) -> memoryview:
        """The slots as they lay. ValueError for a message that is damaged or of more than `most` slots."""
        raw = np.frombuffer(decompress(message, most * self._stride), np.uint8)
        count, rest = divmod(raw.size, self._stride)
        if rest:
            raise ValueError(f"{raw.size} bytes are no whole slots of {self._stride}")
        slots, at = np.empty((count, self._stride), np.uint8), 0
        for start, end, dtype in self._spans:
            nbytes = count * (end - start)
            ranks = raw[at : at + nbytes].reshape(dtype.itemsize, -1)
            slots[:, start:end] = ranks.T.reshape(count, end - start)
            at += nbytes
        return slots.reshape(-1).data


def _spans(spec: RingSpec) -> list[tuple[int, int, np.dtype]]:
    """First and last byte of everything in a slot, in order and without gaps, and the type that is found there."""
    plain, spans, end = np.dtype(np.uint8), [], 0
    for field in spec.layout.fields:
        start = SLOT_HEADER_BYTES + spec.layout.offsets[field.name]
        spans.append((end, start, plain))
        end = start + field.nbytes
        spans.append((start, end, np.dtype(field.dtype)))
    spans.append((end, spec.stride, plain))
    return [span for span in spans if span[0] < span[1]]

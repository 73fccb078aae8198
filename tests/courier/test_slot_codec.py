"""Slots on slow links: numbers nearly the same, everything else exactly, and far fewer bytes."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from runtime.courier.codec import compress
from runtime.courier.slot_codec import SlotCodec, rounded
from runtime.memory.layout import Field, Layout
from runtime.memory.ring import SLOT_HEADER_BYTES, RingSpec

EXACT = {"flag": "bool", "action": "int64", "pixel": "uint8", "half": "float16"}
NEAR = {"obs": "float32", "wide": "float64"}
SHAPE = (7, 3)
SPEC = RingSpec("r", Layout(tuple(Field(name, kind, SHAPE) for name, kind in {**EXACT, **NEAR}.items())), 4)
floats = st.sampled_from(["float32", "float64"]).flatmap(
    lambda name: hnp.arrays(np.dtype(name), st.integers(1, 50), elements={"allow_subnormal": True})
)


def slots_of(rng: np.random.Generator, count: int) -> np.ndarray:
    slots = rng.integers(0, 256, (count, SPEC.stride), np.uint8)
    for slot in slots:
        views = SPEC.layout.views(memoryview(slot), SLOT_HEADER_BYTES)
        for name in NEAR:
            views[name][:] = rng.normal(size=SHAPE)
    return slots


@given(floats)
def test_rounding_errs_by_a_thirty_thousandth_and_is_done_after_once(values: np.ndarray) -> None:
    near = rounded(values)
    plain = np.isfinite(values) & (np.abs(values) > np.finfo(values.dtype).tiny)
    assert (np.abs(near[plain] / values[plain] - 1) <= 2.0**-15).all()
    assert rounded(near).tobytes() == near.tobytes()
    assert (np.isfinite(near) == np.isfinite(values)).all()
    assert (np.isnan(near) == np.isnan(values)).all()
    assert (np.signbit(near) == np.signbit(values)).all()


def test_small_whole_numbers_and_limits_are_not_changed() -> None:
    for kind in (np.float32, np.float64):
        limits = np.finfo(kind)
        values = np.array([0.0, -0.0, 1.0, -1.0, 0.5, 500.0, np.inf, -np.inf, np.nan, limits.max, limits.min], kind)
        assert rounded(values).tobytes() == values.tobytes()


@pytest.mark.parametrize("count", [1, 3])
def test_slots_come_back_with_their_headers_and_only_floats_rounded(count: int) -> None:
    slots = slots_of(np.random.default_rng(3), count)
    back = np.frombuffer(SlotCodec(SPEC).decode(memoryview(SlotCodec(SPEC).encode(memoryview(slots))), count), np.uint8)
    for before, after in zip(slots, back.reshape(count, -1), strict=True):
        assert (before[:SLOT_HEADER_BYTES] == after[:SLOT_HEADER_BYTES]).all()
        views = [SPEC.layout.views(memoryview(slot.copy()), SLOT_HEADER_BYTES) for slot in (before, after)]
        for name in EXACT:
            assert views[0][name].tobytes() == views[1][name].tobytes()
        for name in NEAR:
            np.testing.assert_allclose(views[0][name], views[1][name], rtol=2.0**-15, atol=0)


def test_a_message_that_is_not_of_such_slots_is_refused() -> None:
    codec = SlotCodec(SPEC)
    message = memoryview(codec.encode(memoryview(slots_of(np.random.default_rng(1), 3))))
    with pytest.raises(ValueError, match="at most"):
        codec.decode(message, 2)
    other = SlotCodec(RingSpec("other", Layout((Field("x", "uint8", (900,)),)), 4))
    with pytest.raises(ValueError, match="whole slots"):
        other.decode(message, 3)


def test_measured_numbers_take_three_quarters_of_what_compression_alone_makes_of_them() -> None:
    spec = RingSpec("walk", Layout((Field("obs", "float32", (32, 64, 4)), Field("action", "int64", (32, 64)))), 2)
    slot, rng = np.zeros(spec.stride, np.uint8), np.random.default_rng(0)
    views = spec.layout.views(memoryview(slot), SLOT_HEADER_BYTES)
    views["obs"][:] = np.cumsum(rng.normal(scale=0.02, size=(32, 64, 4)), axis=0)
    views["action"][:] = rng.integers(0, 2, (32, 64))
    alone = len(compress(memoryview(slot)))
    assert len(SlotCodec(spec).encode(memoryview(slot))) < 0.75 * alone

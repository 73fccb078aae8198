"""Fewer bytes, bounded errors that do not add up, keyframes to the bit."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from runtime.courier.codec import (
    BLOCK,
    BoardCodec,
    BoardDecoder,
    BoardEncoder,
    Form,
    compress,
    decompress,
    dequantise,
    message_bound,
    quantise,
)
from runtime.memory.layout import Field, Layout

LOSSY = pytest.mark.parametrize("codec", [BoardCodec.INT8, BoardCodec.FP16])
values = hnp.arrays(np.float32, st.integers(1, 3000), elements=st.floats(-1e4, 1e4, width=32))


def layout_of(size: int) -> Layout:
    return Layout((Field("count", "int64", (3,)), Field("params", "float32", (size,)), Field("flag", "bool", (2,))))


def fields_of(params: np.ndarray, count: int = 0) -> dict[str, np.ndarray]:
    return {"count": np.full(3, count), "params": params, "flag": np.array([True, False])}


def through(encoder: BoardEncoder, decoder: BoardDecoder, fields: dict[str, np.ndarray]) -> tuple[Form, int, dict]:
    form, data = encoder.encode(fields)
    into = {name: np.zeros_like(array) for name, array in fields.items()}
    decoder.decode(form, memoryview(data), into)
    assert len(data) <= message_bound(layout_of(fields["params"].size))
    assert (into["count"] == fields["count"]).all()
    assert (into["flag"] == fields["flag"]).all()
    return form, len(data), into


@given(values)
def test_quantising_errs_by_half_a_step_at_most(array: np.ndarray) -> None:
    levels, scales = quantise(array)
    error = np.abs(dequantise(levels, scales) - array)
    step = np.repeat(scales, BLOCK)[: array.size]
    assert (error <= 0.5 * step * (1 + 1e-3) + 1e-30).all()
    assert scales.size == -(-array.size // BLOCK)


@LOSSY
@given(array=hnp.arrays(np.float32, 50, elements=st.floats(width=32)))
def test_a_keyframe_is_exact_to_the_bit_whatever_it_holds(codec: BoardCodec, array: np.ndarray) -> None:
    layout = layout_of(50)
    form, _, into = through(BoardEncoder(layout, codec), BoardDecoder(layout, codec), fields_of(array))
    assert form is Form.KEYFRAME
    assert into["params"].tobytes() == array.tobytes()


@LOSSY
@settings(deadline=None, max_examples=25)
@given(seed=st.integers(0, 999), size=st.integers(1, 2500))
def test_errors_do_not_add_up_and_vanish_when_the_values_stay(codec: BoardCodec, seed: int, size: int) -> None:
    layout, rng = layout_of(size), np.random.default_rng(seed)
    encoder, decoder = BoardEncoder(layout, codec), BoardDecoder(layout, codec)
    params = rng.normal(size=size).astype(np.float32)
    through(encoder, decoder, fields_of(params))
    for version in range(30):
        step = rng.normal(scale=0.01, size=size).astype(np.float32)
        params = params + step
        form, _, into = through(encoder, decoder, fields_of(params, version))
        assert form is Form.DELTA
        assert np.abs(into["params"] - params).max() <= 0.01 * np.abs(step).max() + 1e-6
    for _ in range(4):
        into = through(encoder, decoder, fields_of(params))[2]
    assert np.abs(into["params"] - params).max() <= 2e-6


@LOSSY
def test_values_that_are_not_finite_come_as_a_keyframe_and_deltas_go_on_after_it(codec: BoardCodec) -> None:
    layout = layout_of(4)
    encoder, decoder = BoardEncoder(layout, codec), BoardDecoder(layout, codec)
    good = np.ones(4, np.float32)
    bad = np.array([1, np.nan, np.inf, 2], np.float32)
    forms = []
    for params in (good, bad, good, good * 1.5):
        form, _, into = through(encoder, decoder, fields_of(params))
        forms.append(form)
        np.testing.assert_allclose(into["params"], params, rtol=1e-3)
    assert forms == [Form.KEYFRAME, Form.KEYFRAME, Form.KEYFRAME, Form.DELTA]


def test_a_delta_takes_less_than_three_tenths_of_the_bytes() -> None:
    layout, rng = layout_of(20_000), np.random.default_rng(1)
    encoder, decoder = BoardEncoder(layout, BoardCodec.INT8), BoardDecoder(layout, BoardCodec.INT8)
    params = rng.normal(size=20_000).astype(np.float32)
    through(encoder, decoder, fields_of(params))
    params += rng.normal(scale=1e-3, size=20_000).astype(np.float32)
    assert through(encoder, decoder, fields_of(params))[1] < 0.3 * layout.nbytes


def test_a_delta_without_its_keyframe_is_refused() -> None:
    layout = layout_of(8)
    encoder = BoardEncoder(layout, BoardCodec.INT8)
    encoder.encode(fields_of(np.ones(8, np.float32)))
    form, data = encoder.encode(fields_of(np.ones(8, np.float32)))
    into = fields_of(np.zeros(8, np.float32))
    with pytest.raises(ValueError, match="keyframe"):
        BoardDecoder(layout, BoardCodec.INT8).decode(form, memoryview(data), into)


@given(st.binary(max_size=5000))
def test_compression_gives_back_what_it_was_given(data: bytes) -> None:
    assert decompress(memoryview(compress(memoryview(data))), len(data)) == data


def test_compressed_data_that_is_damaged_or_too_long_is_refused() -> None:
    packed = compress(memoryview(bytes(1000)))
    with pytest.raises(ValueError, match="at most 999"):
        decompress(memoryview(packed), 999)
    with pytest.raises(ValueError, match="damaged"):
        decompress(memoryview(b"no frame at all"), 999)

"""A learner that has converged is not slowed down by numbers that are too small to matter."""

from __future__ import annotations

import multiprocessing
import platform

import numpy as np
import pytest

from runtime.control.subnormals import flush_subnormals

_NEARLY_SUBNORMAL = 2e-38


def _halved_twice(flush: bool, results: object) -> None:
    done = flush_subnormals() if flush else None
    small = np.full(64, _NEARLY_SUBNORMAL, np.float32)
    results.put((done, float((small * np.float32(0.25)).sum())))  # type: ignore[attr-defined]


@pytest.mark.skipif(platform.machine() not in ("x86_64", "aarch64"), reason="no such switch is known for this machine")
def test_what_is_too_small_counts_as_nothing_in_a_process_that_asks_for_it_and_only_there() -> None:
    context = multiprocessing.get_context("fork")
    seen = {}
    for flush in (False, True):
        results = context.Queue()
        process = context.Process(target=_halved_twice, args=(flush, results))
        process.start()
        seen[flush] = results.get(timeout=20)
        process.join()
    assert seen[False][1] > 0.0
    assert seen[True] == (True, 0.0)
    assert float(np.float32(_NEARLY_SUBNORMAL) * np.float32(0.25)) > 0.0

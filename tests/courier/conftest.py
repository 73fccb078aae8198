"""Real couriers, where there is an mpiexec to start them with."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from runtime.courier.environment import find_mpiexec
from support.couriers import RunningCourier

StartCourier = Callable[..., RunningCourier]


@pytest.fixture
def courier(tmp_path: Path) -> Iterator[StartCourier]:
    """Starts couriers by name; those that still run at the end are ended."""
    if find_mpiexec() is None:
        pytest.skip("no mpiexec beside this Python or on PATH: `pip install mpich` gives one")
    started: list[RunningCourier] = []

    def start(name: str, **options: Any) -> RunningCourier:
        started.append(RunningCourier(tmp_path, name, **options))
        return started[-1]

    yield start
    for one in started:
        with suppress(OSError):  # ended by the test
            one.end()

"""Real couriers, where there is an MPI library for them."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from support.couriers import RunningCourier

StartCourier = Callable[..., RunningCourier]


@pytest.fixture(scope="session")
def mpi() -> None:
    """Skips where mpi4py finds no library; asked in a process of its own, for it would stay loaded."""
    asked = "import mpi4py; mpi4py.rc.initialize = False; import mpi4py.MPI"
    found = subprocess.run([sys.executable, "-c", asked], capture_output=True, text=True, check=False)
    if found.returncode != 0:
        pytest.skip(f"no MPI library, `pip install mpich` gives one: {found.stderr.strip().splitlines()[-1]}")


@pytest.fixture
def courier(tmp_path: Path, mpi: None) -> Iterator[StartCourier]:  # noqa: ARG001 - for its skipping
    """Starts couriers by name; those that still run at the end are ended."""
    started: list[RunningCourier] = []

    def start(name: str, **options: Any) -> RunningCourier:
        started.append(RunningCourier(tmp_path, name, **options))
        return started[-1]

    yield start
    for one in started:
        with suppress(OSError):  # ended by the test
            one.end()

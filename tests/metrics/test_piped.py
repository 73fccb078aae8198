"""A tracker in a process of its own: what it takes, what becomes of what it does not take, and that nobody waits."""

from __future__ import annotations

import json
import logging
import os
import sys
import time
from typing import TYPE_CHECKING

import pytest

from runtime.metrics.piped import Piped

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

KEEP = "import sys; open(sys.argv[1], 'w').write(sys.stdin.read())"
READ_NOTHING = "import os, sys, time; open(sys.argv[1], 'w').write(str(os.getpid())); time.sleep(60)"
FAIL = "import sys; sys.exit(3)"
SPAWN_AND_HANG = (
    "import subprocess, sys, time; child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)']);"
    "open(sys.argv[1], 'w').write(str(child.pid)); time.sleep(60)"
)


@pytest.fixture
def piped(tmp_path: Path) -> Iterator[Callable[..., Piped]]:
    made: list[Piped] = []

    def make(code: str, **settings: float) -> Piped:
        sink = Piped("stub", (sys.executable, "-c", code, str(tmp_path / "said")), **settings)  # type: ignore[arg-type]
        made.append(sink)
        return sink

    yield make
    for sink in made:
        sink.close()


def said(tmp_path: Path) -> str:
    """What the process has written, once it has."""
    end = time.monotonic() + 10
    while time.monotonic() < end:
        if (tmp_path / "said").exists() and (text := (tmp_path / "said").read_text()):
            return text
        time.sleep(0.01)
    raise AssertionError("the process has written nothing")


def test_every_point_arrives_in_order_and_the_end_is_waited_for(piped, tmp_path):
    sink = piped(KEEP)
    for step in range(500):
        sink.write(step, {f"curve/{index}": step / 7 for index in range(40)}, time_s=1000.0 + step)
    sink.close()
    points = [json.loads(line) for line in (tmp_path / "said").read_text().splitlines()]
    assert [point["step"] for point in points] == list(range(500))
    assert points[3]["curve/39"] == 3 / 7
    assert points[3]["time"] == 1003.0


def test_a_process_that_reads_nothing_is_never_waited_for_and_what_is_too_much_is_counted(piped, tmp_path, caplog):
    sink = piped(READ_NOTHING, most_waiting=10_000, close_within_s=0.2)
    longest = 0.0
    for step in range(300):
        began = time.monotonic()
        sink.write(step, {f"curve/{index}": 1.0 for index in range(60)}, time_s=1000.0)
        longest = max(longest, time.monotonic() - began)
    assert longest < 20.0  # who waited would do so for ever
    assert sink.dropped > 100
    warnings = [record.getMessage() for record in caplog.records if "metrics.dropped" in record.getMessage()]
    assert len(warnings) == sink.dropped.bit_length(), "ever more rarely"
    pid = int(said(tmp_path))
    began = time.monotonic()
    sink.close()
    assert time.monotonic() - began < 20.0
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
    assert "has not finished within 0.2 s" in caplog.text


def test_a_process_that_has_failed_is_given_up_once_and_the_caller_goes_on(piped, caplog):
    sink = piped(FAIL)
    end = time.monotonic() + 10
    while not sink.given_up and time.monotonic() < end:
        sink.write(1, {"loss": 1.0}, time_s=1000.0)
        time.sleep(0.01)
    sink.write(2, {"loss": 1.0}, time_s=1000.0)
    errors = [record for record in caplog.records if record.levelno == logging.ERROR]
    assert [record.getMessage().split(" error=")[0] for record in errors] == ["metrics.given-up sink=stub"]


def test_what_a_hanging_process_has_started_leaves_with_it(piped, tmp_path):
    sink = piped(SPAWN_AND_HANG, close_within_s=0.1)
    sink.write(1, {"loss": 1.0}, time_s=1000.0)
    child = int(said(tmp_path))
    sink.close()
    end = time.monotonic() + 5
    while time.monotonic() < end and _lives(child):
        time.sleep(0.01)
    assert not _lives(child)


def test_nothing_is_started_before_the_first_point(piped, tmp_path):
    sink = piped(KEEP)
    sink.close()
    assert not (tmp_path / "said").exists()


def _lives(pid: int) -> bool:
    """Whether a process runs; one that only waits to be reaped does not."""
    try:
        with open(f"/proc/{pid}/stat") as file:  # noqa: PTH123 - not a file of ours
            return file.read().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False

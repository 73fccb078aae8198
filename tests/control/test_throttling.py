"""What a component's waiting is put down to: strangers on its core, or a quota of CPU time that is used up."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from runtime.control.throttling import Throttling
from support.quota import Quota, possible

if TYPE_CHECKING:
    from pathlib import Path

V1 = "4:memory:/\n1:cpu,cpuacct:/job/step\n0::/\n"
V2 = "0::/job/step\n"


def proc(folder: Path, cgroup: str, mount: str) -> Path:
    """What the kernel tells of a process whose groups are mounted in `folder`."""
    (folder / "proc").mkdir()
    (folder / "proc" / "cgroup").write_text(cgroup)
    (folder / "proc" / "mountinfo").write_text(f"30 24 0:26 / {folder}/groups rw - {mount}\n")
    (folder / "groups" / "job" / "step").mkdir(parents=True)
    return folder / "proc"


def test_nanoseconds_of_version_1_are_read(tmp_path: Path) -> None:
    told = proc(tmp_path, V1, "cgroup cgroup rw,cpu,cpuacct")
    (tmp_path / "groups/job/step/cpu.stat").write_text("nr_periods 10\nnr_throttled 4\nthrottled_time 2500000000\n")
    assert Throttling(told).stopped_s() == 2.5


def test_microseconds_of_version_2_are_read(tmp_path: Path) -> None:
    told = proc(tmp_path, V2, "cgroup2 cgroup2 rw")
    (tmp_path / "groups/job/step/cpu.stat").write_text("usage_usec 77\nnr_throttled 4\nthrottled_usec 2500000\n")
    assert Throttling(told).stopped_s() == 2.5


def test_of_groups_in_one_another_the_one_that_has_stopped_the_most_counts(tmp_path: Path) -> None:
    told = proc(tmp_path, V2, "cgroup2 cgroup2 rw")
    (tmp_path / "groups/job/cpu.stat").write_text("throttled_usec 7000000\n")
    (tmp_path / "groups/job/step/cpu.stat").write_text("throttled_usec 2500000\n")
    assert Throttling(told).stopped_s() == 7.0


@pytest.mark.parametrize("text", ["", "throttled_usec\n", "throttled_usec many\n", "usage_usec 5\n"])
def test_a_file_that_tells_nothing_stops_nothing(tmp_path: Path, text: str) -> None:
    told = proc(tmp_path, V2, "cgroup2 cgroup2 rw")
    (tmp_path / "groups/job/step/cpu.stat").write_text(text)
    assert Throttling(told).stopped_s() == 0.0


def test_without_groups_nothing_is_stopped(tmp_path: Path) -> None:
    assert Throttling(tmp_path).stopped_s() == 0.0


SPINNING = """
import json, os, sys, time
sys.stdin.readline()  # until it is under the quota
from runtime.control.sampling import Usage
from runtime.control.throttling import Throttling
pid = os.fork()
if not pid:
    while True:
        pass
throttling, usage = Throttling(), Usage()
usage.read(pid, time.monotonic(), throttling.stopped_s())
time.sleep(2.0)
usage.read(pid, time.monotonic(), throttling.stopped_s())
os.kill(pid, 9)
print(json.dumps([usage.cpu_percent, usage.waiting_percent, usage.throttled_percent]))
"""


@pytest.mark.skipif(not possible(), reason="needs root and control groups that may be written")
def test_a_real_quota_is_told_as_one_and_not_as_strangers() -> None:
    quota = Quota("tianji-quota", 0.3)
    try:
        with subprocess.Popen(
            [sys.executable, "-c", SPINNING], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        ) as spinning:
            quota.hold(spinning.pid)
            told, _ = spinning.communicate("go\n", timeout=60)
        used, waiting, throttled = json.loads(told)
    finally:
        quota.close()
    assert used < 45, "percent of a core"
    assert throttled > 40
    assert waiting < throttled / 2

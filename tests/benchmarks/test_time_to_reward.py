"""The comparison with peers measures what it says, and leaves nothing behind."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from harness.contenders import OURS, PEERS
from harness.report import table
from harness.timeline import Timeline
from milestones import Milestones

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"
PEER = PEERS["sb3-ppo"]

#: A peer that detaches a process, says that it is there, and waits for ever.
DETACHING = """
import subprocess, sys, time
subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], start_new_session=True)
print("STEPS 10", flush=True)
print("REACHED 300 20", flush=True)
print("REACHED 475 30", flush=True)
time.sleep(600)
"""

MEASURE = """
import sys
from dataclasses import replace
from pathlib import Path
from harness import contenders, measure, processes
measure.python_of = lambda _: Path(sys.executable)
peer = replace(contenders.PEERS["sb3-ppo"], script=(sys.argv[1],))
log = Path(sys.argv[1]).with_suffix(".log")
trial = measure.Trial(contender=peer, seed=0, targets=(300.0, 475.0), time_limit_s=30.0, log=log)
line = measure.measure(trial)
print(line.ended, sorted(line.reached), line.last[1], line.peak_pss_bytes > 0, processes.family())
"""


def runs(*seconds: float | None) -> list[Timeline]:
    timelines = []
    for seed, second in enumerate(seconds):
        timelines.append(Timeline(PEER.name, seed))
        if second is not None:
            timelines[-1].target(475, second, 1000)
    return timelines


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [
        ((5.0, 7.0, 6.0), "**6.0** (5.0–7.0)"),
        ((5.0, None, 6.0), "**6.0** (5.0–6.0) (2/3 runs)"),
        ((5.0, None, None), "beyond the limit (5.0–5.0) (1/3 runs)"),
        ((None, None, None), "not reached (0/3)"),
    ],
)
def test_a_run_that_never_got_there_counts_as_infinitely_long(seconds, shown):
    assert f"| {shown} |" in table([PEER], runs(*seconds), [475])


def test_throughput_is_read_between_the_first_and_the_last_progress():
    line = Timeline(PEER.name, 0)
    for second, steps in ((3.0, 100), (4.0, 600), (5.0, 2100)):
        line.progress(second, steps)
    assert line.steps_per_s == 1000.0


def test_a_target_is_reached_only_by_a_mean_of_a_hundred_episodes(capsys):
    milestones = Milestones([475, 300])
    for episode in range(99):
        milestones.episode(500.0, episode)
    assert capsys.readouterr().out == ""
    milestones.episode(0.0, 4711)
    assert capsys.readouterr().out.split("\n") == ["REACHED 300 4711", "REACHED 475 4711", ""]
    assert milestones.done


def test_a_detached_process_of_a_peer_is_measured_and_ended(tmp_path):
    peer = tmp_path / "peer.py"
    peer.write_text(DETACHING)
    command = [sys.executable, "-c", MEASURE, str(peer)]
    done = subprocess.run(command, cwd=BENCHMARKS, capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.split("\n")[0] == "target ['300', '475'] 30 True []"


def test_every_contender_has_a_script_or_a_job():
    assert [peer.name for peer in PEERS.values() if not (BENCHMARKS / "peers" / peer.script[0]).is_file()] == []
    assert [own.name for own in OURS.values() if not (BENCHMARKS.parent / own.script[0]).is_file()] == []

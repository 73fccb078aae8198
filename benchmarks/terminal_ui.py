"""What the terminal UI costs: its processor time while it follows a real run on a pseudo-terminal.

    python benchmarks/terminal_ui.py --columns 120 --lines 40 --refresh 0.1 --seconds 20

The run is launched for the measurement and stopped after it, unless `--run` names one that is there.
"""

from __future__ import annotations

import argparse
import fcntl
import json
import os
import pty
import select
import signal
import struct
import subprocess
import sys
import tempfile
import termios
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
JOB = ROOT / "playbooks" / "train" / "cartpole-ppo.yaml"
WARM_UP_FRAMES = 20  #: by then everything is imported and drawn; on a busy machine that takes long
WARM_UP_WITHIN_S = 60.0
FRAME = b"\x1b[1;1H"  #: each update ends with the cursor at home
TICKS_PER_S = os.sysconf("SC_CLK_TCK")


class Viewer:
    """`tianjictl top` on a pseudo-terminal of some size."""

    def __init__(self, run: str, columns: int, lines: int, refresh_s: float) -> None:
        self._screen, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))
        command = [sys.executable, "-m", "tianjictl", "top", run, "--refresh", str(refresh_s)]
        environment = {**os.environ, "TERM": "xterm-256color", "LANG": "C.UTF-8"}
        for name in ("COLUMNS", "LINES", "NO_COLOR", "LC_ALL"):
            environment.pop(name, None)
        self._process = subprocess.Popen(
            command, stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True, env=environment
        )
        os.close(theirs)
        self.written = 0  #: bytes
        self.frames = 0
        self._last = b""

    def drain(self, seconds: float) -> None:
        """Read what it writes for so long, as a terminal would."""
        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0:
            if select.select([self._screen], [], [], left)[0]:
                try:
                    data = os.read(self._screen, 1 << 16)
                except OSError as error:
                    raise SystemExit(f"the viewer has ended: {self._last.decode(errors='replace')}") from error
                self._last = data or self._last
                self.written += len(data)
                self.frames += data.count(FRAME)

    def warm_up(self) -> None:
        """Until so many updates have been seen; SystemExit where they do not come."""
        deadline = time.monotonic() + WARM_UP_WITHIN_S
        while self.frames < WARM_UP_FRAMES:
            if time.monotonic() > deadline:
                raise SystemExit(f"{self.frames} updates within {WARM_UP_WITHIN_S:g} s")
            self.drain(0.5)

    def processor_s(self) -> float:
        """Processor time of all its threads so far."""
        fields = Path(f"/proc/{self._process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / TICKS_PER_S

    def leave(self) -> int:
        """Press q; returns the exit code."""
        os.write(self._screen, b"q")
        while True:
            try:
                if not os.read(self._screen, 1 << 16):
                    break
            except OSError:  # the viewer has closed its end
                break
        code = self._process.wait(10)
        os.close(self._screen)
        return code


def measure(run: str, columns: int, lines: int, refresh_s: float, seconds: float) -> dict[str, float]:
    """Percent of a core and bytes written per second, once everything has been imported and drawn."""
    viewer = Viewer(run, columns, lines, refresh_s)
    viewer.warm_up()
    began, used_s, written, frames = time.monotonic(), viewer.processor_s(), viewer.written, viewer.frames
    viewer.drain(seconds)
    took_s = time.monotonic() - began
    found = {
        "columns": columns,
        "lines": lines,
        "asked_updates_per_s": 1 / refresh_s,
        "seen_updates_per_s": round((viewer.frames - frames) / took_s, 1),
        "percent_of_a_core": round(100 * (viewer.processor_s() - used_s) / took_s, 2),
        "bytes_per_s": round((viewer.written - written) / took_s),
    }
    if viewer.leave() != 0:
        raise SystemExit("the viewer did not leave in good order")
    return found


def launch(home: str) -> str:
    """A run that goes on for as long as is measured."""
    endless = ("training.stop.reward=null", "training.stop.env_steps=null", "training.stop.wall_time=30m")
    words = [word for setting in endless for word in ("--set", setting)]
    done = subprocess.run(
        [sys.executable, "-m", "tianjictl", "launch", str(JOB), "-d", "--json", "--oversubscribe", *words],
        env={**os.environ, "TIANJICTL_HOME": home},
        capture_output=True,
        text=True,
        check=True,
    )
    return str(json.loads(done.stdout)["data"]["run_id"])


def main() -> None:
    """Measure and print one JSON line for each size."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--run", help="a run that is there, instead of one made for this")
    parser.add_argument("--columns", type=int, default=120)
    parser.add_argument("--lines", type=int, default=40)
    parser.add_argument("--refresh", type=float, default=0.1, help="seconds between two updates")
    parser.add_argument("--seconds", type=float, default=20.0, help="how long to measure")
    options = parser.parse_args()
    signal.signal(signal.SIGINT, signal.default_int_handler)
    if options.run:
        print(json.dumps(measure(options.run, options.columns, options.lines, options.refresh, options.seconds)))
        return
    with tempfile.TemporaryDirectory(prefix="tianjictl-") as home:
        os.environ["TIANJICTL_HOME"] = home
        run = launch(home)
        try:
            print(json.dumps(measure(run, options.columns, options.lines, options.refresh, options.seconds)))
        finally:
            subprocess.run([sys.executable, "-m", "tianjictl", "stop", run, "--yes", "--no-checkpoint"], check=False)


if __name__ == "__main__":
    main()

"""Real runs for tests: started with the real command, watched through the operator's socket, always taken down."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from runtime.contract.operator import ViewRequest, ask
from runtime.contract.paths import RunPaths
from runtime.contract.states import ComponentState
from runtime.contract.view import ComponentView, RunView

PATIENCE_S = 60.0  #: what takes a second takes many on a machine that is busy with other things
PATIENT = "health.steady=20s"  #: a component that a busy machine lets wait is not frozen
ENDLESS = ("training.stop.reward=null", "training.stop.env_steps=null", "training.stop.wall_time=300s")


def tianjictl(
    home: Path, *arguments: str, check: bool = True, timeout_s: float = 2 * PATIENCE_S
) -> subprocess.CompletedProcess:
    """Run the command line as a user would, with a state folder of its own."""
    done = subprocess.run(
        [sys.executable, "-m", "tianjictl", *arguments],
        env={**os.environ, "TIANJICTL_HOME": str(home), "NO_COLOR": "1"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=timeout_s,
        check=False,
    )
    if check and done.returncode != 0:
        raise AssertionError(f"tianjictl {' '.join(arguments)} ended with {done.returncode}:\n{done.stderr}")
    return done


class LiveRun:
    """One run in the background."""

    def __init__(self, home: Path, job: Path, *settings: str) -> None:
        self.home = home
        overrides = [part for setting in settings for part in ("--set", setting)]
        done = tianjictl(home, "launch", str(job), "-d", "--json", "--oversubscribe", *overrides)
        data = json.loads(done.stdout)["data"]
        self.run_id: str = data["run_id"]
        self.paths = RunPaths(Path(data["folder"]))

    def view(self) -> RunView:
        """The newest view, from the coordinator while it lives, else from the file it left."""
        try:
            return RunView.model_validate(ask(self.paths.control_socket, ViewRequest()).data)
        except OSError:
            return RunView.model_validate_json(self.paths.view.read_bytes())

    def component(self, name: str) -> ComponentView:
        return next(component for component in self.view().components if component.name == name)

    def wait(self, condition: Callable[[RunView], bool], *, within_s: float = PATIENCE_S, what: str = "") -> RunView:
        """The first view that meets the condition; AssertionError with the last one otherwise."""
        deadline = time.monotonic() + within_s
        while True:
            view = self.view()
            if condition(view):
                return view
            if time.monotonic() > deadline:
                raise AssertionError(
                    f"{what or 'it'} did not happen within {within_s:g} s:\n{view.model_dump_json(indent=1)}"
                )
            self._pause()

    def wait_for_updates(self, more: int = 3, *, within_s: float = PATIENCE_S) -> RunView:
        """Training goes on: so many more updates than now."""
        target = self.view().progress.updates + more
        return self.wait(lambda view: view.progress.updates >= target, within_s=within_s, what=f"{more} more updates")

    def wait_replaced(self, name: str, old: ComponentView, *, within_s: float = PATIENCE_S) -> RunView:
        """Another life of the component works."""

        def replaced(view: RunView) -> bool:
            now = next(component for component in view.components if component.name == name)
            return now.attempt > old.attempt and now.state is ComponentState.RUNNING

        return self.wait(replaced, within_s=within_s, what=f"a new life of {name}")

    def agent_pid(self) -> int:
        return int(self.paths.agent_lock.read_text())

    def processes(self) -> dict[int, str]:
        """Everything that carries the run's id in its environment: pid → command line."""
        found = {}
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit() and int(entry.name) != os.getpid():
                try:
                    if f"TIANJI_RUN_ID={self.run_id}".encode() in (entry / "environ").read_bytes().split(b"\0"):
                        found[int(entry.name)] = (entry / "cmdline").read_text().replace("\0", " ")
                except OSError:
                    continue
        return found

    def wait_gone(self, within_s: float = PATIENCE_S) -> None:
        """Nothing of the run is left on this machine."""
        deadline = time.monotonic() + within_s
        while left := self.processes():
            if time.monotonic() > deadline:
                raise AssertionError(f"still there after {within_s:g} s: {left}")
            self._pause()

    def events(self, kind: str) -> list[dict[str, Any]]:
        lines = [json.loads(line) for line in self.paths.events.read_text().splitlines()]
        return [line for line in lines if line["kind"] == kind]

    def stop(self) -> None:
        tianjictl(self.home, "stop", self.run_id, "--yes", "--grace", "5", check=False)
        self.wait_gone()

    @staticmethod
    def _pause() -> None:
        """Between two looks at another process; every loop around it has a deadline."""
        time.sleep(0.02)

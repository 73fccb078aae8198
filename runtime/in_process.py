"""A whole run in one thread: every component ticks in turn. For tests, for debugging, and for a strict comparison.

`python -m runtime in-process RUN_DIR` runs the plan in that folder until one of its stop rules is met.
"""

from __future__ import annotations

import json
import sys
import time
from collections import deque
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from runtime.assembly import Assembly
from runtime.components.base import Progress
from runtime.contract.files import write_whole
from runtime.contract.paths import RunPaths
from runtime.contract.plan import Plan
from runtime.contract.record import CompletionRecord, RunRecord
from runtime.contract.states import Phase, Role, RunState
from runtime.resources import Resources

if TYPE_CHECKING:
    from collections.abc import Callable

    from runtime.components.base import Component

_IDLE_SLEEP_S = 0.001
_SAY_EVERY_S = 1.0


class InProcessRun:
    """All components of a plan over the memory of this process."""

    def __init__(self, plan: Plan, paths: RunPaths, *, run_attempt: int = 1, resume_from: Path | None = None) -> None:
        self.plan = plan
        self.paths = paths
        self.resources = Resources.create(Assembly.wiring_of(plan), shared=False)
        self.assembly = Assembly(plan, self.resources, paths, run_attempt=run_attempt, resume_from=resume_from)
        self.components: dict[str, Component] = {p.name: self.assembly.build(p.name, 1) for p in plan.placements}
        self._returns: deque[float] = deque(maxlen=100)
        self._seen = dict.fromkeys(self.components, 0)
        self.best_mean_100: float | None = None

    def start(self) -> None:
        """Learners first: actors need a policy to begin with."""
        for name, component in sorted(self.components.items(), key=lambda item: "learner" not in item[0]):
            self.assembly.block(name).attempt = 1
            component.start()
            self.assembly.block(name).phase = list(Phase).index(Phase.STEADY)

    def tick(self) -> bool:
        """One tick of each; False if all were idle."""
        worked = [component.tick() is not Progress.IDLE for component in self.components.values()]
        for name in self.components:
            self._seen[name], episodes = self.assembly.block(name).episodes_since(self._seen[name])
            self._returns.extend(episode_return for episode_return, _ in episodes)
        if (mean := self.mean_100) is not None:
            self.best_mean_100 = max(mean, self.best_mean_100 if self.best_mean_100 is not None else mean)
        return any(worked)

    def total(self, role: Role, counter: str) -> int:
        """A counter summed over all components of a role."""
        return sum(int(self.assembly.block(p.name).get(counter)) for p in self.plan.of_role(role))

    @property
    def mean_100(self) -> float | None:
        """Mean return of the newest 100 episodes, none before there are so many."""
        return sum(self._returns) / len(self._returns) if len(self._returns) == 100 else None

    def checkpoint(self, step: int) -> Path:
        """Have every component write its shard; returns the folder with all shards."""
        folder = self.paths.checkpoints / f".tmp-{step:012d}"
        folder.mkdir(parents=True, exist_ok=True)
        self.assembly.control.checkpoint_request = step
        waiting = [p.name for p in self.plan.placements if p.role in (Role.LEARNER, Role.BUFFER)]
        while any(self.assembly.block(name).checkpoint_done < step for name in waiting):
            self.tick()
        return folder

    def stop(self) -> None:
        """Stop all and let go of the memory."""
        for component in self.components.values():
            component.stop()
        self.components.clear()

    def why_stop(self, elapsed_s: float) -> str | None:
        """The job's stop rule that is met, in words."""
        rules = self.plan.job.training.stop
        steps, updates = self.total(Role.ACTOR, "env_steps"), self.total(Role.LEARNER, "updates")
        if rules.reward is not None and (self.mean_100 or -1e300) >= rules.reward:
            return f"mean return {self.mean_100:.1f} reached {rules.reward:g}"
        if rules.env_steps is not None and steps >= rules.env_steps:
            return f"{steps} env steps made"
        if rules.updates is not None and updates >= rules.updates:
            return f"{updates} updates made"
        if rules.wall_time is not None and elapsed_s >= rules.wall_time:
            return f"{elapsed_s:.0f} s have passed"
        return None


def run_until_stop(run: InProcessRun, say: Callable[[str], None]) -> str:
    """Tick until a stop rule is met; returns which."""
    began = said = time.monotonic()
    run.start()
    while True:
        worked = run.tick()
        now = time.monotonic()
        if (reason := run.why_stop(now - began)) is not None:
            return reason
        if now - said >= _SAY_EVERY_S:
            said = now
            mean = f"{run.mean_100:.1f}" if run.mean_100 is not None else "–"
            say(f"{run.total(Role.ACTOR, 'env_steps')} env steps, mean return of 100 episodes {mean}")
        if not worked:
            time.sleep(_IDLE_SLEEP_S)


def _say(line: str) -> None:
    sys.stderr.write(line + "\n")


def main(argv: list[str]) -> int:
    """Run the folder's plan in this thread; the last line of output is a JSON summary."""
    paths = RunPaths(Path(argv[0]))
    plan = Plan.model_validate_json(paths.plan.read_bytes())
    record = RunRecord.model_validate_json(paths.record.read_bytes())
    run = InProcessRun(plan, paths, run_attempt=record.attempt)
    reason = run_until_stop(run, _say)
    steps, updates = run.total(Role.ACTOR, "env_steps"), run.total(Role.LEARNER, "updates")
    run.stop()
    completion = CompletionRecord(
        run_id=record.run_id,
        attempt=record.attempt,
        state=RunState.COMPLETED,
        reason=reason,
        ended_at=datetime.now(UTC),
        env_steps=steps,
        updates=updates,
    )
    write_whole(paths.completion, completion.model_dump_json(indent=1))
    summary = {"env_steps": steps, "updates": updates, "mean_100": run.mean_100, "reason": reason}
    sys.stdout.write(json.dumps(summary) + "\n")
    return 0

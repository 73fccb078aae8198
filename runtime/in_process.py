"""A whole run in one thread: every component ticks in turn. For tests, for debugging, and for a strict comparison.

`python -m runtime in-process RUN_DIR` runs the plan in that folder until one of its stop rules is met.
"""

from __future__ import annotations

import json
import signal
import sys
import time
import traceback
from collections import deque
from datetime import UTC, datetime
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING

from runtime.assembly import Assembly
from runtime.checkpoint.manifest import env_steps_at
from runtime.components.base import Progress
from runtime.contract.files import write_whole
from runtime.contract.messages import RingLedger
from runtime.contract.paths import RunPaths
from runtime.contract.plan import Plan
from runtime.contract.record import CompletionRecord, RunRecord
from runtime.contract.states import Phase, Role, RunState
from runtime.contract.view import Freshness, Rates, Reward, RunView, Samples, ShapeView
from runtime.contract.view import Progress as ProgressView
from runtime.control.ledger import Ledger
from runtime.control.stop_rules import rule_met
from runtime.memory.ring import read_ledger
from runtime.resources import Resources

if TYPE_CHECKING:
    from collections.abc import Callable

    from runtime.components.base import Component

_IDLE_SLEEP_S = 0.001
_SAY_EVERY_S = 1.0
_FAILED, _INTERRUPTED = 6, 130  #: exit codes


class InProcessRun:
    """All components of a plan over the memory of this process."""

    def __init__(self, plan: Plan, paths: RunPaths, *, run_attempt: int = 1, resume_from: Path | None = None) -> None:
        plan = _on_one_node(plan)
        self.plan = plan
        self.paths = paths
        self.resources = Resources.create(
            Assembly.wiring_of(plan, plan.head), shared=False, base_env_steps=env_steps_at(resume_from)
        )
        self.assembly = Assembly(
            plan, plan.head, self.resources, paths, run_attempt=run_attempt, resume_from=resume_from
        )
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
        self.assembly.control.global_env_steps = self.assembly.control.base_env_steps + self.total(
            Role.ACTOR, "env_steps"
        )
        worked = [component.tick() is not Progress.IDLE for component in self.components.values()]
        for name in self.components:
            self._seen[name], episodes = self.assembly.block(name).episodes_since(self._seen[name])
            self._returns.extend(episode_return for episode_return, _ in episodes if isfinite(episode_return))
        if (mean := self.mean_100) is not None:
            self.best_mean_100 = max(mean, self.best_mean_100 if self.best_mean_100 is not None else mean)
        return any(worked)

    def total(self, role: Role, counter: str) -> int:
        """A counter summed over all components of a role."""
        return sum(int(self.assembly.block(p.name).get(counter)) for p in self.plan.of_role(role))

    def samples(self) -> Samples:
        """The ledger of the run, from its rings."""
        ledger = Ledger(self.plan, on_policy=self.plan.job.on_policy)
        for ring, spec in self.assembly.wiring.rings.items():
            read = read_ledger(self.resources.segment(ring), spec)
            counts = {name: getattr(read, name) for name in RingLedger.model_fields}
            ledger.take(self.plan.head, {ring: RingLedger(**counts)})
        return ledger.samples(Samples())[0]

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
        return rule_met(
            self.plan.job.training.stop,
            mean_100=self.mean_100,
            env_steps=self.total(Role.ACTOR, "env_steps"),
            updates=self.total(Role.LEARNER, "updates"),
            elapsed_s=elapsed_s,
        )


def _on_one_node(plan: Plan) -> Plan:
    """The same components, all of them on the head."""
    placements = tuple(p.model_copy(update={"host": plan.head}) for p in plan.placements)
    return plan.model_copy(update={"placements": placements, "hosts": plan.hosts[:1]})


def run_until_stop(run: InProcessRun, say: Callable[[str], None], look: Callable[[], None] = lambda: None) -> str:
    """Tick until a stop rule is met; returns which. `look` is called about once a second."""
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
            look()
        if not worked:
            time.sleep(_IDLE_SLEEP_S)


class _Chronicle:
    """Writes down how the run stands and how it ends, so that `status` can tell."""

    def __init__(self, run: InProcessRun, record: RunRecord) -> None:
        self._run = run
        self._record = record
        self._began = time.monotonic()

    def note(self, state: RunState = RunState.RUNNING, reason: str = "in one process") -> None:
        """The view as of now."""
        run, elapsed = self._run, time.monotonic() - self._began
        steps, updates = run.total(Role.ACTOR, "env_steps"), run.total(Role.LEARNER, "updates")
        episodes, trained = run.total(Role.ACTOR, "episodes"), run.total(Role.LEARNER, "samples_trained")
        view = RunView(
            run_id=self._record.run_id,
            name=self._record.name,
            state=state,
            reason=reason,
            shape=ShapeView(wanted=run.plan.shape, present=run.plan.shape),
            attempt=self._record.attempt,
            started_at=self._record.created_at,
            updated_at=datetime.now(UTC),
            elapsed_s=round(elapsed, 3),
            progress=ProgressView(env_steps=steps, updates=updates, episodes=episodes, version=updates),
            reward=Reward(mean_100=run.mean_100, best_mean_100=run.best_mean_100, episodes=episodes),
            rates=Rates(
                env_steps_per_s=steps / elapsed,
                samples_per_s=trained / elapsed,
                updates_per_s=updates / elapsed,
            ),
            freshness=Freshness(pool_ratio=run.plan.sizes.pool_ratio),
            samples=run.samples(),
        )
        write_whole(run.paths.view, view.model_dump_json())

    def end(self, state: RunState, reason: str) -> dict[str, object]:
        """The last view and the completion record; returns the summary."""
        self.note(state, reason)
        steps, updates = self._run.total(Role.ACTOR, "env_steps"), self._run.total(Role.LEARNER, "updates")
        completion = CompletionRecord(
            run_id=self._record.run_id,
            attempt=self._record.attempt,
            state=state,
            reason=reason,
            ended_at=datetime.now(UTC),
            env_steps=steps,
            updates=updates,
        )
        write_whole(self._run.paths.completion, completion.model_dump_json(indent=1))
        return {"env_steps": steps, "updates": updates, "mean_100": self._run.mean_100, "reason": reason}


def _say(line: str) -> None:
    sys.stderr.write(line + "\n")


def _on_sigterm(_number: int, _frame: object) -> None:
    raise KeyboardInterrupt


def main(argv: list[str]) -> int:
    """Run the folder's plan in this thread; the last line of output is a JSON summary.

    0 if a stop rule was met, 6 where an error ended it (its traceback is printed), 130 where somebody stopped it.
    """
    signal.signal(signal.SIGTERM, _on_sigterm)
    paths = RunPaths(Path(argv[0]))
    plan = Plan.model_validate_json(paths.plan.read_bytes())
    record = RunRecord.model_validate_json(paths.record.read_bytes())
    run = InProcessRun(plan, paths, run_attempt=record.attempt)
    chronicle = _Chronicle(run, record)
    try:
        reason = run_until_stop(run, _say, chronicle.note)
    except KeyboardInterrupt:
        state, reason, code = RunState.STOPPED, "interrupted", _INTERRUPTED
    except Exception as error:  # whatever an environment or algorithm raises ends the run, and must be told
        traceback.print_exc()
        state, reason, code = RunState.FAILED, f"{type(error).__name__}: {error}", _FAILED
    else:
        state, code = RunState.COMPLETED, 0
    summary = chronicle.end(state, reason)
    run.stop()
    sys.stdout.write(json.dumps(summary) + "\n")
    return code

"""What nobody reports by itself, found by looking at the numbers."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from runtime.contract.messages import ComponentReport
from runtime.contract.states import ComponentState, Role, RunState
from runtime.control.links import Link, LinkState
from runtime.control.run_machine import step
from runtime.control.run_state import Run
from runtime.control.watch import ADVICE_EVERY_S, LINK_PATIENCE_S, Watch
from support.plans import make_job, make_plan


class Log:
    def __init__(self) -> None:
        self.lines: list[tuple[str, str, str | None]] = []

    def write(self, kind: str, message: str, *, component: str | None = None, **_: Any) -> str:
        self.lines.append((kind, message, component))
        return "ev-1"


def test_updates_that_were_undone_are_told_once_and_again_when_there_are_more() -> None:
    plan = make_plan(make_job("ppo"), "L1A1")
    watch, log = Watch(plan, now=0.0), Log()

    def look(undone: int, now: float) -> int:
        learner = ComponentReport(
            name="learner-0", role=Role.LEARNER, state=ComponentState.RUNNING, counters={"rollbacks": undone}
        )
        fold: Any = SimpleNamespace(
            progress=SimpleNamespace(updates=1),
            heard_at={},
            reports={"learner-0": learner},
            samples=lambda: (None, 0),
            of_role=lambda role: [learner] if role is Role.LEARNER else [],
        )
        watch._advised_at = now  # the rules of freshness are another story
        list(watch.look(fold, Run(), log, now))  # type: ignore[arg-type]
        return len(log.lines)

    assert look(0, 1.0) == 0
    assert look(3, 2.0) == 1
    kind, message, component = log.lines[0]
    assert (kind, component) == ("update.undone", "learner-0")
    assert message.startswith("learner-0: 3 updates so far were not finite")
    assert look(3, 2.0 + 2 * ADVICE_EVERY_S) == 1
    assert look(9, 3.0 + 2 * ADVICE_EVERY_S) == 2
    assert look(30, 4.0 + 2 * ADVICE_EVERY_S) == 2, "not every second"
    assert look(30, 4.0 + 4 * ADVICE_EVERY_S) == 3


def test_a_link_that_stays_down_makes_the_run_degraded_until_it_is_up() -> None:
    plan = make_plan(make_job("ppo"), "L1A1")
    watch, log, run = Watch(plan, now=0.0), Log(), Run(state=RunState.RUNNING)
    fold: Any = SimpleNamespace(
        progress=SimpleNamespace(updates=1), heard_at={}, samples=lambda: (None, 0), of_role=lambda _role: []
    )
    down = Link(accepts="cn01", connects="cn02", state=LinkState.LOST, reason="no peer within 3 s")
    up = Link(accepts="cn01", connects="cn02", state=LinkState.UP)

    def look(link: Link, now: float) -> Run:
        nonlocal run
        watch._advised_at = now  # the rules of freshness are another story
        for event in watch.look(fold, run, log, now, links=[link]):  # type: ignore[arg-type]
            run, _ = step(run, event, now=now)
        return run

    assert look(down, 1.0).state is RunState.RUNNING, "a new one takes a moment"
    assert look(up, 3.0).state is RunState.RUNNING
    assert look(down, 4.0).state is RunState.RUNNING
    late = look(down, 4.1 + LINK_PATIENCE_S)
    assert (late.state, late.reason) == (RunState.DEGRADED, "link cn01–cn02 is down: no peer within 3 s")
    assert look(down, 5.0 + LINK_PATIENCE_S) == late
    assert look(up, 6.0 + LINK_PATIENCE_S).state is RunState.RUNNING
    assert [kind for kind, _, _ in log.lines] == ["link.down", "link.all-up"], "each is said once"

"""What a view says of costs goes with the sizes that they were measured with."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from runtime.contract.messages import ComponentReport, Report
from runtime.contract.states import ComponentState, Role, RunState
from runtime.contract.view import Checkpoints
from runtime.control.counted import Base
from runtime.control.fold import Fold
from runtime.control.view_builder import Facts, build_view

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


def working(name: str, now: float, counter: str, **gauges: float) -> ComponentReport:
    return ComponentReport(
        name=name, role=Role(name.partition("-")[0]), state=ComponentState.RUNNING, cpu_percent=90.0,
        counters={counter: int(1000 * now)}, gauges=gauges,
    )  # fmt: skip


def test_costs_carry_the_environments_and_the_batch_of_the_plan(make_plan: Any) -> None:
    plan = make_plan(actors=1)
    fold = Fold(plan, Base())
    for tick in range(300):
        now = tick * 0.1
        components = (
            working("learner-0", now, "samples_trained", busy_share=0.9),
            working("actor-0", now, "env_steps", t_sp_s=0.2, busy_share=1.0),
            working("buffer-0", now, "batches"),
        )
        fold.take(Report(node=plan.head, sequence=tick, components=components), now)
    facts = Facts(
        run_id="r", name="dull", attempt=1, state=RunState.RUNNING, reason="dull", started_at=NOON, updated_at=NOON,
        elapsed_s=30.0, checkpoints=Checkpoints(), events=(), now=30.0,
    )  # fmt: skip
    (costs,) = build_view(plan, fold, facts).costs
    assert (costs.num_envs, costs.batch_size) == (plan.sizes.num_envs, plan.sizes.batch_size)
    assert costs.rates.actor_steps_per_s > 0

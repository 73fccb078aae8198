"""A view with something in every part, so that every metric and every curve has a value."""

from __future__ import annotations

from datetime import UTC, datetime

from runtime.contract.states import ComponentState, Role, RunState
from runtime.contract.view import (
    Advice,
    Bottleneck,
    Checkpoints,
    ComponentView,
    Drift,
    Freshness,
    HostView,
    Lag,
    LinkView,
    Predicted,
    Progress,
    Rates,
    Reward,
    RunView,
    Samples,
    ShapeView,
)

AT = datetime(2026, 1, 1, 12, 0, 0, tzinfo=UTC)
_GAUGES = {
    Role.LEARNER: (
        "loss", "policy_loss", "value_loss", "entropy", "kl", "clip_share", "grad_norm", "q_mean", "learning_rate",
        "busy_share",
    ),
    Role.ACTOR: ("epsilon", "busy_share", "t_sp_s"),
    Role.BUFFER: ("replay_fill", "busy_share", "t_rv_s"),
    Role.EVALUATOR: ("reward_eval",),
    Role.COURIER: (),
}  # fmt: skip


def component(
    role: Role, index: int = 0, *, value: float = 0.5, host: str = "cn01", **changes: object
) -> ComponentView:
    made = ComponentView(
        name=f"{role}-{index}",
        role=role,
        host=host,
        pid=100 + index,
        cores=(index,),
        state=ComponentState.RUNNING,
        restarts=index,
        heartbeat_age_s=0.25,
        cpu_percent=150.0,
        waiting_percent=25.0,
        rss_bytes=2**26,
        gauges=dict.fromkeys(_GAUGES[role], value),
    )
    return made.model_copy(update=changes)


def whole_view(run_id: str = "cartpole-20260101-120000-abcd", **changes: object) -> RunView:
    made = RunView(
        run_id=run_id,
        name="cartpole",
        state=RunState.RUNNING,
        reason="every component is working",
        shape=ShapeView(wanted="L2A4", present="L2A1"),
        attempt=2,
        started_at=AT,
        updated_at=AT,
        elapsed_s=60.0,
        progress=Progress(env_steps=1000, updates=50, episodes=20, version=49),
        reward=Reward(mean_100=123.5, best_mean_100=130.0, episodes=20, mean=120.0, evaluation_mean=140.0),
        rates=Rates(env_steps_per_s=900.0, samples_per_s=800.0, updates_per_s=8.0),
        predicted=Predicted(env_steps_per_s=1000.0, samples_per_s=1000.0, updates_per_s=10.0),
        freshness=Freshness(
            pool_ratio=0.25,
            flow_ratio=0.9,
            version_lag=Lag(mean=2.0, p50=1, p95=8, max=40),
            staleness_ratio=0.1,
            lag_bins=((0, 30), (1, 40), (8, 25), (32, 5)),
        ),
        samples=Samples(produced=1000, consumed=900, dropped_stale=20, dropped_other=30, in_flight=50),
        bottleneck=Bottleneck(side="learner", t_sp_s=0.01, t_rv_s=0.002, n_actors=2),
        drift=Drift(ratio=0.8, drifting=True),
        advice=Advice(shape="L2A6", reason="idle cores", gain=0.2),
        checkpoints=Checkpoints(last_step=800, last_age_s=30.0, complete=3),
        components=(*(component(role) for role in _GAUGES), component(Role.LEARNER, 1, value=1.5, host="cn02")),
        hosts=(
            HostView(
                name="cn01", state="connected", heartbeat_age_s=0.1, clock_offset_s=0.0, cores=(0, 1), head=True
            ),
            HostView(name="cn02", state="lost", heartbeat_age_s=9.0, clock_offset_s=0.5, cores=(0,)),
        ),
        links=(
            LinkView(
                source="cn01", target="cn02", transport="tcp", mb_per_s=12.5, state="up", sent_bytes=10**9,
                saved_bytes=5, joins=2,
            ),
        ),
    )  # fmt: skip
    return made.model_copy(update=changes)

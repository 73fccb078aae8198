"""Runs as the viewer may find them, made up and always the same: small, large, old, in trouble."""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta

from runtime.contract.envspec import EnvSpec
from runtime.contract.plan import Fingerprints, HostPlan, Placement, Plan, Prediction, Sizes
from runtime.contract.states import ComponentState, Role, RunState
from runtime.contract.view import (
    Advice,
    Bottleneck,
    Checkpoints,
    ComponentView,
    Drift,
    Event,
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
from support.plans import make_job
from tianjictl.runs.checkpoints import CheckpointView
from tianjictl.runs.client import Picture

MADE_AT = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


def component(name: str, host: str, cores: tuple[int, ...], **changes: object) -> ComponentView:
    """A component that works."""
    role = Role(name.partition("-")[0])
    known: dict[str, object] = {
        "name": name,
        "role": role,
        "host": host,
        "pid": 4000 + sum(map(ord, name)),
        "cores": cores,
        "state": ComponentState.RUNNING,
        "reason": "working",
        "attempt": 1,
        "heartbeat_age_s": 0.1,
        "cpu_percent": {Role.LEARNER: 98.0, Role.BUFFER: 4.0}.get(role, 51.0),
        "rss_bytes": 47 << 20,
    }
    return ComponentView.model_validate({**known, **changes})


def small_view(**changes: object) -> RunView:
    """Two hosts, one learner, four actors of which one is being restarted."""
    actors = [component(f"actor-{n}", "cn01" if n < 2 else "cn02", (2 + n % 2,)) for n in range(4)]
    actors[3] = component(
        "actor-3", "cn02", (3,), state=ComponentState.BACKOFF, reason="died of signal 9; again in 0.8 s", restarts=1,
        pid=None, cpu_percent=None, rss_bytes=None, heartbeat_age_s=None,
    )  # fmt: skip
    history = tuple((5.0 * n, 500.0 / (1 + math.exp((24 - n) / 5))) for n in range(49))
    known: dict[str, object] = {
        "run_id": "cartpole-ppo-20260102-030000-beef",
        "name": "cartpole-ppo",
        "state": RunState.DEGRADED,
        "reason": "actor-3 is being restarted",
        "shape": ShapeView(wanted="L1A4", present="L1A3"),
        "updated_at": MADE_AT,
        "elapsed_s": 245.0,
        "progress": Progress(env_steps=12_345_678, updates=6_028, episodes=31_007, version=6_028),
        "reward": Reward(
            mean_100=497.5, best_mean_100=500.0, episodes=31_007, history=history, evaluation_mean=500.0,
            evaluation_version=5_990,
        ),
        "rates": Rates(env_steps_per_s=182_300.0, samples_per_s=181_900.0, updates_per_s=88.8),
        "predicted": Predicted(
            env_steps_per_s=211_000.0, samples_per_s=211_000.0, updates_per_s=103.0, bottleneck="learner",
            explanation=("the learner binds: one more core for it gives 38% more", "actors idle 41% of their time"),
        ),
        "freshness": Freshness(
            pool_ratio=0.25, flow_ratio=0.998, version_lag=Lag(mean=2.9, p50=3, p95=4, max=7), staleness_ratio=0.013,
            lag_bins=((1, 1_952), (2, 10_831), (3, 204_305), (4, 60_100), (6, 3_004)),
        ),
        "samples": Samples(produced=12_345_678, consumed=12_330_000, dropped_stale=5_000, in_flight=10_678),
        "bottleneck": Bottleneck(
            side="learner", t_sp_s=0.0029, t_rv_s=4e-5, n_actors=4,
            advice="the learner is the limit (busy 100%; T_sp 2.9 ms, 4 × T_rv 0.04 ms): give it cores or add a group",
        ),
        "drift": Drift(ratio=0.86, drifting=True, reason="an update takes 11.3 ms, 9.7 ms were measured"),
        "advice": Advice(
            shape="L2A4", gain=0.31, reason="a second learner takes half of the updates",
            command="tianjictl scale cartpole-ppo L2A4",
        ),
        "checkpoints": Checkpoints(last_step=12_000_000, last_age_s=21.0, complete=3),
        "components": (component("learner-0", "cn01", (0,)), component("buffer-0", "cn01", (1,)), *actors),
        "hosts": (
            HostView(name="cn01", state="connected", heartbeat_age_s=0.0, cores=(0, 1, 2, 3, 4, 5), head=True),
            HostView(name="cn02", state="connected", heartbeat_age_s=0.3, cores=(2, 3, 4, 5), clock_offset_s=-2.5),
        ),
        "links": (
            LinkView(source="cn02", target="cn01", transport="tcp", mb_per_s=12.3, state="up", joins=1),
            LinkView(source="cn01", target="cn02", transport="tcp", mb_per_s=0.4, state="up", joins=1),
        ),
        "events": events(),
    }  # fmt: skip
    return RunView.model_validate({**known, **changes})


def events() -> tuple[Event, ...]:
    """A death and what came of it, after some quiet minutes."""
    told = [
        ("run.state", "running: every component is working"),
        ("checkpoint.written", "checkpoint 12000000 is complete, 0.08 s after it was asked for"),
        ("component.died", "actor-3 was ended by signal 9"),
        ("component.backoff", "actor-3 is started again in 0.8 s"),
        ("run.state", "degraded: actor-3 is being restarted"),
    ]
    many = [("checkpoint.pruned", f"removed step {n:012d}") for n in range(20)] + told
    return tuple(
        Event(id=f"e{n}", time=MADE_AT + timedelta(seconds=n - 30), kind=kind, message=message)
        for n, (kind, message) in enumerate(many)
    )


def large_view() -> RunView:
    """64 hosts of 8 cores, 200 components; one host lost, some of the rest in trouble."""
    hosts, made = [], []
    for n in range(64):
        lost = n == 17
        hosts.append(
            HostView(
                name=f"node{n:02d}", state="lost" if lost else "connected", cores=tuple(range(8)), head=n == 0,
                heartbeat_age_s=7.0 if lost else 0.1, reason="not heard of for 7.0 s" if lost else "",
            )
        )  # fmt: skip
    for n in range(4):
        made += [component(f"learner-{n}", f"node{n:02d}", (0, 1)), component(f"buffer-{n}", f"node{n:02d}", (2,))]
    trouble = {
        40: {"state": ComponentState.FAILED, "reason": "its restart budget of 5 is spent", "restarts": 5},
        77: {"state": ComponentState.FROZEN, "reason": "no heartbeat for 3.2 s", "heartbeat_age_s": 3.2},
        **{n: {"state": ComponentState.BACKOFF, "reason": "again in 1.6 s", "restarts": 2} for n in (5, 90, 91)},
    }
    for n in range(192):
        changes = trouble.get(n, {"state": ComponentState.AWAY, "reason": "node17 is lost"} if n % 64 == 17 else {})
        made.append(component(f"actor-{n}", f"node{n % 64:02d}", (3 + n // 64,), **changes))
    links = tuple(
        LinkView(source=f"node{n:02d}", target="node00", transport="tcp", mb_per_s=2.0,
                 state="lost" if n == 17 else "up", reason="node17 is away" if n == 17 else "")
        for n in range(1, 64)
    )  # fmt: skip
    return small_view(
        reason="node17 is lost; 6 components are not there", shape=ShapeView(wanted="L4A192", present="L4A184"),
        components=tuple(made), hosts=tuple(hosts), links=links,
    )  # fmt: skip


def live(view: RunView) -> Picture:
    """The view as the coordinator has just given it."""
    return Picture(view, 0.0, live=True, ended=False)


def stale(view: RunView) -> Picture:
    """The view as it was 42 s ago."""
    return Picture(view, 42.0, live=False, ended=False, problem="the coordinator did not answer within 3 s")


def ended(view: RunView) -> Picture:
    """The last view of a run that has completed."""
    done = view.model_copy(update={"state": RunState.COMPLETED, "reason": "mean return 475 reached"})
    return Picture(done, 3600.0, live=False, ended=True)


def plan_of(view: RunView) -> Plan:
    """The plan that a view is of; one actor is on its way out."""
    learners = sum(component.role is Role.LEARNER for component in view.components)
    placements = [
        Placement(
            name=shown.name, role=shown.role, index=number, group=int(shown.name.rpartition("-")[2]) % learners,
            host=shown.host, cores=shown.cores, core_share=1.0, threads=len(shown.cores),
            leaving=shown.name == "actor-2",
        )
        for number, shown in enumerate(view.components)
    ]  # fmt: skip
    return Plan(
        revision=3,
        shape=view.shape.wanted,
        job=make_job(),
        env=EnvSpec(id="CartPole-v1", observation_shape=(4,), num_actions=2, native_vector=True, autoreset="next-step"),
        sizes=Sizes(
            num_envs=32, rollout=16, batch_size=2048, fragments_per_batch=4, buffer_size=8192, ring_slots=4,
            batch_slots=2, publish_every=1, staleness_tolerance=0.5, pool_ratio=0.25,
        ),
        hosts=tuple(HostPlan(name=host.name, cores=host.cores) for host in view.hosts),
        placements=tuple(placements),
        predicted=Prediction(env_steps_per_s=211_000.0, samples_per_s=211_000.0, updates_per_s=103.0),
        fingerprints=Fingerprints(job="-", inventory="-"),
        solver="optimal",
        notes=("the costs are those that cartpole-ppo-20260101-120000-cafe has measured since the profile was made",),
    )  # fmt: skip


def checkpoints() -> list[CheckpointView]:
    """Three, the oldest damaged."""
    damaged = ("learner-0.safetensors: its digest is another",)
    return [
        CheckpointView(step=step, path=f"/runs/r/checkpoints/step-{step:012d}", age_s=age_s, shape="L1A4",
                       bytes=31_000, problems=damaged if step == 10_000_000 else ())
        for step, age_s in ((12_000_000, 21.0), (11_000_000, 81.0), (10_000_000, 141.0))
    ]  # fmt: skip

"""Reports folded into the RunView, the event log, and how a checkpoint's round is judged: all without a process."""

from __future__ import annotations

import logging
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.contract.messages import ComponentReport, EpisodeReport, Report, RingLedger
from runtime.contract.states import ComponentState, Role, RunState
from runtime.contract.view import Checkpoints, Event, Progress, RunView, Samples
from runtime.control.checkpoint_round import ACTOR_PATIENCE_S, Round, Verdict, judge
from runtime.control.counted import Base, resumed
from runtime.control.event_log import EventLog
from runtime.control.fold import Fold
from runtime.control.rewards import HISTORY_POINTS, Rewards
from runtime.control.run_state import Run
from runtime.control.view_builder import Facts, build_view
from runtime.control.watch import ADVICE_EVERY_S, NO_PROGRESS_S, Watch
from runtime.control.window import Window

if TYPE_CHECKING:
    from pathlib import Path

    from runtime.contract.plan import Plan

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


def component(name: str, **fields: Any) -> ComponentReport:
    content = {"name": name, "role": Role(name.partition("-")[0]), "pid": 1, "state": ComponentState.RUNNING, **fields}
    return ComponentReport.model_validate(content)


def report(*components: ComponentReport, **fields: Any) -> Report:
    return Report(node="n1", sequence=1, components=components, **fields)


def view_of(plan: Plan, fold: Fold, now: float = 0.0) -> RunView:
    facts = Facts(
        run_id="r", name="dull", attempt=1, state=RunState.RUNNING, reason="dull", started_at=NOON, updated_at=NOON,
        elapsed_s=now, checkpoints=Checkpoints(), events=(), now=now,
    )  # fmt: skip
    return build_view(plan, fold, facts)


def test_a_resume_books_what_was_in_flight_as_lost() -> None:
    base = resumed(Base(samples=Samples(produced=10, consumed=4, dropped_other=1, in_flight=5)))
    assert base.samples == Samples(produced=10, consumed=4, dropped_other=6)


def test_counters_never_go_back_while_a_resumed_learner_loads(make_plan: Any) -> None:
    base = Base(progress=Progress(env_steps=1000, updates=50, episodes=20, version=50))
    plan = make_plan()
    fold = Fold(plan, base)
    fold.take(report(component("learner-0", state="starting"), component("actor-0", counters={"env_steps": 5})), 1.0)
    assert fold.progress == Progress(env_steps=1005, updates=50, episodes=20, version=50)
    fold.take(report(component("learner-0", counters={"updates": 51, "version": 51})), 2.0)
    assert (fold.progress.updates, fold.progress.version) == (51, 51)
    fold.take(report(component("learner-0", counters={"updates": 52, "version": 52})), 4.0)
    assert view_of(plan, fold).rates.updates_per_s == 0.5, "the jump from nothing to the shard's counters is no rate"


def test_rates_are_growth_over_the_last_ten_seconds(make_plan: Any) -> None:
    plan = make_plan(actors=1)
    fold = Fold(plan, Base())
    for tick in range(400):  # 20 s: 100 steps/s, then 300 steps/s
        now = tick * 0.05
        steps = 100 * now if now <= 10 else 1000 + 300 * (now - 10)
        learner = component("learner-0", counters={"updates": int(now), "samples_trained": int(steps)})
        fold.take(report(learner, component("actor-0", counters={"env_steps": int(steps)})), now)
        if tick == 100:
            assert view_of(plan, fold).rates.env_steps_per_s == pytest.approx(100, rel=0.02)
    rates = view_of(plan, fold).rates
    assert rates.env_steps_per_s == pytest.approx(300, rel=0.05)
    assert rates.samples_per_s == pytest.approx(300, rel=0.05)
    assert rates.updates_per_s == pytest.approx(1, rel=0.15)


def test_a_window_stays_small_and_shows_a_standstill() -> None:
    window = Window()
    for tick in range(10_000):
        window.add((min(tick, 5000), tick), tick * 0.01)
    assert window.growth() == (0, pytest.approx(1000, abs=60))
    assert window.span_s == pytest.approx(10.0, abs=0.6)


def test_lag_and_staleness_are_those_of_the_window(make_plan: Any) -> None:
    plan = make_plan()
    fold = Fold(plan, Base())
    old = [0] * 64
    old[60] = 500
    new = list(old)
    new[0], new[10] = 30, 10
    for now, histogram in ((0.0, old), (5.0, new)):
        learner = component("learner-0", lag_histogram=histogram, counters={"samples_trained": sum(histogram)})
        fold.take(report(learner, component("actor-0", counters={"env_steps": int(now) * 16})), now)
    freshness = view_of(plan, fold).freshness
    assert freshness.version_lag.max == 10, "what was before the window is forgotten"
    assert freshness.version_lag.mean == pytest.approx(2.5)
    assert freshness.staleness_ratio == pytest.approx(0.25), "PPO's max_lag is 8"
    assert freshness.flow_ratio == pytest.approx(0.5)
    assert freshness.pool_ratio == plan.sizes.pool_ratio


def test_the_bottleneck_follows_formula_one(make_plan: Any) -> None:
    plan = make_plan(actors=4)
    fold = Fold(plan, Base())
    assert view_of(plan, fold).bottleneck.side == "unknown"
    actors = [component(f"actor-{n}", gauges={"t_sp_s": 0.010}) for n in range(4)]
    fold.take(report(*actors, component("buffer-0", gauges={"t_rv_s": 0.005})), 0.0)
    found = view_of(plan, fold).bottleneck
    assert (found.side, found.n_actors, found.t_sp_s, found.t_rv_s) == ("receiver", 4, 0.010, 0.005)
    fold.take(report(component("buffer-0", gauges={"t_rv_s": 0.001})), 0.0)
    assert view_of(plan, fold).bottleneck.side == "actors"


def test_a_component_that_nobody_has_reported_is_pending(make_plan: Any) -> None:
    plan = make_plan(actors=2)
    fold = Fold(plan, Base())
    assert view_of(plan, fold).hosts[0].state == "waiting"
    fold.take(report(component("learner-0"), component("actor-0"), component("actor-1", state="backoff")), 1.0)
    view = view_of(plan, fold, now=2.0)
    states = {c.name: c.state for c in view.components}
    assert states["buffer-0"] is ComponentState.PENDING
    assert (view.shape.wanted, view.shape.present) == ("L1A2", "L1A1")
    assert {s.state for s in fold.standings(lambda _: None) if s.name == "buffer-0"} == {ComponentState.PENDING}


def test_only_actors_episodes_are_rewards(make_plan: Any) -> None:
    fold = Fold(make_plan(), Base())
    episodes = tuple(EpisodeReport(component="evaluator-0", episode_return=500.0, length=5) for _ in range(100))
    fold.take(report(episodes=episodes), 0.0)
    assert fold.rewards.mean is None


def test_the_mean_of_a_hundred_needs_a_hundred_and_the_best_stays() -> None:
    rewards = Rewards()
    for _ in range(99):
        rewards.add(10.0)
    assert (rewards.mean, rewards.mean_100) == (10.0, None)
    rewards.add(110.0)
    assert rewards.mean_100 == pytest.approx(11.0)
    for _ in range(100):
        rewards.add(0.0)
    assert (rewards.mean_100, rewards.best) == (0.0, pytest.approx(11.0))
    again = Rewards(rewards.record())
    assert (again.mean_100, again.best) == (rewards.mean_100, rewards.best)


@given(marks=st.integers(1, 3000))
def test_the_curve_keeps_its_shape_within_its_points(marks: int) -> None:
    rewards = Rewards()
    rewards.add(1.0)
    for number in range(marks):
        rewards.mark(float(number))
    times = [elapsed for elapsed, _ in rewards.history]
    assert 1 <= len(times) <= HISTORY_POINTS
    assert times == sorted(set(times))
    assert times[0] == 0.0
    assert times[-1] >= 0.9 * (marks - 1) - 1


# -- the event log


def test_event_ids_and_causes_go_on_over_restarts_and_nodes(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    log = EventLog(path, lambda: NOON)
    first = log.write("run.attempt", "starts")
    frozen = Event(id="n1-1", time=NOON, kind="component.frozen", message="m", component="actor-0", cause=first)
    died = frozen.model_copy(update={"id": "n1-2", "kind": "component.died", "cause": "n1-1"})
    assert [log.adopt(frozen, "n1"), log.adopt(died, "n1")] == ["ev-2", "ev-3"]
    assert [event.cause for event in log.newest] == [None, "ev-1", "ev-2"]
    assert log.of_component("actor-0") == "ev-3"
    with path.open("a") as file:
        file.write('{"id": "ev-4", "time": "20')  # killed in mid-line
    again = EventLog(path, lambda: NOON)
    assert again.write("coordinator.resumed", "goes on") == "ev-4"
    lines = [line for line in path.read_text().splitlines() if line.endswith("}")]
    assert [Event.model_validate_json(line).id for line in lines] == ["ev-1", "ev-2", "ev-3", "ev-4"]


def test_the_newest_events_stand_oldest_first_and_their_lines_in_the_log_name_only_what_there_is(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    log = EventLog(tmp_path / "events.jsonl", lambda: NOON, "tj1")
    log.write("coordinator.resumed", "goes on")
    log.adopt(Event(id="n1-1", time=NOON - timedelta(seconds=2), kind="coordinator.restarted", message="m"), "tj1")
    assert [event.kind for event in log.newest] == ["coordinator.restarted", "coordinator.resumed"]
    log.write("component.died", "gone", component="actor-0", cause="ev-1")
    assert caplog.messages[0] == "coordinator.resumed id=ev-1 goes on"
    assert caplog.messages[-1] == "component.died id=ev-3 component=actor-0 cause=ev-1 gone"


def test_a_log_that_cannot_be_written_does_not_stop_the_run(tmp_path: Path) -> None:
    log = EventLog(tmp_path / "missing" / "events.jsonl", lambda: NOON)
    assert log.write("run.state", "running") == "ev-1"
    assert log.newest[0].kind == "run.state"


# -- a checkpoint's round


def shards(plan: Plan, done: dict[str, int], **states: str) -> dict[str, ComponentReport]:
    return {
        p.name: component(
            p.name, checkpoint_done=done.get(p.name, 0), state=states.get(p.name.replace("-", "_"), "running")
        )
        for p in plan.placements
    }


def test_a_round_is_whole_with_learners_and_buffers_and_waits_a_moment_for_actors(make_plan: Any) -> None:
    plan = make_plan(learners=2, actors=2)
    current = Round.of(plan, 7, "ev-1", 100.0)
    needed = {"learner-0": 7, "learner-1": 7, "buffer-0": 7}
    current, verdict, _ = judge(current, shards(plan, needed), now=101.0, limit_s=60)
    assert verdict is Verdict.WAITING
    needed |= {"buffer-1": 7}
    current, verdict, _ = judge(current, shards(plan, needed), now=102.0, limit_s=60)
    assert verdict is Verdict.WAITING
    everybody = needed | {"actor-0": 7, "actor-1": 7}
    assert judge(current, shards(plan, everybody), now=102.1, limit_s=60)[1] is Verdict.WHOLE
    dead = shards(plan, needed | {"actor-0": 7}, actor_1="backoff")
    assert judge(current, dead, now=102.1, limit_s=60)[1] is Verdict.WHOLE, "a dead actor is not waited for"
    assert judge(current, shards(plan, needed), now=102.0 + ACTOR_PATIENCE_S, limit_s=60)[1] is Verdict.WHOLE


@pytest.mark.parametrize(
    ("done", "states", "now", "reason"),
    [
        ({"learner-0": 7}, {"buffer_0": "failed"}, 1.0, "buffer-0 is failed"),
        ({"learner-0": 7}, {}, 60.5, "buffer-0 wrote no shard within 60 s"),
    ],
)
def test_a_round_fails_for_a_reason(
    make_plan: Any, done: dict[str, int], states: dict[str, str], now: float, reason: str
) -> None:
    plan = make_plan()
    found = judge(Round.of(plan, 7, "ev-1", 0.0), shards(plan, done, **states), now=now, limit_s=60)
    assert found[1] is Verdict.FAILED
    assert reason in found[2]


# -- what only time shows


def test_silence_and_standstill_are_said_once(make_plan: Any, tmp_path: Path) -> None:
    fold, log = Fold(make_plan(), Base()), EventLog(tmp_path / "e.jsonl", lambda: NOON)
    watch = Watch(make_plan(), now=0.0)
    running = Run(state=RunState.RUNNING)
    fold.take(report(component("learner-0", counters={"updates": 5})), 0.0)
    assert list(watch.look(fold, running, log, 1.0)) == []
    assert [type(e).__name__ for e in watch.look(fold, running, log, 4.0)] == ["AgentSilent"]
    silent = running.model_copy(update={"troubles": {"agent": "silent"}})
    assert list(watch.look(fold, silent, log, 5.0)) == []
    later = NO_PROGRESS_S + 5.0
    fold.take(report(component("learner-0", counters={"updates": 5})), later)
    assert [type(e).__name__ for e in watch.look(fold, running, log, later)] == ["NoProgress"]
    stuck = running.model_copy(update={"troubles": {"progress": "stuck"}})
    fold.take(report(component("learner-0", counters={"updates": 6})), later + 1)
    assert [type(e).__name__ for e in watch.look(fold, stuck, log, later + 1)] == ["Progressed"]


def test_a_ledger_that_does_not_add_up_is_said_once(make_plan: Any, tmp_path: Path) -> None:
    fold, log = Fold(make_plan(), Base()), EventLog(tmp_path / "e.jsonl", lambda: NOON)
    watch = Watch(make_plan(), now=0.0)
    for now in (1.0, 2.0):
        fold.take(report(rings={"fragments.actor-0": RingLedger(produced=5, dropped_stale=9)}), now)
        list(watch.look(fold, Run(state=RunState.RUNNING), log, now))
    assert [event.kind for event in log.newest] == ["ledger.mismatch"]
    assert "4 samples" in log.newest[0].message


def test_a_rule_of_the_balance_is_logged_when_it_begins_to_apply(make_plan: Any, tmp_path: Path) -> None:
    plan, log = make_plan(), EventLog(tmp_path / "e.jsonl", lambda: NOON)
    fold, watch = Fold(plan, Base()), Watch(plan, now=0.0)
    stale = [0] * 64
    for number in range(4):
        now = number * ADVICE_EVERY_S + ADVICE_EVERY_S
        stale[20] += 100
        fold.take(report(component("learner-0", lag_histogram=list(stale), counters={"updates": number})), now)
        list(watch.look(fold, Run(state=RunState.RUNNING), log, now))
    said = [event.message for event in log.newest if event.kind == "freshness.advice"]
    assert len([message for message in said if "add a learner" in message]) == 1


def test_roles_of_the_builder_are_those_of_a_run(make_plan: Any) -> None:
    assert {p.role for p in make_plan().placements} == {Role.LEARNER, Role.BUFFER, Role.ACTOR}

"""A run measures that its simulator is the limit, and grows by itself, or says how it should: with real processes."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from runtime.contract.plan import Plan
from runtime.contract.view import RunView
from runtime.control.elastic import REVERSE_COOL_DOWNS
from support.running import ENDLESS, PATIENT, LiveRun, tianjictl

JOB = Path(__file__).parents[2] / "playbooks" / "train" / "cartpole-ppo.yaml"
COOL_DOWN_S = 1.5
LIMITED_BY_ACTORS = (
    *ENDLESS, PATIENT, "env.delay_us=10000", "env.num_envs=16", "training.batch_size=512", "algorithm.epochs=1",
    "distributed.actors=1", "distributed.learners=1", "elastic.min=L1A1", "elastic.max=L1A4", "elastic.patience=1s",
    f"elastic.cool_down={COOL_DOWN_S}",
)  # fmt: skip


@pytest.fixture
def begin(tmp_path: Path) -> Iterator[Callable[[str], LiveRun]]:
    begun: list[LiveRun] = []

    def launch(mode: str) -> LiveRun:
        begun.append(LiveRun(tmp_path, JOB, *LIMITED_BY_ACTORS, f"elastic.mode={mode}"))
        return begun[0]

    yield launch
    for live in begun:
        live.stop()


def look_on(run: LiveRun, views: list[RunView], until: Callable[[RunView], bool], what: str) -> RunView:
    """Keep every view until one is as wanted."""

    def seen(view: RunView) -> bool:
        views.append(view)
        return until(view)

    return run.wait(seen, what=what)


def plan_of(run: LiveRun) -> Plan:
    return Plan.model_validate_json(run.paths.plan.read_bytes())


def messages(run: LiveRun, kind: str) -> list[str]:
    return [str(event["message"]) for event in run.events(kind)]


def assert_exact(views: list[RunView]) -> None:
    for view in views:
        samples = view.samples
        assert samples.produced == (
            samples.consumed + samples.dropped_stale + samples.dropped_other + samples.in_flight
        )  # fmt: skip
    assert views[-1].samples.dropped_other == 0


def test_a_run_that_its_actors_limit_grows_to_its_bound_by_itself_says_why_and_stays_there(begin: Any) -> None:
    run: LiveRun = begin("auto")
    views: list[RunView] = []
    full = look_on(run, views, lambda view: view.shape.present == "L1A4", "growing to L1A4")
    alone = [view for view in views if view.shape.wanted == "L1A1"][-1]
    long_enough = full.elapsed_s + (REVERSE_COOL_DOWNS + 1) * COOL_DOWN_S  # it might have shrunk again by then
    last = look_on(run, views, lambda view: view.elapsed_s > long_enough, "some time at L1A4")

    wanted = [view.shape.wanted for view in views]
    assert list(dict.fromkeys(wanted)) == ["L1A1", "L1A2", "L1A3", "L1A4"]
    assert wanted == sorted(wanted), "it only grew"
    applied = run.events("elastic.applied")
    reason = r"learners are busy \d+% of the time, and actors are the limit: "
    steps = [re.sub(reason, "", event["message"]) for event in applied]
    assert steps == ["L1A1 becomes L1A2", "L1A2 becomes L1A3", "L1A3 becomes L1A4"]
    assert [event["cause"] for event in run.events("plan.revised")] == [event["id"] for event in applied]
    assert plan_of(run).revision == 4
    assert last.rates.env_steps_per_s > 2 * alone.rates.env_steps_per_s, "that was what it grew for"
    assert_exact(views)
    assert not run.events("component.died")

    tianjictl(run.home, "stop", run.run_id, "--yes")
    run.wait_gone()
    ended = run.view()
    assert ended.state == "stopped"
    assert_exact([ended])


def test_a_run_that_only_advises_shows_the_command_and_changes_nothing_until_it_is_typed(begin: Any) -> None:
    run: LiveRun = begin("advise")
    views: list[RunView] = []
    told = look_on(run, views, lambda _: bool(run.events("elastic.advice")), "advice")
    look_on(run, views, lambda view: view.elapsed_s > told.elapsed_s + 2 * COOL_DOWN_S, "some time after it")
    (advice,) = messages(run, "elastic.advice")
    reason, _, command = advice.partition(": tianjictl ")
    assert "actors are the limit" in reason
    assert command == f"scale {run.run_id} L1A2"
    assert {view.shape.wanted for view in views} == {"L1A1"}
    assert (plan_of(run).revision, messages(run, "plan.revised"), messages(run, "elastic.applied")) == (1, [], [])
    assert_exact(views)

    tianjictl(run.home, *command.split(), "--yes")
    look_on(run, views, lambda view: view.shape.present == "L1A2", "what was advised")

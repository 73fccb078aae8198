"""The life of one component, told as stories to the pure machine."""

from __future__ import annotations

from dataclasses import replace

import pytest

from runtime.contract.job import HealthConfig
from runtime.contract.states import ComponentState as S
from runtime.contract.states import Phase
from runtime.control.component_life import (
    Beat,
    Effect,
    Event,
    Exited,
    Kill,
    LeaveRequested,
    Log,
    ReplaceRequested,
    Spawn,
    Spawned,
    SpawnFailed,
    Start,
    StopRequested,
    Terminate,
    Tick,
)  # fmt: skip
from runtime.control.component_machine import FAST_DEATHS, HEALTHY_LIFE_S, SAME_ERRORS, TRANSITIONS, step
from runtime.control.transition import IllegalTransition
from support.component_story import HEALTH, Story, kinds, started


def test_a_component_is_running_once_it_beats_in_a_phase_after_init() -> None:
    story = Story()
    story.tell(Start(id="go"))
    assert story.state is S.STARTING
    story.spawned()
    story.alive(Phase.INIT)
    assert story.state is S.STARTING
    story.alive(Phase.STEADY)
    assert story.state is S.RUNNING


def test_the_first_restart_comes_in_the_same_step_as_the_death() -> None:
    story = started()
    effects = story.die()
    assert kinds(effects) == ["component.died", "component.restarting", "Spawn"]
    assert effects[-1] == Spawn(attempt=2, cause="x")
    assert isinstance(effects[0], Log)
    assert "SIGKILL" in effects[0].message
    assert all(e.cause == "x" for e in effects)
    assert story.life.restarts == 1


def test_the_back_off_grows_and_a_healthy_life_brings_it_back_to_zero() -> None:
    story = started(health=HealthConfig(restarts=20, restart_window=1000))
    waits = []
    for _ in range(6):
        story.die()
        waits.append(0.0 if story.state is S.STARTING else (story.life.restart_at or 0) - story.now)
        if story.state is S.BACKOFF:
            assert story.tick(waits[-1] - 0.01) == []
            assert kinds(story.tick(0.02)) == ["Spawn"]
        story.run()
    assert waits == pytest.approx([0.0, 0.5, 1.0, 2.0, 4.0, 8.0])
    story.die()
    assert story.life.restart_at == pytest.approx(story.now + 10.0)
    story.tick(10.1)
    story.run(working_s=11)
    assert kinds(story.die())[-1] == "Spawn"


def test_a_silent_process_is_frozen_killed_and_restarted() -> None:
    story = started()
    assert story.tick(2.9) == []
    effects = story.tick(0.5)
    assert kinds(effects) == ["component.frozen", "Kill"]
    assert story.state is S.FROZEN
    assert isinstance(effects[1], Kill)
    assert effects[1].pid == story.life.pid
    assert story.tick(5.0) == [], "the kill is sent once"
    effects = story.die()
    assert kinds(effects)[-1] == "Spawn"
    assert isinstance(effects[0], Log)
    assert "no heartbeat" in effects[0].message


def test_each_phase_has_its_own_limit() -> None:
    story = Story()
    story.tell(Start(id="go"))
    story.spawned()
    assert story.tick(59.0) == [], "a slow import is no death"
    story.alive(Phase.STEADY)
    story.alive(Phase.CHECKPOINT)
    assert story.tick(119.0) == []
    story.alive(Phase.STEADY)
    assert kinds(story.tick(3.6)) == ["component.frozen", "Kill"]


def test_time_in_which_the_agent_stood_still_counts_against_nobody() -> None:
    story = started()
    story.tick(1.0)
    story.now += 3600
    assert story.tell(Tick(id="late")) == []
    assert kinds(story.tick(3.1)) == ["component.frozen", "Kill"]


def test_a_beat_of_an_earlier_life_proves_nothing() -> None:
    story = started()
    story.die()
    story.spawned()
    story.tell(Beat(id="b", phase=Phase.STEADY, beat=10**6, attempt=1))
    assert story.state is S.STARTING


def test_the_budget_counts_restarts_inside_a_sliding_window() -> None:
    story = started(working_s=12)
    for _ in range(HEALTH.restarts):
        story.die()
        story.run(working_s=12)
    effects = story.die(status=1, report="ValueError: odd")
    assert kinds(effects) == ["component.died", "component.failed"]
    assert story.state is S.FAILED
    assert "ValueError: odd" in story.life.reason
    assert "4 restarts within 100 s" in story.life.reason

    patient = started(working_s=30)
    for _ in range(3 * HEALTH.restarts):
        patient.die()
        patient.run(working_s=30)
    assert patient.state is S.RUNNING, "deaths that are far enough apart never spend the budget"


def test_deaths_before_any_work_end_it_early_and_say_the_error() -> None:
    story = Story(HealthConfig(restarts=100))
    story.tell(Start(id="go"))
    for _ in range(FAST_DEATHS):
        story.tick(30.0)
        story.spawned()
        effects = story.die(status=1, report="ModuleNotFoundError: No module named 'nope'")
    assert kinds(effects) == ["component.died", "component.failed"]
    assert "before it had begun to work" in story.life.reason
    assert "No module named 'nope'" in story.life.reason


def test_a_process_that_cannot_be_made_is_tried_again_then_given_up() -> None:
    story = Story()
    story.tell(Start(id="go"))
    assert kinds(story.tell(SpawnFailed(id="f", reason="EAGAIN")))[-1] == "Spawn"
    story.tell(SpawnFailed(id="f", reason="EAGAIN"))
    story.tick(1.0)
    story.tell(SpawnFailed(id="f", reason="EAGAIN"))
    assert story.state is S.FAILED
    assert "EAGAIN" in story.life.reason


def test_exit_code_zero_unasked_means_done() -> None:
    story = started()
    assert kinds(story.die(status=0)) == ["component.exited"]
    assert story.state is S.EXITED
    assert story.life.restarts == 0


def test_leaving_when_asked_costs_no_restart() -> None:
    story = started()
    assert story.tell(StopRequested(id="stop")) == []
    assert story.state is S.STOPPING
    assert kinds(story.die(status=0)) == ["component.exited"]
    assert (story.state, story.life.restarts) == (S.EXITED, 0)


def test_who_does_not_leave_gets_term_then_kill() -> None:
    story = started()
    story.tell(StopRequested(id="stop"))
    story.alive(Phase.STOPPING)
    sent: list[Effect] = []
    for _ in range(12):
        sent += story.tick(1.0)
        story.alive(Phase.STOPPING)
    assert [type(e) for e in sent if isinstance(e, Terminate | Kill)] == [Terminate, Kill]
    story.die(status=-9)
    assert story.state is S.EXITED


def test_a_frozen_component_that_is_asked_to_leave_is_killed_at_its_limit() -> None:
    story = started()
    story.tell(StopRequested(id="stop"))
    assert [type(e) for e in story.tick(3.2) if not isinstance(e, Log)] == [Kill]


def test_a_stop_between_two_lives_starts_nothing() -> None:
    story = started()
    story.die()
    story.run()
    story.die()
    assert story.state is S.BACKOFF
    story.tell(StopRequested(id="stop"))
    assert story.state is S.EXITED
    assert story.tick(60.0) == []


EVENTS: tuple[Event, ...] = (
    Start(id="e"),
    Spawned(id="e", pid=7),
    SpawnFailed(id="e", reason="r"),
    Beat(id="e", phase=Phase.STEADY, beat=5, attempt=1),
    Exited(id="e", status=-9),
    Tick(id="e"),
    StopRequested(id="e"),
    LeaveRequested(id="e"),
    ReplaceRequested(id="e"),
)


@pytest.mark.parametrize("state", list(S))
@pytest.mark.parametrize("event", EVENTS, ids=lambda e: type(e).__name__)
def test_every_pair_is_in_the_table_or_raises_with_history(state: S, event: Event) -> None:
    life = replace(started().life, state=state, stop_at=100.0, restart_at=101.0)
    if (state, type(event)) in TRANSITIONS:
        after, effects = step(life, event, now=100.0)
        assert after.state in S
        assert all(e.cause == "e" for e in effects)
    else:
        with pytest.raises(IllegalTransition, match=r"actor-0(.|\n)*go Start|actor-0(.|\n)*Spawned"):
            step(life, event, now=100.0)


def test_an_error_that_repeats_itself_in_short_lives_is_not_tried_for_ever() -> None:
    story = Story(HealthConfig(restarts=100))
    story.tell(Start(id="go"))
    for _ in range(SAME_ERRORS):
        assert story.state is not S.FAILED
        while story.state is S.BACKOFF:
            story.tick()
        story.run(working_s=1)
        effects = story.die(status=1, report="ValueError: this batch cannot be read")
    assert kinds(effects) == ["component.died", "component.failed"]
    assert "the same error ended 4 short lives in a row" in story.life.reason


def test_deaths_from_outside_and_errors_far_apart_are_no_repeated_error() -> None:
    story = Story(HealthConfig(restarts=100))
    story.tell(Start(id="go"))
    for _ in range(3 * SAME_ERRORS):
        while story.state is S.BACKOFF:
            story.tick()
        story.run(working_s=1)
        story.die(status=-9)
        while story.state is S.BACKOFF:
            story.tick()
        story.run(working_s=HEALTHY_LIFE_S + 1)
        story.die(status=1, report="ValueError: now and then")
    assert story.state is not S.FAILED

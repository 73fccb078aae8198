"""Components that hand over to their next life, or leave alone, told as stories to the pure machine."""

from __future__ import annotations

from runtime.contract.states import ComponentState as S
from runtime.contract.states import Phase
from runtime.control.component_life import (
    Beat,
    Effect,
    HandOver,
    Kill,
    LeaveRequested,
    ReplaceRequested,
    Spawn,
    Start,
    Terminate,
)
from support.component_story import Story, kinds, started


def test_a_replaced_component_begins_its_next_life_at_once_and_pays_nothing() -> None:
    story = started()
    assert story.tell(ReplaceRequested(id="new")) == [HandOver(pid=story.life.pid or 0, cause="new")]
    assert story.state is S.RUNNING
    assert story.tell(ReplaceRequested(id="newer")) == [], "the life that begins will read the newest plan anyway"
    story.alive(Phase.STOPPING)
    effects = story.die(status=0)
    assert kinds(effects) == ["component.replaced", "Spawn"]
    assert effects[-1] == Spawn(attempt=2, cause="x")
    assert (story.state, story.life.restarts, story.life.rung) == (S.STARTING, 0, 0)
    story.run()
    assert kinds(story.die(status=0)) == ["component.exited"], "one wish, one replacement"


def test_a_component_that_starts_up_is_replaced_when_it_listens() -> None:
    story = Story()
    story.tell(Start(id="go"))
    assert story.tell(ReplaceRequested(id="new")) == []
    story.spawned()
    story.alive(Phase.INIT)
    assert story.tick(30.0) == []
    story.beat += 1
    effects = story.tell(Beat(id="b", phase=Phase.STEADY, beat=story.beat, attempt=1))
    assert kinds(effects) == ["component.running", "HandOver"]
    assert story.die(status=0)[-1] == Spawn(attempt=2, cause="x")


def test_a_component_that_dies_instead_of_handing_over_pays_for_its_death() -> None:
    story = started()
    story.tell(ReplaceRequested(id="new"))
    assert kinds(story.die(status=1, report="ValueError: odd"))[-1] == "Spawn"
    assert story.life.restarts == 1


def test_who_does_not_hand_over_gets_term_then_kill_and_is_restarted() -> None:
    story = started()
    story.tell(ReplaceRequested(id="new"))
    sent: list[Effect] = []
    for _ in range(12):
        sent += story.tick(1.0)
        story.alive()
    assert [type(e) for e in sent if isinstance(e, Terminate | Kill)] == [Terminate, Kill]
    assert kinds(story.die(status=-9))[-1] == "Spawn"


def test_a_component_that_hangs_while_it_hands_over_is_frozen_like_any_other() -> None:
    story = started()
    story.tell(ReplaceRequested(id="new"))
    assert kinds(story.tick(3.2)) == ["component.frozen", "Kill"]


def test_a_component_that_leaves_alone_is_told_by_signal_and_does_not_come_back() -> None:
    story = started()
    assert story.tell(LeaveRequested(id="smaller")) == [HandOver(pid=story.life.pid or 0, cause="smaller")]
    assert story.state is S.STOPPING
    assert story.tell(ReplaceRequested(id="new")) == []
    assert kinds(story.die(status=0)) == ["component.exited"]
    assert (story.state, story.life.restarts) == (S.EXITED, 0)


def test_one_that_starts_up_leaves_when_it_listens_and_one_that_waits_for_its_restart_at_once() -> None:
    story = Story()
    story.tell(Start(id="go"))
    assert story.tell(LeaveRequested(id="smaller")) == []
    story.spawned()
    story.alive(Phase.INIT)
    story.beat += 1
    effects = story.tell(Beat(id="b", phase=Phase.STEADY, beat=story.beat, attempt=1))
    assert kinds(effects) == ["HandOver"]
    waiting = started()
    waiting.die()
    waiting.run()
    waiting.die()
    waiting.tell(LeaveRequested(id="smaller"))
    assert waiting.state is S.EXITED


def test_one_that_hands_over_and_shall_then_leave_is_told_once() -> None:
    story = started()
    story.tell(ReplaceRequested(id="new"))
    assert story.tell(LeaveRequested(id="smaller")) == []
    assert kinds(story.die(status=0)) == ["component.exited"]


def test_who_does_not_leave_alone_gets_term_then_kill() -> None:
    story = started()
    story.tell(LeaveRequested(id="smaller"))
    sent: list[Effect] = []
    for _ in range(12):
        sent += story.tick(1.0)
        story.alive()
    assert [type(e) for e in sent if isinstance(e, Terminate | Kill)] == [Terminate, Kill]

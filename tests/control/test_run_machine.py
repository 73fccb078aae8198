"""The run as a whole: every pair of state and event, and the stories that matter."""

from __future__ import annotations

from itertools import product

import pytest

from runtime.contract.job import StopConfig
from runtime.contract.states import TERMINAL_RUN_STATES, ComponentState, Role
from runtime.contract.states import RunState as S
from runtime.control.run_machine import TRANSITIONS, step
from runtime.control.run_state import (
    AdoptCheckpoint,
    AgentLost,
    AgentSilent,
    AllExited,
    CheckpointFailed,
    CheckpointWanted,
    CheckpointWritten,
    ComponentsReported,
    Effect,
    NodesJudged,
    NoLearnerLeft,
    NoProgress,
    PreflightFailed,
    PreflightPassed,
    PreflightStarted,
    Progressed,
    Publish,
    RequestCheckpoint,
    Run,
    RunEvent,
    Standing,
    StopComponents,
    StopRequested,
    StopRuleMet,
    WriteCompletion,
)  # fmt: skip
from runtime.control.stop_rules import rule_met
from runtime.control.transition import IllegalTransition


def standings(**changed: ComponentState) -> tuple[Standing, ...]:
    """One learner, one buffer, two actors, all working but for those named (`actor_0=…`)."""
    roles = {"learner-0": Role.LEARNER, "buffer-0": Role.BUFFER, "actor-0": Role.ACTOR, "actor-1": Role.ACTOR}
    return tuple(
        Standing(
            name=name,
            role=role,
            state=changed.get(name.replace("-", "_"), ComponentState.RUNNING),
            reason="dull",
            cause=f"ev-{name}",
        )
        for name, role in roles.items()
    )


EVENTS: tuple[RunEvent, ...] = (
    PreflightStarted(id="e"), PreflightPassed(id="e"), PreflightFailed(id="e", reason="no"),
    ComponentsReported(id="e", components=standings()), AgentSilent(id="e", node="n1", age_s=5.0),
    NodesJudged(id="e", trouble="node n2 is lost"), NoLearnerLeft(id="e", reason="all away"),
    NoProgress(id="e", age_s=90.0), Progressed(id="e"), StopRuleMet(id="e", reason="done"),
    StopRequested(id="e", reason="enough"), CheckpointWanted(id="e", reason="time"), CheckpointWritten(id="e", step=7),
    CheckpointFailed(id="e", reason="full"), AllExited(id="e"), AgentLost(id="e", reason="gone"),
)  # fmt: skip

#: Said independently of the table: what may happen where.
WORKING = {type(event) for event in EVENTS} - {PreflightStarted, PreflightPassed, PreflightFailed}
LEGAL: dict[S, set[type[RunEvent]]] = {
    S.PENDING: {PreflightStarted},
    S.PREFLIGHT: {PreflightPassed, PreflightFailed},
    S.STARTING: {
        ComponentsReported, NodesJudged, NoLearnerLeft, StopRuleMet, StopRequested, AllExited, AgentLost,
    },
    S.RUNNING: WORKING,
    S.DEGRADED: WORKING,
    S.STOPPING: {
        ComponentsReported, AgentSilent, NodesJudged, NoLearnerLeft, StopRequested, CheckpointWritten,
        CheckpointFailed, AllExited, AgentLost,
    },
    **{state: set() for state in TERMINAL_RUN_STATES},
}  # fmt: skip


def tell(run: Run, *events: RunEvent) -> tuple[Run, list[Effect]]:
    effects: list[Effect] = []
    for event in events:
        run, new = step(run, event, now=1.0)
        effects += new
    return run, [effect for effect in effects if not isinstance(effect, Publish)]


def running() -> Run:
    run, _ = tell(
        Run(), PreflightStarted(id="a"), PreflightPassed(id="b"), ComponentsReported(id="c", components=standings())
    )
    assert run.state is S.RUNNING
    return run


@pytest.mark.parametrize(
    ("state", "event"), list(product(S, EVENTS)), ids=lambda x: str(getattr(x, "value", type(x).__name__))
)
def test_every_pair_of_state_and_event_is_legal_or_raises_with_history(state: S, event: RunEvent) -> None:
    run = running().model_copy(update={"state": state, "outcome": S.COMPLETED})
    if type(event) in LEGAL[state]:
        after, effects = step(run, event, now=2.0)
        assert after.state in S
        assert all(effect.cause for effect in effects), "whatever is done has a cause"
    else:
        with pytest.raises(IllegalTransition, match=r"starting → running"):
            step(run, event, now=2.0)
    assert ((state, type(event)) in TRANSITIONS) == (type(event) in LEGAL[state])


def test_a_run_starts_when_every_component_works() -> None:
    run, _ = tell(Run(), PreflightStarted(id="a"), PreflightPassed(id="b"))
    run, _ = tell(run, ComponentsReported(id="c", components=standings(actor_1=ComponentState.STARTING)))
    assert (run.state, run.reason) == (S.STARTING, "waiting for actor-1 (starting)")
    run, _ = tell(run, ComponentsReported(id="d", components=standings(actor_1=ComponentState.FAILED)))
    assert run.state is S.DEGRADED, "one that will never come is not waited for"


def test_a_met_rule_ends_in_checkpoint_then_leaving_then_the_record() -> None:
    run, effects = tell(running(), StopRuleMet(id="ev-9", reason="475 reached"))
    assert effects == [RequestCheckpoint(cause="ev-9", reason="475 reached")]
    run, effects = tell(run, CheckpointWritten(id="ev-10", step=5))
    assert effects == [StopComponents(cause="ev-10", reason="475 reached")]
    run, effects = tell(run, AllExited(id="r"))
    assert effects == [WriteCompletion(cause="r", state=S.COMPLETED, reason="475 reached")]
    assert run.state is S.COMPLETED


def test_the_last_checkpoint_follows_the_one_that_is_under_way() -> None:
    run, _ = tell(running(), CheckpointWanted(id="a", reason="time"))
    assert tell(run, CheckpointWanted(id="b", reason="time"))[1] == [], "one at a time"
    run, effects = tell(run, StopRequested(id="c", reason="enough"))
    assert effects == []
    run, effects = tell(run, CheckpointWritten(id="d", step=5))
    assert [type(e) for e in effects] == [RequestCheckpoint], "that one holds an older state"
    assert [type(e) for e in tell(run, CheckpointWritten(id="e", step=6))[1]] == [StopComponents]


def test_a_last_checkpoint_that_fails_is_said_and_the_run_still_ends() -> None:
    run, _ = tell(running(), StopRequested(id="a", reason="enough"))
    run, effects = tell(run, CheckpointFailed(id="b", reason="no space"))
    assert [type(e) for e in effects] == [StopComponents]
    run, effects = tell(run, AllExited(id="r"))
    assert run.state is S.STOPPED
    assert "without a last checkpoint: no space" in run.reason


def test_a_second_more_urgent_stop_skips_the_checkpoint() -> None:
    run, _ = tell(running(), StopRequested(id="a", reason="enough"))
    assert tell(run, StopRequested(id="b", reason="now"))[1] == []
    run, effects = tell(run, StopRequested(id="c", reason="at once", checkpoint=False))
    assert [type(e) for e in effects] == [StopComponents]
    assert tell(run, CheckpointWritten(id="d", step=5))[1] == [], "they have been told already"


@pytest.mark.parametrize("gone", [ComponentState.FAILED, ComponentState.EXITED])
@pytest.mark.parametrize("who", ["learner_0", "buffer_0"])
def test_without_learner_or_buffer_the_run_fails(who: str, gone: ComponentState) -> None:
    run, effects = tell(running(), ComponentsReported(id="r", components=standings(**{who: gone})))
    assert [type(e) for e in effects] == [StopComponents]
    assert effects[0].cause == f"ev-{who.replace('_', '-')}", "the cause is the event, not the report"
    run, _ = tell(run, AllExited(id="s"))
    assert run.state is S.FAILED


def test_the_newest_event_about_what_is_amiss_is_the_cause() -> None:
    told = standings(actor_0=ComponentState.BACKOFF, actor_1=ComponentState.BACKOFF)
    numbered = tuple(c.model_copy(update={"cause": f"ev-{11 - n}"}) for n, c in enumerate(told))
    _, effects = step(running(), ComponentsReported(id="r", components=numbered), now=1.0)
    assert [e.cause for e in effects] == ["ev-9"], "ev-11 and ev-10 tell of components that work"
    swapped = tuple(c.model_copy(update={"cause": f"ev-{n + 8}"}) for n, c in enumerate(told))
    _, effects = step(running(), ComponentsReported(id="r", components=swapped), now=1.0)
    assert [e.cause for e in effects] == ["ev-11"]


def test_actors_are_expendable_until_the_last() -> None:
    run, effects = tell(running(), ComponentsReported(id="r", components=standings(actor_0=ComponentState.FAILED)))
    assert (run.state, effects) == (S.DEGRADED, [])
    both = standings(actor_0=ComponentState.FAILED, actor_1=ComponentState.FAILED)
    run, effects = tell(run, ComponentsReported(id="s", components=both))
    assert [type(e) for e in effects] == [RequestCheckpoint], "what was learnt is kept"
    assert run.outcome is S.FAILED


def test_a_run_is_degraded_for_as_long_as_anything_is_amiss() -> None:
    run, _ = tell(running(), AgentSilent(id="a", node="n1", age_s=4.0), NoProgress(id="b", age_s=61.0))
    assert run.state is S.DEGRADED
    assert "n1" in run.reason
    assert "no update" in run.reason
    run, _ = tell(run, ComponentsReported(id="c", components=standings()))
    assert run.state is S.DEGRADED, "a report ends the silence, not the standstill"
    run, _ = tell(run, Progressed(id="d"))
    assert run.state is S.RUNNING


def test_a_lost_agent_leaves_a_lost_run_with_or_without_its_guardians_checkpoint() -> None:
    run, effects = tell(running(), AgentLost(id="a", reason="the agent is gone"))
    assert effects == [AdoptCheckpoint(cause="a")]
    kept, effects = tell(run, CheckpointWritten(id="b", step=7))
    assert isinstance(effects[0], WriteCompletion)
    assert kept.state is S.LOST
    assert "checkpoint 7" in kept.reason
    bare, _ = tell(run, CheckpointFailed(id="b", reason="all killed"))
    assert bare.state is S.LOST
    assert "all killed" in bare.reason


def test_a_lost_node_is_a_trouble_of_its_own_and_its_components_are_not_told_twice() -> None:
    away = standings(actor_1=ComponentState.AWAY)
    run, _ = tell(
        running(), NodesJudged(id="a", trouble="node n2 is lost: actor-1 is away, training goes on with L1A1")
    )
    run, effects = tell(run, ComponentsReported(id="b", components=away))
    assert (run.state, run.paused, effects) == (S.DEGRADED, False, [])
    assert run.reason == "node n2 is lost: actor-1 is away, training goes on with L1A1"
    run, _ = tell(run, NodesJudged(id="c"), ComponentsReported(id="d", components=standings()))
    assert (run.state, run.reason) == (S.RUNNING, "every component is working")


def test_a_run_that_waits_for_a_node_is_paused_and_one_that_ends_is_not() -> None:
    run, _ = tell(running(), NodesJudged(id="a", trouble="node n2 is lost: paused until it is back", paused=True))
    assert (run.state, run.paused) == (S.DEGRADED, True)
    assert not tell(run, NodesJudged(id="b"))[0].paused
    assert not tell(run, StopRequested(id="c", reason="enough"))[0].paused


def test_a_learner_that_is_away_fails_nothing_until_it_is_told_that_none_is_left() -> None:
    away = standings(learner_0=ComponentState.AWAY, buffer_0=ComponentState.AWAY)
    run, effects = tell(running(), ComponentsReported(id="a", components=away))
    assert effects == []
    run, effects = tell(run, NoLearnerLeft(id="b", reason="no learner is left"))
    assert [type(effect) for effect in effects] == [StopComponents], "there is nobody to write a checkpoint"
    assert (run.state, run.outcome) == (S.STOPPING, S.FAILED)


def test_nobody_minds_that_what_was_to_leave_has_left() -> None:
    told = (*standings(), Standing(name="learner-1", role=Role.LEARNER, state=ComponentState.EXITED, leaving=True))
    run, effects = tell(running(), ComponentsReported(id="a", components=told))
    assert (run.state, effects) == (S.RUNNING, [])
    only = tuple(
        c.model_copy(update={"leaving": c.role is Role.ACTOR, "state": ComponentState.EXITED}) for c in told[2:4]
    )
    run, effects = tell(run, ComponentsReported(id="b", components=(*told[:2], *only)))
    assert effects == [], "actors that were to leave are not the last that are left"


def test_a_lost_head_has_the_other_nodes_see_their_components_out() -> None:
    run, effects = tell(running(), AgentLost(id="a", reason="the agent is gone", alone=False))
    assert effects == [AdoptCheckpoint(cause="a")]
    run, effects = tell(run, CheckpointWritten(id="b", step=7))
    assert [type(effect) for effect in effects] == [StopComponents]
    run, effects = tell(run, AllExited(id="c"))
    assert [type(effect) for effect in effects] == [WriteCompletion]
    assert run.state is S.LOST
    assert "checkpoint 7" in run.reason


def test_an_agent_lost_after_the_work_is_done_takes_nothing_away() -> None:
    run, _ = tell(running(), StopRuleMet(id="a", reason="done"), CheckpointWritten(id="b", step=7))
    assert tell(run, AgentLost(id="c", reason="gone"))[0].state is S.COMPLETED
    others, effects = tell(run, AgentLost(id="c", reason="gone", alone=False))
    assert (others.state, effects) == (S.STOPPING, []), "other nodes still see theirs out"
    assert tell(others, AllExited(id="d"))[0].state is S.COMPLETED
    early, _ = tell(running(), StopRuleMet(id="a", reason="done"))
    assert tell(early, AgentLost(id="c", reason="gone"))[1] == [AdoptCheckpoint(cause="c")]


def test_components_that_all_leave_unasked_fail_the_run() -> None:
    assert tell(running(), AllExited(id="a"))[0].state is S.FAILED


def test_a_run_survives_its_coordinator_as_json() -> None:
    run, _ = tell(running(), StopRuleMet(id="a", reason="done"))
    assert Run.model_validate_json(run.model_dump_json()) == run


@pytest.mark.parametrize(
    ("stop", "numbers", "expected"),
    [
        ({}, {"env_steps": 10**9}, None),
        ({"reward": 475}, {"mean_100": None}, None),
        ({"reward": 475}, {"mean_100": 474.99}, None),
        ({"reward": 475}, {"mean_100": 475.0}, "475"),
        ({"reward": -20}, {"mean_100": 0.0}, "-20"),
        ({"env_steps": 100}, {"env_steps": 100}, "100 env steps"),
        ({"updates": 100}, {"updates": 99}, None),
        ({"updates": 100}, {"updates": 101}, "101 updates"),
        ({"wall_time": "1m"}, {"elapsed_s": 60.0}, "60 s"),
        ({"reward": 1, "env_steps": 5}, {"env_steps": 5}, "env steps"),
    ],
)
def test_a_stop_rule_is_met_at_its_number_and_not_before(
    stop: dict[str, object], numbers: dict[str, float], expected: str | None
) -> None:
    calm: dict[str, object] = {"mean_100": None, "env_steps": 0, "updates": 0, "elapsed_s": 0.0, **numbers}
    reason = rule_met(StopConfig.model_validate(stop), **calm)  # type: ignore[arg-type]
    assert (reason is None) if expected is None else (reason is not None and expected in reason)

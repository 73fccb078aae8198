"""The run as a whole, decided in pure code: `step(run, event, now=…) -> (run, effects)`.

pending → preflight → starting → running ⇄ degraded → stopping → completed | failed | stopped | lost

A run that is to end writes a last checkpoint (after one that is already being written: that holds an older state),
then has its components leave, then writes its record. Who may be missing: an actor or an evaluator (degraded), or
whatever is away with its node. Who may not: a learner or a buffer whose restarts are spent, the last actor, or every
learner with its node (failed).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from runtime.contract.states import ComponentState, Role, RunState
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
    LinksJudged,
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
from runtime.control.transition import IllegalTransition, remember

S = RunState
Outcome = tuple[Run, list[Effect]]
Handler = Callable[[Run, Any], Outcome]

_GONE = (ComponentState.FAILED, ComponentState.EXITED)  #: for good


def step(run: Run, event: RunEvent, *, now: float) -> Outcome:
    """What becomes of the run and what the coordinator must do, in order. Raises IllegalTransition.

    `now` is seconds since the attempt began; it only dates the history.
    """
    handler = TRANSITIONS.get((run.state, type(event)))
    if handler is None:
        raise IllegalTransition("run", run.state, run.reason, event, run.history)
    after, effects = handler(run, event)
    if after.state is not run.state:
        line = f"{now:.3f} {event.id} {type(event).__name__}: {run.state} → {after.state} ({after.reason})"
        after = after.model_copy(update={"history": remember(after.history, line)})
    worth_saying = after.reason != run.reason and after.state in (S.DEGRADED, S.STOPPING)
    if after.state is not run.state or worth_saying:
        cause = _cause(event)
        effects.insert(0, Publish(cause=cause, kind="run.state", message=f"{after.state}: {after.reason}"))
    return after, effects


def _cause(event: RunEvent) -> str:
    """The event of the log behind a report: the newest that put a component where it is amiss, else the newest."""
    if isinstance(event, ComponentsReported):
        amiss = [c for c in event.components if c.state is not ComponentState.RUNNING and not c.leaving]
        return newest_cause(amiss) or newest_cause(event.components) or event.id
    return event.id


def newest_cause(components: Sequence[Standing]) -> str | None:
    """The newest event of the log that tells of one of these components."""
    known = [component.cause for component in components if component.cause]
    return max(known, key=lambda cause: (len(cause), cause), default=None)  # ev-9 comes before ev-10


def _to(run: Run, **changes: object) -> Run:
    return run.model_copy(update=changes)


def _preflight(run: Run, event: PreflightStarted) -> Outcome:  # noqa: ARG001 - all handlers look alike
    return _to(run, state=S.PREFLIGHT, reason="the machines are being checked"), []


def _preflight_passed(run: Run, event: PreflightPassed) -> Outcome:  # noqa: ARG001
    return _to(run, state=S.STARTING, reason="components are being started"), []


def _preflight_failed(run: Run, event: PreflightFailed) -> Outcome:
    return _end(run, S.FAILED, event.reason, event.id)


def _end(run: Run, state: RunState, reason: str, cause: str) -> Outcome:
    return _to(run, state=state, reason=reason), [WriteCompletion(cause=cause, state=state, reason=reason)]


def _reported(run: Run, event: ComponentsReported) -> Outcome:
    cause = _cause(event)
    wanted = [c for c in event.components if not c.leaving]
    failed = [c for c in wanted if c.state in _GONE]
    for needed in failed:
        if needed.role in (Role.LEARNER, Role.BUFFER):
            reason = f"{needed.name} is {needed.state} and training needs it: {needed.reason}"
            return _begin_stop(run, S.FAILED, reason, cause, checkpoint=False)
    actors = [c for c in wanted if c.role is Role.ACTOR]
    if actors and all(actor in failed for actor in actors):
        return _begin_stop(run, S.FAILED, f"no actor is left: {actors[-1].reason}", cause, checkpoint=True)
    missing = [c for c in wanted if c.state is not ComponentState.RUNNING and not _has_finished(c)]
    if run.state is S.STARTING and any(c not in failed for c in missing):
        reason = "waiting for " + ", ".join(f"{c.name} ({c.state})" for c in missing[:4] if c not in failed)
        return _to(run, reason=reason), []
    troubles = {key: text for key, text in run.troubles.items() if key != "agent" or not event.heard}
    troubles.pop("components", None)
    here = [c for c in missing if c.state is not ComponentState.AWAY]  # of the others `nodes` tells
    if here:
        troubles["components"] = "; ".join(_missing(c) for c in here[:4])
    return _settle(run, troubles), []


def _has_finished(component: Standing) -> bool:
    return component.role is Role.EVALUATOR and component.state is ComponentState.EXITED


def _missing(component: Standing) -> str:
    why = component.reason if component.reason != component.state else ""
    return f"{component.name} is {component.state}" + (f": {why}" if why else "")


def _settle(run: Run, troubles: dict[str, str]) -> Run:
    """Running or degraded, by whether anything is amiss."""
    if troubles:
        return _to(run, state=S.DEGRADED, reason="; ".join(troubles.values()), troubles=troubles)
    return _to(run, state=S.RUNNING, reason="every component is working", troubles=troubles)


def _silent(run: Run, event: AgentSilent) -> Outcome:
    text = f"the agent of {event.node} has not reported since {event.age_s:.0f} s"
    return _settle(run, {**run.troubles, "agent": text}), []


def _nodes_judged(run: Run, event: NodesJudged) -> Outcome:
    troubles = {key: text for key, text in run.troubles.items() if key != "nodes"}
    if event.trouble is not None:
        troubles["nodes"] = event.trouble
    run = _to(run, paused=event.paused)
    return (_to(run, troubles=troubles) if run.state is S.STARTING else _settle(run, troubles)), []


def _no_learner_left(run: Run, event: NoLearnerLeft) -> Outcome:
    return _begin_stop(run, S.FAILED, event.reason, event.id, checkpoint=False)


def _no_progress(run: Run, event: NoProgress) -> Outcome:
    text = f"no update since {event.age_s:.0f} s although every component is working"
    return _settle(run, {**run.troubles, "progress": text}), []


def _links_judged(run: Run, event: LinksJudged) -> Outcome:
    troubles = {key: text for key, text in run.troubles.items() if key != "links"}
    return _settle(run, troubles if event.trouble is None else {**troubles, "links": event.trouble}), []


def _progressed(run: Run, event: Progressed) -> Outcome:  # noqa: ARG001
    return _settle(run, {key: text for key, text in run.troubles.items() if key != "progress"}), []


def _rule_met(run: Run, event: StopRuleMet) -> Outcome:
    return _begin_stop(run, S.COMPLETED, event.reason, event.id, checkpoint=True)


def _stop_requested(run: Run, event: StopRequested) -> Outcome:
    # Before anything has worked there is nothing worth keeping, and nobody to write it.
    return _begin_stop(run, S.STOPPED, event.reason, event.id, checkpoint=event.checkpoint and run.state != S.STARTING)


def _begin_stop(run: Run, outcome: RunState, reason: str, cause: str, *, checkpoint: bool) -> Outcome:
    stopping = _to(run, state=S.STOPPING, reason=reason, outcome=outcome, troubles={}, paused=False)
    if not checkpoint:
        return _leave(stopping, cause)
    if run.checkpointing:
        return _to(stopping, last_wanted=True), []
    return _last_checkpoint(stopping, cause)


def _last_checkpoint(run: Run, cause: str) -> Outcome:
    asked = _to(run, checkpointing=True, last_wanted=False)
    return asked, [RequestCheckpoint(cause=cause, reason=run.reason)]


def _leave(run: Run, cause: str) -> Outcome:
    told = _to(run, checkpointing=False, components_told=True)
    return told, [StopComponents(cause=cause, reason=run.reason)]


def _stop_again(run: Run, event: StopRequested) -> Outcome:
    if event.checkpoint or run.components_told or run.orphaned:
        return run, []
    return _leave(_to(run, reason=f"{run.reason}; {event.reason}"), event.id)


def _checkpoint_wanted(run: Run, event: CheckpointWanted) -> Outcome:
    if run.checkpointing:
        return run, []
    return _to(run, checkpointing=True), [RequestCheckpoint(cause=event.id, reason=event.reason)]


def _checkpoint_over(run: Run, event: CheckpointWritten | CheckpointFailed) -> Outcome:  # noqa: ARG001
    return _to(run, checkpointing=False), []


def _last_checkpoint_written(run: Run, event: CheckpointWritten) -> Outcome:
    if run.orphaned:
        text = f"{run.reason}; checkpoint {event.step} is written, resume continues from it"
        return _orphans_done(run, text, event.id)
    if run.components_told:
        return _to(run, checkpointing=False), []
    return _last_checkpoint(run, event.id) if run.last_wanted else _leave(run, event.id)


def _orphans_done(run: Run, reason: str, cause: str) -> Outcome:
    """Nothing more comes from the head's components; those of other nodes have somebody who sees them out."""
    if run.alone:
        return _end(run, S.LOST, reason, cause)
    return _leave(_to(run, reason=reason), cause)


def _last_checkpoint_failed(run: Run, event: CheckpointFailed) -> Outcome:
    text = f"{run.reason}; without a last checkpoint: {event.reason}"
    if run.orphaned:
        return _orphans_done(run, text, event.id)
    if run.components_told:
        return _to(run, checkpointing=False), []
    return _leave(_to(run, reason=text), event.id)


def _all_left(run: Run, event: AllExited) -> Outcome:
    assert run.outcome is not None
    if run.components_told:
        return _end(run, run.outcome, run.reason, event.id)
    text = f"{run.reason}; every component left before the last checkpoint was complete"
    return _end(run, run.outcome, text, event.id)


def _all_gone(run: Run, event: AllExited) -> Outcome:
    return _end(run, S.FAILED, "every component left unasked", event.id)


def _agent_lost(run: Run, event: AgentLost) -> Outcome:
    lost = _to(
        run, state=S.STOPPING, reason=event.reason, outcome=S.LOST, orphaned=True, alone=event.alone, troubles={},
        paused=False,
    )  # fmt: skip
    return lost, [AdoptCheckpoint(cause=event.id)]


def _agent_lost_starting(run: Run, event: AgentLost) -> Outcome:
    return _end(run, S.LOST, f"{event.reason} before training began", event.id)


def _agent_lost_stopping(run: Run, event: AgentLost) -> Outcome:
    if run.components_told:  # all that mattered is done: the components are leaving by themselves
        assert run.outcome is not None
        left = _to(run, orphaned=True, alone=event.alone)
        return _end(left, run.outcome, run.reason, event.id) if event.alone else (left, [])
    return _agent_lost(run, event)


def _same(run: Run, event: RunEvent) -> Outcome:  # noqa: ARG001
    return run, []


_WORKING: dict[type[RunEvent], Handler] = {
    ComponentsReported: _reported,
    AgentSilent: _silent,
    NodesJudged: _nodes_judged,
    NoLearnerLeft: _no_learner_left,
    NoProgress: _no_progress,
    LinksJudged: _links_judged,
    Progressed: _progressed,
    StopRuleMet: _rule_met,
    StopRequested: _stop_requested,
    CheckpointWanted: _checkpoint_wanted,
    CheckpointWritten: _checkpoint_over,
    CheckpointFailed: _checkpoint_over,
    AllExited: _all_gone,
    AgentLost: _agent_lost,
}

#: Every legal pair; a handler takes the kind of event that its key names. Terminal states hear nothing.
TRANSITIONS: dict[tuple[RunState, type[RunEvent]], Handler] = {
    (S.PENDING, PreflightStarted): _preflight,
    (S.PREFLIGHT, PreflightPassed): _preflight_passed,
    (S.PREFLIGHT, PreflightFailed): _preflight_failed,
    (S.STARTING, ComponentsReported): _reported,
    (S.STARTING, NodesJudged): _nodes_judged,
    (S.STARTING, NoLearnerLeft): _no_learner_left,
    (S.STARTING, StopRuleMet): _rule_met,
    (S.STARTING, StopRequested): _stop_requested,
    (S.STARTING, AllExited): _all_gone,
    (S.STARTING, AgentLost): _agent_lost_starting,
    **{(S.RUNNING, event): handler for event, handler in _WORKING.items()},
    **{(S.DEGRADED, event): handler for event, handler in _WORKING.items()},
    (S.STOPPING, ComponentsReported): _same,
    (S.STOPPING, AgentSilent): _same,
    (S.STOPPING, NodesJudged): _same,
    (S.STOPPING, NoLearnerLeft): _same,
    (S.STOPPING, StopRequested): _stop_again,
    (S.STOPPING, CheckpointWritten): _last_checkpoint_written,
    (S.STOPPING, CheckpointFailed): _last_checkpoint_failed,
    (S.STOPPING, AllExited): _all_left,
    (S.STOPPING, AgentLost): _agent_lost_stopping,
}

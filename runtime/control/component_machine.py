"""The life of one component as its agent sees it, decided in pure code: `step(life, event, now=…)`.

            ┌──────── restart ────────┐
pending → starting → running → frozen ─┤→ backoff → starting …
   │          │          │       │     └→ failed (budget spent)
   └──────────┴──────────┴───────┴→ stopping → exited

A component that is replaced stays running until its process has ended, and is then starting, without any back-off.
`now` is the agent's monotonic clock in seconds. Each tick, the agent feeds what it saw (`Exited`, `Beat`) before
`Tick`, so that a heartbeat that has just advanced is never judged by its old age.
"""

from __future__ import annotations

import signal
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from runtime.contract.states import ComponentState, Phase
from runtime.control.component_life import (
    Beat,
    Effect,
    Event,
    Exited,
    HandOver,
    Kill,
    LeaveRequested,
    Life,
    Log,
    Outcome,
    ReplaceRequested,
    Spawn,
    Spawned,
    SpawnFailed,
    Start,
    StopRequested,
    Terminate,
    Tick,
)  # fmt: skip
from runtime.control.transition import IllegalTransition, remember

S = ComponentState

FAST_DEATHS = 3  #: so many lives in a row that end before steady work: restarting will not help
SAME_ERRORS = 4  #: so many short lives in a row that end with the same error: neither
HEALTHY_LIFE_S = 10.0  #: a life that worked this long sets the back-off to its beginning again
RECEIVER_STALL_S = 1.0  #: a longer gap between ticks means that the agent itself was held up
FIRST_BACKOFF_S, LONGEST_BACKOFF_S = 0.5, 10.0


def step(life: Life, event: Event, *, now: float) -> Outcome:
    """What becomes of the component, and what the agent must do about it, in order. Raises IllegalTransition."""
    handler = TRANSITIONS.get((life.state, type(event)))
    if handler is None:
        raise IllegalTransition(life.name, life.state, life.reason, event, life.history)
    after, effects = handler(life, event, now)
    if after.state is not life.state or isinstance(event, Spawned):
        line = f"{now:.3f} {event.id} {type(event).__name__}: {life.state} → {after.state} ({after.reason})"
        after = replace(after, history=remember(after.history, line))
    return after, effects


def _start(life: Life, event: Start, now: float) -> Outcome:
    return _spawn(life, event.id, now, "starting")


def _spawn(life: Life, cause: str, now: float, reason: str) -> Outcome:
    attempt = life.attempt + 1
    born = replace(
        life, state=S.STARTING, reason=reason, attempt=attempt, pid=None, phase=Phase.INIT, beat=-1, beat_at=now,
        born_at=now, steady=False, restart_at=None, stop_at=None, signals=0, replacing=False, hand_over_due=False,
    )  # fmt: skip
    return born, [Spawn(attempt=attempt, cause=cause)]


def _spawned(life: Life, event: Spawned, now: float) -> Outcome:
    message = f"{life.name} is process {event.pid}, life {life.attempt}"
    effects: list[Effect] = [Log(kind="component.started", message=message, cause=event.id)]
    return replace(life, pid=event.pid, beat_at=now), effects


def _spawn_failed(life: Life, event: SpawnFailed, now: float) -> Outcome:
    if life.state is S.STOPPING:
        return _gone(life, "stopped before its process was made", event.id)
    return _died(life, f"could not be started: {event.reason}", event.id, now)


def _beat(life: Life, event: Beat, now: float) -> Outcome:
    if event.attempt != life.attempt or event.beat == life.beat:
        return life, []
    after = replace(life, beat=event.beat, beat_at=now, phase=event.phase)
    if event.phase is Phase.INIT:
        return after, []
    effects: list[Effect] = []
    if life.state is S.STARTING:
        after = replace(after, state=S.RUNNING, reason="working", steady=True, fast_deaths=0)
        took = f"{life.name} is working, {now - life.born_at:.2f} s after its start"
        effects.append(Log(kind="component.running", message=took, cause=event.id))
    if after.hand_over_due:
        after, told = _hand_over(after, event.id, now)
        effects += told
    return after, effects


def _hand_over(life: Life, cause: str, now: float) -> Outcome:
    """Tell it now, as it listens."""
    assert life.pid is not None
    return replace(life, hand_over_due=False, stop_at=now), [HandOver(pid=life.pid, cause=cause)]


def _tick_alive(life: Life, event: Tick, now: float) -> Outcome:
    life = _forgive_own_stall(life, now)
    limit = _limit(life)
    if life.pid is None:
        return life, []
    if now - life.beat_at <= limit:
        return _insist(life, event.id, now) if life.replacing and life.stop_at is not None else (life, [])
    silent, key = now - life.beat_at, _LIMITS[life.phase]
    reason = f"no heartbeat for {silent:.1f} s in phase {life.phase} (limit {limit:g} s, {key})"
    frozen = replace(life, state=S.FROZEN, reason=reason)
    return frozen, [
        Log(kind="component.frozen", message=f"{life.name}: {reason}; it is killed", cause=event.id),
        Kill(pid=life.pid, reason=reason, cause=event.id),
    ]


def _tick_stopping(life: Life, event: Tick, now: float) -> Outcome:
    life = _forgive_own_stall(life, now)
    if life.pid is None:
        return life, []
    return _insist(life, event.id, now)


def _insist(life: Life, cause: str, now: float) -> Outcome:
    """A component that was asked to end gets SIGTERM after the grace, and SIGKILL after another, or when it hangs."""
    assert life.stop_at is not None
    assert life.pid is not None
    waited, grace = now - life.stop_at, life.health.stop_grace
    if life.signals < 2 and (waited > 2 * grace or now - life.beat_at > _limit(life)):
        reason = f"did not leave within {waited:.1f} s"
        return replace(life, signals=2), [
            Log(kind="component.killed", message=f"{life.name} {reason}", cause=cause),
            Kill(pid=life.pid, reason=reason, cause=cause),
        ]
    if life.signals < 1 and waited > grace:
        return replace(life, signals=1), [
            Terminate(pid=life.pid, reason=f"asked to leave {waited:.1f} s ago", cause=cause)
        ]
    return life, []


def _forgive_own_stall(life: Life, now: float) -> Life:
    """If the agent itself stood still (stopped, starved), the time counts against nobody's heartbeat."""
    gap = now - life.ticked_at if life.ticked_at is not None else 0.0
    forgiven = gap if gap > RECEIVER_STALL_S else 0.0
    return replace(life, ticked_at=now, beat_at=min(now, life.beat_at + forgiven))


#: The job's key that sets the limit of each phase.
_LIMITS = {
    Phase.INIT: "health.init",
    Phase.STEADY: "health.steady",
    Phase.CHECKPOINT: "health.checkpoint",
    Phase.STOPPING: "health.stop_grace",
    Phase.DONE: "health.stop_grace",
}


def _limit(life: Life) -> float:
    match life.phase:
        case Phase.INIT:
            return life.health.init
        case Phase.STEADY:
            return life.health.steady
        case Phase.CHECKPOINT:
            return life.health.checkpoint
        case Phase.STOPPING | Phase.DONE:
            return life.health.stop_grace


def _tick_backoff(life: Life, event: Tick, now: float) -> Outcome:
    life = replace(life, ticked_at=now)
    assert life.restart_at is not None
    if now < life.restart_at:
        return life, []
    return _spawn(life, event.id, now, f"restarted: {life.reason}")


def _tick_idle(life: Life, event: Tick, now: float) -> Outcome:  # noqa: ARG001 - all handlers look alike
    return replace(life, ticked_at=now), []


def _exited_alive(life: Life, event: Exited, now: float) -> Outcome:
    if event.status == 0 and life.state is not S.FROZEN:
        if not life.replacing:
            return _gone(life, "it finished by itself", event.id)
        born, effects = _spawn(life, event.id, now, "replaced")
        told = f"{life.name}: what it works on has changed; its next life begins"
        return born, [Log(kind="component.replaced", message=told, cause=event.id), *effects]
    if life.state is S.FROZEN:
        return _died(life, f"frozen: {life.reason}", event.id, now)
    told = describe_exit(event.status, event.report)
    return _died(life, told, event.id, now, error=event.status > 0 and event.report is not None)


def _exited_stopping(life: Life, event: Exited, now: float) -> Outcome:  # noqa: ARG001
    how = "left when asked" if event.status == 0 else f"left ({describe_exit(event.status, event.report)})"
    return _gone(life, how, event.id)


def _gone(life: Life, reason: str, cause: str) -> Outcome:
    message = f"{life.name}: {reason}"
    gone = replace(life, state=S.EXITED, reason=reason, pid=None, restart_at=None)
    return gone, [Log(kind="component.exited", message=message, cause=cause)]


def _died(life: Life, reason: str, cause: str, now: float, *, error: bool = False) -> Outcome:
    """Decide between a restart now, a restart later, and giving up. `error`: it ended by an error of its own."""
    health = life.health
    short = now - life.born_at < HEALTHY_LIFE_S
    same = life.same_errors + 1 if error and short and reason == life.last_error else int(error)
    recent = tuple(at for at in life.restarted_at if now - at < health.restart_window)
    fast = 0 if life.steady else life.fast_deaths + 1
    dead = replace(
        life, pid=None, restarted_at=recent, fast_deaths=fast, same_errors=same, last_error=reason if error else ""
    )
    died = Log(kind="component.died", message=f"{life.name}: {reason}", cause=cause)
    if len(recent) >= health.restarts:
        return _failed(dead, died, f"{reason}; {len(recent)} restarts within {health.restart_window:g} s are spent")
    if fast >= FAST_DEATHS:
        return _failed(dead, died, f"{reason}; died {fast} times in a row before it had begun to work")
    if same >= SAME_ERRORS:
        return _failed(dead, died, f"{reason}; the same error ended {same} short lives in a row")
    healthy = life.steady and now - life.born_at >= HEALTHY_LIFE_S
    rung = 0 if healthy else life.rung
    delay = 0.0 if rung == 0 else min(LONGEST_BACKOFF_S, FIRST_BACKOFF_S * 2.0 ** (rung - 1))
    waiting = replace(
        dead, state=S.BACKOFF, reason=reason, restart_at=now + delay, restarted_at=(*recent, now),
        restarts=life.restarts + 1, rung=rung + 1,
    )  # fmt: skip
    when = "at once" if delay == 0.0 else f"in {delay:g} s"
    again = Log(kind="component.restarting", message=f"{life.name}: restart {when}", cause=cause)
    if delay > 0.0:
        return waiting, [died, again]
    born, spawn = _spawn(waiting, cause, now, f"restarted: {reason}")
    return born, [died, again, *spawn]


def _failed(dead: Life, died: Log, reason: str) -> Outcome:
    gave_up = Log(kind="component.failed", message=f"{dead.name}: {reason}", cause=died.cause)
    return replace(dead, state=S.FAILED, reason=reason, restart_at=None), [died, gave_up]


def _stop(life: Life, event: StopRequested, now: float) -> Outcome:
    if life.state in (S.PENDING, S.BACKOFF):
        return _gone(life, "stopped before it ran" if life.attempt == 0 else "stopped between two lives", event.id)
    return replace(life, state=S.STOPPING, reason="asked to leave", stop_at=now, hand_over_due=False), []


def _leave(life: Life, event: LeaveRequested, now: float) -> Outcome:
    """As when stopped, but told by a signal, since it alone shall leave; one that starts up is told when it listens."""
    listens, told = life.state is S.RUNNING, life.replacing and not life.hand_over_due
    after, effects = _stop(life, StopRequested(id=event.id), now)
    if after.state is not S.STOPPING or told or life.state is S.FROZEN:
        return after, effects
    return _hand_over(after, event.id, now) if listens else (replace(after, hand_over_due=True), effects)


def _replace_running(life: Life, event: ReplaceRequested, now: float) -> Outcome:
    if life.replacing:
        # The life that ends has read the plan before it was told; the next will read the newest.
        return life, []
    return _hand_over(replace(life, replacing=True, reason="hands over to its next life"), event.id, now)


def _replace_starting(life: Life, event: ReplaceRequested, now: float) -> Outcome:  # noqa: ARG001
    """What it has read is not known, and it does not listen yet."""
    return replace(life, replacing=True, hand_over_due=True), []


def _same(life: Life, event: Event, now: float) -> Outcome:  # noqa: ARG001
    return life, []


def describe_exit(status: int, report: str | None) -> str:
    """`killed by SIGKILL`, `exit code 1: ValueError: …`."""
    if status < 0:
        try:
            how = f"killed by {signal.Signals(-status).name}"
        except ValueError:
            how = f"killed by signal {-status}"
    else:
        how = f"exit code {status}"
    return f"{how}: {report}" if report else how


#: Takes the kind of event that its key names.
Handler = Callable[[Life, Any, float], Outcome]

#: Every legal pair. A component that is over still hears late words; a process is reported gone exactly once.
TRANSITIONS: dict[tuple[ComponentState, type[Event]], Handler] = {
    (S.PENDING, Start): _start,
    (S.PENDING, Tick): _tick_idle,
    (S.PENDING, StopRequested): _stop,
    (S.PENDING, LeaveRequested): _leave,
    (S.PENDING, ReplaceRequested): _same,
    (S.STARTING, Spawned): _spawned,
    (S.STARTING, SpawnFailed): _spawn_failed,
    (S.STARTING, Beat): _beat,
    (S.STARTING, Exited): _exited_alive,
    (S.STARTING, Tick): _tick_alive,
    (S.STARTING, StopRequested): _stop,
    (S.STARTING, LeaveRequested): _leave,
    (S.STARTING, ReplaceRequested): _replace_starting,
    (S.RUNNING, Beat): _beat,
    (S.RUNNING, Exited): _exited_alive,
    (S.RUNNING, Tick): _tick_alive,
    (S.RUNNING, StopRequested): _stop,
    (S.RUNNING, LeaveRequested): _leave,
    (S.RUNNING, ReplaceRequested): _replace_running,
    (S.FROZEN, Beat): _same,
    (S.FROZEN, Exited): _exited_alive,
    (S.FROZEN, Tick): _tick_idle,
    (S.FROZEN, StopRequested): _stop,
    (S.FROZEN, LeaveRequested): _leave,
    (S.FROZEN, ReplaceRequested): _same,
    (S.BACKOFF, Tick): _tick_backoff,
    (S.BACKOFF, StopRequested): _stop,
    (S.BACKOFF, LeaveRequested): _leave,
    (S.BACKOFF, ReplaceRequested): _same,
    (S.STOPPING, Spawned): _spawned,
    (S.STOPPING, SpawnFailed): _spawn_failed,
    (S.STOPPING, Beat): _beat,
    (S.STOPPING, Exited): _exited_stopping,
    (S.STOPPING, Tick): _tick_stopping,
    (S.STOPPING, StopRequested): _same,
    (S.STOPPING, LeaveRequested): _same,
    (S.STOPPING, ReplaceRequested): _same,
    (S.EXITED, Start): _same,
    (S.EXITED, Tick): _tick_idle,
    (S.EXITED, StopRequested): _same,
    (S.EXITED, LeaveRequested): _same,
    (S.EXITED, ReplaceRequested): _same,
    (S.FAILED, Tick): _tick_idle,
    (S.FAILED, StopRequested): _same,
    (S.FAILED, LeaveRequested): _same,
    (S.FAILED, ReplaceRequested): _same,
}  # fmt: skip

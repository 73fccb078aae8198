"""What is known of a run right now: the coordinator's own word, or else the newest files, marked as old."""

from __future__ import annotations

import time
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from pydantic import ValidationError

from runtime.contract.files import write_whole
from runtime.contract.operator import Reply, ViewRequest, ask
from runtime.contract.plan import Plan
from runtime.contract.relay import RelayQuestion
from runtime.contract.states import TERMINAL_RUN_STATES, ComponentState, RunState
from runtime.contract.view import RunView, ShapeView
from tianjictl.errors import Infeasible, TianjiError, Unreachable, UsageProblem
from tianjictl.runs.access import head_place
from tianjictl.runs.elsewhere import left_elsewhere

if TYPE_CHECKING:
    from pathlib import Path

    from runtime.contract.model import Document
    from runtime.contract.record import CompletionRecord
    from tianjictl.runs.access import Place
    from tianjictl.runs.registry import Run

ANSWER_WITHIN_S = 3.0
_ORPHANED_AFTER_S = 60.0


@dataclass(frozen=True, slots=True)
class Picture:
    """A view of the run, how old it is, and whether the coordinator itself gave it."""

    view: RunView
    age_s: float  #: since the view was made
    live: bool  #: the coordinator answered
    ended: bool  #: nothing will change any more
    problem: str | None = None  #: why the coordinator did not answer, where it should have

    @property
    def stale(self) -> bool:
        """Whether the numbers are older than they should be: the run goes on, but nobody answered for it."""
        return not self.live and not self.ended


def observe(run: Run, *, now: datetime | None = None, timeout_s: float = ANSWER_WITHIN_S) -> Picture:
    """The newest picture of the run; never fails, and never passes off an old view as a new one."""
    place = head_place(run)
    if place is not None:
        return _observe_there(run, place, now=now, timeout_s=timeout_s)
    completion = run.completion()
    problem = None
    if completion is None:
        try:
            view = RunView.model_validate(request(run, ViewRequest(), timeout_s=timeout_s))
        except TianjiError as error:
            problem = error.message
        except ValidationError as error:
            problem = f"the coordinator's answer makes no sense ({error.error_count()} errors)"
        else:
            return Picture(view, 0.0, live=True, ended=view.state in TERMINAL_RUN_STATES)
        completion = run.completion()  # it may have ended between the two looks
    # The files are read after the question whether anyone lives, so that a run that ends meanwhile is not called lost.
    alive = run.alive()
    completion = completion or run.completion()
    return judge(
        stored_view(run) or blank_view(run),
        completion,
        alive=alive,
        now=now or datetime.now(UTC),
        problem=problem,
    )


def _observe_there(run: Run, place: Place, *, now: datetime | None, timeout_s: float) -> Picture:
    """The same of a run whose head is another machine. What is heard is kept here, for when nobody answers.

    Where no `now` is given it is the moment after the asking: a host that does not answer takes its time.
    """
    completion = run.completion()
    if completion is not None:
        view = stored_view(run) or blank_view(run)
        return judge(view, completion, alive=False, now=now or datetime.now(UTC), problem=None)
    view_request = ViewRequest().model_dump(mode="json")
    try:
        answer = place.ask(RelayQuestion(request=view_request, timeout_s=timeout_s, status=True))
    except TianjiError as error:
        return _unheard(run, place, error, now or datetime.now(UTC))
    heard, problem = answer.view, answer.problem
    if answer.reply is not None:
        try:
            heard = RunView.model_validate(answer.reply.data)
        except ValidationError as error:
            problem = f"the coordinator's answer makes no sense ({error.error_count()} errors)"
    live = answer.reply is not None and problem is None
    completion = _of_this_attempt(run, answer.completion)
    _keep(run, heard, completion)
    view = heard or stored_view(run) or blank_view(run)
    if live and completion is None:
        return Picture(view, 0.0, live=True, ended=view.state in TERMINAL_RUN_STATES)
    told = None if problem is None else f"the coordinator of {run.run_id} on {place.node.name} {problem}"
    alive = answer.agent_pid is not None or run.being_started()
    return judge(view, completion, alive=alive, now=now or datetime.now(UTC), problem=told)


def _unheard(run: Run, place: Place, error: TianjiError, now: datetime) -> Picture:
    """Whether it lives is not known, so what was last heard is shown as old; unless it is too old to be true."""
    view, name = stored_view(run) or blank_view(run), place.node.name
    if not isinstance(error, Unreachable):
        return judge(view, None, alive=True, now=now, problem=error.message)
    again = f"tianjictl resume {run.run_id} --from-checkpoint goes on without it"
    age_s = (now - view.updated_at).total_seconds()
    if age_s > _orphaned_after_s(run):
        looked, alive = left_elsewhere(run)
        if looked and not alive:
            there = ", ".join(looked)
            reason = (
                f"{name} does not answer, and nothing of the run is left on {there} (last heard of {age_s:.0f} s ago)"
            )
            lost = view.model_copy(update={"state": RunState.LOST, "reason": f"{reason}; {again}"})
            return Picture(nobody_there(lost), age_s, live=False, ended=True, problem=error.message)
    return judge(view, None, alive=True, now=now, problem=f"{error.message}; should {name} stay away, {again}")


def _orphaned_after_s(run: Run) -> float:
    """When agents that hear of no coordinator have surely left."""
    try:
        health = Plan.model_validate_json(run.paths.plan.read_bytes()).job.health
    except (OSError, ValidationError):
        return _ORPHANED_AFTER_S
    return health.orphan_timeout + health.stop_grace


def _of_this_attempt(run: Run, completion: CompletionRecord | None) -> CompletionRecord | None:
    return completion if completion is not None and completion.attempt >= run.attempt else None


def _keep(run: Run, view: RunView | None, completion: CompletionRecord | None) -> None:
    """Copies of what was heard, in the operator's folder; the completion record last, as nobody asks after it."""
    with suppress(OSError):  # a full disk here is no reason to show nothing
        if view is not None:
            write_whole(run.paths.view, view.model_dump_json() + "\n")
        if completion is not None:
            write_whole(run.paths.completion, completion.model_dump_json(indent=2) + "\n")


def judge(
    view: RunView, completion: CompletionRecord | None, *, alive: bool, now: datetime, problem: str | None
) -> Picture:
    """What a stored view means, given how the run ended (if it did) and whether anything of it still lives."""
    age_s = max(0.0, (now - view.updated_at).total_seconds())
    if completion is not None:
        told = view.model_copy(update={"state": completion.state, "reason": completion.reason})
        return Picture(nobody_there(told), age_s, live=False, ended=True)
    if alive:
        return Picture(view, age_s, live=False, ended=False, problem=problem)
    if view.state in TERMINAL_RUN_STATES:
        return Picture(nobody_there(view), age_s, live=False, ended=True)
    reason = f"its agent is gone without a completion record; last heard of as {view.state}: {view.reason}"
    lost = view.model_copy(update={"state": RunState.LOST, "reason": reason})
    return Picture(nobody_there(lost), age_s, live=False, ended=True, problem=problem)


def nobody_there(view: RunView) -> RunView:
    """The last view of a run that is over: what was running when it was made has left since, and no agent is heard.

    A host that had been lost before stays so, with its reason: it may have been what ended the run.
    """
    nothing = {"pid": None, "cpu_percent": None, "rss_bytes": None, "heartbeat_age_s": None}
    over = (ComponentState.FAILED, ComponentState.EXITED)
    gone = {**nothing, "state": ComponentState.EXITED, "reason": ""}
    components = tuple(
        component.model_copy(update=nothing if component.state in over else gone) for component in view.components
    )
    left = {"state": "ended", "reason": "", "heartbeat_age_s": None, "clock_offset_s": None}
    silent = {"heartbeat_age_s": None, "clock_offset_s": None}
    hosts = tuple(host.model_copy(update=silent if host.state == "lost" else left) for host in view.hosts)
    shape = view.shape.model_copy(update={"present": "L0A0"})
    return view.model_copy(update={"components": components, "hosts": hosts, "shape": shape})


def request(run: Run, message: Document, *, timeout_s: float = ANSWER_WITHIN_S) -> object:
    """Ask the run's coordinator and return the data of its answer; TianjiError where it refuses or does not answer."""
    place = head_place(run)
    reply = _ask_here(run, message, timeout_s) if place is None else _ask_there(run, place, message, timeout_s)
    if not reply.ok:
        kind = Infeasible if reply.infeasible else UsageProblem if reply.mistaken else TianjiError
        raise kind(f"the coordinator of {run.run_id} refused: {reply.error or 'no reason given'}", hint=reply.hint)
    return reply.data


def _ask_there(run: Run, place: Place, message: Document, timeout_s: float) -> Reply:
    answer = place.ask(RelayQuestion(request=message.model_dump(mode="json"), timeout_s=timeout_s))
    if answer.reply is None:
        raise TianjiError(f"the coordinator of {run.run_id} on {place.node.name} {answer.problem or 'does not answer'}")
    return answer.reply


def _ask_here(run: Run, message: Document, timeout_s: float) -> Reply:
    try:
        return ask(run.paths.control_socket, message, timeout_s=timeout_s)
    except TimeoutError as error:
        raise TianjiError(f"the coordinator of {run.run_id} did not answer within {timeout_s:g} s") from error
    except (OSError, ValidationError) as error:
        raise TianjiError(f"the coordinator of {run.run_id} does not answer: {_why(error)}") from error


def read_from(run: Run, path: Path, offset: int = 0) -> bytes | None:
    """A file of the run's folder from `offset` on, wherever the head is; none where there is no such file."""
    place = head_place(run)
    if place is not None:
        name = str(path.relative_to(run.paths.root))
        return place.ask(RelayQuestion(read=name, offset=offset)).content
    try:
        with path.open("rb") as file:
            file.seek(offset)
            return file.read()
    except FileNotFoundError:
        return None


def changed_at(run: Run, path: Path) -> float | None:
    """When a file of the run's folder was last written, by the clock of where the head is; none: it is not there."""
    place = head_place(run)
    if place is not None:
        name = str(path.relative_to(run.paths.root))
        return place.ask(RelayQuestion(changed=(name,))).changed.get(name)
    try:
        return path.stat().st_mtime
    except FileNotFoundError:
        return None


def clock_of(run: Run) -> float:
    """Seconds since the epoch, by the clock of where the head is."""
    place = head_place(run)
    return time.time() if place is None else place.ask(RelayQuestion()).now


def stored_view(run: Run) -> RunView | None:
    """The view as the coordinator last wrote it down."""
    try:
        return RunView.model_validate_json(run.paths.view.read_bytes())
    except (OSError, ValidationError):
        return None


def blank_view(run: Run) -> RunView:
    """A view of a run that has not reported yet, from its plan."""
    try:
        wanted = Plan.model_validate_json(run.paths.plan.read_bytes()).shape
    except (OSError, ValidationError):
        wanted = "L0A0"
    return RunView(
        run_id=run.run_id,
        name=run.name,
        state=RunState.PENDING,
        reason="nothing has reported yet",
        shape=ShapeView(wanted=wanted, present="L0A0"),
        attempt=run.attempt,
        updated_at=run.created_at,
    )


def _why(error: Exception) -> str:
    if isinstance(error, FileNotFoundError):
        return "it has no control socket"
    if isinstance(error, ConnectionRefusedError):
        return "nobody listens on its control socket"
    return str(error) or type(error).__name__

"""What is known of a run right now: the coordinator's own word, or else the newest files, marked as old."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from pydantic import ValidationError

from runtime.contract.operator import ViewRequest, ask
from runtime.contract.plan import Plan
from runtime.contract.states import TERMINAL_RUN_STATES, ComponentState, RunState
from runtime.contract.view import RunView, ShapeView
from tianjictl.errors import TianjiError

if TYPE_CHECKING:
    from runtime.contract.model import Document
    from runtime.contract.record import CompletionRecord
    from tianjictl.runs.registry import Run

ANSWER_WITHIN_S = 3.0


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
        return Picture(view, age_s, live=False, ended=True)
    reason = f"its agent is gone without a completion record; last heard of as {view.state}: {view.reason}"
    lost = view.model_copy(update={"state": RunState.LOST, "reason": reason})
    return Picture(nobody_there(lost), age_s, live=False, ended=True, problem=problem)


def nobody_there(view: RunView) -> RunView:
    """The last view of a run that is over: what was running when it was made has left since."""
    nothing = {"pid": None, "cpu_percent": None, "rss_bytes": None, "heartbeat_age_s": None}
    over = (ComponentState.FAILED, ComponentState.EXITED)
    gone = {**nothing, "state": ComponentState.EXITED, "reason": ""}
    components = tuple(
        component.model_copy(update=nothing if component.state in over else gone) for component in view.components
    )
    shape = view.shape.model_copy(update={"present": "L0A0"})
    return view.model_copy(update={"components": components, "shape": shape})


def request(run: Run, message: Document, *, timeout_s: float = ANSWER_WITHIN_S) -> object:
    """Ask the run's coordinator and return the data of its answer; TianjiError where it refuses or does not answer."""
    try:
        reply = ask(run.paths.control_socket, message, timeout_s=timeout_s)
    except TimeoutError as error:
        raise TianjiError(f"the coordinator of {run.run_id} did not answer within {timeout_s:g} s") from error
    except (OSError, ValidationError) as error:
        raise TianjiError(f"the coordinator of {run.run_id} does not answer: {_why(error)}") from error
    if not reply.ok:
        raise TianjiError(f"the coordinator of {run.run_id} refused: {reply.error or 'no reason given'}")
    return reply.data


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

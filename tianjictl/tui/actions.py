"""What a person may do to the run from the screen: the same as the commands do, through the same functions."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Protocol

from runtime.contract.operator import ScaleRequest
from runtime.contract.shape import Shape
from tianjictl.errors import TianjiError, UsageProblem
from tianjictl.runs.checkpointing import write_checkpoint
from tianjictl.runs.scaling import ask_difference, difference_lines, wait_until_scaled
from tianjictl.runs.settings import stop_grace_s
from tianjictl.runs.words import duration

if TYPE_CHECKING:
    from collections.abc import Callable

    from runtime.contract.operator import Difference
    from tianjictl.runs.registry import Run

_CHECKPOINT_WITHIN_S = 120.0
_SCALED_WITHIN_S = 60.0


class Actions(Protocol):
    """Each takes its time, tells its steps to `progress`, returns a sentence, and raises TianjiError where it fails."""

    def checkpoint(self, progress: Callable[[str], None]) -> str:
        """Write a checkpoint and wait until it is whole."""
        ...

    def difference(self, shape: str) -> Difference:
        """What another shape would change; nothing changes."""
        ...

    def scale(self, shape: str, shown: Difference, progress: Callable[[str], None]) -> str | Difference:
        """Make the change that was `shown` and wait until it is so.

        Where it would be another by now nothing is changed, and the difference as it is now is returned.
        """
        ...

    def stop(self, progress: Callable[[str], None]) -> str:
        """Stop the run with a last checkpoint, and see that nothing is left."""
        ...


class RunActions:
    """The actions on a real run."""

    def __init__(self, run: Run) -> None:
        self._run = run

    def checkpoint(self, progress: Callable[[str], None]) -> str:
        """As `tianjictl checkpoint`."""
        made = write_checkpoint(self._run, _CHECKPOINT_WITHIN_S, progress)
        return f"wrote checkpoint {made.step:,} in {duration(made.seconds)}"

    def difference(self, shape: str) -> Difference:
        """As `tianjictl scale --dry-run`."""
        try:
            Shape.parse(shape)
        except ValueError as error:
            raise UsageProblem(str(error)) from error
        return ask_difference(self._run, ScaleRequest(shape=shape, dry_run=True))

    def scale(self, shape: str, shown: Difference, progress: Callable[[str], None]) -> str | Difference:
        """As `tianjictl scale`, which asks but once."""
        began = time.monotonic()
        now = self.difference(shape)
        if not same_change(now, shown):
            return now
        made = ask_difference(self._run, ScaleRequest(shape=shape))
        # The plan may have changed in these few milliseconds: then it is at least said what is done.
        since = "" if same_change(made, shown) else f"; in the end it was {', '.join(difference_lines(made))}"
        wait_until_scaled(self._run, made, (), _SCALED_WITHIN_S, progress)
        return f"it is {made.shape_after} after {duration(time.monotonic() - began)}{since}"

    def stop(self, progress: Callable[[str], None]) -> str:
        """As `tianjictl stop`."""
        from tianjictl.launching.stopping import stop_run

        report = stop_run(self._run, checkpoint=True, grace_s=stop_grace_s(self._run), progress=progress)
        if report.survivors:
            raise TianjiError(f"still running after SIGKILL: {', '.join(map(str, report.survivors))}")
        if report.unreachable:
            raise TianjiError("; ".join(report.unreachable))
        return f"stopped in {duration(report.seconds)} ({report.how}); nothing is left"


def same_change(one: Difference, other: Difference) -> bool:
    """Whether both change the same plan in the same way; what is expected of it may have been measured anew."""
    return one.model_copy(update={"notes": ()}) == other.model_copy(update={"notes": ()})

"""Everything that may end a command, and the exit code it ends with.

    TianjiError              1    something went wrong that has no branch of its own
    ├── UsageProblem         2    wrong arguments, a bad job or a bad inventory
    ├── Infeasible           3    no placement fits the machines
    ├── Unreachable          4    a host does not answer
    ├── DoctorFailed         5    the doctor found a failure
    ├── TrainingFailed       6    the training could not go on
    ├── Degraded             7    it runs, with fewer components than wanted
    ├── PlanStale            8    the plan's inputs have changed since it was made
    ├── Locked               9    another tianjictl holds what this one needs
    ├── CheckpointProblem   11    a checkpoint is missing or damaged
    ├── TimedOut           124    it did not happen in time
    └── Interrupted        130    Ctrl-C

Commands raise these; `tianjictl.cli` prints them once, as `error:` and `hint:` lines, and exits with `exit_code`.
"""

# ruff: noqa: N818 - these are outcomes of a command, named with the words of the table above

from __future__ import annotations

from typing import ClassVar


class TianjiError(Exception):
    """Ends a command: what went wrong, where and why in `message`, the next command in `hint`.

    `details` are further findings of the same kind, one line each, for commands that report all at once.
    """

    exit_code: ClassVar[int] = 1

    def __init__(self, message: str, *, hint: str | None = None, details: tuple[str, ...] = ()) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.details = details

    def lines(self) -> list[str]:
        """What a person is shown, one `error:` line for each finding and the hint last."""
        shown = [f"error: {text}" for text in (self.message, *self.details)]
        if self.hint:
            shown.append(f"hint: {self.hint}")
        return shown


class UsageProblem(TianjiError):
    """Wrong arguments, a bad job or a bad inventory."""

    exit_code = 2


class Infeasible(TianjiError):
    """No placement fits the machines; the message names the limit that binds, the hint the nearest shape that fits."""

    exit_code = 3


class Unreachable(TianjiError):
    """A host does not answer."""

    exit_code = 4


class DoctorFailed(TianjiError):
    """The doctor found at least one failure."""

    exit_code = 5


class TrainingFailed(TianjiError):
    """The training could not go on, or ended without its completion record."""

    exit_code = 6


class Degraded(TianjiError):
    """The run goes on with fewer components than wanted (`status --exit-code`)."""

    exit_code = 7


class PlanStale(TianjiError):
    """The job, the inventory or the profile is no longer what the plan was made from."""

    exit_code = 8


class Locked(TianjiError):
    """Another tianjictl holds the run, or a run of this name is alive."""

    exit_code = 9


class CheckpointProblem(TianjiError):
    """A checkpoint is missing, incomplete, damaged or could not be written."""

    exit_code = 11


class TimedOut(TianjiError):
    """What was waited for did not happen in time."""

    exit_code = 124


class Interrupted(TianjiError):
    """Ended by Ctrl-C."""

    exit_code = 130

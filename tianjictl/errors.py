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

from typing import TYPE_CHECKING, ClassVar, NamedTuple, Self

if TYPE_CHECKING:
    from collections.abc import Sequence


class Finding(NamedTuple):
    """One thing that is wrong, and what mends it where that differs from finding to finding."""

    message: str
    hint: str | None = None


class TianjiError(Exception):
    """Ends a command: what went wrong, where and why in `message`, the next command in `hint`.

    `details` are further findings of the same kind, for commands that report all at once. `usual_hint` is the next
    step where nobody has named a better one.
    """

    exit_code: ClassVar[int] = 1
    usual_hint: ClassVar[str | None] = "run again with --debug to see where"

    def __init__(self, message: str, *, hint: str | None = None, details: tuple[str | Finding, ...] = ()) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.details = details
        self.first_hint: str | None = None  #: of `message` alone, where each finding has its own

    @classmethod
    def listing(cls, findings: Sequence[Finding]) -> Self:
        """One error for all of `findings`, each with its own hint."""
        first, *rest = findings
        error = cls(first.message, details=tuple(rest))
        error.first_hint = first.hint
        return error

    def has_hint(self) -> bool:
        """Whether somebody has named the next step, for all that is wrong or for a part of it."""
        details = (part.hint for part in self.details if isinstance(part, Finding))
        return bool(self.hint or self.first_hint or any(details))

    def findings(self) -> list[Finding]:
        """All that is wrong, the hint with the last finding."""
        found = [Finding(self.message, self.first_hint)]
        found += [Finding(part) if isinstance(part, str) else part for part in self.details]
        hint = self.hint if self.has_hint() else self.usual_hint
        if hint and not found[-1].hint:
            found[-1] = found[-1]._replace(hint=hint)
        return found

    def lines(self) -> list[str]:
        """What a person is shown: an `error:` line for each finding, with its `hint:` below."""
        shown = []
        for finding in self.findings():
            shown.append(f"error: {finding.message}")
            if finding.hint:
                shown.append(f"hint: {finding.hint}")
        return shown


class UsageProblem(TianjiError):
    """Wrong arguments, a bad job or a bad inventory."""

    exit_code = 2
    usual_hint = "tianjictl --help"


class Infeasible(TianjiError):
    """No placement fits the machines; the message names the limit that binds, the hint the nearest shape that fits."""

    exit_code = 3
    usual_hint = "tianjictl profile shows what this machine has"


class Unreachable(TianjiError):
    """A host does not answer."""

    exit_code = 4


class DoctorFailed(TianjiError):
    """The doctor found at least one failure."""

    exit_code = 5


class TrainingFailed(TianjiError):
    """The training could not go on, or ended without its completion record."""

    exit_code = 6
    usual_hint = "tianjictl logs, then tianjictl events, tell why"


class Degraded(TianjiError):
    """The run goes on with fewer components than wanted (`status --exit-code`)."""

    exit_code = 7


class PlanStale(TianjiError):
    """The job, the inventory or the profile is no longer what the plan was made from."""

    exit_code = 8


class Locked(TianjiError):
    """Another tianjictl holds the run, or a run of this name is alive."""

    exit_code = 9
    usual_hint = "tianjictl runs"


class CheckpointProblem(TianjiError):
    """A checkpoint is missing, incomplete, damaged or could not be written."""

    exit_code = 11
    usual_hint = "tianjictl checkpoints lists what there is"


class TimedOut(TianjiError):
    """What was waited for did not happen in time."""

    exit_code = 124
    usual_hint = "tianjictl status"


class Interrupted(TianjiError):
    """Ended by Ctrl-C."""

    exit_code = 130
    usual_hint = None

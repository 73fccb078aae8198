"""Whether the head of a run has the clients of the tracking servers that its job names."""

from __future__ import annotations

import sys
from importlib.util import find_spec
from typing import TYPE_CHECKING

from runtime.contract.job import needed_modules
from tianjictl.errors import DoctorFailed, UsageProblem

if TYPE_CHECKING:
    from runtime.contract.job import Job
    from tianjictl.remote.base import Connection

#: What pip calls them.
_DISTRIBUTIONS = {"mlflow": "mlflow-skinny", "wandb": "wandb"}
_FIND = "import importlib.util, sys; print(*[n for n in sys.argv[1:] if importlib.util.find_spec(n) is None])"
_SCRIPT = 'exec "$@"\n'
_WITHIN_S = 30.0


def refuse_missing_trackers(job: Job) -> None:
    """UsageProblem where this Python, which will coordinate the run, lacks a client that the job needs."""
    missing = [name for name in needed_modules(job) if find_spec(name) is None]
    if missing:
        raise UsageProblem(_told(missing, f"{sys.executable} lacks"), hint=_pip(sys.executable, missing))


def refuse_head_without_trackers(job: Job, head: str, python: str, connection: Connection) -> None:
    """DoctorFailed where the Python of the head lacks a client that the job needs; if it needs none, none is asked."""
    needed = needed_modules(job)
    if not needed:
        return
    done = connection.run(_SCRIPT, python, "-c", _FIND, *needed, timeout_s=_WITHIN_S)
    missing = done.text.split() if done.status == 0 else list(needed)
    if missing:
        raise DoctorFailed(
            f"{head}: check: {_told(missing, f'{python}, which will coordinate the run, lacks')}",
            hint=f"on {head}: {_pip(python, missing)}",
        )


def _told(missing: list[str], who: str) -> str:
    keys = " and ".join(f"metrics.{name}" for name in missing)
    return f"{who} {' and '.join(missing)}, which the job asks for by {keys}"


def _pip(python: str, missing: list[str]) -> str:
    return f"{python} -m pip install {' '.join(_DISTRIBUTIONS[name] for name in missing)}"

"""Work that only the runtime can do (checkpoints, evaluation), run as `python -m runtime …` and answered in JSON."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING, Any

from tianjictl.errors import CheckpointProblem, Infeasible, Interrupted, TianjiError, TimedOut, UsageProblem

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tianjictl.runs.access import Place

_THERE_WITHIN_S = 600.0  #: on another machine, where no other limit is set
_BRANCHES: dict[int, type[TianjiError]] = {
    error.exit_code: error for error in (UsageProblem, Infeasible, CheckpointProblem, TimedOut, Interrupted)
}


def runtime_tool(words: Sequence[str], *, timeout_s: float | None = None, place: Place | None = None) -> Any:
    """Run `python -m runtime WORDS`, here or at `place`, and return the JSON document it prints.

    A tool that fails prints `{"error": …, "hint": …}` and exits with one of the documented codes; it is raised here
    as the error of that code, and any other end as TianjiError with what the tool wrote last.
    """
    if place is not None:
        done = place.run(words, timeout_s=timeout_s or _THERE_WITHIN_S)
        return _understood(words[0], done.status, done.out, done.err)
    try:
        ended = subprocess.run(
            [sys.executable, "-m", "runtime", *words],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=timeout_s,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise TimedOut(f"`runtime {words[0]}` did not finish within {timeout_s:g} s") from error
    return _understood(words[0], ended.returncode, ended.stdout, ended.stderr)


def _understood(tool: str, code: int, out: bytes, err: bytes) -> Any:
    answer = _last_document(out)
    if code == 0 and answer is not None:
        return answer
    if isinstance(answer, dict) and answer.get("error"):
        branch = _BRANCHES.get(code, TianjiError)
        raise branch(str(answer["error"]), hint=answer.get("hint"))
    last = err.decode(errors="replace").strip().splitlines()[-5:]
    raise TianjiError(f"`runtime {tool}` ended with exit code {code}: {' / '.join(last) or 'silent'}")


def _last_document(output: bytes) -> Any:
    """The JSON on the last line; an environment may have printed something before it."""
    lines = output.decode(errors="replace").strip().splitlines()
    if not lines:
        return None
    try:
        return json.loads(lines[-1])
    except ValueError:
        return None

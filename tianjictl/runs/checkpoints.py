"""The checkpoints of a run, as the runtime's own store tells them."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from runtime.contract.model import View
from runtime.contract.paths import RunPaths
from tianjictl.errors import CheckpointProblem, TianjiError, Unreachable
from tianjictl.runs.access import head_place, place_of
from tianjictl.runs.tool import runtime_tool

if TYPE_CHECKING:
    from collections.abc import Callable

    from tianjictl.runs.access import Place
    from tianjictl.runs.registry import Run

LATEST = "latest"


class CheckpointView(View):
    """One checkpoint folder; `problems` is empty where it is complete and undamaged."""

    step: int
    path: str
    created_at: str | None = None  #: RFC 3339
    age_s: float | None = None
    shape: str | None = None
    bytes: int = 0
    complete: bool = True
    problems: tuple[str, ...] = ()
    verified: bool = False  #: every byte was compared, and no file has changed since


def list_checkpoints(run: Run, say: Callable[[str], None] = lambda _line: None) -> list[CheckpointView]:
    """All checkpoints, newest first; looks at manifests and sizes, and knows what was last verified.

    Where the head does not answer, those that another node keeps copies of; `say` hears which.
    """
    return _on_head_or_keeper(run, "list", say)


def verify_checkpoints(run: Run, say: Callable[[str], None] = lambda _line: None) -> list[CheckpointView]:
    """The same, every byte of them compared with its digest."""
    return _on_head_or_keeper(run, "verify", say)


def _on_head_or_keeper(run: Run, action: str, say: Callable[[str], None]) -> list[CheckpointView]:
    try:
        return _views(_tool(run, action))
    except Unreachable as away:
        for node in run.others:
            folder = str(RunPaths(Path(node.folder)).checkpoints)
            with suppress(TianjiError):  # this one is not there either, or keeps none
                if found := _views(runtime_tool(["checkpoints", action, folder], place=place_of(run, node))):
                    say(f"{away.message}; these are the copies on {node.name}")
                    return found
        raise


def prune_checkpoints(run: Run, keep: int) -> list[str]:
    """Remove all but the newest `keep` complete checkpoints, and what is left of unfinished ones; says which went."""
    answer = _tool(run, "prune", "--keep", str(keep))
    return [str(path) for path in answer["removed"]]


def choose_checkpoint(run: Run, wanted: str, skipped: Callable[[str], None]) -> CheckpointView:
    """The checkpoint meant by `latest`, a step number or a path; CheckpointProblem where it cannot be used.

    `latest` is the newest undamaged one: those passed over are told to `skipped`, with what is wrong with them.
    """
    if wanted != LATEST and not wanted.isdecimal():
        return checkpoint_at(wanted)
    return _find(run.paths.checkpoints, wanted, skipped)


def checkpoint_at(wanted: str) -> CheckpointView:
    """The checkpoint in the folder `wanted`, verified; CheckpointProblem where it is missing or damaged."""
    path = Path(wanted).expanduser().absolute()
    if not path.is_dir():
        raise CheckpointProblem(f"there is no checkpoint folder {path}", hint="tianjictl checkpoints")
    return _find(path.parent, str(path), lambda _line: None)


def newest_at_head(run: Run, skipped: Callable[[str], None]) -> tuple[str, Place | None]:
    """The newest undamaged checkpoint of a run, and where it lies, if that is not this machine."""
    place = head_place(run)
    if place is None:
        return choose_checkpoint(run, LATEST, skipped).path, None
    answer = _tool(run, "find", LATEST)
    for line in answer["skipped"]:
        skipped(f"{place.node.name}: {line}")
    return str(answer["checkpoint"]["path"]), place


def _tool(run: Run, action: str, *words: str) -> Any:
    """The runtime's own store, asked where the run's head is."""
    place = head_place(run)
    folder = run.paths.checkpoints if place is None else RunPaths(Path(place.node.folder)).checkpoints
    return runtime_tool(["checkpoints", action, str(folder), *words], place=place)


def _find(folder: Path, selector: str, skipped: Callable[[str], None]) -> CheckpointView:
    answer = runtime_tool(["checkpoints", "find", str(folder), selector])
    for line in answer["skipped"]:
        skipped(str(line))
    return CheckpointView.model_validate(answer["checkpoint"])


def _views(answer: Any) -> list[CheckpointView]:
    return [CheckpointView.model_validate(item) for item in answer["checkpoints"]]

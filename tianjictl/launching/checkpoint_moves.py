"""Checkpoints on the nodes of a run: the newest one wherever it lies, brought to the nodes that begin with it."""

from __future__ import annotations

import hashlib
import json
import tempfile
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from runtime.contract.paths import RunPaths
from tianjictl.errors import CheckpointProblem, TianjiError
from tianjictl.launching.fleet import of_all
from tianjictl.remote.fanout import Limits
from tianjictl.remote.files import fetch
from tianjictl.runs.access import Place
from tianjictl.runs.checkpoints import LATEST, CheckpointView, checkpoint_at
from tianjictl.runs.tool import runtime_tool

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from runtime.contract.record import NodeRecord
    from tianjictl.launching.fleet import Fleet
    from tianjictl.remote.base import Connection
    from tianjictl.runs.registry import Run

MANIFEST = "manifest.json"
_WITHIN_S = 1800.0  #: a replay memory over a slow link takes its time
_MOVE = Limits(tries=1, host_s=_WITHIN_S + 60.0)

# $1 the checkpoint's folder: the digest of its manifest, or nothing where there is none
_DIGEST = """[ -r "$1/manifest.json" ] || exit 0
sha256sum <"$1/manifest.json" | cut -d ' ' -f 1
"""
# $1 checkpoints, $2 the name of the folder that is being filled
_BEGIN = """umask 077
rm -rf -- "$1/$2" && mkdir -p -- "$1/$2"
"""
# $1 checkpoints, $2 the name of the folder that is filled, $3 its final name; an older one of that name is in the way
_FINISH = """rm -rf -- "$1/$3" && mv -- "$1/$2" "$1/$3"
"""


@dataclass(frozen=True, slots=True)
class Found:
    """A whole checkpoint, and on which node it lies; none: on this machine, at `view.path`."""

    view: CheckpointView
    node: NodeRecord | None = None

    @property
    def name(self) -> str:
        return Path(self.view.path).name


def newest_anywhere(
    fleet: Fleet, run: Run, places: Sequence[NodeRecord], wanted: str, progress: Callable[[str], None]
) -> Found:
    """The checkpoint meant by `latest`, a step or a path, on whichever node has it whole. The head's is preferred.

    A path is one of this machine. CheckpointProblem says where nothing was found, node by node.
    """
    if wanted != LATEST and not wanted.isdecimal():
        return Found(checkpoint_at(wanted))
    nodes = {node.name: node for node in places}
    came, failures = fleet.each(
        lambda connection: _find(nodes[connection.host], connection, wanted), nodes, limits=_MOVE
    )
    found = [Found(view, nodes[name]) for name, (view, _) in came.items()]
    for name, (_, skipped) in came.items():
        for line in skipped:
            progress(f"{name}: {line}")
    if not any(Path(node.folder) == run.paths.root for node in places):
        found += _here(run, wanted)
    if not found:
        told = [error.message for error in failures.values()]
        raise CheckpointProblem(f"no complete checkpoint of {run.run_id} on any node: {'; '.join(told) or 'none'}")
    head = run.record.head if run.record else None
    return max(found, key=lambda one: (one.view.step, one.node is not None and one.node.name == head))


def _here(run: Run, wanted: str) -> list[Found]:
    """What the operator's own folder of the run holds."""
    try:
        answer = runtime_tool(["checkpoints", "find", str(run.paths.checkpoints), wanted])
    except CheckpointProblem:
        return []
    return [Found(CheckpointView.model_validate(answer["checkpoint"]))]


def _find(node: NodeRecord, connection: Connection, wanted: str) -> tuple[CheckpointView, list[str]]:
    words = ["checkpoints", "find", str(RunPaths(Path(node.folder)).checkpoints), wanted]
    try:
        with closing(Place(node, connection)) as place:
            answer = runtime_tool(words, timeout_s=_WITHIN_S, place=place)
    except CheckpointProblem as error:
        raise CheckpointProblem(f"{node.name}: {error.message}", hint=error.hint) from error
    return CheckpointView.model_validate(answer["checkpoint"]), [str(line) for line in answer["skipped"]]


def bring(
    fleet: Fleet, found: Found, run: Run, nodes: Sequence[NodeRecord], progress: Callable[[str], None]
) -> dict[str, str]:
    """Bring a checkpoint to the nodes that do not have it yet; its folder on each, by node."""
    targets = {node.name: node for node in nodes}
    with _on_this_machine(fleet, found, run, targets, progress) as (source, digest):
        if source is None:
            return {name: _folder_on(node, found) for name, node in targets.items()}
        came, failures = fleet.each(
            lambda connection: _carry(connection, source, digest, targets[connection.host], found.name),
            targets,
            limits=_MOVE,
            done=lambda name, sent: progress(
                f"{name}: {'has' if sent is None else 'was sent'} {found.name}{_size(sent)}"
            ),
        )
    del came
    if failures:
        raise of_all(failures)
    return {name: _folder_on(node, found) for name, node in targets.items()}


def _folder_on(node: NodeRecord, found: Found) -> str:
    return str(RunPaths(Path(node.folder)).checkpoints / found.name)


def _size(sent: int | None) -> str:
    return "" if sent is None else f", {sent / 2**20:.1f} MiB"


@contextmanager
def _on_this_machine(
    fleet: Fleet, found: Found, run: Run, targets: Mapping[str, NodeRecord], progress: Callable[[str], None]
) -> Iterator[tuple[Path | None, str]]:
    """The checkpoint's folder here, fetched if need be, and its manifest's digest; no folder where nobody lacks it."""
    if found.node is None:
        folder = Path(found.view.path)
        yield folder, hashlib.sha256((folder / MANIFEST).read_bytes()).hexdigest()
        return
    source = fleet.connections[found.node.name]
    if set(targets) == {found.node.name} and _folder_on(targets[found.node.name], found) == found.view.path:
        yield None, ""
        return
    with tempfile.TemporaryDirectory(prefix=".fetched-", dir=run.paths.root) as fetched:
        folder = Path(fetched)
        manifest = source.get(f"{found.view.path}/{MANIFEST}")
        files = json.loads(manifest)["files"]
        progress(f"{found.node.name}: fetching the {len(files)} files of {found.name}")
        for name in files:
            fetch(source, f"{found.view.path}/{name}", folder / name)
        (folder / MANIFEST).write_bytes(manifest)
        yield folder, hashlib.sha256(manifest).hexdigest()


def _carry(connection: Connection, source: Path, digest: str, node: NodeRecord, name: str) -> int | None:
    """Send a checkpoint to a node, compared there with its manifest; bytes sent, none where it was there already."""
    checkpoints = str(RunPaths(Path(node.folder)).checkpoints)
    if connection.run(_DIGEST, f"{checkpoints}/{name}").text == digest:
        return None
    filling = f".tmp-copy-{name.removeprefix('step-')}"
    _script(connection, node, _BEGIN, checkpoints, filling)
    files = sorted(source.iterdir(), key=lambda path: path.name == MANIFEST)  # the manifest last
    for path in files:
        connection.put(path, f"{checkpoints}/{filling}/{path.name}", mode=0o600, timeout_s=_WITHIN_S)
    _script(connection, node, _FINISH, checkpoints, filling, name)
    words = ["checkpoints", "find", checkpoints, f"{checkpoints}/{name}"]
    with closing(Place(node, connection)) as place:
        runtime_tool(words, timeout_s=_WITHIN_S, place=place)
    return sum(path.stat().st_size for path in files)


def _script(connection: Connection, node: NodeRecord, script: str, *args: str) -> None:
    done = connection.run(script, *args)
    if done.status != 0:
        raise TianjiError(f"{node.name}: checkpoint: {done.complaint}")

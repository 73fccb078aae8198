"""What the components of a run wrote, on whichever of its nodes, and their last words."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from runtime.contract.log_files import Piece, natural, read_on
from runtime.contract.paths import RunPaths
from runtime.contract.relay import LogQuestion, RelayQuestion
from tianjictl.errors import TianjiError
from tianjictl.runs.access import folder_here, place_of

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from runtime.contract.record import NodeRecord
    from tianjictl.runs.registry import Run

__all__ = ["LogReader", "Piece", "last_words"]

_OF_EVERY_NODE = ("agent", "forkserver", "courier.", "coordinator")  #: names that more than one node may have


class LogReader:
    """Reads the logs of a run, and on from there with each further call; one stretch for each file.

    A node that cannot be asked is told to `lost` once, and left out until it answers.
    """

    def __init__(
        self, run: Run, *, chosen: Collection[str] = (), node: str | None = None, lost: Callable[[str], None]
    ) -> None:
        self._run = run
        self._chosen = tuple(chosen)
        self._nodes = [each for each in run.nodes if node is None or each.name == node]
        self._lost = lost
        self._told: set[str] = set()
        self._ends: dict[str, dict[str, int]] = {}  #: by node, then file

    def more(self, lines: int | None = None, *, whole: bool = True) -> list[Piece]:
        """What is new; of files seen for the first time the last `lines` (all of them without a number)."""
        if not self._run.nodes:
            return self._read("", self._run.paths, lines, whole)
        pieces = [piece for node in self._nodes for piece in self._of(node, lines, whole)]
        return sorted(pieces, key=lambda piece: (natural(piece.component), piece.attempt))

    def _of(self, node: NodeRecord, lines: int | None, whole: bool) -> list[Piece]:
        here = folder_here(self._run, node)
        try:
            if here is not None:
                pieces = self._read(node.name, RunPaths(here), lines, whole)
            else:
                pieces = self._fetch(node, lines, whole)
        except TianjiError as error:
            if node.name not in self._told:
                self._told.add(node.name)
                self._lost(f"the logs of {node.name} cannot be read: {error.message}")
            return []
        self._told.discard(node.name)
        several = len(self._run.nodes) > 1
        return [replace(piece, component=_named(piece.component, node.name)) if several else piece for piece in pieces]

    def _read(self, node: str, paths: RunPaths, lines: int | None, whole: bool) -> list[Piece]:
        ends = self._ends.setdefault(node, {})
        pieces = read_on(paths.logs, ends, lines=lines, chosen=self._chosen, whole=whole)
        ends.update((piece.name, piece.end) for piece in pieces)
        return pieces

    def _fetch(self, node: NodeRecord, lines: int | None, whole: bool) -> list[Piece]:
        ends = self._ends.setdefault(node.name, {})
        asked = LogQuestion(ends=ends, lines=lines, chosen=self._chosen, whole=whole)
        answer = place_of(self._run, node).ask(RelayQuestion(logs=asked))
        pieces = [
            Piece(piece.component, piece.attempt, piece.name, piece.changed, piece.end, list(piece.lines))
            for piece in answer.logs
        ]
        ends.update((piece.name, piece.end) for piece in pieces)
        return pieces


def last_words(run: Run, components: Collection[str], *, lines: int = 12) -> list[str]:
    """The end of the newest non-empty log of each of `components`, each line led by the component's name."""
    newest: dict[str, Piece] = {}
    for piece in LogReader(run, chosen=components, lost=lambda _why: None).more(lines, whole=False):
        if piece.lines:
            newest[piece.component] = piece
    return [f"{piece.component}.{piece.attempt}: {line}" for piece in newest.values() for line in piece.lines]


def _named(component: str, node: str) -> str:
    return f"{component}@{node}" if component.startswith(_OF_EVERY_NODE) else component

"""What a key may lead to beyond another frame: the shell around the pure model carries it out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from runtime.contract.operator import Difference


@dataclass(frozen=True, slots=True)
class Leave:
    """The viewer goes; the training stays."""


@dataclass(frozen=True, slots=True)
class OpenPalette:
    """Show the command palette."""


@dataclass(frozen=True, slots=True)
class WriteCheckpoint:
    """Ask the run for a checkpoint."""


@dataclass(frozen=True, slots=True)
class AskDifference:
    """Ask what another shape would change; nothing changes."""

    shape: str


@dataclass(frozen=True, slots=True)
class Rescale:
    """Change the shape, as the person has confirmed who was shown the difference."""

    shape: str
    shown: Difference


@dataclass(frozen=True, slots=True)
class StopRun:
    """Stop the run, as `tianjictl stop` does."""


Effect = Leave | OpenPalette | WriteCheckpoint | AskDifference | Rescale | StopRun
ACTIONS = (WriteCheckpoint, AskDifference, Rescale, StopRun)  #: those that touch the run

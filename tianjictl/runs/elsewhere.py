"""Whether anything of a run is left on its other nodes, asked when its head does not answer any more."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tianjictl.errors import TianjiError
from tianjictl.runs.access import place_of
from tianjictl.runs.sweeping import sweep

if TYPE_CHECKING:
    from tianjictl.runs.registry import Run


def left_elsewhere(run: Run) -> tuple[list[str], list[str]]:
    """Nodes other than the head that could be looked at, and those of them on which processes of the run are."""
    looked, alive = [], []
    for node in run.others:
        try:
            found = sweep(place_of(run, node).connection, run.run_id, "look")
        except TianjiError:
            continue  # then nobody knows about this one either
        looked.append(node.name)
        if found:
            alive.append(node.name)
    return looked, alive

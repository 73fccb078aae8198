"""Whether anything of a run is left on its other nodes, asked when its head does not answer any more."""

from __future__ import annotations

from typing import TYPE_CHECKING

from runtime.contract.run_mark import RUN_ID_VARIABLE
from tianjictl.errors import TianjiError
from tianjictl.runs.access import place_of

if TYPE_CHECKING:
    from tianjictl.runs.registry import Run

_LOOK = 'grep -qzsx -- "$1" /proc/[0-9]*/environ'  # words of an environment end with NUL, which is what -z is for
_WITHIN_S = 10.0


def left_elsewhere(run: Run) -> tuple[list[str], list[str]]:
    """Nodes other than the head that could be looked at, and those of them on which processes of the run are."""
    looked, alive = [], []
    for node in run.nodes:
        if run.head is not None and node.name == run.head.name:
            continue
        try:
            found = place_of(run, node).connection.run(_LOOK, f"{RUN_ID_VARIABLE}={run.run_id}", timeout_s=_WITHIN_S)
        except TianjiError:
            continue  # then nobody knows about this one either
        looked.append(node.name)
        if found.status == 0:
            alive.append(node.name)
    return looked, alive

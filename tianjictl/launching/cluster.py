"""A node more for a run that lives: prepared first, with nothing started; then its agent."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from runtime.contract.plan import HostPlan
    from tianjictl.hosts.types import Inventory
    from tianjictl.runs.registry import Run


def add_node(
    run: Run, inventory: Inventory, host_name: str, progress: Callable[[str], None], *, dry_run: bool = False
) -> HostPlan:
    """Reach a host, check it, stage what it lacks and note it in the run's record; nothing is started there.

    With `dry_run` it is reached and checked, and nothing is written there or here.

    The answer is what the coordinator must know of it (`ScaleRequest.add`). UsageProblem where the inventory has no
    such host; Unreachable or DoctorFailed where it cannot be used.
    """
    raise NotImplementedError


def start_node(run: Run, host_name: str, progress: Callable[[str], None]) -> None:
    """Start the agent of a node that `add_node` has prepared, and wait until it has answered.

    TianjiError says why it did not; nothing of it is left on the host then.
    """
    raise NotImplementedError

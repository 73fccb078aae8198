"""The hosts that a command line names, where they are more than this machine."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    from tianjictl.hosts.types import Inventory


def chosen_hosts(path: Path | None) -> Inventory | None:
    """The inventory in `path`, else in inventory/hosts.yaml; none where it says no more than this machine.

    Nothing is loaded for a command that names no inventory where none lies about.
    """
    from pathlib import Path

    if path is None and not Path("inventory", "hosts.yaml").is_file():
        return None
    from tianjictl.cli.output import note
    from tianjictl.hosts.reader import load

    found = load(path)
    for problem in found.notes:
        note(f"warning: {problem}", style="yellow")
    if len(found.hosts) > 1 or found.hosts[0].connection != "local":
        return found  # said without loading what plans over hosts
    from tianjictl.launching.cluster_plan import is_this_machine

    return None if is_this_machine(found) else found

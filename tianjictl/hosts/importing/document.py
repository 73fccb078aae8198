"""Found hosts as the text of an inventory, and that text in its file: only if our own reader takes it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import yaml

from runtime.contract.files import write_whole
from tianjictl.errors import UsageProblem
from tianjictl.hosts.reader import read

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from tianjictl.hosts.importing.found import Found
    from tianjictl.hosts.types import Inventory

_ENDINGS = (".yaml", ".yml")


def inventory_text(hosts: Sequence[Found], origin: str) -> str:
    """An inventory of these hosts; what every one of several says alike is written once. `origin` says who made it."""
    shared: dict[str, str | int] = {}
    if len(hosts) > 1:
        first, *others = (host.variables for host in hosts)
        shared = {key: value for key, value in first.items() if all(other.get(key) == value for other in others)}
    listed = {host.name: {k: v for k, v in host.variables.items() if k not in shared} or None for host in hosts}
    whole: dict[str, object] = {"vars": shared, "hosts": listed} if shared else {"hosts": listed}
    body = yaml.safe_dump({"all": whole}, sort_keys=False, allow_unicode=True, width=10_000)
    return f"# Made by: {origin}\n" + body.replace(": null\n", ":\n")


def checked(text: str, file: str) -> Inventory:
    """The inventory as our own reader understands it; InventoryProblem where it does not."""
    return read(text.encode(), file)


def refuse_target(path: Path) -> None:
    """UsageProblem where an inventory cannot be written to `path`, said before anything is looked at."""
    if path.suffix not in _ENDINGS:
        raise UsageProblem(f"{path}: an inventory ends in .yaml or .yml", hint=f"-o {path.with_suffix('.yaml')}")
    if path.exists() or path.is_symlink():
        raise UsageProblem(f"{path} is there already, and is left as it is", hint="name another file, or remove it")


def write_new(path: Path, text: str) -> None:
    """Write a file that was not there before; it appears whole."""
    refuse_target(path)
    try:
        write_whole(path, text)
    except OSError as error:
        hint = "give a file in a folder that exists and may be written to"
        raise UsageProblem(f"{path} cannot be written: {error.strerror or error}", hint=hint) from error

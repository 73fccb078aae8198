"""`tianjictl inventory`: the hosts of an inventory file, where each setting comes from, and trust in their keys."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tianjictl.cli import completion as complete
from tianjictl.cli.inventory_import import (
    HostFile,
    InventoryCommand,
    Match,
    Output,
    Slurm,
    Sources,
    SshConfig,
    import_inventory,
)
from tianjictl.cli.options import INVENTORY_VARIABLE, Json
from tianjictl.cli.options import Inventory as InventoryFile
from tianjictl.cli.output import emit_json, note, print_table
from tianjictl.errors import UsageProblem
from tianjictl.hosts.reader import load

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tianjictl.hosts.types import Host, Inventory

_ACTIONS = ("list", "show", "trust", "import")
COMMAND_CLASS = InventoryCommand  #: where the command line looks for it
_FIELDS = (
    "address", "connection", "port", "user", "key_file", "ssh_words", "connect_timeout_s", "host_keys", "python",
    "network", "max_cores", "reserve_cores", "roles", "workdir", "link", "ports", "mpiexec", "mpi_abi", "labels",
)  # fmt: skip


Action = Annotated[
    str,
    typer.Argument(
        metavar="list|show|trust|import",
        help="What to do; list if left out.",
        autocompletion=complete.inventory_actions,
    ),
]
HostName = Annotated[
    str | None,
    typer.Argument(metavar="HOST", help="One host; all of them if left out.", autocompletion=complete.hosts_to_show),
]


def inventory(
    action: Action = "list",
    host: HostName = None,
    file: InventoryFile = None,
    origin: Annotated[bool, typer.Option("--origin", help="Show where each variable was written.")] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Trust new keys without asking.")] = False,
    slurm: Slurm = None,
    hostfile: HostFile = None,
    ssh_config: SshConfig = None,
    match: Match = None,
    output: Output = None,
    json: Json = False,
) -> int:
    """List the hosts of an inventory, show what is known of them, or trust the SSH keys of those seen first now.

    import makes an inventory of a Slurm list, an MPI hostfile or an SSH configuration.
    """
    if action not in _ACTIONS:
        raise UsageProblem(f"no such action: {action}", hint="list, show, trust or import")
    sources = Sources(slurm, hostfile, ssh_config, match, output)
    if action == "import":
        named = file is not None and str(file) != os.environ.get(INVENTORY_VARIABLE)
        if host is not None or named or origin or yes:
            hint = "tianjictl inventory import --slurm 'cn[01-04]' -o FILE"
            raise UsageProblem("import takes no host, -i, --origin or --yes", hint=hint)
        return import_inventory(sources, json=json)
    if sources != Sources():
        raise UsageProblem(f"{action} makes no inventory", hint="tianjictl inventory import --help")
    if action == "list" and (host is not None or origin):
        raise UsageProblem("list takes neither a host nor --origin", hint="tianjictl inventory show HOST --origin")
    found = load(file)
    warnings = [str(problem) for problem in found.notes]
    hosts = found.hosts if host is None else (_named(found, host),)
    if action == "trust":
        from tianjictl.cli.trust import trust

        return trust(hosts, yes=yes, json=json)
    if json:
        data = {"file": found.file, "hosts": [_data(each) for each in hosts], "groups": found.groups}
        emit_json("inventory", data, warnings=warnings)
        return 0
    for warning in warnings:
        note(f"warning: {warning}", style="yellow")
    if action == "list":
        print_table(
            ("host", "address", "connection", "roles", "max cores", "link", "groups"), [_row(each) for each in hosts]
        )
    elif origin:
        _print_origins(hosts)
    else:
        print_table(("host", "setting", "value"), [row for each in hosts for row in _settings(each)])
    return 0


def _named(found: Inventory, name: str) -> Host:
    host = found.find(name)
    if host is None:
        from runtime.contract.yaml_source import nearest

        near = nearest(name, [each.name for each in found.hosts])
        hint = f"did you mean {near}?" if near else "tianjictl inventory list shows them all"
        raise UsageProblem(f"{found.file or 'this machine'}: there is no host {name}", hint=hint)
    return host


def _row(host: Host) -> tuple[str, ...]:
    where = host.address if host.port is None else f"{host.address} port {host.port}"
    groups = ", ".join(name for name in host.groups if name not in ("all", "ungrouped"))
    most = "-" if host.max_cores is None else str(host.max_cores)
    return host.name, where, host.connection, ", ".join(host.roles) or "any", most, host.link, groups or "-"


def _settings(host: Host) -> list[tuple[str, str, str]]:
    told = {field: getattr(host, field) for field in _FIELDS}
    if host.ports is not None:
        told["ports"] = f"{host.ports[0]}-{host.ports[1]}"
    return [(host.name, field, _shown(value)) for field, value in told.items() if _is_set(value)]


def _print_origins(hosts: Sequence[Host]) -> None:
    if rows := [row for each in hosts for row in _origins(each)]:
        print_table(("host", "variable", "value", "origin"), rows)
    if bare := [each.name for each in hosts if not each.settings]:
        note(f"no variable was written for {', '.join(bare)}: what inventory show tells of it are the defaults")


def _origins(host: Host) -> list[tuple[str, str, str, str]]:
    return [(host.name, name, _shown(setting.value), setting.origin) for name, setting in host.settings.items()]


def _is_set(value: object) -> bool:
    return value is not None and value != ()


def _shown(value: object) -> str:
    return " ".join(str(item) for item in value) if isinstance(value, tuple | list) else str(value)


def _data(host: Host) -> dict[str, Any]:
    return {
        "name": host.name,
        **{field: getattr(host, field) for field in _FIELDS},
        "groups": host.groups,
        "variables": {
            name: {"value": setting.value, "origin": setting.origin} for name, setting in host.settings.items()
        },
    }

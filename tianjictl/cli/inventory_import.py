"""`tianjictl inventory import`: an inventory made of what another tool knows of the hosts."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer
from typer.core import TyperCommand

from tianjictl.errors import UsageProblem

if TYPE_CHECKING:
    from tianjictl.hosts.importing.found import Found

Slurm = Annotated[
    str | None,
    typer.Option("--slurm", metavar="[LIST]", help="import: hosts of cn[01-04,07], or of the job this runs in."),
]
HostFile = Annotated[
    Path | None, typer.Option("--hostfile", metavar="FILE", help="import: hosts of an MPI hostfile, with slots.")
]
SshConfig = Annotated[
    str | None,
    typer.Option("--ssh-config", metavar="[FILE]", help="import: hosts of an SSH configuration; ~/.ssh/config."),
]
Match = Annotated[
    str | None, typer.Option("--match", metavar="GLOB", help="import --ssh-config: only names like this.")
]
Output = Annotated[
    Path | None, typer.Option("--output", "-o", metavar="FILE", help="import: a new file; standard output.")
]

#: Options whose value may be left out, and what stands for it then.
BARE = {"--slurm": "", "--ssh-config": ""}
_SOURCES = "--slurm, --hostfile and --ssh-config"
_JOB_HOSTS = ("SLURM_JOB_NODELIST", "SLURM_NODELIST")
_JOB_CPUS = "SLURM_JOB_CPUS_PER_NODE"


class InventoryCommand(TyperCommand):
    """Lets the values of --slurm and --ssh-config be left out."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        filled = []
        for index, word in enumerate(args):
            bare = word in BARE and (index + 1 == len(args) or args[index + 1].startswith("-"))
            filled.append(f"{word}={BARE[word]}" if bare else word)
        return super().parse_args(ctx, filled)


class Sources(NamedTuple):
    """The options of `import`: where the hosts are to come from, and where they are to go."""

    slurm: str | None = None  #: empty where the job's own list is meant
    hostfile: Path | None = None
    ssh_config: str | None = None  #: empty where the user's own is meant
    match: str | None = None
    output: Path | None = None


def import_inventory(sources: Sources, *, json: bool) -> int:
    """Find the hosts, write them down, read that back, and only then put it where it was asked for."""
    output = sources.output
    if sources[:3].count(None) != 2:
        raise UsageProblem(f"import takes one of {_SOURCES}", hint="tianjictl inventory import --slurm 'cn[01-04]'")
    if sources.match is not None and sources.ssh_config is None:
        raise UsageProblem("--match goes with --ssh-config", hint="the other lists name what is meant")
    from tianjictl.hosts.importing.document import checked, inventory_text, refuse_target, write_new

    if output is not None:
        refuse_target(output)
    hosts, origin = _found(sources)
    text = inventory_text(hosts, f"tianjictl inventory import {origin}")
    known = checked(text, str(output or "the imported inventory"))
    warnings = [str(problem) for problem in known.notes]
    if output is not None:
        write_new(output, text)
    _tell(hosts, text, output, warnings, json=json)
    return 0


def _found(sources: Sources) -> tuple[list[Found], str]:
    """The hosts, and the options that found them."""
    import shlex

    slurm, hostfile, ssh_config, match, _ = sources
    if slurm is not None:
        text, source, cpus = _slurm(slurm)
        from tianjictl.hosts.importing.slurm import slurm_hosts

        return slurm_hosts(text, source, cpus), f"--slurm {shlex.quote(' '.join(text.split()))}"
    if hostfile is not None:
        from tianjictl.hosts.importing.hostfile import hostfile_hosts

        return hostfile_hosts(_text(hostfile), str(hostfile)), f"--hostfile {shlex.quote(str(hostfile))}"
    from tianjictl.hosts.importing.ssh_config import ssh_config_hosts, usual_file

    file = Path(ssh_config).expanduser() if ssh_config else usual_file()
    named = f"--ssh-config {shlex.quote(str(file))}" + (f" --match {shlex.quote(match)}" if match else "")
    return ssh_config_hosts(file, match), named


def _slurm(given: str) -> tuple[str, str, str | None]:
    """(the list, where it is from, the CPUs of its hosts): of the job that this runs in, unless a list is given."""
    of_job = next((name for name in _JOB_HOSTS if os.environ.get(name)), None)
    if given:
        own = of_job is not None and os.environ[of_job] == given
        return given, "--slurm", os.environ.get(_JOB_CPUS) if own else None
    if of_job is None:
        hint = "give the list, as in --slurm 'cn[01-04]', or run it inside the job"
        raise UsageProblem("--slurm without a list needs a Slurm job: SLURM_JOB_NODELIST is not set", hint=hint)
    return os.environ[of_job], of_job, os.environ.get(_JOB_CPUS)


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise UsageProblem(f"{path}: cannot be read: {error.strerror}", hint="name another: --hostfile FILE") from error
    except UnicodeDecodeError as error:
        raise UsageProblem(f"{path}: is no text: {error.reason} at byte {error.start}") from error


def _tell(hosts: list[Found], text: str, output: Path | None, warnings: list[str], *, json: bool) -> None:
    from tianjictl.cli.output import emit_json, note

    if json:
        listed = [{"name": host.name, "variables": dict(host.variables)} for host in hosts]
        emit_json("inventory", {"file": output, "hosts": listed, "inventory": text}, warnings=warnings)
        return
    for warning in warnings:
        note(f"warning: {warning}", style="yellow")
    if output is None:
        sys.stdout.write(text)
    else:
        note(f"wrote {len(hosts)} hosts to {output}; tianjictl inventory trust -i {output} looks at their keys")

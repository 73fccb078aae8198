"""`tianjictl scale`: another shape, or other hosts, for a training that goes on meanwhile."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Annotated

import typer

from runtime.contract.operator import ScaleRequest
from runtime.contract.shape import Shape
from tianjictl.cli import completion as complete
from tianjictl.cli.options import Inventory, Json, Yes, confirm
from tianjictl.cli.output import emit_json, note, say
from tianjictl.cli.progress import Progress
from tianjictl.errors import TianjiError, UsageProblem
from tianjictl.runs.client import observe
from tianjictl.runs.registry import find_run
from tianjictl.runs.scaling import ask_difference, changes, difference_lines, wait_until_scaled
from tianjictl.runs.words import duration

if TYPE_CHECKING:
    from collections.abc import Callable

    from runtime.contract.operator import Difference
    from runtime.contract.plan import HostPlan
    from tianjictl.hosts.types import Inventory as Hosts
    from tianjictl.runs.registry import Run

_PRESENT_WITHIN_S = 60.0


def scale(
    run: Annotated[
        str, typer.Argument(metavar="RUN", help="Run id, a beginning of it, or a name.", autocompletion=complete.runs)
    ],
    shape: Annotated[
        str | None, typer.Argument(metavar="SHAPE", help="Learners and actors in total, as in L4A16.")
    ] = None,
    add_host: Annotated[
        list[str] | None,
        typer.Option(
            "--add-host",
            metavar="H",
            help="A host that joins the run; may repeat.",
            autocompletion=complete.other_hosts,
        ),
    ] = None,
    remove_host: Annotated[
        list[str] | None,
        typer.Option(
            "--remove-host",
            metavar="H",
            help="A host that is to be left; may repeat.",
            autocompletion=complete.hosts_of_run,
        ),
    ] = None,
    inventory: Inventory = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show the difference; change nothing.")] = False,
    yes: Yes = False,
    json: Json = False,
) -> int:
    """Grow or shrink a running training. It shows what would start and leave, asks, and waits until it is so.

    Training goes on meanwhile: new learners take over parameters and optimiser from one that is there, and what leaves
    is drained first. Hosts that join are found in the inventory.
    """
    found = find_run(run)
    added, removed = tuple(add_host or ()), tuple(remove_host or ())
    _check(shape, added, removed)
    hosts = _hosts(found, inventory) if added else None
    _refuse_if_over(found, shape)
    with Progress("asking what would change") as progress:
        joining = _prepared(found, hosts, added, progress, dry_run=True)
        shown = ask_difference(found, ScaleRequest(shape=shape, add=joining, remove=removed, dry_run=True))
    returning = tuple(name for name in added if name not in shown.hosts_added)
    if not json:
        _show(shown, returning)
    if dry_run or not (changes(shown) or returning):
        return _tell(found, shown, 0.0, applied=False, json=json)
    confirm(_question(found, shown, returning), yes=yes)
    began = time.monotonic()
    with Progress("scaling") as progress:
        joining = _prepared(found, hosts, added, progress, dry_run=False)
        made = ask_difference(found, ScaleRequest(shape=shape, add=joining, remove=removed))
        if (made.starts, made.leaves) != (shown.starts, shown.leaves):
            progress.keep("the run has changed since: this is what is being done")
            for line in difference_lines(made):
                progress.keep(line)
        _start(found, added, made, progress)
        wait_until_scaled(found, made, returning, _PRESENT_WITHIN_S, progress)
    return _tell(found, made, time.monotonic() - began, applied=True, json=json)


def _check(shape: str | None, added: tuple[str, ...], removed: tuple[str, ...]) -> None:
    if shape is None and not added and not removed:
        raise UsageProblem("nothing to change", hint="name a shape, as in tianjictl scale RUN L2A8, or --add-host H")
    if shape is not None:
        try:
            Shape.parse(shape)
        except ValueError as error:
            raise UsageProblem(str(error), hint="tianjictl scale RUN L2A8") from error
    if both := sorted(set(added) & set(removed)):
        raise UsageProblem(f"{', '.join(both)}: a host cannot join and be left at once")


def _refuse_if_over(run: Run, shape: str | None) -> None:
    picture = observe(run)
    if picture.ended:
        again = f"tianjictl resume {run.run_id} --from-checkpoint" + (f" --shape {shape}" if shape else "")
        raise UsageProblem(f"{run.run_id} is over ({picture.view.state}: {picture.view.reason})", hint=again)


def _hosts(run: Run, path: Inventory) -> Hosts:
    """Where hosts that join are looked up: the inventory, else what the run's own record knows of its hosts."""
    from tianjictl.cli.inventory_input import chosen_hosts

    found = chosen_hosts(path)
    if found is not None:
        return found
    if run.record is None or not run.record.nodes:
        raise UsageProblem("--add-host needs the inventory with that host", hint="pass -i INVENTORY")
    from tianjictl.hosts.types import Inventory as Known
    from tianjictl.runs.nodes import host_of

    return Known(None, tuple(host_of(node) for node in run.record.nodes))


def _prepared(
    run: Run, hosts: Hosts | None, names: tuple[str, ...], progress: Callable[[str], None], *, dry_run: bool
) -> tuple[HostPlan, ...]:
    if hosts is None:
        return ()
    from tianjictl.launching.cluster import add_nodes

    return add_nodes(run, hosts, names, progress, dry_run=dry_run)


def _show(change: Difference, returning: tuple[str, ...]) -> None:
    say(f"{change.shape_before} → {change.shape_after}")
    for line in [*(f"+ host {name}, back with what it ran" for name in returning), *difference_lines(change)]:
        say(line, style={"+": "green", "-": "red"}.get(line[0], ""))
    for line in change.notes:
        note(line)


def _start(run: Run, names: tuple[str, ...], change: Difference, progress: Callable[[str], None]) -> None:
    """The agents of hosts that join. Those that do not start leave the run with nodes too many: said with the way."""
    if not names:
        return
    from tianjictl.launching.cluster import start_nodes

    progress(f"starting the agent{'s' if len(names) > 1 else ''} on {', '.join(names)}")
    try:
        start_nodes(run, names, progress)
    except TianjiError as error:
        leave = " ".join(f"--remove-host {name}" for name in names)
        error.message = f"{', '.join(names)} joined {run.run_id}, but: {error.message}"
        error.hint = f"tianjictl scale {run.run_id} {change.shape_before} {leave}"
        raise


def _question(run: Run, change: Difference, returning: tuple[str, ...]) -> str:
    back = f"bring {', '.join(returning)} back into {run.run_id}" if returning else ""
    if not changes(change):
        return f"{back.capitalize()}?"
    scaled = f"Scale {run.run_id} from {change.shape_before} to {change.shape_after}"
    return f"{scaled}, and {back}?" if back else f"{scaled}?"


def _say_who_is_lost(run: Run) -> None:
    view = observe(run).view
    if lost := [host.name for host in view.hosts if host.state == "lost"]:
        them = ", ".join(lost)
        note(f"{view.shape.present} of it is present: {them} {'are' if len(lost) > 1 else 'is'} lost", style="yellow")


def _tell(run: Run, change: Difference, seconds: float, *, applied: bool, json: bool) -> int:
    if json:
        data = {"run_id": run.run_id, "applied": applied, "seconds": seconds, **change.model_dump(mode="json")}
        emit_json("scale", data)
    elif applied:
        say(f"{run.run_id} is {change.shape_after} after {duration(seconds)}")
        _say_who_is_lost(run)
    else:
        say("nothing was changed" if changes(change) else f"{run.run_id} is as wanted already")
    return 0

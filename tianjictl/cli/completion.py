"""What the shell offers after TAB: names of runs, components, hosts, checkpoints and playbooks.

Taken from local files alone, within the time of a key press: nobody is asked, no host is reached, nothing is written.
Whatever is wrong with those files is for the command itself to say: here it only means that there is nothing to offer.
"""

from __future__ import annotations

import json
import os
import sys
from contextlib import suppress
from functools import wraps
from typing import TYPE_CHECKING, Any, NoReturn

import typer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from pathlib import Path

    from tianjictl.hosts.types import Inventory
    from tianjictl.runs.registry import Run

ASKED = "_TIANJICTL_COMPLETE"  #: set by the shell while it asks
_MOST_RUNS = 200
_RUNS_WITH_STATE = 40  #: reading how a run stands takes three files
_CHECKPOINT = "step-"  #: how the folder of a checkpoint begins

Offer = tuple[str, str]  #: what may stand there, and what it is


def answer_shell(group: Any) -> NoReturn:
    """Print what the shell may offer for the words in its environment, and end the process.

    Never an error, as nobody has asked for words: half a command line can be wrong in every way.
    """
    _join_at_equals()
    if not os.environ.get("TIANJICTL_DEBUG"):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stderr.fileno())
    try:
        group.main([], prog_name="tianjictl", standalone_mode=False)
    except SystemExit:
        pass  # typer's way of saying that it has answered
    except Exception as unfit:  # whatever it is, named: there is nothing to offer then
        sys.stderr.write(f"{type(unfit).__name__}: {unfit}\n")
    with suppress(OSError):  # the shell has stopped listening
        sys.stdout.flush()
    os._exit(0)  # taking everything down in order would be a sixth of the time


def _join_at_equals() -> None:
    """Bash parts `--host=cn` into three words, and replaces the last one: what stands between is left out."""
    try:
        words, at = os.environ["COMP_WORDS"].split("\n"), int(os.environ["COMP_CWORD"])
    except (KeyError, ValueError):
        return  # another shell
    if 2 <= at < len(words) and words[at - 1] == "=" and words[at - 2].startswith("--"):
        del words[at - 1]
        os.environ["COMP_WORDS"], os.environ["COMP_CWORD"] = "\n".join(words), str(at - 1)


def _quietly(find: Callable[[typer.Context, str], Iterable[Offer]]) -> Callable[..., list[Offer]]:
    """A finder as typer calls it: what begins with the text so far; nothing where files are missing or damaged."""

    @wraps(find)
    def offers(ctx: typer.Context, incomplete: str) -> list[Offer]:
        from tianjictl.errors import TianjiError

        try:
            return [offer for offer in find(ctx, incomplete) if offer[0].startswith(incomplete)]
        except (OSError, ValueError, LookupError, TypeError, AttributeError, TianjiError):
            return []  # a file that does not hold what it should

    # typer reads the annotations of what it calls; those of the finder are only there for the type checker
    offers.__annotations__ = {"ctx": typer.Context, "incomplete": str}
    del offers.__wrapped__
    return offers


@_quietly
def runs(_ctx: typer.Context, incomplete: str) -> Iterator[Offer]:
    """Run ids, newest first, with their state."""
    for number, run in enumerate(_newest(incomplete)):
        yield run.run_id, _state(run) if number < _RUNS_WITH_STATE else ""


@_quietly
def runs_and_actions(ctx: typer.Context, incomplete: str) -> Iterator[Offer]:
    """For `checkpoints`: what to do, then the run."""
    said = ctx.params.get("words") or []
    actions = {"list": "show them", "verify": "compare every byte", "prune": "remove all but the newest"}
    if not any(word in actions for word in said):
        yield from actions.items()
    if all(word in actions for word in said):
        yield from runs(ctx, incomplete)


@_quietly
def components(ctx: typer.Context, _incomplete: str) -> Iterator[Offer]:
    """Components of the run on the same line, as it is now if that is known, and their roles."""
    told = _components(_meant(ctx))
    yield from dict.fromkeys((name, f"{role} on {host}") for name, role, host in told)
    yield from dict.fromkeys((role, f"every {role}") for _, role, _ in told)


@_quietly
def hosts_of_run(ctx: typer.Context, _incomplete: str) -> Iterator[Offer]:
    """Hosts of the run on the same line."""
    run = _meant(ctx)
    placed = [host for _, _, host in _components(run)]
    names = dict.fromkeys([*(node.name for node in run.nodes), *placed])
    for name in names:
        count = placed.count(name)
        yield name, f"{count} component{'' if count == 1 else 's'}"


@_quietly
def hosts(ctx: typer.Context, _incomplete: str) -> Iterator[Offer]:
    """Hosts of the inventory on the same line, else of the usual one."""
    for host in _inventory(ctx).hosts:
        yield host.name, host.address if host.address != host.name else "host"


@_quietly
def other_hosts(ctx: typer.Context, incomplete: str) -> Iterator[Offer]:
    """For `scale --add-host`: those that take no part yet first, then those that may have to come back."""
    known = hosts(ctx, incomplete)
    inside = {name for name, _ in hosts_of_run(ctx, "")}
    yield from (offer for offer in known if offer[0] not in inside)
    yield from ((name, "in the run; to bring it back") for name, _ in known if name in inside)


@_quietly
def heads(ctx: typer.Context, incomplete: str) -> Iterator[Offer]:
    """For `resume --head`: hosts of the inventory if one is named, else those of the run."""
    yield from (hosts if ctx.params.get("inventory") else hosts_of_run)(ctx, incomplete)


@_quietly
def host_pattern(ctx: typer.Context, incomplete: str) -> Iterator[Offer]:
    """For `--limit`: hosts and groups of the inventory, several of them parted by commas."""
    before, comma, _ = incomplete.rpartition(",")
    taken = before.split(",")
    inventory = _inventory(ctx)
    named = [(host.name, "host") for host in inventory.hosts]
    groups = [(name, f"group of {len(members)}") for name, members in inventory.groups.items()]
    for name, what in named + groups:
        if name not in taken:
            yield f"{before}{comma}{name}", what


@_quietly
def inventory_actions(_ctx: typer.Context, _incomplete: str) -> Iterator[Offer]:
    """For `inventory ACTION`."""
    yield from (("list", "the hosts"), ("show", "settings of a host"), ("trust", "accept SSH keys seen first now"))
    yield "import", "make an inventory of what is there"


@_quietly
def hosts_to_show(ctx: typer.Context, incomplete: str) -> Iterator[Offer]:
    """For `inventory ACTION HOST`."""
    if ctx.params.get("action") in ("show", "trust"):
        yield from hosts(ctx, incomplete)


@_quietly
def checkpoints(ctx: typer.Context, _incomplete: str) -> Iterator[Offer]:
    """`latest`, then the steps of the complete checkpoints that lie here, newest first."""
    yield "latest", "the newest that is undamaged"
    folder = _meant(ctx).paths.checkpoints
    whole = [path for path in folder.glob(f"{_CHECKPOINT}*") if (path / "manifest.json").is_file()]
    for path in sorted(whole, reverse=True):
        yield str(int(path.name.removeprefix(_CHECKPOINT))), "step"


@_quietly
def playbooks(_ctx: typer.Context, _incomplete: str) -> Iterator[Offer]:
    """Playbooks by name, with what they say of themselves."""
    from tianjictl.launching.playbooks import known_playbooks

    yield from ((path.stem, what) for path, what in known_playbooks())


def _newest(beginning: str = "") -> list[Run]:
    """Runs whose id begins so, newest first by the time in their ids: no file is opened for it."""
    from runtime.contract.paths import RunPaths, runs_home
    from tianjictl.runs.registry import Run

    found = [Run(RunPaths(root), None) for root in runs_home().iterdir() if root.name.startswith(beginning)]
    known = [run for run in found if run.paths.record.exists() or run.paths.view.exists()]
    return sorted(known, key=lambda run: run.run_id.rsplit("-", 3)[1:], reverse=True)[:_MOST_RUNS]


def _meant(ctx: typer.Context) -> Run:
    """The run that the line is about; the newest where it names none."""
    from tianjictl.runs.registry import find_run, open_run

    wanted = ctx.params.get("run")
    return open_run(_newest()[0].paths.root) if wanted is None else find_run(wanted)


def _state(run: Run) -> str:
    """How a run stands as far as files tell, in one word or two."""
    from tianjictl.runs.registry import open_run

    run = open_run(run.paths.root)
    done = run.completion()
    if done is not None:
        return str(done.state)
    here = run.alive()
    try:
        state = str(json.loads(run.paths.view.read_bytes())["state"])
    except (OSError, ValueError, LookupError, TypeError):
        return "starting" if here else "unknown"
    return state if here else f"{state} when last heard of" if run.nodes else "lost"


def _components(run: Run) -> list[tuple[str, str, str]]:
    """(name, role, host) of every component: as last seen, else as planned."""
    for path, key in ((run.paths.view, "components"), (run.paths.plan, "placements")):
        listed = _json(path).get(key)
        if listed:
            return [(str(item["name"]), str(item["role"]), str(item["host"])) for item in listed]
    return []


def _json(path: Path) -> dict[str, Any]:
    try:
        found = json.loads(path.read_bytes())
    except OSError:
        return {}
    return found if isinstance(found, dict) else {}


def _inventory(ctx: typer.Context) -> Inventory:
    from tianjictl.hosts.reader import load

    return load(ctx.params.get("inventory") or ctx.params.get("file"))

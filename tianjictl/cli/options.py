"""Arguments and options that several commands share, so that they are spelt and explained alike everywhere."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from runtime.contract.units import seconds
from tianjictl.cli import completion as complete
from tianjictl.cli.output import can_ask, note
from tianjictl.errors import UsageProblem

INVENTORY_VARIABLE = "TIANJICTL_INVENTORY"

OptionalRun = Annotated[
    str | None,
    typer.Argument(
        metavar="RUN",
        help="Run id, a beginning of it, or a name; newest run if left out.",
        autocompletion=complete.runs,
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON document and nothing else.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]
Detach = Annotated[bool, typer.Option("--detach", "-d", help="Return as soon as every component has reported.")]
Shape = Annotated[str | None, typer.Option("--shape", metavar="L2A8", help="Learners and actors in total.")]
Env = Annotated[str | None, typer.Option("--env", metavar="ID", help="Environment, over what the job says.")]
Algo = Annotated[str | None, typer.Option("--algo", metavar="NAME", help="Algorithm, over what the job says.")]
Set = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="Override a key of the job, as in training.seed=3; may repeat."),
]
Oversubscribe = Annotated[
    bool, typer.Option("--oversubscribe", help="Let components share cores where there are too few.")
]
Inventory = Annotated[
    Path | None,
    typer.Option(
        "--inventory",
        "-i",
        metavar="FILE",
        envvar=INVENTORY_VARIABLE,
        help="Hosts to use; inventory/hosts.yaml if left out, else this machine.",
    ),
]
Profile = Annotated[str | None, typer.Option("--profile", metavar="FILE", help="A saved profile to plan from.")]


#: Of the viewer, in all the ways of opening it.
ReadOnly = Annotated[bool, typer.Option("--read-only", help="Only look: no checkpoint, scale or stop.")]
Refresh = Annotated[
    float, typer.Option("--refresh", metavar="SECONDS", min=0.05, max=60.0, help="Time between two looks.")
]
Mouse = Annotated[bool, typer.Option("--mouse", help="Let the mouse work in the command palette.")]
Ascii = Annotated[bool, typer.Option("--ascii", help="Draw with ASCII alone, whatever the locale says.")]
REFRESH_S = 0.5


def confirm(question: str, *, yes: bool) -> None:
    """Go on only if the answer is yes; without a terminal, say which flag is missing (UsageProblem)."""
    if yes:
        return
    if not can_ask():
        raise UsageProblem(f"{question} There is no terminal to ask on", hint="pass --yes")
    if not typer.confirm(question, default=False, err=True):
        note("nothing was done")
        raise typer.Exit(0)


def parse_seconds(text: str, option: str) -> float:
    """A duration of the command line; UsageProblem names the option."""
    try:
        return seconds(text)
    except ValueError as error:
        raise UsageProblem(f"{option}: {error}") from error

"""`tianjictl playbook`: runs an Ansible playbook of `playbooks/ops/` by `ansible-playbook`, a program of its own."""

from __future__ import annotations

from typing import Annotated

import typer

from tianjictl.cli import completion as complete
from tianjictl.cli.options import Inventory
from tianjictl.cli.output import note, print_table
from tianjictl.launching.playbooks import find_playbook, known_playbooks, run_playbook


def playbook(
    name: Annotated[
        str | None,
        typer.Argument(metavar="NAME", help="Which one; left out, they are listed.", autocompletion=complete.playbooks),
    ] = None,
    inventory: Inventory = None,
    check: Annotated[bool, typer.Option("--check", help="Show what would change; change nothing.")] = False,
    diff: Annotated[bool, typer.Option("--diff", help="Show the differences in files.")] = False,
    limit: Annotated[
        str | None,
        typer.Option(
            "--limit", metavar="HOSTS", help="Only these hosts or groups.", autocompletion=complete.host_pattern
        ),
    ] = None,
    extra: Annotated[
        list[str] | None,
        typer.Option("--extra-vars", "-e", metavar="KEY=VALUE", help="A setting of the playbook; may repeat."),
    ] = None,
    ask_become_pass: Annotated[
        bool, typer.Option("--ask-become-pass", "-K", help="Ask for the password that becoming root needs.")
    ] = False,
) -> int:
    """Prepare, tune or clean up the hosts of an inventory. Needs `ansible-playbook`; launching does not."""
    if name is None:
        print_table(("playbook", "does"), [(found.stem, what) for found, what in known_playbooks()])
        return 0
    words = [
        word for flag, word in ((check, "--check"), (diff, "--diff"), (ask_become_pass, "--ask-become-pass")) if flag
    ]
    words += ["--limit", limit] if limit else []
    words += [word for setting in extra or [] for word in ("-e", setting)]
    chosen = find_playbook(name)
    run_playbook(chosen, inventory, words)
    note(f"{chosen.stem}: done on every host{' (nothing was changed)' if check else ''}")
    return 0

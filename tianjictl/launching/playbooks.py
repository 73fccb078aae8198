"""Ansible playbooks: found, checked against our own reading of the inventory, and run by `ansible-playbook`.

Never as a library: its Python interface is not meant for others, and its licence is not ours.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING

from runtime.contract.files import write_whole
from tianjictl.errors import TianjiError, Unreachable, UsageProblem
from tianjictl.hosts.reader import load

if TYPE_CHECKING:
    from collections.abc import Sequence

_FOLDER = Path("playbooks") / "ops"
_HOST_FAILED, _UNREACHABLE = 2, 4  #: exit codes of ansible-playbook
_ALONE = "all: {hosts: {localhost: {ansible_connection: local}}}\n"


def known_playbooks() -> list[tuple[Path, str]]:
    """Every playbook with the first sentence of what it says of itself."""
    return [(path, _first_words(path)) for folder in _folders() for path in sorted(folder.glob("*.yml"))]


def find_playbook(name: str) -> Path:
    """The playbook of this name (with or without `.yml`); UsageProblem names the nearest."""
    known = {path.stem: path for path, _ in known_playbooks()}
    wanted = name.removesuffix(".yml").removesuffix(".yaml")
    if wanted in known:
        return known[wanted]
    near = get_close_matches(wanted, known, n=1)
    if not known:
        raise UsageProblem(f"there is no folder {_FOLDER} here", hint="run it from a checkout of the project")
    raise UsageProblem(
        f"there is no playbook {name!r} in {_FOLDER}",
        hint=f"did you mean {near[0]}?" if near else f"known: {', '.join(sorted(known))}",
    )


def run_playbook(playbook: Path, inventory: Path | None, words: Sequence[str]) -> None:
    """Run it with its output on ours. Unreachable where a host could not be reached, TianjiError where a task failed.

    The inventory is read by our own reader first: what Ansible would pass over with a warning is an error.
    """
    program = _program()
    file = load(inventory).file
    with tempfile.TemporaryDirectory(prefix="tianjictl-") as folder:
        if file is None:
            file = str(Path(folder) / "local.yaml")
            write_whole(Path(file), _ALONE)
        command = [program, "-i", file, str(playbook), *words]
        done = subprocess.run(command, env=os.environ | _settings(), check=False)
    if done.returncode == 0:
        return
    shown = f"{playbook.name}: ansible-playbook ended with exit code {done.returncode}"
    if done.returncode == _UNREACHABLE:
        raise Unreachable(f"{shown}: a host could not be reached", hint="its recap above names the hosts")
    what = "a task failed" if done.returncode == _HOST_FAILED else "it could not be run"
    raise TianjiError(f"{shown}: {what}", hint="its output above says where; running it again does no harm")


def _program() -> str:
    beside = Path(sys.executable).with_name("ansible-playbook")
    found = str(beside) if beside.exists() else shutil.which("ansible-playbook")
    if found is None:
        raise UsageProblem("ansible-playbook is not installed", hint="pip install 'tianjictl[ansible]'")
    return found


def _settings() -> dict[str, str]:
    """What Ansible's defaults let pass: an inventory it cannot read, unknown host keys, colour in a file."""
    made = {"ANSIBLE_INVENTORY_UNPARSED_FAILED": "1", "ANSIBLE_HOST_KEY_CHECKING": "1"}
    if not sys.stdout.isatty() or "NO_COLOR" in os.environ:
        made |= {"ANSIBLE_NOCOLOR": "1"}
    return made


def _folders() -> list[Path]:
    """The playbooks of the working folder, else those of the checkout that this package runs from."""
    checkout = Path(__file__).resolve().parents[2]
    return [base / _FOLDER for base in (Path.cwd(), checkout) if (base / _FOLDER).is_dir()][:1]


def _first_words(path: Path) -> str:
    lines = [line.removeprefix("#").strip() for line in path.read_text().splitlines() if line.startswith("#")]
    return " ".join(lines).partition(".")[0].partition(": ")[0]

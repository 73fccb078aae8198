"""One virtual environment per peer, made on first use from `peers/requirements-<name>.txt`."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
from typing import TYPE_CHECKING

from harness.contenders import BENCHMARKS

if TYPE_CHECKING:
    from pathlib import Path

HOME = BENCHMARKS / ".venvs"


def python_of(name: str) -> Path:
    """The interpreter of an environment, which is made or brought up to date first; blocks for minutes then.

    Raises subprocess.CalledProcessError when the installation fails; pip has said why by then.
    """
    requirements = BENCHMARKS / "peers" / f"requirements-{name}.txt"
    digest = hashlib.sha256(requirements.read_bytes()).hexdigest()
    folder = HOME / name
    python = folder / "bin" / "python"
    stamp = folder / ".installed"
    if stamp.is_file() and stamp.read_text() == digest:
        return python
    print(f"installing {requirements.name} into {folder.relative_to(BENCHMARKS.parent)} …", file=sys.stderr)
    subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
    subprocess.run([str(python), "-m", "pip", "install", "--quiet", "-r", str(requirements)], check=True)
    stamp.write_text(digest)
    return python


def versions_of(name: str) -> dict[str, str]:
    """What pip says is installed there, by package name."""
    command = [str(HOME / name / "bin" / "python"), "-m", "pip", "list", "--format=json"]
    listed = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return {package["name"].lower(): package["version"] for package in json.loads(listed)}

"""Which files the house rules are about: what is written by hand, and nothing that a tool has made."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("runtime", "tianjictl")
_FOLDERS = (*PACKAGES, "tests", "benchmarks", "docs", "playbooks", "inventory", ".ci")
_MADE = {"__pycache__", ".venvs", "results"}


def files(*suffixes: str, folders: tuple[str, ...] = _FOLDERS) -> list[Path]:
    """Hand-written files with one of these endings, below these folders and, if all are meant, in the root."""
    roots = [path for path in ROOT.iterdir() if path.is_file()] if folders is _FOLDERS else []
    found = [*roots, *(path for folder in folders for path in (ROOT / folder).rglob("*") if path.is_file())]
    return sorted(path for path in found if (not suffixes or path.suffix in suffixes) and not _MADE & set(path.parts))


def shown(path: Path) -> str:
    return str(path.relative_to(ROOT))

"""Modules stay small, are named for what they hold, and know no machine but the one they run on."""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from pathlib import Path

import pytest
from sources import PACKAGES, ROOT, files, shown

MOST_LINES = 400
MOST_FUNCTION_LINES = 60
EMPTY_NAMES = {"utils", "util", "common", "helper", "helpers", "manager", "misc"}
#: Import name → name on the package index, where they differ.
DISTRIBUTIONS = {
    "ale_py": "ale-py",
    "mlflow": "mlflow-skinny",
    "pydantic_core": "pydantic",
    "yaml": "pyyaml",
    "zmq": "pyzmq",
}
MACHINE_PATH = re.compile(r"(?<![\w.$~}])/(?:home|Users|root|work|opt|mnt)/\w")


def test_no_module_is_longer_than_the_limit():
    lengths = {shown(path): len(path.read_text().splitlines()) for path in files(".py")}
    assert {name: lines for name, lines in lengths.items() if lines > MOST_LINES} == {}


def test_no_function_is_longer_than_a_screen():
    long = {
        f"{shown(path)}:{node.name}": lines
        for path in files(".py", folders=PACKAGES)
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and (lines := (node.end_lineno or 0) - node.lineno + 1) > MOST_FUNCTION_LINES
    }
    assert long == {}


def test_no_module_has_a_name_that_says_nothing():
    assert [shown(path) for path in files(".py") if path.stem in EMPTY_NAMES] == []


def test_every_module_says_what_it_is_for():
    silent = [
        shown(path)
        for path in files(".py", folders=PACKAGES)
        if path.stat().st_size and not ast.get_docstring(ast.parse(path.read_text()))
    ]
    assert silent == []


def test_nothing_is_pickled():
    users = [
        shown(path)
        for path in files(".py", folders=PACKAGES)
        if {"pickle", "cloudpickle", "dill", "shelve", "marshal"} & _imports(path)
    ]
    assert users == []


def test_no_file_names_a_folder_of_somebodys_machine():
    found = [
        f"{shown(path)}:{number}: {line.strip()}"
        for path in files(".py", ".md", ".toml", ".yaml", ".yml", "")
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if MACHINE_PATH.search(line)
    ]
    assert found == []


@pytest.mark.parametrize("package", PACKAGES)
def test_every_outside_library_is_a_declared_dependency(package):
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    wanted = [*project["dependencies"], *extras["atari"], *extras["mlflow"], *extras["wandb"]]
    declared = {re.split(r"[<>=!~\[; ]", line, maxsplit=1)[0].lower() for line in wanted}
    outside = {
        name: shown(path)
        for path in files(".py", folders=(package,))
        for name in _imports(path) - set(sys.stdlib_module_names) - set(PACKAGES)
    }
    missing = {name: where for name, where in outside.items() if DISTRIBUTIONS.get(name, name).lower() not in declared}
    assert missing == {}


def _imports(path: Path) -> set[str]:
    """Top-level names that a module imports, wherever in it."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            names.add(node.module.partition(".")[0])
    return names

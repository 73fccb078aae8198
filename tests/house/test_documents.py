"""What the documents promise is there: links, commands, options, make targets, jobs and code."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest
from sources import ROOT, files, shown

from runtime.contract.job_file import load_job
from runtime.contract.states import ComponentState, RunState
from tianjictl.cli.main import COMMANDS, main

if TYPE_CHECKING:
    from pathlib import Path

DOCUMENTS = files(".md")
_LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
_BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
_COMMAND = re.compile(r"`tianjictl ([a-z][\w-]*)([^`]*)`")
_MAKE = re.compile(r"`make ([a-z]+)`|^make ([a-z]+)", re.MULTILINE)
_SOURCE = re.compile(r"`((?:runtime|tianjictl|benchmarks|docs|tests)/[\w/]+(?:\.py)?)`")
by_document = pytest.mark.parametrize("document", DOCUMENTS, ids=shown)


def anchors(document: Path) -> set[str]:
    """Link targets of a document's headings, the way code hosts make them."""
    heads = re.findall(r"^#+ (.+)$", document.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", head.lower()).replace(" ", "-") for head in heads}


@by_document
def test_every_link_leads_somewhere(document):
    broken = []
    for link in _LINK.findall(document.read_text()):
        if "://" in link:
            continue
        name, _, anchor = link.partition("#")
        target = (document.parent / name).resolve() if name else document
        if not target.exists() or (anchor and anchor not in anchors(target)):
            broken.append(link)
    assert broken == []


@by_document
def test_every_source_file_that_is_named_exists(document):
    assert [name for name in _SOURCE.findall(document.read_text()) if not (ROOT / name).exists()] == []


@by_document
def test_every_make_target_that_is_named_exists(document):
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    named = {first or second for first, second in _MAKE.findall(document.read_text())}
    assert named - targets == set()


@by_document
def test_every_command_that_is_shown_has_the_options_that_are_shown(document, capsys):
    for command, rest in _COMMAND.findall(document.read_text()):
        assert command in COMMANDS, f"{shown(document)} shows `tianjictl {command}`"
        for option in re.findall(r"(?<![\w-])--?[a-z][\w-]*", rest):
            assert option in help_of(command, capsys), f"{shown(document)}: {command} has no {option}"


def help_of(command: str, capsys: pytest.CaptureFixture[str]) -> str:
    assert main([command, "--help"]) == 0
    return capsys.readouterr().out


def test_the_readme_shows_every_command():
    shown_commands = {command for command, _ in _COMMAND.findall((ROOT / "README.md").read_text())}
    assert set(COMMANDS) - shown_commands == set()


def test_the_state_page_has_every_state():
    page = (ROOT / "ARCHITECTURE.md").read_text().partition("## States")[2].partition("## Checkpoints")[0]
    assert [state for state in (*RunState, *ComponentState) if f"| `{state}` |" not in page] == []


@by_document
def test_every_job_that_is_shown_is_valid(document):
    for language, text in _BLOCK.findall(document.read_text()):
        if language == "yaml":
            load_job(document, text=text)


def test_every_job_of_the_playbooks_is_valid_and_listed():
    jobs = sorted((ROOT / "playbooks" / "train").glob("*.yaml"))
    for job in jobs:
        load_job(job)
    listed = re.findall(r"`train/([\w.-]+)`", (ROOT / "playbooks" / "README.md").read_text())
    assert sorted(listed) == [job.name for job in jobs]


def test_the_environment_in_its_page_can_be_made_and_played():
    blocks = _BLOCK.findall((ROOT / "docs" / "environments.md").read_text())
    names: dict[str, object] = {}
    exec(next(text for language, text in blocks if language == "python"), names)
    env = names["make"](length=3)
    env.reset(seed=0)
    assert [env.step(1)[2] for _ in range(3)] == [False, False, True]

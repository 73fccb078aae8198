"""The command line as a whole: fast, quiet where a program reads, and every error with its documented code."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys

import pytest

from tianjictl.cli import main as command_line
from tianjictl.cli.output import as_json, emit_json, print_table, safe
from tianjictl.errors import TianjiError

HEAVY = ("torch", "ortools", "numpy", "gymnasium", "paramiko", "zmq", "mpi4py", "rich", "yaml")


def run_command(*words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "tianjictl.cli.main", *words],
        env={**os.environ, **environment}, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip


@pytest.mark.parametrize("words", [["--help"], ["--version"]])
def test_help_loads_no_heavy_library(words):
    code = f"""
import sys
from tianjictl.cli.main import main
assert main({words!r}) == 0
print(sorted(set({HEAVY!r}) & set(sys.modules)), file=sys.stderr)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=True)
    assert done.stderr == "[]\n"


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_a_standard_stream_that_is_closed_is_like_one_that_leads_nowhere(closed):
    line = f"exec {sys.executable} -m tianjictl.cli.main doctor --quick --only disk.space {closed}"
    done = subprocess.run(["sh", "-c", line], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    assert ("disk.space" in done.stdout) is (">&-" not in closed.split())
    assert "unexpected" not in done.stderr


def test_every_listed_command_can_be_loaded_and_explains_itself(tianjictl):
    for name in set(command_line.COMMANDS) - {"plan", "profile"}:
        code, out, _ = tianjictl(name, "--help")
        assert code == 0
        assert name in out


@pytest.mark.parametrize("name", command_line.COMMANDS)
def test_help_names_what_is_asked_for_in_the_operators_words(tianjictl, name):
    out = tianjictl(name, "--help")[1]
    assert "[[" not in out
    assert not re.search("<[a-z]", out), "a Python type"


@pytest.mark.parametrize("name", ["inventory", "playbook", "doctor", "plan", "launch"])
def test_every_command_that_takes_an_inventory_takes_it_from_the_environment_too_and_says_so(tianjictl, name):
    assert "TIANJICTL_INVENTORY" in tianjictl(name, "--help")[1]


def test_no_command_is_told_what_there_is(tianjictl):
    code, out, _ = tianjictl()
    assert code == 0
    assert "checkpoints" in out


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["lunch"], "did you mean 'launch'?"),
        (["status", "--jsno"], "--jsno"),
        (["runs", "-n", "many"], "--lines"),
        (["status", "a", "b"], "b"),
    ],
)
def test_bad_usage_is_two_lines_and_exit_code_2(tianjictl, words, text):
    code, out, err = tianjictl(*words)
    assert (code, out) == (2, "")
    first, second = err.splitlines()
    assert first.startswith("error:")
    assert text in first
    assert second.startswith("hint: tianjictl")


def test_an_error_under_json_is_still_one_valid_document(tianjictl):
    code, out, err = tianjictl("status", "nothing-like-it", "--json")
    assert code == 2
    document = json.loads(out)
    assert document["command"] == "status"
    assert document["data"] is None
    assert document["errors"][0]["code"] == 2
    assert "no runs" in document["errors"][0]["message"]
    assert err.startswith("error:")


def test_a_bug_shows_no_traceback_unless_asked(tianjictl, monkeypatch):
    def broken(_wanted: object) -> None:
        raise ZeroDivisionError("by zero")

    monkeypatch.setattr("tianjictl.cli.status.find_run", broken)
    code, _, err = tianjictl("status")
    assert code == 1
    assert "unexpected ZeroDivisionError" in err
    assert "--debug" in err
    assert "Traceback" not in err
    assert "Traceback" in tianjictl("status", "--debug")[2]


def test_ctrl_c_ends_with_130(tianjictl, monkeypatch):
    def interrupted(_wanted: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("tianjictl.cli.status.find_run", interrupted)
    code, _, err = tianjictl("status")
    assert (code, err) == (130, "error: interrupted\n")


@pytest.mark.parametrize("command", ["status", "stop", "logs", "events"])
def test_without_any_run_the_hint_is_to_launch_one(tianjictl, command):
    code, _, err = tianjictl(command)
    assert code == 2
    assert "hint: tianjictl launch JOB" in err


def test_piped_output_is_plain_and_whole_whatever_the_terminal(make_run):
    run = make_run(name="a-name-that-is-long-" * 3 + "x")
    run.show(reason="words " * 60 + "end", name=run.record.name)
    run.serve()
    for environment in ({}, {"COLUMNS": "40"}, {"TERM": "xterm-256color"}, {"NO_COLOR": "1"}):
        done = run_command("runs", **environment)
        assert done.returncode == 0
        assert "\x1b" not in done.stdout
        assert len(done.stdout.splitlines()) == 2
        assert done.stdout.rstrip().endswith("words end")


def test_an_ascii_terminal_gets_ascii(make_run):
    run = make_run()
    run.show(reason="naïve → ok")
    run.serve()
    done = run_command("status", PYTHONIOENCODING="ascii")
    assert done.returncode == 0
    assert "na\\xefve -> ok" in done.stdout
    assert done.stdout.isascii()


def test_a_reader_that_leaves_early_is_no_error(make_run):
    run = make_run()
    (run.paths.logs / "actor-0.1.log").write_text("line\n" * 200_000)
    reading, writing = os.pipe()
    os.close(reading)
    done = subprocess.run(
        [sys.executable, "-m", "tianjictl.cli.main", "logs"],
        stdout=writing, stderr=subprocess.PIPE, text=True, timeout=120, check=False,
    )  # fmt: skip
    os.close(writing)
    assert (done.returncode, done.stderr) == (0, "")


def test_json_has_no_number_that_json_cannot_write(capsys):
    emit_json("x", {"nan": float("nan"), "inf": [float("inf")]}, warnings=["w"])
    document = json.loads(capsys.readouterr().out)
    assert document["data"] == {"nan": None, "inf": [None]}
    assert document["warnings"] == ["w"]


def test_a_value_without_a_json_form_is_refused():
    with pytest.raises(TypeError, match="object has no JSON form"):
        as_json(object())


def test_control_characters_are_made_visible():
    assert safe("a\x1b[31mb\rc\x9bd") == "a\\x1b[31mb\\x0dc\\x9bd"


def test_table_cells_are_never_markup(capsys):
    print_table(("name",), [("[red]x[/red]",)])
    assert capsys.readouterr().out == "name\n[red]x[/red]\n"


def test_each_further_finding_has_a_line_and_a_json_entry(tianjictl, monkeypatch):
    def refuse(_wanted: object) -> None:
        raise TianjiError("one", details=("two",), hint="three")

    monkeypatch.setattr("tianjictl.cli.status.find_run", refuse)
    _, out, err = tianjictl("status", "--json")
    assert err.splitlines() == ["error: one", "error: two", "hint: three"]
    assert [error["message"] for error in json.loads(out)["errors"]] == ["one", "two"]

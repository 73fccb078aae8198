"""`tianjictl doctor` on this machine: exit codes, the matrix, the JSON document, and what a launch heeds of it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from support.examined import facts, host, several
from tianjictl.cli.doctor_screen import show
from tianjictl.cli.main import main
from tianjictl.doctor.quick import examining, examining_here
from tianjictl.doctor.report import judge
from tianjictl.errors import DoctorFailed
from tianjictl.profiling.facts.clock import ClockFacts
from tianjictl.profiling.facts.memory import SwapFacts

Call = Callable[..., tuple[int, str, str]]
WITHIN_S = 5.0


@pytest.fixture(autouse=True)
def own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No inventory, no runs, and no variable that the doctor would speak of."""
    monkeypatch.setenv("TIANJICTL_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    for name in ("TIANJICTL_INVENTORY", "OMP_PROC_BIND", "OMP_PLACES"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def doctor(capsys: pytest.CaptureFixture[str]) -> Call:
    """Types a command: (exit code, standard output, standard error)."""

    def call(*words: str) -> tuple[int, str, str]:
        code = main(["doctor", *words])
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return call


def test_this_machine_is_examined_without_an_inventory_in_seconds(doctor: Call) -> None:
    began = os.times()
    _code, out, _ = doctor("--json")
    ended = os.times()
    assert sum(ended[:4]) - sum(began[:4]) < WITHIN_S, "of processors, its programs included: others may be at work"
    document = json.loads(out)
    assert document["command"] == "doctor"
    data = document["data"]
    assert data["hosts"] == ["localhost"]
    rows = {row["check"]: row for row in data["checks"]}
    assert set(rows["ssh.reach"]) == {"check", "host", "severity", "evidence", "why", "mend"}
    assert {rows[check]["severity"] for check in ("python.version", "python.packages", "state.folder")} == {"ok"}
    assert {rows[f"learning.{proof}"]["severity"] for proof in ("gae", "n-step", "v-trace", "streams")} == {"ok"}
    assert sum(data["summary"].values()) == len(data["checks"])


def test_with_a_job_its_environment_is_played_here_too(doctor: Call) -> None:
    code, out, _ = doctor("--env", "CartPole-v1", "--algo", "ppo", "--only", "learning", "--json")
    rows = {row["check"]: row["severity"] for row in json.loads(out)["data"]["checks"]}
    assert (code, rows["learning.autoreset"], rows["learning.env-streams"]) == (0, "ok", "ok")


def test_an_environment_that_is_not_installed_fails_with_the_command_that_installs_it(doctor: Call) -> None:
    code, out, _ = doctor("--env", "nosuch.games:make", "--algo", "ppo", "--only", "python,learning", "--json")
    document = json.loads(out)
    (error,) = document["errors"]
    assert (code, error["code"]) == (5, 5)
    proofs = {row["severity"] for row in document["data"]["checks"] if row["check"].startswith("learning.")}
    assert proofs == {"ok"}, "those that need no environment are made all the same"
    assert error["message"].startswith("localhost: python.packages: nosuch.games: ModuleNotFoundError")
    assert "-m pip install nosuch.games" in error["hint"]


def test_a_warning_is_shown_in_signs_and_words_and_fails_only_if_strict(
    doctor: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OMP_PROC_BIND", "close")
    code, out, _ = doctor("--only", "threads,disk.space")
    assert code == 0
    assert out.isascii()
    lines = out.splitlines()
    assert [line.split() for line in lines[:3]] == [
        ["check", "localhost"], ["disk.space", "+", "ok"], ["threads.environment", "!", "warn"],
    ]  # fmt: skip
    assert "    mend: unset OMP_PROC_BIND" in lines
    assert lines[-1] == "1 host, 2 checks: 0 fail, 1 warn, 0 info, 1 ok, 0 skip"
    code, out, _ = doctor("--only", "threads", "--strict")
    assert code == 5
    assert out.splitlines()[-1].startswith("1 host, 1 check: ")


def test_a_failure_ends_with_5_in_text_and_json(doctor: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TMPDIR", "/no/such/folder")
    code, out, _ = doctor("--quick", "--only", "tmp")
    assert code == 5
    assert "X fail  tmp.path  localhost" in out
    code, out, _ = doctor("--only", "tmp.path", "--json")
    assert (code, json.loads(out)["errors"][0]["hint"]) == (5, "mkdir -p -m 700 /no/such/folder")


def test_a_quick_look_asks_no_software_and_proves_nothing(doctor: Call) -> None:
    _, out, _ = doctor("--quick", "--json")
    checks = {row["check"] for row in json.loads(out)["data"]["checks"]}
    assert {"cpu.quota", "memory.swap", "ssh.reach"} <= checks
    assert not any(check.startswith(("learning.", "python.")) or check == "network.ports" for check in checks)


def test_the_disk_looked_at_is_that_of_the_folder_for_runs(doctor: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    with tempfile.TemporaryDirectory(dir="/dev/shm") as other:
        monkeypatch.setenv("TIANJICTL_HOME", f"{other}/not/made")
        _, out, _ = doctor("--quick", "--only", "state,disk", "--json")
    rows = {row["check"]: row for row in json.loads(out)["data"]["checks"]}
    assert rows["state.folder"]["evidence"] == f"{other} may be written to"
    assert rows["disk.space"]["evidence"].endswith(f" at {other}")
    assert (rows["disk.filesystem"]["severity"], "on tmpfs" in rows["disk.filesystem"]["evidence"]) == ("warn", True)


def test_a_folder_for_runs_on_a_read_only_disk_fails_at_a_quick_look(tmp_path: Path) -> None:
    words = f"mount -t tmpfs -o ro,size=1m none {tmp_path} && exec {sys.executable} -m tianjictl.cli.main doctor"
    asked = ["unshare", "--mount", "sh", "-c", f"{words} --quick --only state,disk --json"]
    environment = {**os.environ, "TIANJICTL_HOME": f"{tmp_path}/x"}
    done = subprocess.run(asked, cwd="/", env=environment, capture_output=True, text=True, check=False)
    if not done.stdout:
        pytest.skip(f"nothing can be mounted here: {done.stderr}")
    rows = {row["check"]: row for row in json.loads(done.stdout)["data"]["checks"]}
    assert done.returncode == 5
    assert rows["state.folder"]["evidence"] == f"{tmp_path} cannot be written to"
    assert "TIANJICTL_HOME" in rows["state.folder"]["mend"]
    assert {row["severity"] for row in rows.values()} == {"fail"}


@pytest.mark.parametrize(
    ("words", "told", "hint"),
    [
        (["--only", "cpu.quotas"], "there is no check 'cpu.quotas'", "did you mean cpu.quota?"),
        (["--limit", "cn07"], "there is no host or group 'cn07'", "hosts: localhost"),
        (["--quick", "--full"], "--quick and --full contradict each other", ""),
        (["--set", "training.seed=3"], "none is named", "tianjictl doctor JOB"),
    ],
)
def test_wrong_words_end_with_2_and_the_way_out(doctor: Call, words: list[str], told: str, hint: str) -> None:
    code, _, err = doctor(*words)
    assert code == 2
    assert told in err
    assert hint in err


def test_many_hosts_are_counted_and_those_that_are_ill_are_named(capsys: pytest.CaptureFixture[str]) -> None:
    ill = {"swap": SwapFacts(total_bytes=2**30)}
    hosts = [host(f"cn{number:02}", **(ill if number in (3, 5) else {})) for number in range(1, 9)]
    show(judge(several(*hosts), only=frozenset({"memory.swap"})))
    head, row, *rest = capsys.readouterr().out.splitlines()
    assert head.split("  ")[-1].strip() == "hosts that warn or fail"
    assert row.split() == ["memory.swap", "6", "0", "2", "0", "0", "cn03,", "cn05"]
    assert "! warn  memory.swap  cn03, cn05" in rest
    assert "          and likewise for cn05" in rest


def test_what_a_host_says_of_itself_is_never_markup_and_steers_no_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    show(judge(several(host(login_prints="[red]hi[/red]\x1b[2J")), only=frozenset({"shell.prints"})))
    out = capsys.readouterr().out
    assert "[red]hi[/red]" in out
    assert "\x1b" not in out


def heeded(**changes: Any) -> list[str]:
    said: list[str] = []
    one = host("cn01", **changes)
    assert one.node is not None
    examining("inventory/hosts.yaml", said.append)([one.node])
    return said


def test_a_launch_says_once_what_will_slow_it_and_nothing_of_what_is_well() -> None:
    assert heeded() == []
    assert heeded(swap=SwapFacts(total_bytes=2**30)) == [
        "warning: cn01: memory.swap: 1.0 GiB of 1.0 GiB in use",
        "hint: tianjictl doctor -i inventory/hosts.yaml --only memory.swap says what mends it",
    ]


def test_a_launch_stops_at_what_would_break_it_and_says_what_mends_it() -> None:
    with pytest.raises(DoctorFailed) as stopped:
        heeded(limits=facts().limits.model_copy(update={"hard_open_files": 64}))
    (found,) = stopped.value.findings()
    assert found.message.startswith("cn01: limits.open_files: 1024, which may be raised to 64; 8 cores need 240")
    assert "limits.d" in (found.hint or "")


def test_a_clock_that_is_far_off_stops_no_launch() -> None:
    line, _hint = heeded(clock=ClockFacts(offset_s=100.0, uncertainty_s=0.1))
    assert line.startswith("warning: cn01: clock.offset: 100.000 s ahead")


def test_the_quick_part_costs_a_launch_next_to_nothing() -> None:
    said: list[str] = []
    began = time.process_time()
    examining_here(said.append)(facts("cn01"))
    assert time.process_time() - began < 0.5  # one question to a host takes longer


def test_a_launch_on_this_machine_that_fails_the_quick_part_ends_with_5_and_leaves_no_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("TMPDIR", "/no/such/folder")
    words = ["--env", "CartPole-v1", "--algo", "ppo", "--shape", "L1A1", "--oversubscribe"]
    assert main(["launch", *words, "-d"]) == 5
    err = capsys.readouterr().err
    assert "error: localhost: tmp.path: /no/such/folder does not exist: sockets and temporary files" in err
    assert "hint: mkdir -p -m 700 /no/such/folder" in err
    assert not list((tmp_path / "home" / "runs").glob("*"))

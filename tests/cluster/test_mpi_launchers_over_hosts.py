"""A plan over hosts, started by the real launchers over real SSH: every rank on its host and its cores."""

from __future__ import annotations

import os
import shlex
import shutil
from pathlib import Path

import pytest

from support import mpi_launchers
from support.mpi_launchers import OPEN_MPI, Said, run_ranks
from support.pretend_hosts import PretendHosts
from tianjictl.cli.main import main

JOB = """\
name: launched
env: {id: CartPole-v1}
algorithm: {name: ppo}
distributed: {learners: 2, actors: 4, oversubscribe: true}
training: {stop: {wall_time: 1m}}
"""


@pytest.fixture
def place(pretend_hosts: PretendHosts, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the files of a plan over all hosts, and an `ssh` that knows them by their names."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TIANJICTL_HOME", str(tmp_path / "home"))
    pretend_hosts.inventory(tmp_path / "hosts.yaml")
    (tmp_path / "job.yaml").write_text(JOB)
    known = "".join(
        f"Host {n}\n  HostName {a}\n" for n, a in zip(pretend_hosts.names, pretend_hosts.addresses, strict=True)
    )
    own = f"Host *\n  User root\n  IdentityFile {pretend_hosts.user_key}\n  IdentitiesOnly yes\n"
    (tmp_path / "config").write_text(f"{known}{own}  UserKnownHostsFile {pretend_hosts.known_hosts}\n")
    ssh = tmp_path / "ssh"
    ssh.write_text(f'#!/bin/sh\nexec {shutil.which("ssh")} -F {tmp_path / "config"} "$@"\n')
    ssh.chmod(0o755)
    return tmp_path


def planned(capsys: pytest.CaptureFixture[str]) -> tuple[Said, dict[str, list[str]]]:
    """What `plan` says of every rank, and the command that it says for each launcher."""
    code = main(["plan", "job.yaml", "-i", "hosts.yaml", "--hostfile", "H", "--rankfile", "R"])
    told = capsys.readouterr()
    assert code == 0, told.err
    lines = [line for line in told.err.splitlines() if ": mpirun " in line]
    words = {
        line.partition(": ")[0]: shlex.split(line.partition(": mpirun ")[2].partition(" PROGRAM")[0]) for line in lines
    }
    rows = [line.split() for line in told.out.splitlines() if line.startswith(("actor-", "buffer-", "learner-"))]
    cores = {row[0]: (row[2], _cpus(row[3])) for row in rows}
    names = [line.split(": ")[1] for line in Path("H").read_text().splitlines() if line.startswith("# rank ")]
    return {rank: cores[name] for rank, name in enumerate(names)}, words


def _cpus(text: str) -> set[int]:
    ends = [part.partition("-") for part in text.split(",")]
    return {cpu for first, _, last in ends for cpu in range(int(first), int(last or first) + 1)}


def test_mpich_starts_every_rank_on_its_host_and_cores(
    pretend_hosts: PretendHosts, place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    program = mpi_launchers.mpich()
    if program is None:
        pytest.skip("there is no mpirun of MPICH beside this Python or on the PATH")
    wanted, words = planned(capsys)
    said = [pretend_hosts.operator if word == "ADDRESS_OF_THIS_MACHINE" else word for word in words["MPICH"]]
    assert run_ranks([program, "-launcher-exec", str(place / "ssh"), *said], place) == wanted
    assert len({host for host, _ in wanted.values()}) > 1


def test_open_mpi_starts_every_rank_on_its_host_and_cores(
    pretend_hosts: PretendHosts, place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    program = mpi_launchers.open_mpi()
    if program is None:
        pytest.skip(f"there is no mpirun of Open MPI on the PATH; {OPEN_MPI} may name one")
    wanted, words = planned(capsys)
    if max(len(cpus) for _, cpus in wanted.values()) > len(os.sched_getaffinity(0)):
        pytest.skip("this machine has fewer CPUs than a rank wants")
    over = ["--prtemca", "plm_ssh_agent", str(place / "ssh"), "--prtemca", "prte_if_include", pretend_hosts.network]
    assert run_ranks([program, *over, *words["Open MPI 5"]], place) == wanted

"""What is asked of real hosts: programs as they are found on PATH, over SSH as here, and all in one exchange."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from support.ssh_servers import SSHD, Server, Servers, make_key
from tianjictl.hosts.local import LocalHost
from tianjictl.hosts.types import Host
from tianjictl.profiling.facts.host import HostFacts, understand
from tianjictl.profiling.facts.raw import gather
from tianjictl.profiling.remote_facts import node_facts
from tianjictl.remote.local import LocalConnection
from tianjictl.remote.reach import reach

Ask = Callable[[Path], HostFacts]
#: Programs of hosts that this machine is not; what they print is recorded.
NVIDIA_SMI = """#!/bin/sh
case "$*" in
*--query-gpu=index,name,memory.total,uuid,driver_version*) echo "0, NVIDIA A100-SXM4-40GB, 40960, GPU-a, 535.129.03" ;;
-L) echo "GPU 0: NVIDIA A100-SXM4-40GB (UUID: GPU-a)"; echo "  MIG 3g.20gb     Device  0: (UUID: MIG-b)" ;;
*) echo "Field \\"$*\\" is not a valid field to query."; exit 2 ;;
esac
"""
NO_DRIVER = """#!/bin/sh
[ "$1" = -L ] && echo "asked in vain" >>"$0.calls"
echo "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver."
exit 9
"""
OPEN_MPI = """#!/bin/sh
echo "mpiexec (OpenRTE) 4.1.4"
"""
FI_INFO = """#!/bin/sh
[ "$1" = -l ] && printf 'verbs:\\n    version: 117.0\\ntcp:\\n    version: 117.0\\n'
"""
IBV_DEVINFO = """#!/bin/sh
printf 'hca_id:\\tmlx5_0\\n\\t\\tport:\\t1\\n\\t\\t\\tstate:\\t\\tPORT_DOWN (1)\\n\\t\\t\\tlink_layer:\\tInfiniBand\\n'
"""


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that comes first on PATH."""
    folder = tmp_path / "programs"
    folder.mkdir()
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    return folder


def install(folder: Path, **scripts: str) -> None:
    for name, text in scripts.items():
        path = folder / name.replace("_", "-") if name == "nvidia_smi" else folder / name
        path.write_text(text)
        path.chmod(0o755)


def facts_here(tmp_path: Path, *, devices: bool = True) -> HostFacts:
    return understand(gather(LocalHost(), run_folder=tmp_path / "not" / "made", devices=devices))


def facts_by_script(tmp_path: Path) -> HostFacts:
    host = Host("here", "here", connection="local", workdir=str(tmp_path / "not" / "made"))
    with LocalConnection("here") as connection:
        return node_facts(connection, host, operator_python=sys.executable, devices=True).facts


@pytest.mark.parametrize("ask", [facts_here, facts_by_script])
def test_programs_of_devices_and_mpi_are_asked(ask: Ask, programs: Path, tmp_path: Path) -> None:
    install(programs, nvidia_smi=NVIDIA_SMI, mpiexec=OPEN_MPI, fi_info=FI_INFO, ibv_devinfo=IBV_DEVINFO)
    facts = ask(tmp_path)
    assert [(gpu.name, gpu.driver, [part.uuid for part in gpu.parts]) for gpu in facts.gpus] == [
        ("NVIDIA A100-SXM4-40GB", "535.129.03", ["MIG-b"])
    ]
    assert (facts.mpi.family, facts.mpi.version, facts.mpi.mpiexec) == ("Open MPI", "4.1.4", str(programs / "mpiexec"))
    assert facts.fabric.providers == ("verbs", "tcp")
    assert [(port.device, port.state) for port in facts.rdma if port.device == "mlx5_0"] == [("mlx5_0", "DOWN")]


@pytest.mark.parametrize("ask", [facts_here, facts_by_script])
def test_a_missing_driver_is_told_in_its_own_words_and_asked_only_once(
    ask: Ask, programs: Path, tmp_path: Path
) -> None:
    install(programs, nvidia_smi=NO_DRIVER)
    facts = ask(tmp_path)
    assert facts.gpus == ()
    assert facts.gpu_problem == "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver."
    assert not (programs / "nvidia-smi.calls").exists()


def test_slow_programs_are_left_alone_unless_devices_are_asked_for(programs: Path, tmp_path: Path) -> None:
    install(programs, nvidia_smi=NVIDIA_SMI, mpiexec=OPEN_MPI, fi_info=FI_INFO)
    facts = facts_here(tmp_path, devices=False)
    assert (facts.gpus, facts.fabric.providers, facts.mpi.mpiexec) == ((), (), "")
    assert facts.mpi.library.startswith("MPICH ")


@pytest.mark.parametrize("ask", [facts_here, facts_by_script])
def test_a_clock_that_is_three_minutes_behind_is_found_out(ask: Ask, programs: Path, tmp_path: Path) -> None:
    install(programs, date='#!/bin/sh\nexec /bin/date -d "-180 seconds" "$@"\n')
    clock = ask(tmp_path).clock
    assert clock is not None
    # `date` reads the clock a little after it is started, on top of what the exchange leaves uncertain.
    assert abs(clock.offset_s + 180) < clock.uncertainty_s + 0.2
    assert clock.uncertainty_s < 2.0


@pytest.mark.parametrize("ask", [facts_here, facts_by_script])
def test_only_variables_that_matter_are_read(ask: Ask, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    monkeypatch.setenv("SLURM_CPU_BIND_LIST", "0x3")
    monkeypatch.setenv("MY_SECRET", "hunter2")
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    facts = ask(tmp_path)
    assert {"OMP_NUM_THREADS": "3", "SLURM_CPU_BIND_LIST": "0x3"}.items() <= facts.environment.items()
    assert "hunter2" not in facts.model_dump_json()
    assert facts.tmp is not None
    assert facts.tmp.path == str(tmp_path)


def test_a_host_over_ssh_and_the_same_machine_agree_on_all_that_does_not_change(
    ssh_server: Server, tmp_path: Path
) -> None:
    host = ssh_server.host("cn01", python=sys.executable, workdir=str(tmp_path / "not" / "made"))
    with reach(host) as connection:
        node = node_facts(connection, host, operator_python=sys.executable, devices=True)
    here = facts_here(tmp_path)
    for name in ("cpu", "numa", "nics", "rdma", "gpus", "names", "kernel", "container", "virtual", "packages"):
        assert getattr(node.facts, name) == getattr(here, name), name
    assert here.disk is not None
    assert node.facts.disk is not None
    same = {"total_bytes", "mount", "fs_type", "options", "path"}
    assert node.facts.disk.model_dump(include=same) == here.disk.model_dump(include=same)
    assert here.disk.path == str(tmp_path)
    assert node.facts.limits.system_processes == here.limits.system_processes
    assert node.facts.clock is not None
    assert abs(node.facts.clock.offset_s) <= node.facts.clock.uncertainty_s + 0.05
    assert node.facts.login_prints == ""


def test_what_a_login_shell_prints_is_kept_and_harms_nothing(tmp_path: Path) -> None:
    if SSHD is None:
        pytest.skip("sshd is not installed (Debian: openssh-server)")
    noisy = tmp_path / "noisy"
    noisy.write_text('#!/bin/sh\necho "Welcome to [b]cn01"; exec /bin/sh -c "$SSH_ORIGINAL_COMMAND"\n')
    noisy.chmod(0o755)
    servers = Servers(tmp_path, make_key(tmp_path / "id"))
    host = servers(f"ForceCommand {noisy}", last=5).host("cn01", python=sys.executable)
    with reach(host) as connection:
        facts = node_facts(connection, host, operator_python=sys.executable).facts
    servers.close()
    assert facts.login_prints == "Welcome to [b]cn01"
    assert facts.cpu.usable


def test_an_interpreter_that_is_too_old_is_named_with_its_version(tmp_path: Path) -> None:
    old = tmp_path / "python"
    old.write_text('#!/bin/sh\n[ "$1" = -V ] && { echo "Python 3.8.10"; exit 0; }\nexit 1\n')
    old.chmod(0o755)
    host = Host("n1", "n1", connection="local", python=str(old))
    with LocalConnection("n1") as connection:
        node = node_facts(connection, host, operator_python=sys.executable)
    assert node.python is None
    assert node.facts.old_pythons == (f"{old} 3.8.10",)


def test_quick_facts_of_this_machine_take_no_time_to_speak_of(tmp_path: Path) -> None:
    begun = time.monotonic()
    facts_here(tmp_path, devices=False)
    assert time.monotonic() - begun < 2.0

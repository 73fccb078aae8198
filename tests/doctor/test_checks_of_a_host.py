"""Each check of one host against made-up facts: where it is well, warns or fails, and what it then says."""

from __future__ import annotations

from typing import Any

import pytest

from support.examined import GIB, MIB, cpus, facts, finding, host, memory, software, space
from tianjictl.doctor.finding import Severity, Verdict
from tianjictl.doctor.registry import CHECKS
from tianjictl.errors import Unreachable
from tianjictl.profiling.facts.clock import ClockFacts
from tianjictl.profiling.facts.cpus import Core, Source
from tianjictl.profiling.facts.fabric import FabricFacts
from tianjictl.profiling.facts.gpus import GpuFacts
from tianjictl.profiling.facts.limits import LimitFacts
from tianjictl.profiling.facts.memory import SwapFacts
from tianjictl.profiling.facts.numa import NumaNode

NO_FACTS: dict[str, Any] = {"node": None, "reached_s": None}
TWO_PACKAGES = tuple(Core(cpu=cpu, core=cpu, package=cpu // 4, governor="performance") for cpu in range(8))


def quota(amount: float) -> dict[str, Any]:
    source = Source(name="/sys/fs/cgroup/cpu.max", says=f"quota of {amount:g} CPUs")
    return {"cpu": cpus(quota=amount, capacity=min(amount, 8.0), sources=(source,))}


def limits(**changes: Any) -> dict[str, Any]:
    return {"limits": facts().limits.model_copy(update=changes)}


#: check, what is changed about a healthy host, what it comes to, words of the evidence, words of the mend
TABLE: list[tuple[str, dict[str, Any], str, str, str]] = [
    ("ssh.reach", {}, "ok", "logged in after 0.3 s", ""),
    ("ssh.reach", {"reached_s": 6.2}, "warn", "after 6.2 s", "UseDNS no"),
    ("ssh.reach", {**NO_FACTS, "failure": Unreachable("cn01: connect: no route", hint="is it on?")}, "fail",
     "connect: no route", "is it on?"),
    ("shell.prints", {}, "ok", "silent", ""),
    ("shell.prints", {"login_prints": "Welcome!\n"}, "warn", "'Welcome!'", "~/.bashrc"),
    ("clock.offset", {"clock": ClockFacts(offset_s=-0.9, uncertainty_s=0.0)}, "ok", "0.900 s behind", ""),
    ("clock.offset", {"clock": ClockFacts(offset_s=1.4, uncertainty_s=0.5)}, "ok", "± 0.500 s", ""),
    ("clock.offset", {"clock": ClockFacts(offset_s=1.4, uncertainty_s=0.1)}, "warn", "ahead", "timedatectl set-ntp"),
    ("clock.offset", {"clock": ClockFacts(offset_s=-31.0, uncertainty_s=0.1)}, "fail", "31.000 s behind", "set-ntp"),
    ("clock.offset", {"clock": None}, "skip", "told no time", ""),
    ("state.folder", {}, "ok", "can be written to", ""),
    ("state.folder", {"software": None, "folder_problem": "mkdir: Permission denied"}, "fail", "Permission denied",
     "set tianji_workdir"),
    ("state.folder", {"software": None, "software_problem": "there is no python3"}, "skip", "no Python", ""),
    ("state.folder", {"software": None, "disk": space(GIB, "/srv/u", writable=True)}, "ok", "/srv/u may be", ""),
    ("state.folder", {"software": None, "disk": space(GIB, "/srv/u", writable=False)}, "fail",
     "/srv/u cannot be written to", "set tianji_workdir"),
    ("disk.space", {}, "ok", "50.0 GiB free", ""),
    ("disk.space", {"disk": space(900 * MIB)}, "warn", "900 MiB free", "tianjictl playbook cleanup"),
    ("disk.space", {"disk": space(63 * MIB)}, "fail", "63 MiB free", "tianjictl playbook cleanup"),
    ("disk.space", {"disk": space(50 * GIB, inodes_free=9_000)}, "warn", "9000 more files", "cleanup"),
    ("disk.space", {"disk": space(50 * GIB, inodes_free=100)}, "fail", "100 more files", "cleanup"),
    ("disk.space", {"disk": None}, "skip", "df does not say", ""),
    ("disk.filesystem", {}, "ok", "ext4", ""),
    ("disk.filesystem", {"disk": space(GIB, fs_type="nfs4")}, "info", "over the network", "set tianji_workdir"),
    ("disk.filesystem", {"disk": space(GIB, fs_type="tmpfs")}, "warn", "next boot", "set tianji_workdir"),
    ("disk.filesystem", {"disk": space(GIB, options=("rw", "noexec"))}, "warn", "noexec", "set tianji_workdir"),
    ("disk.filesystem", {"disk": space(GIB, options=("ro",), mount="/data")}, "fail", "read-only", "remount,rw /data"),
    ("disk.filesystem", {"disk": None}, "skip", "does not say", ""),
    ("tmp.path", {}, "ok", "/tmp, 20.0 GiB free", ""),
    ("tmp.path", {"environment": {"TMPDIR": "/gone"}}, "fail", "/gone does not exist", "mkdir -p -m 700 /gone"),
    ("tmp.path", {"environment": {"TMPDIR": "/" + 70 * "x"}, "tmp": space(GIB, "/" + 70 * "x")}, "warn",
     "71 characters", "TMPDIR"),
    ("tmp.path", {"tmp": space(GIB, fs_type="nfs4")}, "warn", "nfs4", "TMPDIR"),
    ("tmp.path", {"tmp": space(10 * MIB)}, "warn", "10 MiB free", "du -xsh"),
    ("tmp.path", {"tmp": space(GIB, options=("ro",))}, "fail", "read-only", "TMPDIR"),
    ("tmp.path", {"tmp": None}, "skip", "df does not say", ""),
    ("python.version", {}, "ok", "Python 3.12.1", ""),
    ("python.version", {"software": software(version=(3, 10, 4))}, "fail", "3.11 or newer", "playbook bootstrap"),
    ("python.version", {"software": software(version=(3, 99, 0))}, "info", "newer than any", ""),
    ("python.version", {"software": None, "software_problem": "there is no python3"}, "fail", "no python3",
     "--limit cn01"),
    ("python.version", {"software": None, "folder_problem": "no folder"}, "skip", "nobody has looked", ""),
    ("python.packages", {}, "ok", "numpy 2.1.3", ""),
    ("python.packages", {"software": software(missing={"zmq": "No module named 'zmq'"})}, "fail", "zmq",
     "tianjictl playbook bootstrap -i inventory/hosts.yaml --limit cn01"),
    ("python.packages", {"software": software(version=(3, 9, 1))}, "skip", "no Python", ""),
    ("cpu.cpuset", {}, "ok", "8 of 8 CPUs: 0-7", ""),
    ("cpu.cpuset", {"cpu": cpus(8, (3, 5, 6, 7), sources=(Source(name="cpuset.cpus", says="CPUs 3,5-7"),))}, "info",
     "4 of 8 CPUs: 3,5-7, set by cpuset.cpus", ""),
    ("cpu.cpuset", {"cpu": cpus(isolated=(6, 7))}, "info", "isolated from the scheduler: 6-7", ""),
    ("cpu.quota", {}, "ok", "no quota", ""),
    ("cpu.quota", quota(8.0), "ok", "8 CPUs' worth", ""),
    ("cpu.quota", quota(2.0), "info", "2 CPUs' worth of time, by /sys/fs/cgroup/cpu.max", ""),
    ("cpu.quota", quota(1.5), "warn", "1.5 CPUs' worth", "2 are cpu.max = 200000 100000"),
    ("cpu.quota", quota(0.4), "warn", "0.4 CPUs' worth", "1 are cpu.max = 100000 100000"),
    ("cpu.quota", quota(0.1), "fail", "0.1 CPUs' worth", "1 are cpu.max = 100000 100000"),
    ("cpu.governor", {}, "ok", "performance", ""),
    ("cpu.governor", {"cpu": cpus(governor="schedutil")}, "info", "schedutil", "tianjictl playbook tune"),
    ("cpu.governor", {"cpu": cpus(governor="powersave")}, "warn", "powersave", "tianjictl playbook tune"),
    ("cpu.governor", {"cpu": cpus(governor=None)}, "skip", "no governor", ""),
    ("cpu.oversubscribed", {"load_1min": 1.5}, "ok", "1.5 processes", ""),
    ("cpu.oversubscribed", {"load_1min": 2.0}, "info", "8 CPUs are there", ""),
    ("cpu.oversubscribed", {"load_1min": 4.0}, "warn", "others are at work", "--sort=-pcpu"),
    ("cpu.oversubscribed", {"load_1min": None}, "skip", "no load", ""),
    ("numa.visible", {}, "ok", "one NUMA node", ""),
    ("numa.visible", {"numa": tuple(NumaNode(node=n, cpus=(n,), distances=(10, 21)) for n in (0, 1))}, "ok",
     "2 NUMA nodes, the farthest at distance 21", ""),
    ("numa.visible", {"numa": ()}, "info", "shows no NUMA", ""),
    ("numa.visible", {"cpu": cpus(allowed=TWO_PACKAGES)}, "warn", "2 packages", "numa="),
    ("sched.autogroup", {}, "ok", "off", ""),
    ("sched.autogroup", limits(autogroup=True), "info", "by session", "sched_autogroup_enabled=0"),
    ("sched.autogroup", limits(autogroup=None), "skip", "no such setting", ""),
    ("threads.environment", {"environment": {"OMP_PROC_BIND": "false"}}, "ok", "nothing is set", ""),
    ("threads.environment", {"environment": {"OMP_NUM_THREADS": "64"}}, "info", "replaced in every component", ""),
    ("threads.environment", {"environment": {"OMP_PROC_BIND": "close", "OMP_PLACES": "cores"}}, "warn",
     "OMP_PROC_BIND=close, OMP_PLACES=cores", "OMP_PROC_BIND|OMP_PLACES"),
    ("memory.limit", {}, "ok", "64.0 GiB free of 64.0 GiB", ""),
    ("memory.limit", {"memory": memory(limit=8 * GIB)}, "ok", "limited by memory.max", ""),
    ("memory.limit", {"memory": memory(available=800 * MIB)}, "warn", "small group only", "--sort=-rss"),
    ("memory.limit", {"memory": memory(available=200 * MIB)}, "fail", "others hold the rest", "--sort=-rss"),
    ("memory.limit", {"memory": memory(limit=128 * MIB)}, "fail", "128 MiB", "memory.max"),
    ("memory.swap", {}, "ok", "no swap", ""),
    ("memory.swap", {"swap": SwapFacts(total_bytes=GIB, free_bytes=GIB, swappiness=10)}, "ok", "swappiness 10", ""),
    ("memory.swap", {"swap": SwapFacts(total_bytes=GIB, free_bytes=GIB, swappiness=60)}, "info", "swappiness 60",
     "playbook tune"),
    ("memory.swap", {"swap": SwapFacts(total_bytes=GIB, free_bytes=GIB // 2)}, "warn", "512 MiB of 1.0 GiB", "swapoff"),
    ("memory.swap", {"swap": None}, "skip", "does not say", ""),
    ("shm.size", {}, "ok", "8.0 GiB free", ""),
    ("shm.size", {"shm": space(60 * MIB)}, "warn", "60 MiB free", "remount,size=1g /dev/shm"),
    ("shm.size", {"shm": space(60 * MIB), "container": "docker"}, "warn", "60 MiB", "docker container"),
    ("shm.size", {"shm": space(7 * MIB)}, "fail", "SIGBUS", "remount,size=1g /dev/shm"),
    ("shm.size", {"shm": None}, "fail", "no /dev/shm", "mount -t tmpfs"),
    ("limits.memlock", {}, "ok", "unlimited", ""),
    ("limits.memlock", limits(memlock_bytes=65536), "ok", "tcp locks none", ""),
    ("limits.memlock", {**limits(memlock_bytes=65536), "fabric": FabricFacts(chosen="verbs")}, "fail",
     "verbs would be used", "tianjictl playbook bootstrap"),
    ("limits.memlock", limits(memlock_bytes=None), "skip", "does not say", ""),
    ("limits.open_files", {}, "ok", "1024, which may be raised to 500000", ""),
    ("limits.open_files", limits(hard_open_files=900), "warn", "8 cores need 240", "nofile 4096"),
    ("limits.open_files", limits(hard_open_files=200), "fail", "8 cores need 240", "nofile 4096"),
    ("limits.open_files", limits(hard_open_files="unlimited"), "ok", "raised to unlimited", ""),
    ("limits.open_files", limits(hard_open_files=None, open_files=None), "skip", "does not say", ""),
    ("limits.processes", {}, "ok", "60000", ""),
    ("limits.processes", limits(processes="unlimited"), "ok", "unlimited", ""),
    ("limits.processes", limits(processes=500), "warn", "8 cores need 128", "nproc 4096"),
    ("limits.processes", limits(processes=100), "fail", "8 cores need 128", "nproc 4096"),
    ("limits.processes", limits(processes="unlimited", group_processes=64), "fail", "pids.max",
     "raise pids.max to 4096"),
    ("limits.processes", {"limits": LimitFacts()}, "skip", "does not say", ""),
    ("gpu.driver", {}, "ok", "there is none", ""),
    ("gpu.driver", {"gpus": (GpuFacts(index=0, name="A100", driver="550.54"),)}, "info", "A100, driver 550.54", ""),
    ("gpu.driver", {"gpu_problem": "Failed to initialize NVML"}, "warn", "NVML", "modprobe nvidia"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("check", "changes", "severity", "evidence", "mend"),
    TABLE,
    ids=[f"{row[0]}-{row[2]}-{number}" for number, row in enumerate(TABLE)],
)
def test_a_check_says(check: str, changes: dict[str, Any], severity: str, evidence: str, mend: str) -> None:
    row = finding(check, host(**changes))
    assert row.severity == severity, row.evidence
    assert evidence in row.evidence
    assert mend in (row.mend or "")
    assert row.why


def test_a_healthy_host_has_nothing_to_be_said_of_it() -> None:
    odd = {
        check.id: row.evidence
        for check in CHECKS
        if (row := finding(check.id, host())).severity not in (Severity.OK, Severity.SKIP)
    }
    assert odd == {}


def test_a_warning_or_a_failure_that_names_no_way_out_cannot_be_made() -> None:
    with pytest.raises(ValueError, match="nothing is said to mend: it is slow"):
        Verdict(Severity.WARN, "it is slow")
    assert Verdict(Severity.INFO, "it is slow").mend is None


def test_of_a_host_that_was_not_reached_nothing_else_is_said() -> None:
    away = host(**NO_FACTS, failure=Unreachable("cn01: connect: no route"))
    said = {check.id: finding(check.id, away) for check in CHECKS}
    assert said.pop("ssh.reach").severity is Severity.FAIL
    assert {(row.severity, row.evidence) for row in said.values()} == {(Severity.SKIP, "not reached")}


def test_commands_that_mend_a_host_elsewhere_go_by_its_own_ssh_settings_and_here_by_none() -> None:
    away = finding("memory.swap", host(swap=SwapFacts(total_bytes=GIB), host_user="u", host_port=2222))
    assert away.mend == "ssh -p 2222 -l u 10.0.0.1 'sudo swapoff -a && sudo swapon -a'"
    here = finding("memory.swap", host(swap=SwapFacts(total_bytes=GIB), here=True))
    assert here.mend == "sudo swapoff -a && sudo swapon -a"

"""Cores: which ones a run may use, how much of their time, who else uses them, and how fast they are clocked."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tianjictl.doctor.finding import Check, Verdict, fail, info, ok, skip, warn
from tianjictl.doctor.situation import on
from tianjictl.profiling.facts.cpulist import format_cpulist

if TYPE_CHECKING:
    from tianjictl.doctor.situation import Examined, Situation

LEAST_CAPACITY = 0.2  #: CPUs; below, starting takes so long that components are taken for frozen
WHOLE = 1e-6
BUSY = 0.5  #: of the CPUs taken by others: predictions no longer hold, and actors wait for their cores
NOTICEABLE = 0.2
_FAST = {"performance"}
#: Governors that react to load within milliseconds; the others wait, or never clock up.
_REACTIVE = {"schedutil"}
#: Variables that move or hold threads behind the plan's back, and values that do no harm.
_BINDING = {
    "OMP_PROC_BIND": ("false",),
    "OMP_PLACES": (),
    "GOMP_CPU_AFFINITY": (),
    "KMP_AFFINITY": ("disabled", "none"),
    "OMP_WAIT_POLICY": ("passive",),
    "KMP_BLOCKTIME": ("0",),
    "OMP_THREAD_LIMIT": (),
}
#: A run's processes set these themselves, to the plan's number of cores.
_REPLACED = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMEXPR_NUM_THREADS")


def _cpuset(one: Examined, _situation: Situation) -> Verdict:
    cpu = one.facts.cpu
    allowed = tuple(core.cpu for core in cpu.allowed)
    told = f"{len(allowed)} of {len(cpu.online)} CPUs: {format_cpulist(allowed)}"
    if cpu.isolated and set(allowed) & set(cpu.isolated):
        return info(f"{told}; isolated from the scheduler: {format_cpulist(cpu.isolated)}")
    if allowed == tuple(range(len(allowed))):
        return ok(told)
    sources = [source.name for source in cpu.sources if source.says == f"CPUs {format_cpulist(allowed)}"]
    by = f", set by {' and '.join(sources)}" if sources else ""
    return info(f"{told}{by}: numbers below that are not in the list cannot be pinned to")


def _quota(one: Examined, _situation: Situation) -> Verdict:
    cpu = one.facts.cpu
    if cpu.quota is None:
        return ok("no quota")
    source = next((source.name for source in cpu.sources if "quota" in source.says), "a control group")
    told = f"{cpu.quota:g} CPUs' worth of time, by {source}"
    wanted = max(1, round(cpu.quota + 0.5))
    mend = f"give it whole CPUs where the container or job is made: {wanted} are cpu.max = {wanted}00000 100000"
    if cpu.quota < LEAST_CAPACITY:
        return fail(told, mend)
    if abs(cpu.quota - round(cpu.quota)) > WHOLE:
        return warn(f"{told}: a part of a CPU is lost, as components are pinned to whole ones", mend)
    return info(told) if cpu.quota < len(cpu.allowed) else ok(told)


def _governor(one: Examined, situation: Situation) -> Verdict:
    governors = set(one.facts.governors)
    if not governors:
        return skip("the kernel shows no governor, as in most virtual machines")
    told = ", ".join(sorted(governors))
    if governors <= _FAST:
        return ok(told)
    if governors <= _FAST | _REACTIVE:
        return info(told, situation.playbook("tune", one))
    return warn(f"{told}: cores are clocked up late, or not at all", situation.playbook("tune", one))


def _load(one: Examined, _situation: Situation) -> Verdict:
    load = one.facts.load_1min
    if load is None:
        return skip("the host tells no load")
    cpus = one.facts.cpu.capacity
    told = f"{load:.1f} processes have been running, {cpus:g} CPUs are there"
    share = load / cpus
    if share >= BUSY:
        return warn(f"{told}: others are at work", on(one, "ps -eo pcpu,user,pid,comm --sort=-pcpu | head"))
    return info(told) if share >= NOTICEABLE else ok(told)


def _numa(one: Examined, _situation: Situation) -> Verdict:
    facts = one.facts
    packages = {core.package for core in facts.cpu.allowed}
    nodes = [node for node in facts.numa if node.cpus]
    if len(nodes) > 1:
        far = max((distance for node in nodes for distance in node.distances), default=0)
        return ok(f"{len(nodes)} NUMA nodes" + (f", the farthest at distance {far}" if far else ""))
    if len(packages) > 1:
        mend = on(one, "grep -o 'numa=[^ ]*' /proc/cmdline; sudo dmesg | grep -i numa")
        return warn(f"{len(packages)} packages, and the kernel shows {len(nodes) or 'no'} NUMA node", mend)
    return ok("one NUMA node") if nodes else info("the kernel shows no NUMA nodes: one is assumed")


def _autogroup(one: Examined, situation: Situation) -> Verdict:
    on_ = one.facts.limits.autogroup
    if on_ is None:
        return skip("the kernel has no such setting")
    if not on_:
        return ok("off")
    sharing = len(situation.nodes_of(one))
    mend = on(one, "sudo sysctl kernel.sched_autogroup_enabled=0")
    if sharing > 1:
        return warn(f"on, with {sharing} nodes on this machine: one may stand still while another computes", mend)
    return info("on: time is divided by session first, and a component's priority counts only within its run", mend)


def _threads(one: Examined, _situation: Situation) -> Verdict:
    environment = one.facts.environment
    harmful = {
        name: environment[name]
        for name, harmless in _BINDING.items()
        if name in environment and environment[name].strip().lower() not in harmless
    }
    if harmful:
        told = ", ".join(f"{name}={value}" for name, value in harmful.items())
        return warn(f"{told} bind or limit the threads of learners against the plan", _unset(one, harmful))
    replaced = [f"{name}={environment[name]}" for name in _REPLACED if name in environment]
    if replaced:
        return info(f"{', '.join(replaced)}: replaced in every component by the plan's number")
    return ok("nothing is set that binds or limits threads")


def _unset(one: Examined, names: dict[str, str]) -> str:
    if one.here:
        return f"unset {' '.join(names)}"
    return on(one, f"grep -n '{'|'.join(names)}' ~/.bashrc ~/.profile ~/.ssh/environment /etc/environment")


CHECKS = (
    Check("cpu.cpuset", "components are pinned to the CPUs of this list and to no others", _cpuset, quick=True),
    Check("cpu.quota", "beyond the quota the kernel stops all components until its next period", _quota, quick=True),
    Check("cpu.governor", "a core that is not clocked up makes every component on it slow", _governor, quick=True),
    Check("cpu.oversubscribed", "what others compute is lost to the run, and differs from minute to minute", _load,
          quick=True),
    Check("numa.visible", "memory on the other socket costs about twice the time; unseen, it cannot be avoided", _numa,
          quick=True),
    Check("sched.autogroup", "idle sessions count as much as a run's, and priorities between runs do not", _autogroup,
          quick=True),
    Check("threads.environment", "variables that bind threads work against the plan's own pinning", _threads,
          quick=True),
)  # fmt: skip

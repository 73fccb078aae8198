"""What the kernel lets one process and one user have."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tianjictl.doctor.finding import Check, Verdict, fail, info, ok, skip, warn
from tianjictl.doctor.situation import on

if TYPE_CHECKING:
    from tianjictl.doctor.situation import Examined, Situation
    from tianjictl.profiling.facts.limits import Amount

#: An agent has some seven descriptors for each actor and a hundred of its own; twice that, for two actors a core.
FILES_BASE, FILES_PER_CORE = 128, 14
#: A component for each core with some threads of libraries beside its own; agent, forkserver, coordinator, couriers.
TASKS_BASE, TASKS_PER_CORE = 64, 8
ROOMY = 4  #: times what is needed; below, a second run or a larger shape does not fit
LOCKED = 1 << 30  #: bytes; RDMA locks every buffer that it sends from or receives into


def _locked(one: Examined, situation: Situation) -> Verdict:
    limits, fabric = one.facts.limits, one.facts.fabric
    told = f"{_shown(limits.memlock_bytes)} bytes may be locked"
    mend = f"{situation.playbook('bootstrap', one)}, then log in anew"
    if limits.memlock_bytes is None:
        return skip("the host does not say")
    if limits.memlock_bytes == "unlimited" or limits.memlock_bytes >= LOCKED:
        return ok(told)
    if fabric.chosen in ("tcp", "sockets", "udp", "shm"):
        return ok(f"{told}; {fabric.chosen} locks none")
    if situation.several:
        return fail(f"{told}, and {fabric.chosen} would be used", mend)
    return info(f"{told}: too little for {fabric.chosen}, which a run on one machine does not use", mend)


def _files(one: Examined, _situation: Situation) -> Verdict:
    limits = one.facts.limits
    soft, hard = limits.open_files, limits.hard_open_files
    if hard is None and soft is None:
        return skip("the host does not say")
    reach = hard if hard is not None else soft
    told = f"{_shown(soft)}, which may be raised to {_shown(reach)}"
    return _enough(one, told, reach, _needed(one, FILES_BASE, FILES_PER_CORE), "nofile")


def _tasks(one: Examined, _situation: Situation) -> Verdict:
    limits = one.facts.limits
    known = (limits.processes, limits.group_processes, limits.system_processes)
    amounts = [amount for amount in known if isinstance(amount, int)]
    if not amounts:
        return ok("unlimited") if limits.processes == "unlimited" else skip("the host does not say")
    least = min(amounts)
    if least == limits.group_processes and least != limits.processes:
        told, name = f"{least}, by the control group (pids.max)", "pids"
    else:
        told, name = f"{least}", "nproc"
    return _enough(one, told, least, _needed(one, TASKS_BASE, TASKS_PER_CORE), name)


def _enough(one: Examined, told: str, has: Amount, needed: int, name: str) -> Verdict:
    if not isinstance(has, int) or has >= ROOMY * needed:
        return ok(told)
    cores = len(one.facts.cpu.allowed)
    roomy = max(4096, ROOMY * needed)
    mend = (
        f"raise pids.max to {roomy} where the container or job is made"
        if name == "pids"
        else on(one, f'echo "$USER - {name} {roomy}" | sudo tee /etc/security/limits.d/91-tianji-{name}.conf')
        + ", then log in anew"
    )
    if has < needed:
        return fail(f"{told}; {cores} cores need {needed}", mend)
    return warn(f"{told}; {cores} cores need {needed}, and there is little to spare", mend)


def _needed(one: Examined, base: int, per_core: int) -> int:
    return base + per_core * len(one.facts.cpu.allowed)


def _shown(amount: Amount) -> str:
    return "unknown" if amount is None else str(amount)


CHECKS = (
    Check("limits.memlock", "RDMA can only send from locked memory; without it MPI falls back or ends", _locked,
          quick=True),
    Check("limits.open_files", "every ring and board costs the agent descriptors", _files, quick=True),
    Check("limits.processes", "a component that cannot be forked is never there", _tasks, quick=True),
)  # fmt: skip

"""Memory: how much a run may take, whether the kernel swaps it out, and what there is to share."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tianjictl.doctor.finding import Check, Verdict, fail, info, ok, skip, warn
from tianjictl.doctor.situation import on

if TYPE_CHECKING:
    from tianjictl.doctor.situation import Examined, Situation

MIB = 1 << 20
LEAST = 256 * MIB  #: L1A1 of CartPole takes 165 MB: less does not hold the smallest run
TIGHT = 1024 * MIB  #: libraries alone take some 100 MB for each learner with torch
SWAPPED = 64 * MIB  #: below, it is what idle services have left there
CALM = 10  #: swappiness from which on the kernel prefers to give up caches; what the playbook `tune` sets
SHM_LEAST = 8 * MIB  #: MPICH maps some MB there when a courier starts, and dies by SIGBUS where they are not there
SHM_TIGHT = 64 * MIB  #: Docker's default, enough for couriers and for little else


def _limit(one: Examined, _situation: Situation) -> Verdict:
    memory = one.facts.memory
    room = memory.limit_bytes if memory.available_bytes is None else min(memory.limit_bytes, memory.available_bytes)
    told = f"{_size(room)} free of {_size(memory.limit_bytes)}"
    smallest = min(
        memory.sources, key=lambda source: source.says != f"{memory.limit_bytes / 2**30:.2f} GiB", default=None
    )
    if smallest is not None and memory.limit_bytes < memory.total_bytes:
        told += f", limited by {smallest.name}"
    mend = on(one, "ps -eo rss,user,pid,comm --sort=-rss | head")
    if memory.limit_bytes < LEAST:
        return fail(told, f"give it at least {_size(LEAST)} where the container or job is made (memory.max)")
    if room < LEAST:
        return fail(f"{told}: others hold the rest", mend)
    if room < TIGHT:
        return warn(f"{told}: enough for a small group only", mend)
    return ok(told)


def _swap(one: Examined, situation: Situation) -> Verdict:
    swap = one.facts.swap
    if swap is None:
        return skip("the host does not say")
    if swap.total_bytes == 0:
        return ok("there is no swap")
    told = f"{_size(swap.used_bytes)} of {_size(swap.total_bytes)} in use"
    told += "" if swap.swappiness is None else f", swappiness {swap.swappiness}"
    if swap.used_bytes >= SWAPPED:
        return warn(told, on(one, "sudo swapoff -a && sudo swapon -a"))
    if swap.swappiness is not None and swap.swappiness > CALM:
        return info(told, situation.playbook("tune", one))
    return ok(told)


def _shared(one: Examined, situation: Situation) -> Verdict:
    shm = one.facts.shm
    if shm is None:
        mend = on(one, "sudo mount -t tmpfs -o size=1g tmpfs /dev/shm")
        if situation.linked:
            return fail("there is no /dev/shm", mend)
        return info("there is no /dev/shm; a run of a single node does not need it", mend)
    told = f"{_size(shm.free_bytes)} free of {_size(shm.total_bytes)}"
    mend = on(one, "sudo mount -o remount,size=1g /dev/shm")
    if one.facts.container:
        mend = f"make the {one.facts.container} container with a larger one, such as --shm-size=1g"
    if shm.free_bytes < SHM_LEAST and situation.linked:
        return fail(f"{told}: couriers die by SIGBUS", mend)
    if shm.free_bytes < SHM_TIGHT:
        return warn(told, mend)
    return ok(told)


def _size(amount: float) -> str:
    return f"{amount / 2**30:.1f} GiB" if amount >= 2**30 else f"{amount / MIB:.0f} MiB"


CHECKS = (
    Check("memory.limit", "the kernel kills a component that asks for more, and training rolls back", _limit,
          quick=True),
    Check("memory.swap", "a component that is swapped out stands still, and looks frozen", _swap, quick=True),
    Check("shm.size", "MPI keeps buffers in /dev/shm; the run's own memory needs no room there", _shared, quick=True),
)  # fmt: skip

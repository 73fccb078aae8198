"""Accelerators of a host."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tianjictl.doctor.finding import Check, Verdict, info, ok, warn
from tianjictl.doctor.situation import on

if TYPE_CHECKING:
    from tianjictl.doctor.situation import Examined, Situation


def _driver(one: Examined, situation: Situation) -> Verdict:
    facts = one.facts
    if facts.gpu_problem:
        return warn(f"nvidia-smi says: {facts.gpu_problem}", on(one, "sudo modprobe nvidia && nvidia-smi"))
    if not facts.gpus:
        return ok("there is none")
    hidden = facts.environment.get("CUDA_VISIBLE_DEVICES")
    told = ", ".join(_shown(gpu.name, len(gpu.parts), gpu.driver) for gpu in facts.gpus)
    drivers = {gpu.driver for each in situation.there for gpu in each.facts.gpus if gpu.driver}
    if len(drivers) > 1:
        mend = on(one, "apt-cache policy nvidia-driver; sudo apt-get install --only-upgrade nvidia-driver")
        return warn(f"{told}; drivers of the hosts differ: {', '.join(sorted(drivers))}", mend)
    if hidden is not None and hidden.strip() in ("", "-1"):
        return info(f"{told}; hidden by CUDA_VISIBLE_DEVICES={hidden}")
    return info(f"{told}; learners compute on CPUs")


def _shown(name: str, parts: int, driver: str) -> str:
    return name + (f" in {parts} MIG parts" if parts else "") + (f", driver {driver}" if driver else "")


CHECKS = (
    Check(
        "gpu.driver", "a driver that does not answer hides the GPU, and may hang what asks for it", _driver, quick=True
    ),
)

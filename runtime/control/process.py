"""A component's own process, from the fork on: log file, cores, threads, then the driver. Linux only."""

from __future__ import annotations

import ctypes
import faulthandler
import os
import signal
import sys
import traceback
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from threadpoolctl import threadpool_limits

from runtime.assembly import Assembly
from runtime.components.driver import Driver, report_exit
from runtime.contract.plan import Plan
from runtime.contract.states import PHASES, Phase
from runtime.control.subnormals import flush_subnormals

if TYPE_CHECKING:
    from runtime.contract.paths import RunPaths
    from runtime.contract.plan import Placement
    from runtime.control.fork_protocol import CourierOrder
    from runtime.resources import Resources

#: Where cores are too few, those who watch and steer come first: a coordinator that starves looks like a dead one.
COMPONENT_NICENESS = 5
_PR_SET_NAME = 15  # of prctl(2); the kernel keeps 15 characters


@dataclass(frozen=True, slots=True)
class RunOnNode:
    """What every component of a node is told."""

    paths: RunPaths
    node: str
    attempt: int  #: of the run
    resume_from: Path | None


def run_component(name: str, attempt: int, run: RunOnNode, resources: Resources, lifeline: int) -> int:
    """Live one life of a component, by the plan as it is now; returns the exit code.

    An error ends in the log and in the exit report.
    """
    paths = run.paths
    _redirect_output(paths.log(name, attempt))
    _show_name(name)
    os.nice(COMPONENT_NICENESS)
    report = paths.exit_report(name, attempt)
    try:
        plan = Plan.model_validate_json(paths.plan.read_bytes())
        placement = next(p for p in plan.placements if p.name == name)
        _settle(placement)
        assembly = Assembly(plan, run.node, resources, paths, run_attempt=run.attempt, resume_from=run.resume_from)
        block = assembly.block(name)
        # The phase first: with the new attempt, the agent believes what the block says.
        block.phase = PHASES.index(Phase.INIT)
        block.pid, block.attempt = os.getpid(), attempt
        component = assembly.build(name, attempt)
        resources.drop_unused()
        return report_exit(report, name, attempt, Driver(component, block, assembly.control, lifeline).run())
    except BaseException as error:  # whatever it was, it must reach the exit report: it is the only trace of this life
        code = report_exit(report, name, attempt, error)
        traceback.print_exception(error)
        return code


def run_courier(name: str, order: CourierOrder, resources: Resources) -> NoReturn:
    """Live one life of a courier. It needs nothing of the run's memory but what its orders bring."""
    from runtime.courier.living import live

    _redirect_output(Path(order.log))
    _show_name(name)
    resources.drop_unused()
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    live(order.socket, order.environment)


def _show_name(name: str) -> None:
    """For `ps -o comm` and `top`: which of many alike processes this is."""
    ctypes.CDLL(None).prctl(_PR_SET_NAME, name.encode()[:15], 0, 0, 0)


def _redirect_output(log: Path) -> None:
    descriptor = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
    os.dup2(descriptor, 1)
    os.dup2(descriptor, 2)
    os.close(descriptor)
    faulthandler.enable()
    faulthandler.register(signal.SIGUSR1)  # the stack of a component that hangs: kill -USR1 PID, then read its log


def _settle(placement: Placement) -> None:
    """Bind to the planned cores, as far as this machine still has them, with as many threads as planned."""
    cores = set(placement.cores) & os.sched_getaffinity(0)
    if cores:
        os.sched_setaffinity(0, cores)
    threadpool_limits(placement.threads)
    flush_subnormals()
    if "torch" in sys.modules:
        import torch

        torch.set_num_threads(placement.threads)

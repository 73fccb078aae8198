"""What holds for every test: it leaves this process as it found it, and no node starves another."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from runtime.contract.run_mark import RUN_ID_VARIABLE

# Components have as many threads as their plan says, set by themselves. In this process and in what it starts a second
# thread would gain nothing: for arrays as small as those of tests it spins, and takes the core that others need.
for _variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_variable, "1")

_HERE = Path(__file__).parent
_AUTOGROUP = Path("/proc/sys/kernel/sched_autogroup_enabled")
#: Where tests wait for hosts and processes, or compute for long. With several workers these files come first, or one
#: worker would be left alone with them in the end.
_LONG = (
    "cluster/", "system/", "planning/", "launching/", "control/", "cli/", "measure/", "profiling/", "courier/",
    "remote/", "doctor/", "metrics/", "tui/",
)  # fmt: skip
#: Files whose tests measure how fast something is, or want a free core. One worker has all of them, one by one.
_SPEED = (
    "measure/", "profiling/test_profile.py", "cluster/test_measured_links.py", "cluster/test_training.py",
    "system/test_scaling_live.py", "system/test_elastic_live.py",
)  # fmt: skip


def _is_worker(config: pytest.Config) -> bool:
    """Whether this is one of several processes that another pytest has started."""
    return hasattr(config, "workerinput")


@contextmanager
def _nodes_on_one_machine_do_not_starve_each_other() -> Iterator[None]:
    """Linux divides time by session before it divides it by process, and on some kernels a session with pinned
    processes gets none at all for many seconds while another one computes. Every agent has a session of its own; on
    machines of their own that makes no difference. Only root may switch it off; it is as before afterwards.
    """
    before = _AUTOGROUP.read_text().strip() if _AUTOGROUP.exists() else "0"
    if before != "1" or os.geteuid() != 0:
        yield
        return
    with suppress(OSError):  # a container may not allow it
        _AUTOGROUP.write_text("0")
    try:
        yield
    finally:
        with suppress(OSError):
            _AUTOGROUP.write_text(before)


def pytest_configure() -> None:
    """A shell starts what it puts into the background deaf to Ctrl-C, and everything started by that would be, too."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(wrapper=True)
def pytest_runtestloop(session: pytest.Session) -> Iterator[None]:
    if _is_worker(session.config):  # who has started it sees to the machine
        return (yield)
    with _nodes_on_one_machine_do_not_starve_each_other():
        return (yield)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Files are handed out in the order of their tests."""
    if _is_worker(config):
        items.sort(key=lambda item: _rank(item.path))


def _rank(file: Path) -> int:
    name = file.relative_to(_HERE).as_posix()
    return next((at for at, folder in enumerate(_LONG) if name.startswith(folder)), len(_LONG))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """A file's tests share what is costly to make, so one worker has all of them."""
    from xdist.scheduler import LoadFileScheduling

    class WholeFiles(LoadFileScheduling):
        def _split_scope(self, nodeid: str) -> str:
            file = super()._split_scope(nodeid)
            return "speed" if file.removeprefix("tests/").startswith(_SPEED) else file

    config.option.loadscopereorder = False
    return WholeFiles(config, log)


@pytest.fixture(autouse=True)
def _signals_are_left_as_they_were() -> Iterator[None]:
    """Loops that are processes of their own elsewhere run in this one here, and set what they want to hear."""
    heard = (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1, signal.SIGUSR2)
    before = {number: signal.getsignal(number) for number in heard}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.fixture(autouse=True)
def _this_process_is_no_part_of_a_run() -> Iterator[None]:
    """Components lower their priority; here that would slow down every later test, and not every user can undo it.
    What an agent starts bears the mark of its run; here later tests would end what bears it.
    """
    priority, mark = os.nice(0), os.environ.get(RUN_ID_VARIABLE)
    yield
    assert os.nice(0) == priority, "the test has lowered the priority of this process"
    assert os.environ.get(RUN_ID_VARIABLE) == mark, "what later tests start would bear the mark of this test's run"

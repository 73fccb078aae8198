"""Copies of complete checkpoints on other nodes, so that a lost head does not take them all with it.

`CopySender` is the coordinator's end, `CopyReceiver` an agent's. A copy goes file by file, its manifest last; it is
read back and compared with the manifest before it gets the name of a checkpoint.
"""

from __future__ import annotations

import logging
import os
import shutil
import time
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from runtime.checkpoint.errors import CheckpointError
from runtime.checkpoint.manifest import MANIFEST, read_manifest
from runtime.checkpoint.names import copy_folder, step_folder
from runtime.checkpoint.store import prune, verify
from runtime.contract.files import sync_folder
from runtime.contract.messages import PartTaken
from runtime.contract.states import Role
from runtime.control.landing import Landing, Reader, is_plain
from runtime.control.transfer import Transfer

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable

    from runtime.contract.messages import Part
    from runtime.contract.plan import Plan

log = logging.getLogger(__name__)


def choose_keepers(plan: Plan, connected: Collection[str], copies: int) -> tuple[str, ...]:
    """The nodes besides the head that keep a copy: at most `copies`, those with learners first, in the plan's order.

    The same nodes are chosen each time, so that each holds the newest checkpoints and not every other one.
    """
    staying = [placement for placement in plan.placements if not placement.leaving]
    with_learner = {placement.host for placement in staying if placement.role is Role.LEARNER}
    others = [host.name for host in plan.hosts if host.name != plan.head and host.name in connected]
    return tuple(sorted(others, key=lambda node: node not in with_learner)[:copies])


@dataclass(frozen=True, slots=True)
class Copied:
    """How a copy has ended."""

    node: str
    step: int
    error: str | None = None


@dataclass(slots=True)
class _Outgoing:
    transfer: Transfer
    reader: Reader


class CopySender:
    """Sends each keeper one checkpoint at a time, and then the newest: a slow node gets fewer, but whole ones."""

    def __init__(self, checkpoints: Path, send: Callable[[str, Part, bytes], bool]) -> None:
        """`send` queues a part for a node; False where it cannot."""
        self._checkpoints = checkpoints
        self._send = send
        self._outgoing: dict[str, _Outgoing] = {}
        self._waiting: dict[str, int] = {}
        self._ended: list[Copied] = []

    @property
    def busy(self) -> bool:
        """Whether anything is still to be sent."""
        return bool(self._outgoing or self._waiting)

    def start(self, step: int, nodes: Iterable[str]) -> None:
        """These nodes shall hold a copy of this complete checkpoint."""
        self._waiting |= dict.fromkeys(nodes, step)

    def look(self, now: float) -> list[Copied]:
        """Send what may be sent now; returns what has ended since the last call."""
        for node in list(self._waiting):
            if node not in self._outgoing:
                self._open(node, self._waiting.pop(node))
        for node, outgoing in list(self._outgoing.items()):
            self._pump(node, outgoing, now)
        ended, self._ended = self._ended, []
        return ended

    def _open(self, node: str, step: int) -> None:
        folder = step_folder(self._checkpoints, step)
        try:
            files = read_manifest(folder).files
            transfer = Transfer(step)
            for name, entry in files.items():
                transfer.add(name, entry.bytes)
            transfer.add(MANIFEST, (folder / MANIFEST).stat().st_size)
        except (CheckpointError, OSError) as error:  # pruned meanwhile: a newer one comes soon
            self._ended.append(Copied(node, step, str(error)))
        else:
            self._outgoing[node] = _Outgoing(transfer, Reader(folder))

    def _pump(self, node: str, outgoing: _Outgoing, now: float) -> None:
        transfer = outgoing.transfer
        if transfer.stalled(now):
            transfer.restart()
        try:
            while (part := transfer.next()) is not None and self._send(node, part, outgoing.reader.read(part)):
                transfer.sent(part, now)
        except OSError as error:
            self._end(node, f"{error}")

    def hear(self, node: str, answer: PartTaken, now: float) -> None:
        """A node has taken a part, or gives up."""
        outgoing = self._outgoing.get(node)
        if outgoing is None or answer.step != outgoing.transfer.step:
            return
        if answer.error is not None:
            self._end(node, answer.error)
        elif outgoing.transfer.taken(answer, now) is not None and not outgoing.transfer.files:
            self._end(node, None)
        else:
            self._pump(node, outgoing, now)

    def _end(self, node: str, error: str | None) -> None:
        outgoing = self._outgoing.pop(node)
        outgoing.reader.close()
        self._ended.append(Copied(node, outgoing.transfer.step, error))

    def forget(self, node: str) -> None:
        """The node is lost, or its agent is another: what it had is not counted on."""
        self._waiting.pop(node, None)
        if node in self._outgoing:
            self._end(node, "the node is lost")

    def close(self) -> None:
        """Let go of the files that are open."""
        for outgoing in self._outgoing.values():
            outgoing.reader.close()


@dataclass(slots=True)
class _Incoming:
    step: int
    folder: Path
    landing: Landing | None = None
    #: set once its manifest is there
    checking: Future[str | None] | None = field(default=None)


class CopyReceiver:
    """Takes one copy at a time. Reading it back takes a second per GB: a thread does it."""

    def __init__(self, checkpoints: Path, keep: int) -> None:
        """`keep`: how many complete checkpoints stay here."""
        self._checkpoints = checkpoints
        self._keep = keep
        self._incoming: _Incoming | None = None
        self._last: PartTaken | None = None  # the answer to the last manifest, should it be asked for again
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="copy")
        for left in checkpoints.glob(copy_folder(checkpoints, 0).name.rstrip("0") + "*"):
            shutil.rmtree(left, ignore_errors=True)

    def take(self, part: Part, blob: bytes | None) -> PartTaken | None:
        """What to answer now. The answer to the manifest comes from `look`, when the copy has been read back."""
        incoming = self._incoming
        if incoming is not None and incoming.checking is not None:
            return None if part.step == incoming.step else _answer(part, "another copy is being checked")
        if incoming is None and self._last is not None and part.name == MANIFEST and part.step == self._last.step:
            return self._last
        if blob is None or not is_plain(part.name):
            log.warning("copy.part-refused step=%d file=%.200r", part.step, part.name)
            return _answer(part, "no file of a checkpoint can have this name, or its bytes are missing")
        try:
            return self._put(part, blob)
        except (OSError, ValueError) as error:
            self._abandon()
            return _answer(part, error.strerror or str(error) if isinstance(error, OSError) else str(error))

    def _put(self, part: Part, blob: bytes) -> PartTaken | None:
        incoming = self._incoming
        if part.offset == 0:
            if incoming is None or incoming.step != part.step:
                self._abandon()
                incoming = self._incoming = _Incoming(part.step, copy_folder(self._checkpoints, part.step))
                incoming.folder.mkdir(parents=True, exist_ok=True)
            elif incoming.landing is not None:
                incoming.landing.abandon()
            incoming.landing = Landing(incoming.folder, part.name, part.size)
        if incoming is None or incoming.step != part.step or incoming.landing is None:
            return None
        if not incoming.landing.fits(part.name, part.offset):
            return None
        if incoming.landing.put(blob) and part.name == MANIFEST:
            incoming.checking = self._thread.submit(_settle, self._checkpoints, part.step, self._keep)
            return None
        return _answer(part, None)

    @property
    def busy(self) -> bool:
        """Whether a copy is being read back, so that `look` is worth calling often."""
        return self._incoming is not None and self._incoming.checking is not None

    def look(self) -> PartTaken | None:
        """The answer to a copy's last part, once it is known whether the copy is whole."""
        incoming = self._incoming
        if incoming is None or incoming.checking is None or not incoming.checking.done():
            return None
        error = incoming.checking.result()
        if error is not None:
            log.warning("copy.refused step=%d error=%s", incoming.step, error)
            shutil.rmtree(incoming.folder, ignore_errors=True)
        self._incoming = None
        self._last = PartTaken(step=incoming.step, name=MANIFEST, offset=0, error=error)
        return self._last

    def _abandon(self) -> None:
        if self._incoming is not None:
            if self._incoming.landing is not None:
                self._incoming.landing.abandon()
            shutil.rmtree(self._incoming.folder, ignore_errors=True)
            self._incoming = None

    def close(self) -> None:
        """Wait for the thread; what is not whole is removed."""
        self._thread.shutdown()
        self.look()
        self._abandon()


def _settle(checkpoints: Path, step: int, keep: int) -> str | None:
    """Compare the copy with its manifest, make it durable, give it its name; what is wrong with it, if anything."""
    folder, target = copy_folder(checkpoints, step), step_folder(checkpoints, step)
    try:
        problems = verify(folder)
        if not problems and read_manifest(folder).step != step:
            problems = [f"its manifest is of step {read_manifest(folder).step}"]
        if problems:
            return "; ".join(problems)
        for file in folder.iterdir():
            descriptor = os.open(file, os.O_RDONLY | os.O_CLOEXEC)
            os.fsync(descriptor)
            os.close(descriptor)
        sync_folder(folder)
        if target.exists() and not verify(target):  # it is here already
            shutil.rmtree(folder)
        else:
            shutil.rmtree(target, ignore_errors=True)
            folder.rename(target)
            sync_folder(checkpoints)
        prune(checkpoints, keep, now=time.time(), intact=target)
    except (OSError, CheckpointError) as error:
        return str(error)
    return None


def _answer(part: Part, error: str | None) -> PartTaken:
    return PartTaken(step=part.step, name=part.name, offset=part.offset, error=error)

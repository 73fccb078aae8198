"""Shards of checkpoints on their way from the nodes that wrote them to the head's folder.

`ShardSender` is an agent's end, `Inbox` the coordinator's. Neither waits: parts go out and come in between other
messages. What has arrived is seen by its name in the folder, so a coordinator that was replaced knows it too.
"""

from __future__ import annotations

import logging
import shutil
from contextlib import suppress
from typing import TYPE_CHECKING

from runtime.checkpoint.names import FAILURE_SUFFIX, failure_note, partial_folder, reason_of_note
from runtime.contract.messages import PartTaken
from runtime.control.landing import Landing, Reader, is_plain
from runtime.control.transfer import Transfer

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    from runtime.contract.messages import Part
    from runtime.control.wire import AgentWire

log = logging.getLogger(__name__)


class ShardSender:
    """Sends this node's shards to the coordinator, and removes them here as they have arrived there."""

    def __init__(self, checkpoints: Path, wire: AgentWire) -> None:
        self._checkpoints = checkpoints
        self._wire = wire
        self._connections = wire.connections
        self._transfer: Transfer | None = None
        self._reader = Reader(checkpoints)
        self._wanted: set[str] = set()

    @property
    def busy(self) -> bool:
        """Whether anything is still to be sent."""
        return self._transfer is not None and bool(self._transfer.files)

    def want(self, step: int, names: Iterable[str]) -> None:
        """Send the shards of these components, which have written theirs (or a note why not); told again: nothing new.

        What is left of an older step is forgotten and removed: nobody waits for it any more.
        """
        transfer = self._transfer
        if transfer is None or transfer.step < step:
            self._leave(transfer)
            transfer = self._transfer = Transfer(step)
            self._wanted.clear()
            self._reader = Reader(partial_folder(self._checkpoints, step))
        if transfer.step > step:
            return
        for name in names:
            if name not in self._wanted:
                self._wanted.add(name)
                for file, size in _files_of(self._reader.folder, name):
                    transfer.add(file, size)

    def _leave(self, transfer: Transfer | None) -> None:
        self._reader.close()
        if transfer is not None:
            shutil.rmtree(partial_folder(self._checkpoints, transfer.step), ignore_errors=True)

    def look(self, now: float) -> None:
        """Send what may be sent now; at `now` of a monotonic clock, often."""
        transfer = self._transfer
        if transfer is None:
            return
        if self._wire.connections != self._connections or transfer.stalled(now):
            self._connections = self._wire.connections
            transfer.restart()
        while (part := transfer.next()) is not None:
            blob = self._read(transfer, part)
            if blob is None:
                continue
            if not self._wire.send(part, blob):
                return
            transfer.sent(part, now)

    def _read(self, transfer: Transfer, part: Part) -> bytes | None:
        if part.size == 0:
            return b""  # perhaps a note that could not even be written here
        try:
            return self._reader.read(part)
        except OSError as error:
            log.warning("checkpoint.unreadable step=%d file=%s error=%s", part.step, part.name, error)
            transfer.drop()
            transfer.add(failure_note(component_of(part.name), error.errno), 0)
            return None

    def hear(self, answer: PartTaken, now: float) -> None:
        """The coordinator has taken a part, or will not have this file."""
        transfer = self._transfer
        if transfer is None or answer.step != transfer.step:
            return
        if answer.error is not None:
            log.warning("checkpoint.not-taken step=%d file=%s error=%s", answer.step, answer.name, answer.error)
            transfer.refused(answer)
        elif (whole := transfer.taken(answer, now)) is not None:
            (self._reader.folder / whole).unlink(missing_ok=True)
        if not transfer.files:
            self._reader.close()
            with suppress(OSError):  # there may be shards of others, which are not wanted yet
                self._reader.folder.rmdir()
        self.look(now)

    def close(self) -> None:
        """Let go of the file that is open."""
        self._reader.close()


def _files_of(folder: Path, component: str) -> list[tuple[str, int]]:
    """A component's shard, the JSON part last, as it says that the rest is there; or the note that it has none."""
    files = [folder / f"{component}.safetensors", folder / f"{component}.json"]
    if not files[1].exists():
        files = list(folder.glob(f"{component}.*{FAILURE_SUFFIX}"))
    return [(file.name, file.stat().st_size) for file in files if file.exists()] or [(failure_note(component, None), 0)]


def component_of(name: str) -> str:
    """Whose file this is, by its name."""
    return reason_of_note(name)[0] if name.endswith(FAILURE_SUFFIX) else name.rpartition(".")[0]


class Inbox:
    """Where shards of other nodes arrive. Flushing to disk is left to the thread that seals the checkpoint."""

    def __init__(self, checkpoints: Path) -> None:
        self._checkpoints = checkpoints
        self._step: int | None = None
        self._owners: Mapping[str, str] = {}
        self._landings: dict[str, Landing] = {}
        self._failed: set[str] = set()

    def expect(self, step: int, owners: Mapping[str, str]) -> None:
        """From now on take files of checkpoint `step`, of these components, each from its own node only."""
        self.close()
        self._step, self._owners = step, owners

    def close(self) -> None:
        """Take nothing more: the checkpoint is being sealed, or has been given up."""
        self._step = None
        self._failed.clear()
        for landing in self._landings.values():
            landing.abandon()
        self._landings.clear()

    def arrived(self, step: int) -> set[str]:
        """Components, of whatever node, whose shard of `step` is whole in the folder, or known not to come."""
        names = [file.name for file in partial_folder(self._checkpoints, step).glob("[!.]*")]
        whole = {component_of(name) for name in names if name.endswith((".json", FAILURE_SUFFIX))}
        return whole | (self._failed if step == self._step else set())

    def take(self, peer: str, part: Part, blob: bytes | None) -> PartTaken | None:
        """What to answer; none where the part is one after a gap: the sender will notice, and begin anew."""
        problem = self._objection(peer, part, blob)
        if problem is not None or blob is None:
            log.warning("checkpoint.part-refused node=%s step=%d file=%.200r: %s", peer, part.step, part.name, problem)
            return _answer(part, problem)
        try:
            landing = self._landing(peer, part)
            if landing is None:
                return None
            landing.put(blob)
        except ValueError as error:
            return _answer(part, str(error))
        except OSError as error:
            self._give_up(part, error)
            return _answer(part, f"{part.name} could not be written at the head: {error.strerror}")
        return _answer(part, None)

    def _objection(self, peer: str, part: Part, blob: bytes | None) -> str | None:
        if part.step != self._step:
            return f"checkpoint {part.step} is not being written"
        if not is_plain(part.name):
            return "no shard can have this name"
        if self._owners.get(component_of(part.name)) != peer:
            return f"{component_of(part.name)} is not on {peer}"
        if component_of(part.name) in self._failed:
            return "what belongs to it could not be written"
        return None if blob is not None else "its bytes are missing"

    def _landing(self, peer: str, part: Part) -> Landing | None:
        landing = self._landings.get(peer)
        if part.offset == 0:
            if landing is not None:
                landing.abandon()
            folder = partial_folder(self._checkpoints, part.step)
            landing = self._landings[peer] = Landing(folder, part.name, part.size)
        return landing if landing is not None and landing.fits(part.name, part.offset) else None

    def _give_up(self, part: Part, error: OSError) -> None:
        """As if the component had said itself that its shard could not be written."""
        component = component_of(part.name)
        log.warning("checkpoint.part-failed step=%d file=%s error=%s", part.step, part.name, error)
        self._failed.add(component)
        with suppress(OSError):  # then sealing finds that the shard is missing
            (partial_folder(self._checkpoints, part.step) / failure_note(component, error.errno)).touch()


def _answer(part: Part, error: str | None) -> PartTaken:
    return PartTaken(step=part.step, name=part.name, offset=part.offset, error=error)

"""Shards of other nodes reach the head's folder over real sockets, whatever breaks on the way."""

from __future__ import annotations

import os
import random
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from runtime.checkpoint.errors import CheckpointError
from runtime.checkpoint.manifest import Manifest
from runtime.checkpoint.names import failure_note, partial_folder
from runtime.checkpoint.partial import PartialCheckpoint
from runtime.contract.messages import Part, PartTaken
from runtime.contract.paths import RunPaths
from runtime.control.shipping import Inbox, ShardSender
from support.cuttable import Cuttable
from support.wires import Wires, folder_content

MIB = 1 << 20
OWNERS = {"learner-1": "n2", "buffer-1": "n2", "learner-2": "n3", "buffer-2": "n3"}
BYTES = random.Random(5).randbytes(5 * MIB)


class Rig:
    """A head with an inbox that waits for step 7, and nodes with senders."""

    def __init__(self, paths: RunPaths) -> None:
        self.wires = Wires(paths)
        self.paths = paths
        self.partial = PartialCheckpoint(paths.checkpoints, 7)
        self.inbox = Inbox(paths.checkpoints)
        self.inbox.expect(7, OWNERS)
        self.senders: dict[str, ShardSender] = {}
        self.answers: list[PartTaken] = []
        self.wires.at_head, self.wires.at_node = self._at_head, self._at_node

    def _at_head(self, peer: str, message: Any, blob: bytes | None) -> None:
        if isinstance(message, Part) and (answer := self.inbox.take(peer, message, blob)) is not None:
            self.answers.append(answer)
            self.wires.head.send(peer, answer)

    def _at_node(self, name: str, message: Any, _blob: bytes | None) -> None:
        self.senders[name].hear(message, 0.0)

    def node(self, name: str, port: int | None = None) -> ShardSender:
        """A node with its own folder."""
        checkpoints = self.paths.root / name / "checkpoints"
        partial_folder(checkpoints, 7).mkdir(parents=True)
        sender = self.senders[name] = ShardSender(checkpoints, self.wires.node(name, port))
        self.wires.looks.append(lambda _now: sender.look(0.0))
        return sender

    def write(self, node: str, files: dict[str, bytes]) -> Path:
        folder = partial_folder(self.paths.root / node / "checkpoints", 7)
        for name, content in files.items():
            (folder / name).write_bytes(content)
        return folder

    def until_arrived(self, *components: str) -> None:
        self.wires.until(f"the shards of {components}", lambda: self.inbox.arrived(7) >= set(components))

    def at_head(self) -> dict[str, bytes]:
        return {name: raw for name, raw in folder_content(self.partial.folder).items() if name != ".writer"}

    def close(self) -> None:
        self.inbox.close()
        self.partial.abandon()
        for sender in self.senders.values():
            sender.close()
        self.wires.close()


@pytest.fixture
def rig(run_folder: RunPaths) -> Iterator[Rig]:
    rig = Rig(run_folder)
    yield rig
    rig.close()


def test_files_of_any_size_from_two_nodes_at_once_arrive_as_they_were_and_leave_their_nodes(rig: Rig) -> None:
    first = {
        "learner-1.safetensors": BYTES,
        "learner-1.json": b"{}",
        "buffer-1.json": b"",
        "buffer-1.safetensors": b"x",
    }
    second = {"learner-2.json": b"1", "buffer-2.safetensors": BYTES[::-1], "buffer-2.json": b"{ }"}
    for name, files in (("n2", first), ("n3", second)):
        sender = rig.node(name)
        rig.write(name, files)
        sender.want(7, [component for component, node in OWNERS.items() if node == name])
        sender.want(7, OWNERS)  # told again: nothing new of its own, and notes for what it does not have
    rig.until_arrived(*OWNERS)
    rig.wires.until("silence", lambda: not any(sender.busy for sender in rig.senders.values()))
    assert rig.at_head() == first | second
    for name in ("n2", "n3"):
        assert not partial_folder(rig.paths.root / name / "checkpoints", 7).exists()


def test_a_component_is_there_only_when_its_last_file_is(rig: Rig) -> None:
    sender = rig.node("n2")
    rig.write("n2", {"learner-1.safetensors": BYTES, "learner-1.json": b"{}"})
    sender.want(7, ["learner-1"])
    rig.wires.until("half of it", lambda: "learner-1.safetensors" in rig.at_head())
    rig.until_arrived("learner-1")
    names = [answer.name for answer in rig.answers]
    assert names == sorted(names, reverse=True), "the JSON part goes last"
    assert not any(name.startswith(".learner") for name in rig.at_head())


def test_a_connection_that_breaks_in_the_middle_costs_only_time(rig: Rig) -> None:
    relay = Cuttable(rig.wires.port)
    relay.limit = 2 * MIB
    sender = rig.node("n2", relay.port)
    rig.write("n2", {"learner-1.safetensors": BYTES, "learner-1.json": b"{}"})
    sender.want(7, ["learner-1"])
    rig.until_arrived("learner-1")
    assert relay.cuts == 1
    assert rig.wires.agents["n2"].connections == 2
    assert rig.at_head() == {"learner-1.safetensors": BYTES, "learner-1.json": b"{}"}
    relay.close()


def test_a_coordinator_that_is_replaced_in_the_middle_goes_on_with_what_has_arrived(rig: Rig) -> None:
    sender = rig.node("n2")
    rig.write("n2", {"learner-1.json": b"{}", "buffer-1.safetensors": BYTES, "buffer-1.json": b"{}"})
    sender.want(7, ["learner-1", "buffer-1"])
    rig.wires.until("the middle", lambda: any(answer.offset > MIB for answer in rig.answers))
    rig.partial.let_go()
    rig.inbox = Inbox(rig.paths.checkpoints)  # the old one is killed: it does not tidy up
    rig.partial = PartialCheckpoint(rig.paths.checkpoints, 7, adopt=True)
    rig.inbox.expect(7, OWNERS)
    assert rig.inbox.arrived(7) == {"learner-1"}
    rig.wires.replace_head()
    rig.until_arrived("buffer-1")
    assert rig.at_head()["buffer-1.safetensors"] == BYTES
    assert rig.at_head()["learner-1.json"] == b"{}"


def test_an_answer_that_never_comes_makes_the_file_go_again(rig: Rig) -> None:
    sender = rig.node("n2")
    rig.write("n2", {"learner-1.json": b"{}"})
    lost = []
    rig.wires.at_head = lambda _peer, message, _blob: lost.append(message)
    sender.want(7, ["learner-1"])
    rig.wires.until("the part", lambda: lost)
    rig.wires.at_head = rig._at_head
    rig.wires.turn()
    assert not rig.inbox.arrived(7)
    rig.wires.looks[:] = [lambda _now: sender.look(60.0)]
    rig.until_arrived("learner-1")


@pytest.mark.skipif(os.geteuid() != 0, reason="mounting a small disk takes root")
def test_a_full_disk_at_the_head_costs_the_checkpoint_and_is_named(rig: Rig) -> None:
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", rig.partial.folder], check=True)
    try:
        sender = rig.node("n2")
        rig.write("n2", {"learner-1.safetensors": BYTES, "learner-1.json": b"{}", "buffer-1.json": b"{}"})
        sender.want(7, ["learner-1", "buffer-1"])
        rig.until_arrived("learner-1", "buffer-1")
        assert {"buffer-1.json", failure_note("learner-1", 28)} == set(rig.at_head())
        with pytest.raises(CheckpointError, match=r"learner-1 could not write its part .* No space left on device"):
            rig.partial._refuse_gaps(["learner-1", "buffer-1"])
    finally:
        rig.inbox.close()
        subprocess.run(["umount", rig.partial.folder], check=True)


def test_notes_travel_and_who_left_nothing_at_all_is_named_too(rig: Rig) -> None:
    sender = rig.node("n2")
    rig.write("n2", {failure_note("learner-1", 28): b"the disk of n2 is full\nfree some"})
    sender.want(7, ["learner-1", "buffer-1"])
    rig.until_arrived("learner-1", "buffer-1")
    with pytest.raises(CheckpointError, match="buffer-1 could not write its part"):
        rig.partial.complete(Manifest.model_validate(ABOUT), ["learner-1", "buffer-1"])


def test_a_shard_that_cannot_be_read_is_a_shard_that_could_not_be_written(rig: Rig) -> None:
    sender = rig.node("n2")
    folder = rig.write("n2", {"learner-1.json": b"{}", "buffer-1.json": b"{}"})
    sender.want(7, ["learner-1", "buffer-1"])
    (folder / "learner-1.json").unlink()
    rig.until_arrived("learner-1", "buffer-1")
    assert set(rig.at_head()) == {failure_note("learner-1", 2), "buffer-1.json"}


def test_what_is_left_of_an_older_step_is_removed_where_it_was_written(rig: Rig) -> None:
    sender = rig.node("n2")
    old = rig.write("n2", {"learner-1.safetensors": BYTES, "learner-1.json": b"{}"})
    sender.want(7, ["learner-1"])
    rig.wires.until("the middle", lambda: len(rig.answers) > 2)
    new = partial_folder(old.parent, 8)
    new.mkdir()
    (new / "learner-1.json").write_bytes(b"8")
    rig.inbox.expect(8, OWNERS)
    sender.want(8, ["learner-1"])
    sender.want(7, ["buffer-1"])  # too late
    partial_folder(rig.paths.checkpoints, 8).mkdir()
    rig.wires.until("the next one", lambda: rig.inbox.arrived(8))
    assert not old.exists()
    assert folder_content(partial_folder(rig.paths.checkpoints, 8)) == {"learner-1.json": b"8"}
    assert not any(name.endswith(".part") for name in rig.at_head()), "what was half there is gone"


ABOUT = {
    "run_id": "r",
    "name": "r",
    "step": 7,
    "created_at": "2026-01-01T00:00:00Z",
    "shape": "L1A2",
    "job_digest": "-",
}
GOOD = {"step": 7, "name": "learner-1.json", "offset": 0, "size": 2, "last": True}


@pytest.mark.parametrize(
    ("peer", "change", "blob", "word"),
    [
        ("n2", {"step": 8}, b"{}", "not being written"),
        ("n2", {"name": "../learner-1.json"}, b"{}", "name"),
        ("n2", {"name": "/etc/learner-1.json"}, b"{}", "name"),
        ("n2", {"name": ".learner-1.json"}, b"{}", "name"),
        ("n2", {"name": "learner-1.sh"}, b"{}", "name"),
        ("n2", {"name": "manifest.json"}, b"{}", "not on n2"),
        ("n3", {}, b"{}", "not on n3"),
        ("n2", {}, None, "missing"),
        ("n2", {}, b"{ }", "announced"),
        ("n2", {"size": -1}, b"", "announced"),
    ],
    ids=lambda value: str(value)[:30],
)
def test_what_nobody_asked_for_is_refused_and_leaves_nothing(
    run_folder: RunPaths, peer: str, change: dict[str, Any], blob: bytes | None, word: str
) -> None:
    partial = PartialCheckpoint(run_folder.checkpoints, 7)
    inbox = Inbox(run_folder.checkpoints)
    inbox.expect(7, OWNERS)
    before = set(run_folder.root.rglob("*"))
    answer = inbox.take(peer, Part.model_validate(GOOD | change), blob)
    assert answer is not None
    assert word in (answer.error or "")
    assert set(run_folder.root.rglob("*")) == before
    assert inbox.take("n2", Part.model_validate(GOOD), b"{}") == PartTaken(step=7, name="learner-1.json", offset=0)
    inbox.close()
    late = inbox.take("n2", Part.model_validate(GOOD), b"{}")
    assert "not being written" in ((late and late.error) or ""), "while it is sealed nothing more is let in"
    partial.abandon()


def test_a_part_after_a_gap_is_not_answered(run_folder: RunPaths) -> None:
    partial = PartialCheckpoint(run_folder.checkpoints, 7)
    inbox = Inbox(run_folder.checkpoints)
    inbox.expect(7, OWNERS)
    part = Part.model_validate(GOOD | {"offset": 1})
    assert inbox.take("n2", part, b"}") is None
    assert inbox.arrived(7) == set()
    inbox.close()
    partial.abandon()

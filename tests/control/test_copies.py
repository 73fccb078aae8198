"""Other nodes hold whole copies of complete checkpoints, or none: over real sockets."""

from __future__ import annotations

import os
import random
import subprocess
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from runtime.checkpoint.manifest import MANIFEST, Manifest
from runtime.checkpoint.names import copy_folder, step_folder
from runtime.checkpoint.partial import PartialCheckpoint
from runtime.checkpoint.store import listing, verify
from runtime.contract.messages import Part, PartTaken
from runtime.contract.paths import RunPaths
from runtime.contract.plan import HostPlan
from runtime.control.copies import Copied, CopyReceiver, CopySender, choose_keepers
from support.cuttable import Cuttable
from support.wires import Wires, folder_content

MIB = 1 << 20
BYTES = random.Random(6).randbytes(5 * MIB)
FILES = {"learner-0.safetensors": BYTES, "learner-0.json": b"{}", "buffer-0.json": b"", "actor-0.json": b"1"}


def checkpoint(checkpoints: Path, step: int, files: dict[str, bytes] = FILES) -> Path:
    partial = PartialCheckpoint(checkpoints, step)
    for name, content in files.items():
        (partial.folder / name).write_bytes(content)
    about = Manifest(run_id="r", name="r", step=step, created_at=datetime.now(UTC), shape="L1A1", job_digest="-")
    return partial.complete(about, ["learner-0"])


class Rig:
    """A head that sends copies, and keepers."""

    def __init__(self, paths: RunPaths) -> None:
        self.wires, self.checkpoints = Wires(paths), paths.checkpoints
        self.root = paths.root
        self.copies = CopySender(paths.checkpoints, self.wires.head.send)
        self.keepers: dict[str, CopyReceiver] = {}
        self.ended: list[Copied] = []
        self.heard: list[Part] = []
        self.wires.at_head, self.wires.at_node = self._at_head, self._at_node
        self.wires.looks.append(self._look)

    def _look(self, now: float) -> None:
        self.ended += self.copies.look(now)
        for name, keeper in self.keepers.items():
            if (answer := keeper.look()) is not None:
                self.wires.agents[name].send(answer)

    def _at_head(self, peer: str, message: Any, _blob: bytes | None) -> None:
        if isinstance(message, PartTaken):
            self.copies.hear(peer, message, time.monotonic())

    def _at_node(self, name: str, message: Any, blob: bytes | None) -> None:
        self.heard.append(message)
        if (answer := self.keepers[name].take(message, blob)) is not None:
            self.wires.agents[name].send(answer)

    def node(self, name: str, *, keep: int = 2, port: int | None = None) -> Path:
        """A keeper; its checkpoints folder. It is connected when this returns."""
        folder = self.root / name / "checkpoints"
        folder.mkdir(parents=True)
        self.keepers[name] = CopyReceiver(folder, keep)
        wire = self.wires.node(name, port)
        self.wires.until("a connection", lambda: wire.connections)
        return folder

    def until_ended(self, *ended: Copied) -> None:
        self.wires.until("the copies", lambda: len(self.ended) >= len(ended))
        assert sorted(self.ended, key=repr) == sorted(ended, key=repr)

    def close(self) -> None:
        self.copies.close()
        for keeper in self.keepers.values():
            keeper.close()
        self.wires.close()


@pytest.fixture
def rig(run_folder: RunPaths) -> Iterator[Rig]:
    rig = Rig(run_folder)
    yield rig
    rig.close()


def test_two_nodes_hold_the_same_as_the_head_and_keep_as_many_as_they_shall(rig: Rig) -> None:
    folders = [rig.node("n2", keep=2), rig.node("n3", keep=1)]
    for step in (100, 200, 300):
        original = checkpoint(rig.checkpoints, step)
        rig.ended.clear()
        rig.copies.start(step, ["n2", "n3"])
        rig.until_ended(Copied("n2", step), Copied("n3", step))
        for folder in folders:
            assert folder_content(step_folder(folder, step)) == folder_content(original)
            assert verify(step_folder(folder, step)) == []
    assert [[info.step for info in listing(folder, now=datetime.now(UTC))] for folder in folders] == [[300, 200], [300]]
    assert not any(path.name.startswith(".") for folder in folders for path in folder.iterdir())
    assert not rig.copies.busy


def test_the_manifest_goes_last(rig: Rig) -> None:
    rig.node("n2")
    checkpoint(rig.checkpoints, 100)
    rig.copies.start(100, ["n2"])
    rig.until_ended(Copied("n2", 100))
    assert rig.heard[-1].name == MANIFEST
    assert [part.name for part in rig.heard if part.last] == [MANIFEST]


def test_a_copy_with_a_flipped_bit_is_refused_and_not_kept(rig: Rig) -> None:
    folder = rig.node("n2")
    original = checkpoint(rig.checkpoints, 100)
    raw = bytearray(BYTES)
    raw[3 * MIB] ^= 1
    (original / "learner-0.safetensors").write_bytes(raw)
    rig.copies.start(100, ["n2"])
    rig.wires.until("the end", lambda: rig.ended)
    assert "does not match its checksum" in (rig.ended[0].error or "")
    assert list(folder.iterdir()) == []


def test_a_manifest_of_another_step_is_refused(rig: Rig) -> None:
    folder = rig.node("n2")
    checkpoint(rig.checkpoints, 100).rename(step_folder(rig.checkpoints, 200))
    rig.copies.start(200, ["n2"])
    rig.wires.until("the end", lambda: rig.ended)
    assert rig.ended == [Copied("n2", 200, "its manifest is of step 100")]
    assert list(folder.iterdir()) == []


def test_a_connection_that_breaks_in_the_middle_costs_only_time(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("runtime.control.transfer.STALLED_AFTER_S", 0.5)
    relay = Cuttable(rig.wires.port)
    folder = rig.node("n2", port=relay.port)
    original = checkpoint(rig.checkpoints, 100)
    relay.limit_outward = 2 * MIB
    rig.copies.start(100, ["n2"])
    rig.until_ended(Copied("n2", 100))
    assert rig.wires.agents["n2"].connections == 2
    assert folder_content(step_folder(folder, 100)) == folder_content(original)
    relay.close()


@pytest.mark.skipif(os.geteuid() != 0, reason="mounting a small disk takes root")
def test_a_full_disk_at_a_keeper_costs_that_copy_and_is_named(rig: Rig) -> None:
    folder = rig.node("n2")
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=3m", "tmpfs", folder], check=True)
    try:
        for step, files in ((100, {"learner-0.json": b"{}"}), (200, FILES)):
            checkpoint(rig.checkpoints, step, files)
            rig.copies.start(step, ["n2"])
            rig.wires.until("the end", lambda: not rig.copies.busy)
            rig.wires.turn()
        assert rig.ended == [Copied("n2", 100), Copied("n2", 200, "No space left on device")]
        assert [path.name for path in folder.iterdir()] == [step_folder(folder, 100).name]
    finally:
        rig.keepers["n2"].close()
        subprocess.run(["umount", folder], check=True)


def test_who_is_slow_gets_the_newest_next_and_not_all_in_between(rig: Rig) -> None:
    folder = rig.node("n2", keep=5)
    for step in (100, 200, 300):
        checkpoint(rig.checkpoints, step)
        rig.copies.start(step, ["n2"])
        rig.copies.look(0.0)
    rig.until_ended(Copied("n2", 100), Copied("n2", 300))
    assert sorted(path.name for path in folder.iterdir()) == [step_folder(folder, step).name for step in (100, 300)]


def test_a_checkpoint_that_is_pruned_before_or_while_it_is_copied_ends_that_copy_only(rig: Rig) -> None:
    folder = rig.node("n2")
    rig.copies.start(100, ["n2"])
    rig.wires.until("the end", lambda: rig.ended)
    assert "does not exist" in (rig.ended.pop().error or "")
    original = checkpoint(rig.checkpoints, 200)
    rig.copies.start(200, ["n2"])
    rig.wires.until("the first parts", lambda: rig.heard)
    for file in original.iterdir():
        file.unlink()
    rig.wires.until("the end", lambda: rig.ended)
    assert "No such file" in (rig.ended.pop().error or "")
    checkpoint(rig.checkpoints, 300)
    rig.copies.start(300, ["n2"])
    rig.until_ended(Copied("n2", 300))
    assert [path.name for path in folder.iterdir()] == [step_folder(folder, 300).name], "nor is the half of it kept"


def test_a_lost_node_is_not_waited_for_and_begins_anew(rig: Rig) -> None:
    folder = rig.node("n2")
    original = checkpoint(rig.checkpoints, 100)
    rig.copies.start(100, ["n2"])
    rig.wires.until("the first parts", lambda: len(rig.heard) > 4)
    rig.copies.forget("n2")
    assert not rig.copies.busy
    rig.keepers["n2"]._thread.shutdown()
    rig.keepers["n2"] = CopyReceiver(folder, 1)  # what its agent had half of died with it
    assert list(folder.iterdir()) == []
    rig.copies.start(100, ["n2"])
    rig.until_ended(Copied("n2", 100, "the node is lost"), Copied("n2", 100))
    assert folder_content(step_folder(folder, 100)) == folder_content(original)


def taken(keeper: CopyReceiver, name: str, blob: bytes | None, step: int = 7) -> str | None:
    part = Part(step=step, name=name, offset=0, size=len(blob or b""), last=False)
    answer = keeper.take(part, blob)
    assert answer is not None
    return answer.error


def checked(keeper: CopyReceiver) -> PartTaken:
    deadline = time.monotonic() + 5.0
    while (answer := keeper.look()) is None:
        assert time.monotonic() < deadline
        time.sleep(0.005)
    return answer


def test_the_answer_to_a_manifest_may_be_asked_for_again_before_and_after_it_is_known(tmp_path: Path) -> None:
    original = checkpoint(tmp_path / "head", 7)
    (tmp_path / "n2").mkdir()
    keeper = CopyReceiver(tmp_path / "n2", 1)
    for name in FILES:
        assert taken(keeper, name, FILES[name]) is None
    raw = (original / MANIFEST).read_bytes()
    manifest = Part(step=7, name=MANIFEST, offset=0, size=len(raw), last=True)
    assert keeper.take(manifest, raw) is keeper.take(manifest, raw) is None
    assert "being checked" in (taken(keeper, "learner-0.json", b"{}", step=8) or "")
    assert checked(keeper) == keeper.take(manifest, raw) == PartTaken(step=7, name=MANIFEST, offset=0)
    assert verify(step_folder(tmp_path / "n2", 7)) == []
    keeper.close()


def test_a_copy_that_is_there_already_stays_and_nothing_is_left_over(tmp_path: Path) -> None:
    original = checkpoint(tmp_path, 7)
    keeper = CopyReceiver(tmp_path, 1)
    for name, blob in folder_content(original).items():
        if name != MANIFEST:
            assert taken(keeper, name, blob) is None
    inode = original.stat().st_ino
    raw = (original / MANIFEST).read_bytes()
    keeper.take(Part(step=7, name=MANIFEST, offset=0, size=len(raw), last=True), raw)
    assert checked(keeper).error is None
    assert (original.stat().st_ino, list(tmp_path.iterdir())) == (inode, [original])
    keeper.close()


@pytest.mark.parametrize("name", ["../learner-0.json", "a/b.json", ".hidden.json", "learner-0.so"])
def test_names_that_lead_elsewhere_are_refused(tmp_path: Path, name: str) -> None:
    keeper = CopyReceiver(tmp_path / "n2", 1)
    assert "name" in (taken(keeper, name, b"{}") or "")
    assert "missing" in (taken(keeper, "learner-0.json", None) or "")
    assert list(tmp_path.iterdir()) == []
    keeper.close()


def test_what_a_dead_agent_left_of_a_copy_is_removed(tmp_path: Path) -> None:
    copy_folder(tmp_path, 123456789012345).mkdir()
    kept = checkpoint(tmp_path, 7)
    CopyReceiver(tmp_path, 1).close()
    assert list(tmp_path.iterdir()) == [kept]


def test_copies_are_kept_where_learners_are_in_the_plans_order(make_plan: Any) -> None:
    plan = make_plan(learners=3, actors=3)
    hosts = tuple(HostPlan(name=name, cores=(0,)) for name in ("n1", "n2", "n3", "n4"))
    where = {"learner-0": "n1", "learner-1": "n3", "learner-2": "n4"}
    placements = [p.model_copy(update={"host": where.get(p.name, "n2")}) for p in plan.placements]
    plan = plan.model_copy(update={"hosts": hosts, "placements": tuple(placements)})
    everybody = {"n1", "n2", "n3", "n4"}
    assert choose_keepers(plan, everybody, 2) == ("n3", "n4")
    assert choose_keepers(plan, everybody, 9) == ("n3", "n4", "n2")
    assert choose_keepers(plan, everybody - {"n3"}, 2) == ("n4", "n2")
    assert choose_keepers(plan, everybody, 0) == choose_keepers(plan, {"n1"}, 3) == ()
    leaving = [p.model_copy(update={"leaving": p.name == "learner-1"}) for p in placements]
    assert choose_keepers(plan.model_copy(update={"placements": tuple(leaving)}), everybody, 1) == ("n4",)

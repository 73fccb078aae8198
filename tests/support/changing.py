"""A run over several nodes in one thread, whose plan changes: real components and real mirrors, without processes.

Each node has memory of its own; links between them are settled between ticks. `revise` does what agents do.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from runtime.assembly import Assembly
from runtime.contract.paths import RunPaths
from runtime.contract.states import Role
from runtime.courier.board_mirror import BoardReceiver, BoardSender
from runtime.courier.codec import BoardCodec
from runtime.courier.ring_mirror import Packing, RingReceiver, RingSender
from runtime.memory.control import ControlBlock
from runtime.memory.mirrored import MirrorBoardReader, MirrorBoardWriter, MirrorConsumer, MirrorProducer
from runtime.memory.ring import read_ledger
from runtime.resources import CONTROL, Resources
from runtime.wiring import batches_ring, fragments_ring, inputs_of, wire
from support.mirroring import TwoLinks

if TYPE_CHECKING:
    from pathlib import Path

    from runtime.contract.plan import Placement, Plan
    from runtime.memory.ring import Ledger
    from runtime.wiring import Mirror, Wiring
    from support.mirroring import Ends


class Changing:
    """All nodes of a run."""

    def __init__(self, folder: Path, plan: Plan) -> None:
        self._folder = folder
        self.plan = plan
        self.wirings: dict[str, Wiring] = {}
        self.memories: dict[str, Resources] = {}
        self.components: dict[str, Any] = {}
        self.placed: dict[str, Placement] = {}  #: all that ever were
        self._lives: dict[str, int] = {}
        self._links: list[TwoLinks] = []
        #: group and batch → actor and fragment of each of its parts
        self.sources: dict[tuple[int, int], list[tuple[int, int]]] = {}
        self._closed: dict[tuple[str, str], Ledger] = {}  #: node and ring: of those that have gone
        self._closed_homes: dict[str, str] = {}
        self.revise(plan)

    # -- what agents do

    def revise(self, plan: Plan) -> None:
        """Make memory, replace whom it concerns, start who is new, drop what is gone."""
        before, self.plan, old = self.plan, plan, self.wirings
        self.placed |= {p.name: p for p in plan.placements}
        self._closed_homes |= {fragments_ring(p.name): before.home(p.group) for p in before.of_role(Role.ACTOR)}
        self.wirings = {host.name: wire(plan, host.name) for host in plan.hosts}
        for node, wiring in self.wirings.items():
            if node in self.memories:
                self.memories[node].extend(old[node], wiring)
            else:
                self.memories[node] = Resources.create(wiring, shared=False)
        for placement in before.placements:
            if placement.name in self.components and self._must_end(placement, before):
                self.components.pop(placement.name).stop()
        self._connect()
        # Those with a state to give before those that take it.
        for placement in sorted(plan.placements, key=lambda p: (p.role is not Role.LEARNER, p.donor is not None)):
            if placement.name not in self.components and not (placement.leaving and placement.role is Role.ACTOR):
                self.begin(placement.name)
        for node, wiring in self.wirings.items():
            if node in old:
                for name in old[node].rings.keys() - wiring.rings.keys():
                    self._closed[node, name] = self._ledger(node, name, old[node])
                self.memories[node].drop(old[node], wiring)

    def _must_end(self, placement: Placement, before: Plan) -> bool:
        now = next((p for p in self.plan.placements if p.name == placement.name), None)
        if now is None or (now.leaving and now.role is Role.ACTOR):
            return True
        inputs = [inputs_of(plan, placement.host, placement.name) for plan in (before, self.plan)]
        return inputs[0] != inputs[1]

    def begin(self, name: str) -> None:
        """A new life over the same memory."""
        node = self.placed[name].host
        paths = RunPaths(self._folder / node)
        paths.root.mkdir(exist_ok=True)
        self._lives[name] = self._lives.get(name, 0) + 1
        assembly = Assembly(self.plan, node, self.memories[node], paths, run_attempt=1, resume_from=None)
        self.components[name] = component = assembly.build(name, self._lives[name])
        component.start()
        self.settle()

    # -- what couriers do

    def _connect(self) -> None:
        """Every link anew, with the mirrors of the plan as it is."""
        for links in self._links:
            for link in links.links:
                link.close()
        pairs = {(node, peer) for node, w in self.wirings.items() for peer in w.peers if node < peer}
        self._links = [TwoLinks(lambda pair=pair: self._ends(*pair)) for pair in sorted(pairs)]
        self.settle()

    def _ends(self, one: str, other: str) -> dict[int, Ends]:
        here, there = (
            {m.number: m for m in self.wirings[a].mirrors if m.peer == b} for a, b in ((one, other), (other, one))
        )
        assert here.keys() == there.keys()
        return {number: (self._end(one, mirror), self._end(other, there[number])) for number, mirror in here.items()}

    def _end(self, node: str, mirror: Mirror) -> Any:
        memory, wiring, name = self.memories[node], self.wirings[node], mirror.name
        segment, sends = memory.segment(name), mirror.end == "send"
        if mirror.kind == "ring":
            events = {"data_ready": memory.event(f"{name}:data"), "space_ready": memory.event(f"{name}:space")}
            if sends:
                return RingSender(MirrorConsumer(segment, wiring.rings[name], **events), Packing.AGGREGATED)
            return RingReceiver(MirrorProducer(segment, wiring.rings[name], **events), Packing.AGGREGATED)
        if sends:
            return BoardSender(MirrorBoardReader(segment, wiring.boards[name]), BoardCodec.PLAIN)
        readers = [memory.event(f"{name}:{reader}") for reader in wiring.board_readers[name]]
        return BoardReceiver(MirrorBoardWriter(segment, wiring.boards[name], readers=readers), BoardCodec.PLAIN)

    def settle(self) -> None:
        """Until nothing is on its way."""
        for links in self._links:
            links.settle()

    # -- what a test does and sees

    def tick(self) -> None:
        """One tick of everybody; then everything on its way arrives."""
        steps = sum(self.near(p.name).produced for p in self.placed.values() if p.role is Role.ACTOR)
        for memory in self.memories.values():
            ControlBlock(memory.segment(CONTROL)).global_env_steps = steps
        for name, component in self.components.items():
            try:
                component.tick()
            finally:
                if self.placed[name].role is Role.BUFFER:
                    self._note(self.placed[name].group)
        self.settle()

    def _note(self, group: int) -> None:
        """Where the batch that was committed last comes from."""
        batches = self.components[f"buffer-{group}"]._ports.batches
        if (slot := batches.last) is not None and slot.samples and "source" in slot.fields:
            self.sources[group, slot.sequence] = [tuple(pair) for pair in slot.fields["source"].tolist()]

    def empty(self) -> bool:
        """Whether all that the leaving made is used up."""
        leaving = [p for p in self.plan.placements if p.leaving]
        rings = [end(p.name) for p in leaving if p.role is Role.ACTOR for end in (self.near, self.far)]
        rings += [self.batches(p.group) for p in leaving if p.role is Role.LEARNER]
        return all(ring.committed == ring.released for ring in rings)

    def near(self, actor: str) -> Ledger:
        """Of the ring that the actor fills."""
        return self._ring(self.placed[actor].host, fragments_ring(actor))

    def far(self, actor: str) -> Ledger:
        """Of the ring that the buffer reads."""
        ring, group = fragments_ring(actor), self.placed[actor].group
        return self._ring(self.plan.home(group) if group in self.plan.groups else self._closed_homes[ring], ring)

    def batches(self, group: int) -> Ledger:
        return self._ring(self.placed[f"learner-{group}"].host, batches_ring(group))

    def _ring(self, node: str, name: str) -> Ledger:
        """Its totals, also where it has gone by now."""
        if node in self.wirings and name in self.wirings[node].rings:
            return self._ledger(node, name, self.wirings[node])
        return self._closed[node, name]

    def _ledger(self, node: str, name: str, wiring: Wiring) -> Ledger:
        return read_ledger(self.memories[node].segment(name), wiring.rings[name])

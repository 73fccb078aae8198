"""The agent of a node: does what the plan wants of its node, and reports to the coordinator. No torch, no MPI.

It looks after its components (`crew`), its ends of links (`link_ends`) and, away from the head, its part in checkpoints
(`checkpoint_traffic`). What a new revision of the plan changes is decided in `assignment`.
"""

from __future__ import annotations

import contextlib
import dataclasses
import logging
import os
import signal
import time
from pathlib import Path
from typing import TYPE_CHECKING

from runtime.contract.files import append_line, write_whole
from runtime.contract.job import HealthConfig
from runtime.contract.messages import (
    Ack,
    AskStop,
    Assign,
    Checkpoint,
    Hello,
    JoinLink,
    OpenLink,
    Part,
    PartTaken,
    Refused,
    Report,
    ResetLink,
    Shutdown,
    Stop,
)
from runtime.contract.states import Role
from runtime.contract.version import installed_version
from runtime.control.assignment import assignment
from runtime.control.component_machine import RECEIVER_STALL_S
from runtime.control.crew import Crew
from runtime.control.farewell import Farewell, LastCheckpoint
from runtime.control.link_ends import LinkEnds
from runtime.control.outbox import Outbox
from runtime.control.sampling import Sampler
from runtime.memory.control import ControlBlock
from runtime.resources import CONTROL
from runtime.wiring import Wiring, wire

if TYPE_CHECKING:
    from runtime.contract.messages import CoordinatorMessage
    from runtime.contract.order import AgentOrder
    from runtime.contract.paths import RunPaths
    from runtime.contract.plan import Plan
    from runtime.control.checkpoint_traffic import CheckpointTraffic
    from runtime.control.coordinator_keeper import CoordinatorKeeper
    from runtime.control.fork_client import ForkClient
    from runtime.control.wire import AgentWire
    from runtime.resources import Resources

log = logging.getLogger(__name__)

PERIOD_S = 0.05  #: between looks at the blocks, and between reports
BUSY_PERIOD_S = 0.005  #: between looks at parts of checkpoints that are under way
SETTLE_WITHIN_S = 2.0  #: a new plan waits so long for those that are just being made to have read the old one
COURIERS_LEAVE_WITHIN_S = 3.0
NOTHING = Wiring((), {}, {}, {}, {}, ())


class Agent:
    """Runs until the coordinator says that the run is over. `keeper` is the head's: elsewhere there is none."""

    def __init__(
        self,
        order: AgentOrder,
        paths: RunPaths,
        resources: Resources,
        forks: ForkClient,
        wire: AgentWire,
        keeper: CoordinatorKeeper | None,
        *,
        instance: str,
    ) -> None:
        """`resources` hold the control block, and nothing of any plan yet."""
        self._order = order
        self._node = order.node
        self._paths = paths
        self._resources = resources
        self._forks = forks
        self._wire = wire
        self._keeper = keeper
        self._instance = instance
        self._outbox = Outbox(self._node, instance)
        self._control = ControlBlock(resources.segment(CONTROL))
        self._links = LinkEnds(paths, resources, forks, self._outbox, self._node, order.network)
        self._crew = Crew(paths, resources, forks, self._outbox, self._links.told)
        self._sampler = Sampler(resources, self._crew.blocks)
        self._traffic: CheckpointTraffic | None = None  # on the head, shards lie where they belong
        self._plan: Plan | None = None
        self._wiring = self._held = NOTHING  # what the plan wants here; and with it what still leaves
        self._assigned: Assign | None = None  # waits for its turn
        self._assigned_at = 0.0
        self._health = HealthConfig()
        self._sequence = 0
        self._over = False
        self._connections = 0
        self._greeted = True  # nothing is owed to the coordinator yet
        self._stop_wanted: str | None = None
        self._stop_asked = False
        self._farewell: LastCheckpoint | None = None
        # What others are silent for counts only while this process itself is awake.
        self._looked_at = time.monotonic()
        self._coordinator_silent_s = 0.0

    def run(self) -> None:
        """The loop; returns when the run is over. Couriers have left then, components leave with the forkserver."""
        signal.signal(signal.SIGTERM, self._on_signal)
        self._greet()
        next_look = time.monotonic()
        while not self._over:
            wait_s = max(0.0, min(next_look - time.monotonic(), self._patience_s))
            forkserver = [] if self._crew.forkserver_lost else [self._forks.fileno()]
            ready = self._wire.wait(wait_s, [*forkserver, *self._links.descriptors()])
            if not ready.isdisjoint(forkserver):
                self._crew.hear_forkserver()
            self._links.hear(ready)
            for message, blob in self._wire.receive():
                self._obey(message, blob)
            now = time.monotonic()
            if now >= next_look:
                next_look = now + PERIOD_S
                self._look(now)
            elif self._traffic is not None:
                self._traffic.look(now)
        self._links.see_out(COURIERS_LEAVE_WITHIN_S)
        self._crew.close()
        if self._traffic is not None:
            self._traffic.close()

    @property
    def _patience_s(self) -> float:
        return BUSY_PERIOD_S if self._traffic is not None and self._traffic.busy else PERIOD_S

    # -- the plan

    def adopt(self, plan: Plan, attempt: int) -> None:
        """Work by this plan from now on. OSError where its memory cannot be made: then nothing has changed."""
        before, wiring = self._plan, wire(plan, self._node)
        change = assignment(before, plan, self._node)
        leaving = [*self._crew.retired, *change.retire]
        held = dataclasses.replace(wiring, components=(*wiring.components, *leaving))
        made = self._resources.extend(self._held, held)
        if self._keeper is None:  # the head's is the coordinator's, which may have written a newer one by now
            write_whole(self._paths.plan, plan.model_dump_json(indent=1))
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):  # its loss is noticed when it is heard
            if before is None:
                resume_from = Path(self._order.resume_from) if self._order.resume_from else None
                self._forks.set_up(self._paths.root, self._node, attempt, resume_from, self._resources)
            else:
                self._forks.extend(*self._resources.descriptors(made))
        self._plan, self._wiring, self._health = plan, wiring, plan.job.health
        self._begin_traffic(plan)
        self._links.assign(plan, wiring)
        cause = f"revision {plan.revision}"
        for placement in change.start:
            self._crew.add(placement, plan.job.health)
        for name in change.replace:
            self._crew.replace(name, cause)
        for name in change.leave:
            self._crew.leave(name, cause)
        for name in change.retire:
            self._crew.retire(name, cause)
        self._sampler.rewire(wiring)
        self._hold(held)

    def _begin_traffic(self, plan: Plan) -> None:
        if self._keeper is None and self._traffic is None:
            from runtime.control.checkpoint_traffic import CheckpointTraffic  # the head has no use for it

            self._traffic = CheckpointTraffic(self._paths, self._wire, plan.job.checkpoint.keep)

    def _hold(self, held: Wiring) -> None:
        """Let go of what is needed no more; who has it mapped keeps it for as long as it wants."""
        gone = self._resources.drop(self._held, held)
        self._held = held
        if gone:
            with contextlib.suppress(BrokenPipeError, ConnectionResetError):
                self._forks.forget(gone)

    def _follow_plan(self, now: float) -> None:
        """Those that are being made read the plan on their way, and hold the memory of just that revision."""
        if self._crew.retired:
            self._outbox.add(self._sampler.episodes())  # the last words of who is forgotten now
            if self._crew.forget_retired():
                kept = (*self._wiring.components, *self._crew.retired)
                self._hold(dataclasses.replace(self._wiring, components=kept))
        assign = self._assigned
        if assign is None or not (self._crew.settled() or now - self._assigned_at > SETTLE_WITHIN_S):
            return
        self._assigned = None
        try:
            self.adopt(assign.plan, assign.attempt)
        except OSError as error:
            self._outbox.log("plan.refused", f"revision {assign.plan.revision} cannot be worked by here: {error}")

    # -- what is seen

    def _look(self, now: float) -> None:
        awake_s = min(now - self._looked_at, RECEIVER_STALL_S)
        self._looked_at = now
        self._coordinator_silent_s += awake_s
        self._crew.look(awake_s)
        self._links.look(now)
        self._follow_plan(now)
        if self._traffic is not None:
            self._traffic.send_shards(self._control.checkpoint_request, self._crew.lives, self._crew.blocks)
            self._traffic.look(now)
        if self._crew.forkserver_lost and self._stop_wanted is None:
            # The coordinator ends the run in good order while the components live.
            self._stop_wanted = "the forkserver is gone: components cannot be restarted any more"
        self._mind_coordinator(now)
        self._report(now)
        self._mind_orphanhood(now)

    def _report(self, now: float) -> None:
        self._sequence += 1
        self._outbox.add(self._sampler.episodes())
        events, episodes = self._outbox.peek()
        couriers = self._links.keepers
        lives = [*self._crew.lives.values(), *(keeper.life for keeper in couriers)]
        blocks = self._crew.blocks | {keeper.name: keeper.block for keeper in couriers}
        report = Report(
            node=self._node,
            instance=self._instance,
            revision=self._revision,
            sent_at=time.time(),
            sequence=self._sequence,
            components=self._sampler.components(lives, blocks, now),
            episodes=episodes,
            rings=self._sampler.ledgers(),
            events=events,
            links=self._links.reports(),
        )
        if self._wire.send(report):
            self._outbox.sent(len(events), len(episodes))

    @property
    def _revision(self) -> int:
        return self._plan.revision if self._plan is not None else 0

    # -- the coordinator

    def _greet(self) -> None:
        """A coordinator that has just begun gets its time to answer, and hears what the last one may have missed."""
        self._greeted, self._stop_asked = self._say_hello(), False
        self._coordinator_silent_s = 0.0

    def _say_hello(self) -> bool:
        return self._wire.send(
            Hello(
                node=self._node,
                pid=os.getpid(),
                version=installed_version(),
                instance=self._instance,
                revision=self._revision,
            )
        )

    def _mind_coordinator(self, now: float) -> None:
        if self._keeper is not None and self._keeper.look(now, self._coordinator_silent_s):
            self._outbox.log("coordinator.restarted", "the coordinator was gone and has been started again")
            self._greet()
        if self._keeper is not None and self._keeper.ended:
            self._leave("the coordinator has ended the run")  # it has said so, too, but words can be lost
        if self._wire.connections != self._connections:
            self._connections = self._wire.connections
            self._greeted = self._stop_asked = False  # whoever is there now may not have heard it
        if not self._greeted:
            self._greeted = self._say_hello()
        if self._stop_wanted is not None and not self._stop_asked:
            self._stop_asked = self._wire.send(AskStop(node=self._node, reason=self._stop_wanted))

    def _obey(self, message: CoordinatorMessage, blob: bytes | None) -> None:
        match message:
            case Ack():
                self._acknowledged(message)
            case Assign(plan=plan):
                if plan.revision > self._revision and not self._crew.stopping:
                    self._assigned, self._assigned_at = message, time.monotonic()
            case OpenLink() | JoinLink() | ResetLink():
                self._links.obey(message)
            case Checkpoint(step=checkpoint):
                if checkpoint > self._control.checkpoint_request:
                    self._control.checkpoint_request = checkpoint
            case Part() if self._traffic is not None:
                self._traffic.take(message, blob)
            case PartTaken() if self._traffic is not None:
                self._traffic.hear(message, time.monotonic())
            case Stop(reason=reason):
                self._stop(reason)
            case Shutdown(reason=reason) | Refused(reason=reason):
                self._leave(reason)
            case _:
                log.warning("agent.unknown-order kind=%s", message.kind)

    def _acknowledged(self, ack: Ack) -> None:
        self._coordinator_silent_s = 0.0
        if self._keeper is not None:
            self._keeper.heard()
        if self._plan is None:  # nobody has started yet who could have looked at it
            self._control.base_env_steps = ack.base_env_steps
        self._control.global_env_steps = ack.env_steps
        self._control.pause = ack.paused

    def _leave(self, reason: str) -> None:
        log.info("agent.leaves reason=%s", reason)
        self._stop(reason)
        self._over = True

    def _stop(self, reason: str) -> None:
        self._assigned = None
        self._crew.stop(reason)
        self._links.stop(reason)

    def _on_signal(self, number: int, _frame: object) -> None:
        self._stop_wanted = f"the agent received {signal.Signals(number).name}"

    def _mind_orphanhood(self, now: float) -> None:
        """No coordinator for too long: leave in good order rather than run unseen."""
        if self._coordinator_silent_s <= self._health.orphan_timeout:
            if not self._crew.stopping:
                self._farewell = None  # it is back
            if self._farewell is None:
                return
        if self._keeper is not None:
            self._over = True  # the forkserver does the rest
            event = self._outbox.log(
                "agent.orphaned", "no coordinator answers: a last checkpoint, then everybody leaves"
            )
            append_line(self._paths.events, event.model_dump_json())
        elif self._farewell is None:
            log.error(
                "agent.orphaned silent_s=%.1f a last checkpoint, then everybody leaves", self._coordinator_silent_s
            )
            step = max(self._control.global_env_steps, self._control.checkpoint_request + 1)
            self._control.checkpoint_request = step
            self._farewell = LastCheckpoint(step, now, self._health.checkpoint)
        else:
            self._take_leave(self._farewell, now)

    def _take_leave(self, farewell: LastCheckpoint, now: float) -> None:
        lives = self._crew.lives
        done = {
            name: self._crew.blocks[name].checkpoint_done
            for name, life in lives.items()
            if life.role in (Role.LEARNER, Role.BUFFER)
        }
        match farewell.next(lives, done, stopping=self._crew.stopping, now=now):
            case Farewell.STOP:
                self._stop("no coordinator answers")
            case Farewell.GO:
                self._over = True
            case Farewell.WRITE:
                return

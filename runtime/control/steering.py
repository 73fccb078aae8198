"""Who is in the run and by which plan, as both change: nodes that come, fall silent and return, links, scaling.

Others decide: `membership` what became of whom, `losses` and `scaling` what the next plan is, `elastic` whether another
shape is due, `revisions` when a change is over. This puts their decisions into effect, and says so in the event log.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from runtime.contract.arrangement import ArrangementError, difference, rearrange
from runtime.contract.messages import Shutdown
from runtime.contract.operator import Reply
from runtime.contract.states import RunState
from runtime.control import elastic, links, losses, scaling
from runtime.control.membership import Membership
from runtime.control.nodes import Came, Renewed, Returned, Went
from runtime.control.revisions import Revisions
from runtime.control.run_state import NodesJudged, NoLearnerLeft

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from runtime.contract.messages import CoordinatorMessage, Report
    from runtime.contract.operator import ScaleRequest
    from runtime.contract.paths import RunPaths
    from runtime.contract.plan import Plan
    from runtime.contract.view import Advice, RunView
    from runtime.control.event_log import EventLog
    from runtime.control.fold import Fold
    from runtime.control.nodes import Change, Heard, Node
    from runtime.control.run_state import Run, RunEvent

_CHANGEABLE = (RunState.STARTING, RunState.RUNNING, RunState.DEGRADED)


class Steering:
    """Everything it does it does from the coordinator's loop; nothing here waits."""

    def __init__(
        self,
        paths: RunPaths,
        plan: Plan,
        fold: Fold,
        events: EventLog,
        *,
        attempt: int,
        kept: Iterable[Node],
        send: Callable[[str, CoordinatorMessage], bool],
        revised: Callable[[Plan], None],
        now: float,
    ) -> None:
        """`kept`: nodes as a coordinator before this one knew them; `revised` is told of every new plan."""
        self.membership = Membership(plan, kept, now=now)
        self._run_id = paths.run_id
        self._revisions = Revisions(paths, plan, attempt=attempt, now=now)
        self._fold = fold
        self._events = events
        self._send = send
        self._revised = revised
        self._elastic = elastic.Memory()
        self._newest = "nodes"  # the event that told of a node last
        self._someone_is_back = False
        self._hopeless_since: float | None = None
        self._unfit = ""
        self._left: set[str] = set()
        for name, reason in self.membership.lost().items():
            fold.lose(name, reason)

    @property
    def plan(self) -> Plan:
        return self._revisions.plan

    @property
    def advice(self) -> Advice | None:
        """What `elastic` has proposed for the plan as it is; none where it is content, or was never asked."""
        said = self._elastic.advice(self.plan)
        return None if said is None else said.view(self._run_id)

    def has_left(self, name: str) -> bool:
        """Whether this was a node of the run that has left it in good order."""
        return name in self._left and not self.membership.knows(name)

    # -- what is heard

    def hear(self, name: str, event: Heard, run: Run, now: float) -> list[RunEvent]:
        """A node has spoken; what that means for the run."""
        changes, effects = self.membership.heard(name, event, now)
        found = self._follow(changes, run, now)
        self._carry_out(effects, run, self._newest if changes else None)
        self._assign(now)
        return found

    def report(self, report: Report, run: Run, now: float) -> None:
        """What a node says of its links."""
        self._carry_out(self.membership.reported(report, now), run, None)

    # -- what the clock says

    def look(self, run: Run, view: Callable[[], RunView], now: float) -> list[RunEvent]:
        """What has become due; what that means for the run."""
        changes, effects = self.membership.tick(now)
        found = self._follow(changes, run, now)
        self._carry_out(effects, run, self._newest if changes else None)
        if run.state in _CHANGEABLE and not any(isinstance(event, NoLearnerLeft) for event in found):
            self._settle(now)
            self._replan(run, now)
            if run.state is not RunState.STARTING and self.plan.job.elastic.mode != "manual":
                self._heed_elastic(view, now)
        found += self._judge(run, now)
        self._assign(now)
        self._dismiss(run)
        return found

    def _follow(self, changes: list[Change], run: Run, now: float) -> list[RunEvent]:
        found: list[RunEvent] = []
        for change in changes:
            name = change.node
            if name == self.plan.head:
                continue  # this process runs there: of its agent the watch tells
            match change:
                case Came():
                    self._tell("node.connected", f"{name} is connected", name)
                case Went(reason=reason):
                    self._tell("node.lost", f"node {name} is lost: {reason}", name)
                    self._fold.lose(name, reason)
                case Returned(away_s=away_s):
                    text = f"node {name} is back after {away_s:.1f} s: what it runs has gone on"
                    self._tell("node.back", text, name)
                    self._someone_is_back = True
                case Renewed():
                    self._tell("node.back", f"node {name} has begun anew: what it ran is gone", name)
                    found += self._begin_anew(name, run, now)
        return found

    def _tell(self, kind: str, message: str, node: str) -> None:
        self._newest = self._events.write(kind, message, host=node)

    def _begin_anew(self, name: str, run: Run, now: float) -> list[RunEvent]:
        self._fold.forsake(name)
        if run.state not in _CHANGEABLE:
            return []
        away = frozenset(self.membership.lost())
        try:
            plan = losses.with_node_anew(self.plan, name, away)
        except ArrangementError as error:
            reason = f"no learner is left: {error.message}; tianjictl resume goes on from the newest checkpoint"
            return [NoLearnerLeft(id=self._newest, reason=reason)]
        self._someone_is_back = bool(away)
        self.revise(plan, f"node {name} has begun anew", self._newest, now)
        return []

    def _judge(self, run: Run, now: float) -> list[RunEvent]:
        """What the absence of nodes means, where that has changed."""
        if run.state not in _CHANGEABLE:
            return []
        loss = losses.judge(self.plan, self.membership.lost())
        if loss is None or not loss.hopeless:
            self._hopeless_since = None
        else:
            self._hopeless_since = self._hopeless_since or now
            limit = self.plan.job.health.checkpoint
            if now - self._hopeless_since > limit:
                text = f"no learner is left since {limit:g} s: {loss.text}; tianjictl resume goes on from the newest"
                return [NoLearnerLeft(id=self._newest, reason=f"{text} checkpoint")]
        trouble, paused = (loss.text, loss.paused) if loss is not None else (None, False)
        if (trouble, paused) == (run.troubles.get("nodes"), run.paused):
            return []
        return [NodesJudged(id=self._newest, trouble=trouble, paused=paused)]

    # -- the plan

    def revise(self, plan: Plan, why: str, cause: str | None, now: float) -> bool:
        """`plan` holds from now on; False where it could not be written down, and nothing has changed."""
        before = self.plan
        if plan is before:
            return True
        if not self._revisions.replace(plan, now):
            self._events.write("plan.unwritten", f"{why}: revision {plan.revision} could not be written", cause=cause)
            return False
        self._fold.revise(plan)
        self.membership.revise(plan)
        self._revised(plan)
        change = difference(before, plan)
        text = f"revision {plan.revision}: {why}; {len(change.starts)} start, {len(change.leaves)} leave"
        self._events.write("plan.revised", text, cause=cause)
        self._assign(now)
        return True

    def _settle(self, now: float) -> None:
        settled = self._revisions.settled(self._fold, now)
        if settled is not None:
            self.revise(settled, "what was to leave has left", None, now)

    def _replan(self, run: Run, now: float) -> None:
        """Give what a node left idle to others, and give it back when the node is there again."""
        lost = self.membership.lost()
        limit = self.plan.job.elastic.regroup_after
        gone_long = [name for name in lost if self.membership.lost_for(name, now) >= limit]
        try:
            if gone_long and not run.paused:
                awaited = frozenset(lost) - frozenset(gone_long)
                plan = losses.without_homes(self.plan, frozenset(lost), awaited=awaited)
                self.revise(plan, f"{', '.join(gone_long)} stays away", self._newest, now)
            elif self._someone_is_back:
                self._someone_is_back = False
                plan = losses.with_node_again(self.plan, frozenset(lost))
                self.revise(plan, "a node is back", self._newest, now)
        except ArrangementError as error:
            if error.message != self._unfit:
                self._unfit = error.message
                self._events.write("plan.unchanged", f"{error.message}; {error.hint}", cause=self._newest)

    def _heed_elastic(self, view: Callable[[], RunView], now: float) -> None:
        if now - self._elastic.looked_at < elastic.LOOK_EVERY_S:
            return
        away = frozenset(self.membership.lost())
        signals = elastic.signals_of(view())
        costs = self._fold.observed.rates()
        self._elastic, proposal = elastic.look(self._elastic, signals, self.plan, now=now, away=away, costs=costs)
        if proposal is None:
            return
        if self.plan.job.elastic.mode == "advise":
            self._events.write("elastic.advice", proposal.advice(self._run_id))
            return
        try:
            plan = rearrange(self.plan, proposal.shape, away=away)
        except ArrangementError as error:
            self._events.write("elastic.unfit", f"{proposal.reason}; {error.message}")
            return
        event = self._events.write("elastic.applied", f"{proposal.why}: {self.plan.shape} becomes {proposal.shape}")
        self.revise(plan, f"{self.plan.shape} becomes {proposal.shape}", event, now)

    def answer(self, request: ScaleRequest, run: Run, now: float) -> Reply:
        """An operator asks for another shape, or other nodes."""
        away = frozenset(self.membership.lost())
        answer = scaling.answer(request, self.plan, state=run.state, away=away)
        if answer.plan is not None and answer.difference is not None:
            change = answer.difference
            what = f"{change.shape_before} becomes {change.shape_after}"
            event = self._events.write("scale.requested", f"the operator: {what}")
            if not self.revise(answer.plan, what, event, now):
                return Reply(ok=False, error="the new plan could not be written at the head: is its disk full?")
        return answer.reply

    # -- what is sent

    def _carry_out(self, effects: list[links.Effect], run: Run, cause: str | None) -> None:
        if run.state not in _CHANGEABLE:
            return  # links leave with the rest
        for effect in effects:
            match effect:
                case links.Send(node=node, message=message):
                    self._send(node, message)
                case links.Say(kind=kind, message=message):
                    self._events.write(kind, message, cause=cause)

    def _assign(self, now: float) -> None:
        for node in self.membership.nodes.values():
            if (assign := self._revisions.due(node, now)) is not None:
                self._send(node.name, assign)

    def _dismiss(self, run: Run) -> None:
        """Nodes that the plan has dropped: told to leave once they work by it, given up where they are lost."""
        for name in self.membership.departing():
            node = self.membership.nodes[name]
            if node.connected and node.revision >= self.plan.revision:
                self._left.add(name)
                self._send(name, farewell_to_node(run))
                self._events.write("node.left", f"node {name} has left the run", host=name)
                self.membership.forget(name)
            elif not node.connected:
                self._fold.forsake(name)
                self.membership.forget(name)


def farewell_to_node(run: Run) -> Shutdown:
    """To a node that is none of the run's any more."""
    return Shutdown(state=run.state, reason="this node has left the run")

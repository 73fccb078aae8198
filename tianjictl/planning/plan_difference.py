"""What would have to change for a living run to be as a plan says, and which command does it. Pure.

Components of a role are interchangeable: one that runs is taken for the planned one of its name, else for one that is
planned on its host. The rest start or leave.
"""

from __future__ import annotations

import shlex
from enum import StrEnum
from itertools import count
from typing import TYPE_CHECKING, Any

from runtime.contract.arrangement import ArrangementError, rearrange, settle
from runtime.contract.model import Document
from runtime.contract.states import Dependencies, Role
from tianjictl.profiling.facts.cpulist import format_cpulist

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from runtime.contract.job import Job
    from runtime.contract.plan import Placement, Plan

_OF_THE_SHAPE = ("actors", "learners", "oversubscribe")  #: keys of `distributed` that say no more than the shape
_FIRST = ("algorithm.name", "env.id")  #: keys with which many others come


class Way(StrEnum):
    """What makes a living run like the plan."""

    NOTHING = "nothing"
    SCALE = "scale"  #: while training goes on
    RESUME = "resume"  #: stop, and go on from the checkpoint by another plan
    LAUNCH = "launch"  #: a training of its own: a run keeps its job for good


class Move(Document):
    """A component that is in both, but not alike."""

    name: str
    host_before: str
    host_after: str
    cores_before: tuple[int, ...]
    cores_after: tuple[int, ...]
    group_before: int
    group_after: int

    def __str__(self) -> str:
        parts = []
        if self.host_before != self.host_after:
            parts.append(f"{self.host_before} → {self.host_after}")
        if self.cores_before != self.cores_after:
            parts.append(f"CPUs {format_cpulist(self.cores_before)} → {format_cpulist(self.cores_after)}")
        if self.group_before != self.group_after:
            parts.append(f"group {self.group_before} → {self.group_after}")
        return f"{self.name} on {self.host_before}: {', '.join(parts)}"


class Setting(Document):
    """A size, or a key of the job, that differs."""

    key: str
    before: Any
    after: Any
    kept_by: Way  #: the strongest command that leaves it as it is


class PlanDifference(Document):
    """From a living run to a plan. Names are given as `actor-8 on cn03`."""

    shape_before: str
    shape_after: str
    starts: tuple[str, ...] = ()
    moves: tuple[Move, ...] = ()
    leaves: tuple[str, ...] = ()
    stays: int = 0
    hosts_added: tuple[str, ...] = ()
    hosts_left: tuple[str, ...] = ()
    begins_sharing: bool = False  #: components share cores, which the living run's job does not allow
    samples_per_s_before: float | None = None  #: as predicted
    samples_per_s_after: float | None = None
    sizes: tuple[Setting, ...] = ()
    job: tuple[Setting, ...] = ()
    way: Way = Way.NOTHING
    why: str = ""  #: that way and no lighter one

    @property
    def differs(self) -> bool:
        """Whether there is anything to change."""
        return self.way is not Way.NOTHING or bool(self.sizes)


def difference(living: Plan, wanted: Plan) -> PlanDifference:
    """From the plan by which a run works now to `wanted`. What is leaving already counts as gone."""
    there = [p for p in living.placements if not p.leaving]
    pairs, starts, leaves = _matched(there, wanted.placements)
    moves = tuple(_move(before, after) for before, after in pairs if _place(before) != _place(after))
    now = tuple(host.name for host in living.hosts if not host.leaving)
    then = tuple(host.name for host in wanted.hosts)
    found = PlanDifference(
        shape_before=living.shape,
        shape_after=wanted.shape,
        starts=_named(starts, living),
        moves=moves,
        leaves=tuple(f"{p.name} on {p.host}" for p in leaves),
        stays=len(pairs) - len(moves),
        hosts_added=tuple(name for name in then if name not in now),
        hosts_left=tuple(name for name in now if name not in then),
        begins_sharing=wanted.job.distributed.oversubscribe and not living.job.distributed.oversubscribe,
        samples_per_s_before=living.predicted.samples_per_s,
        samples_per_s_after=wanted.predicted.samples_per_s,
        sizes=tuple(_sizes(living, wanted)),
        job=tuple(_keys(living.job, wanted.job)),
    )
    way, why = _way(found, living, wanted)
    return found.model_copy(update={"way": way, "why": why})


def commands(
    found: PlanDifference, run_id: str, job: Sequence[str] = ("JOB",), inventory: str | None = None
) -> tuple[str, ...]:
    """What to type, in order. `job`: the words of a command line that say which job; `inventory`: the file of hosts."""
    hosts = ["-i", inventory] if inventory else []
    if found.way is Way.SCALE:
        added = [word for name in found.hosts_added for word in ("--add-host", name)]
        removed = [word for name in found.hosts_left for word in ("--remove-host", name)]
        shape = [found.shape_after] if found.shape_before != found.shape_after else []
        return (_line("scale", run_id, *shape, *added, *removed, *(hosts if added else [])),)
    if found.way is Way.RESUME:
        sharing = ["--oversubscribe"] if found.begins_sharing else []
        again = _line("resume", run_id, "--from-checkpoint", "--shape", found.shape_after, *sharing, *hosts)
        return _line("stop", run_id), again
    if found.way is Way.LAUNCH:
        return _line("stop", run_id), _line("launch", *job, *hosts)
    return ()


def _line(*words: str) -> str:
    return shlex.join(("tianjictl", *words))


# -- components


def _matched(
    there: Sequence[Placement], planned: Sequence[Placement]
) -> tuple[list[tuple[Placement, Placement]], list[Placement], list[Placement]]:
    """(pairs, those that start, those that leave), in the order of the plans."""
    free, partner = list(planned), {}
    for alike in (_same_name, _same_place, _same_host):
        for before in there:
            if before.name in partner:
                continue
            after = next((other for other in free if before.role is other.role and alike(before, other)), None)
            if after is not None:
                partner[before.name] = after
                free.remove(after)
    pairs = [(before, partner[before.name]) for before in there if before.name in partner]
    return pairs, free, [before for before in there if before.name not in partner]


def _same_name(before: Placement, after: Placement) -> bool:
    return before.name == after.name and before.host == after.host


def _same_place(before: Placement, after: Placement) -> bool:
    return _place(before) == _place(after)


def _same_host(before: Placement, after: Placement) -> bool:
    return before.host == after.host


def _place(placement: Placement) -> tuple[str, tuple[int, ...], int]:
    return placement.host, placement.cores, placement.group


def _move(before: Placement, after: Placement) -> Move:
    return Move(
        name=before.name,
        host_before=before.host,
        host_after=after.host,
        cores_before=before.cores,
        cores_after=after.cores,
        group_before=before.group,
        group_after=after.group,
    )


def _named(starts: Sequence[Placement], living: Plan) -> tuple[str, ...]:
    """Names as the living run would give them: none is ever given twice."""
    actors = max(living.names_used.actors, *(p.index + 1 for p in living.of_role(Role.ACTOR)))
    groups = max(living.names_used.groups, *(group + 1 for group in living.groups))
    new_groups = dict(zip(sorted({p.group for p in starts if p.role is Role.LEARNER}), count(groups), strict=False))
    new_actors = count(actors)
    named = []
    for start in starts:
        number = start.index
        if start.role is Role.ACTOR:
            number = next(new_actors)
        elif start.role is not Role.EVALUATOR:
            number = new_groups.get(start.group, start.index)
        named.append(f"{start.role}-{number} on {start.host}")
    return tuple(named)


# -- sizes and keys


def _sizes(living: Plan, wanted: Plan) -> Iterator[Setting]:
    now, then = living.sizes.model_dump(), wanted.sizes.model_dump()
    for key, before in now.items():
        if key != "pool_ratio" and before != then[key]:
            yield Setting(key=key, before=before, after=then[key], kept_by=Way.SCALE)
    if abs(now["pool_ratio"] - then["pool_ratio"]) > 1e-9:
        yield Setting(key="P", before=now["pool_ratio"], after=then["pool_ratio"], kept_by=Way.SCALE)
    cores_now, cores_then = (max(p.threads for p in plan.of_role(Role.LEARNER)) for plan in (living, wanted))
    if cores_now != cores_then:
        yield Setting(key="cores per learner", before=cores_now, after=cores_then, kept_by=Way.SCALE)


def _keys(living: Job, wanted: Job) -> Iterator[Setting]:
    """Keys that differ. Of two algorithms only what both have is compared: the rest follows from their names."""
    now, then = dict(_flat(living.model_dump())), dict(_flat(wanted.model_dump()))
    shape = {f"distributed.{key}" for key in _OF_THE_SHAPE}
    if living.algorithm.name != wanted.algorithm.name:
        alone = {key for key in now.keys() ^ then.keys() if key.startswith("algorithm.")}
        now, then = ({key: of[key] for key in of.keys() - alone} for of in (now, then))
    for key in sorted(now.keys() | then.keys(), key=lambda key: (key not in _FIRST, key)):
        before, after = now.get(key), then.get(key)
        if key not in shape and key != "name" and before != after:
            yield Setting(key=key, before=before, after=after, kept_by=Way.RESUME)


def _flat(tree: dict[str, Any], above: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in tree.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{above}{key}.")
        else:
            yield f"{above}{key}", value


# -- the way there


def _way(found: PlanDifference, living: Plan, wanted: Plan) -> tuple[Way, str]:
    """The lightest command that reaches the plan, and why no lighter one does."""
    if found.job:
        keys = ", ".join(setting.key for setting in found.job[:3])
        more = f" and {len(found.job) - 3} more" if len(found.job) > 3 else ""
        return Way.LAUNCH, f"a run keeps its job for good, and {keys}{more} would differ: this begins a new training"
    if living.head in found.hosts_left or living.head != wanted.head:
        return Way.RESUME, f"the coordinator runs on {living.head}, and cannot move to {wanted.head} while it runs"
    if any(setting.key == "cores per learner" for setting in found.sizes):
        return Way.RESUME, "learners keep their cores while they run"
    if found.shape_before != found.shape_after or found.hosts_added or found.hosts_left:
        refused = _why_not_scaled(found, living, wanted)
        return (Way.RESUME, f"the run cannot be scaled so: {refused}") if refused else (Way.SCALE, "")
    if found.moves or found.starts or found.leaves:
        return Way.RESUME, "components that stay keep their cores and groups while they run"
    return Way.NOTHING, ""


def _why_not_scaled(found: PlanDifference, living: Plan, wanted: Plan) -> str | None:
    """What a coordinator would say to it; none where it would do it."""
    if living.job.training.dependencies is Dependencies.STRICT:
        return "training.dependencies is strict, so who takes turns with whom is fixed"
    settled = settle(living)
    joining = tuple(host for host in wanted.hosts if host.name in found.hosts_added)
    try:
        rearrange(
            settled,
            wanted.learners_and_actors,
            hosts=(*settled.hosts, *joining),
            leave=frozenset(found.hosts_left),
        )
    except ArrangementError as error:
        return error.message
    return None

"""What a plan sends from host to host: fragments towards learners, parameters back. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from runtime.contract.forecast import bytes_per_step
from runtime.contract.states import Role

if TYPE_CHECKING:
    from runtime.contract.plan import Plan


@dataclass(frozen=True, slots=True)
class PlannedLink:
    """One direction between two hosts."""

    source: str
    target: str
    actors: int  #: whose fragments go this way
    policies: tuple[int, ...]  #: groups whose parameters go this way
    mb_per_s: float | None  #: of fragments, as predicted, before any compression; none where nothing is predicted
    limit_mb_per_s: float | None = None  #: what the slower of both networks carries; none: not known
    wan: bool = False

    @property
    def carries(self) -> str:
        """In words: `fragments of 3 actors`, `parameters of group 0`."""
        parts = [f"fragments of {self.actors} actor{'' if self.actors == 1 else 's'}"] if self.actors else []
        if self.policies:
            named = ", ".join(map(str, self.policies))
            parts.append(f"parameters of group{'' if len(self.policies) == 1 else 's'} {named}")
        return "; ".join(parts)


def links_of(plan: Plan) -> tuple[PlannedLink, ...]:
    """Every direction in which something is sent, in the order of the hosts."""
    actors: dict[tuple[str, str], int] = {}
    policies: dict[tuple[str, str], set[int]] = {}
    homes = {group: plan.home(group) for group in plan.groups}
    for placement in plan.placements:
        for group in _read_by(plan, placement.role, placement.group):
            if homes[group] != placement.host:
                policies.setdefault((homes[group], placement.host), set()).add(group)
        if placement.role is Role.ACTOR and homes[placement.group] != placement.host:
            way = (placement.host, homes[placement.group])
            actors[way] = actors.get(way, 0) + 1
    order = {host.name: position for position, host in enumerate(plan.hosts)}
    wan = {host.name for host in plan.hosts if host.wan}
    each = _mb_per_s_of_an_actor(plan)
    found = []
    for source, target in sorted(actors.keys() | policies.keys(), key=lambda way: (order[way[0]], order[way[1]])):
        count, limit = actors.get((source, target), 0), _limit(plan, source, target)
        sent = None if each is None or not count else each * count
        found.append(
            PlannedLink(
                source=source,
                target=target,
                actors=count,
                policies=tuple(sorted(policies.get((source, target), ()))),
                mb_per_s=sent if sent is None or limit is None else min(sent, limit),
                limit_mb_per_s=limit,
                wan=bool({source, target} & wan),
            )
        )
    return tuple(found)


def _limit(plan: Plan, source: str, target: str) -> float | None:
    known = (plan.host(name).mb_per_s for name in (source, target))
    return min((speed for speed in known if speed is not None), default=None)


def _read_by(plan: Plan, role: Role, group: int) -> tuple[int, ...]:
    """The groups whose parameters a component reads: learners average with all others."""
    if role is Role.LEARNER:
        return tuple(other for other in plan.groups if other != group)
    return (group,) if role in (Role.ACTOR, Role.EVALUATOR) else ()


def _mb_per_s_of_an_actor(plan: Plan) -> float | None:
    """As all actors share the steps alike."""
    steps, actors = plan.predicted.env_steps_per_s, len(plan.of_role(Role.ACTOR))
    if steps is None or not actors:
        return None
    return steps / actors * bytes_per_step(plan.env) / 1e6

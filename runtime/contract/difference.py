"""What one revision of a plan changes against an earlier one, for people to read. Pure."""

from __future__ import annotations

from math import ceil
from typing import TYPE_CHECKING

from runtime.contract.operator import Difference
from runtime.contract.states import Role

if TYPE_CHECKING:
    from runtime.contract.plan import Placement, Plan


def difference(before: Plan, after: Plan) -> Difference:
    """Who starts, who leaves, how many stay; nodes that join or are left; and what to know about it."""
    old = {p.name: p for p in before.placements if not p.leaving}
    new = {p.name: p for p in after.placements if not p.leaving}
    nodes_before = {host.name for host in before.hosts if not host.leaving}
    nodes_after = {host.name for host in after.hosts if not host.leaving}
    return Difference(
        revision=after.revision,
        shape_before=before.shape,
        shape_after=after.shape,
        starts=tuple(_shown(p) for name, p in new.items() if name not in old),
        leaves=tuple(_shown(p) for name, p in old.items() if name not in new),
        stays=len(old.keys() & new.keys()),
        hosts_added=tuple(h.name for h in after.hosts if h.name in nodes_after - nodes_before),
        hosts_left=tuple(h.name for h in before.hosts if h.name in nodes_before - nodes_after),
        notes=_notes(before, after),
    )


def _shown(placement: Placement) -> str:
    return f"{placement.name} on {placement.host}"


def _notes(before: Plan, after: Plan) -> tuple[str, ...]:
    notes = [
        f"{p.name} begins with the parameters and the optimiser of learner-{p.donor}"
        for p in after.placements
        if p.donor is not None and not p.leaving
    ]
    if before.shape != after.shape:
        notes += _batch_notes(before, after)
        notes += _rate_notes(before, after)
    notes += [
        f"{host.name}: {host.oversubscription:.3g} core shares charged per core"
        for host in after.hosts
        if host.oversubscription and host not in before.hosts
    ]
    return tuple(notes)


def _batch_notes(before: Plan, after: Plan) -> list[str]:
    """Sizes are fixed for a run: with other counts the same sizes mean something else."""
    sizes, notes = after.sizes, []
    if before.learners_and_actors.learners != after.learners_and_actors.learners:
        notes.append(f"batches stay {sizes.batch_size:,} samples for each learner")
    if not sizes.fragments_per_batch:
        return notes
    most = max(sum(not p.leaving for p in after.group_of(group, Role.ACTOR)) for group in after.groups)
    if most > sizes.fragments_per_batch:
        notes.append(f"a batch holds {sizes.fragments_per_batch} fragments, from {most} actors in turn")
    waiting = ceil(most * sizes.ring_slots / sizes.fragments_per_batch) + sizes.batch_slots
    max_lag = after.job.algorithm.max_lag
    if max_lag is not None and waiting > max_lag:
        notes.append(
            f"fragments of {most} actors may wait for {waiting} updates, and those older than "
            f"algorithm.max_lag {max_lag} are dropped"
        )
    return notes


def _rate_notes(before: Plan, after: Plan) -> list[str]:
    """What the change is expected to bring, where rates were measured."""
    now, then = before.predicted, after.predicted
    if not now.samples_per_s or then.samples_per_s is None:
        return []
    change = then.samples_per_s / now.samples_per_s - 1.0
    return [
        f"predicted: {now.samples_per_s:,.0f} → {then.samples_per_s:,.0f} samples/s ({change:+.0%}), then limited by "
        f"{then.bottleneck}"
    ]

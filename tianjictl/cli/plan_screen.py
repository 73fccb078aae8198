"""A plan as people read it: components, hosts, links, sizes and rates; what is many of a kind is shown together."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING

from tianjictl.cli.output import print_table, say

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from runtime.contract.plan import Placement, Plan
    from tianjictl.planning.links import PlannedLink

_ALL_COMPONENTS = 48  #: beyond them, those of one role, group and host share a line
_ALL_LINKS = 24  #: beyond them, those that carry nothing but parameters are counted


def show_plan(plan: Plan, job: Path | None, inventory: str | None) -> None:
    """All of it but why it is so."""
    from tianjictl.profiling.facts.cpulist import format_cpulist

    hosts = ", ".join(f"{host.name} (CPUs {format_cpulist(sorted(host.cores))})" for host in plan.hosts)
    many = len(plan.hosts) > 1
    say(f"{plan.job.name}: {plan.shape} on {f'{len(plan.hosts)} hosts' if many else hosts}", style="bold")
    say(f"solver: {plan.solver}")
    say()
    print_table(("component", "group", "host", "CPUs", "cores", "threads"), list(_components(plan)), right=(1, 4, 5))
    if many:
        _show_hosts(plan)
        _show_links(plan)
    say()
    for line in (*_sizes(plan), *_rates(plan, job, inventory)):
        say(line)


def _components(plan: Plan) -> Iterator[tuple[object, ...]]:
    if len(plan.placements) <= _ALL_COMPONENTS:
        yield from (_row((placement,)) for placement in plan.placements)
        return
    for _, alike in groupby(plan.placements, key=lambda p: (p.role, p.group, p.host, p.threads)):
        yield _row(tuple(alike))


def _row(alike: Sequence[Placement]) -> tuple[object, ...]:
    from tianjictl.profiling.facts.cpulist import format_cpulist

    first = alike[0]
    name = first.name if len(alike) == 1 else f"{first.role}-{format_cpulist(p.index for p in alike).replace('-', '…')}"
    cpus = format_cpulist({cpu for p in alike for cpu in p.cores})
    return name, first.group, first.host, cpus, f"{sum(p.core_share for p in alike):.2f}", first.threads


def _show_hosts(plan: Plan) -> None:
    """What each host is given."""
    from tianjictl.profiling.facts.cpulist import format_cpulist

    rows: list[tuple[object, ...]] = []
    for host in plan.hosts:
        placed = plan.on(host.name)
        charged = sum(p.core_share for p in placed)
        roles = ", ".join(host.roles) or "any"
        name = f"{host.name} (head)" if host.name == plan.head else host.name
        network = f"{host.network or '-'}{', wan' if host.wan else ''}"
        cpus = format_cpulist(sorted(host.cores))
        rows.append((name, cpus, f"{charged:.2f} of {len(host.cores)}", len(placed), roles, network))
    say()
    print_table(("host", "CPUs", "cores charged", "components", "may hold", "network"), rows, right=(2, 3))


def _show_links(plan: Plan) -> None:
    """What is sent between the hosts."""
    from tianjictl.planning.links import links_of

    links = links_of(plan)
    shown = links if len(links) <= _ALL_LINKS else [link for link in links if link.actors]
    if shown:
        say()
        rows = [(f"{link.source} → {link.target}", link.carries, *_mb_per_s(link)) for link in shown]
        print_table(("link", "carries", "MB/s predicted", "at most"), rows, right=(2, 3))
    if len(shown) < len(links):
        say(f"{len(links) - len(shown)} links carry parameters only")


def _mb_per_s(link: PlannedLink) -> tuple[str, str]:
    known = (link.mb_per_s, link.limit_mb_per_s)
    predicted, limit = ("-" if value is None else f"{value:,.1f}" for value in known)
    return predicted, limit


def _sizes(plan: Plan) -> list[str]:
    sizes = plan.sizes
    return [
        f"each actor: {sizes.num_envs} environments × {sizes.rollout} steps = fragments of {sizes.fragment_samples}",
        f"each learner: batches of {sizes.batch_size} from a buffer of {sizes.buffer_size}, "
        f"P = {sizes.pool_ratio:.3g} (tolerance {sizes.staleness_tolerance:g})",
    ]


def _rates(plan: Plan, job: Path | None, inventory: str | None) -> list[str]:
    rates = plan.predicted
    if rates.env_steps_per_s is None or rates.samples_per_s is None or rates.updates_per_s is None:
        hosts = f" -i {inventory}" if inventory else ""
        return [f"rates: not predicted; tianjictl profile {job or 'JOB'}{hosts} measures them"]
    return [
        f"predicted: {rates.env_steps_per_s:,.0f} env steps/s, {rates.samples_per_s:,.0f} samples/s, "
        f"{rates.updates_per_s:,.1f} updates/s"
    ]

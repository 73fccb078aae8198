"""The planner's objective, written out anew: every way to deal components to nodes, and what each of them reaches.

Slow and obvious. Knows the fields of a problem and nothing of how the planner solves it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import product
from math import inf
from typing import NamedTuple

from ortools.linear_solver import pywraplp

from runtime.contract.states import Role
from tianjictl.planning.node import Node
from tianjictl.planning.problem import Problem


class Placed(NamedTuple):
    """Cores per learner, and (learners, larger groups, actors) of each node."""

    learner_cores: int
    nodes: tuple[tuple[int, int, int], ...]


class Worth(NamedTuple):
    """What is compared, after the throughput: the least is best."""

    crossing: int
    cores: int
    learners: int
    actors: int


def all_placements(p: Problem) -> Iterator[Placed]:
    """Every one that respects the limits."""
    for c in p.learner_core_choices():
        options = [[(g, a) for g in range(len(n.cores) + 1) for a in range(len(n.cores) + 1) if holds(p, i, c, g, a)]
                   for i, n in enumerate(p.nodes)]  # fmt: skip
        for dealt in product(*options):
            learners, actors = sum(g for g, _ in dealt), sum(a for _, a in dealt)
            if allowed(p, learners, actors):
                for larger in larger_groups([g for g, _ in dealt], actors % learners):
                    yield Placed(c, tuple((g, e, a) for (g, a), e in zip(dealt, larger, strict=True)))


def allowed(p: Problem, learners: int, actors: int) -> bool:
    least, most = p.least or (1, 1), p.most or (inf, inf)
    return (
        1 <= learners <= actors
        and p.learners in (None, learners)
        and p.actors in (None, actors)
        and least[0] <= learners <= most[0]
        and least[1] <= actors <= most[1]
    )


def holds(p: Problem, index: int, c: int, learners: int, actors: int) -> bool:
    """Whether one node can hold so many."""
    n = p.nodes[index]
    domains = [sum(core.numa == numa for core in n.cores) for numa in {core.numa for core in n.cores}]
    places = sum(size // c for size in domains) if max(domains) >= c else len(n.cores) // c
    memory = p.memory.once + learners * p.memory.learner + actors * p.memory.actor
    left = round(n.capacity - light(p, index), 9) - learners * c
    shares = learners * c == len(n.cores) and left + learners * c > 0
    return (
        (not n.roles or Role.LEARNER in n.roles or learners == 0)
        and (not n.roles or Role.ACTOR in n.roles or actors == 0)
        and learners <= places
        and learners * c + actors <= len(n.cores)
        and (learners + actors == 0 or memory <= int(n.memory_bytes * 0.9))
        and (learners == 0 or left >= 0 or shares)
    )


def light(p: Problem, index: int) -> float:
    def may(node: Node, role: Role) -> bool:
        return not node.roles or role in node.roles

    ends = (len(p.nodes) - 1 if index == 0 else 1) if len(p.nodes) > 1 else 0
    homes = [i for i, n in enumerate(p.nodes) if may(n, Role.EVALUATOR)]
    homes = homes or [i for i, n in enumerate(p.nodes) if may(n, Role.LEARNER)] or [0]
    evaluator = p.charges.evaluator if p.evaluator and index == homes[0] else 0.0
    leads = p.charges.coordinator + p.charges.report * ends if index == 0 else 0.0
    return p.charges.node + leads + p.charges.link * ends + evaluator


def larger_groups(learners: list[int], total: int) -> Iterator[tuple[int, ...]]:
    for larger in product(*(range(count + 1) for count in learners)):
        if sum(larger) == total:
            yield larger


def limits(p: Problem, placed: Placed) -> tuple[float, float]:
    """(what learners take, what actors give) in steps/s, each as if there were nothing else."""
    takes = gives = 0.0
    for n, (g, e, a) in zip(p.nodes, placed.nodes, strict=True):
        takes += group_limit(p, n, placed, g, e)
        gives += a * p.rates(n).actor_steps_per_s
    return takes, gives


def group_limit(p: Problem, n: Node, placed: Placed, groups: int, larger: int) -> float:
    r = p.rates(n)
    one = min(r.learner_on(placed.learner_cores).samples_per_s / p.ratio,
              1 / r.receive_s_per_step if r.receive_s_per_step else inf)  # fmt: skip
    each = sum(a for _, _, a in placed.nodes) // sum(g for g, _, _ in placed.nodes)
    return (groups - larger) * min(one, each * fastest(p)) + larger * min(one, (each + 1) * fastest(p))


def fastest(p: Problem) -> float:
    return max(p.rates(n).actor_steps_per_s for n in p.nodes if not n.roles or Role.ACTOR in n.roles)


def worth(p: Problem, placed: Placed) -> Worth:
    learners, actors = sum(g for g, _, _ in placed.nodes), sum(a for _, _, a in placed.nodes)
    crossing = sum(round(1000 * p.rates(n).actor_steps_per_s / fastest(p)) * sent(placed, i)
                   for i, n in enumerate(p.nodes))  # fmt: skip
    return Worth(crossing, learners * placed.learner_cores + actors, learners, actors)


def sent(placed: Placed, index: int) -> int:
    """Actors of one node that work for groups elsewhere: all that its own groups have no place for."""
    each = sum(a for _, _, a in placed.nodes) // sum(g for g, _, _ in placed.nodes)
    g, e, a = placed.nodes[index]
    return max(0, a - g * each - e)


def throughput(p: Problem, placed: Placed) -> float:
    """Samples/s: the best flows from nodes to nodes, by linear programming."""
    solver = pywraplp.Solver.CreateSolver("GLOP")
    each = sum(a for _, _, a in placed.nodes) // sum(g for g, _, _ in placed.nodes)
    unit = fastest(p)
    stay, leave, come = ([solver.NumVar(0, solver.infinity(), "") for _ in p.nodes] for _ in range(3))
    for i, n in enumerate(p.nodes):
        r, (g, e, a) = p.rates(n), placed.nodes[i]
        x, y, z = stay[i], leave[i], come[i]
        local = a - sent(placed, i)
        solver.Add(x <= local * r.actor_steps_per_s / unit)
        solver.Add(y <= sent(placed, i) * r.actor_steps_per_s / unit)
        solver.Add(z <= g * each + e - local)
        solver.Add(x + z <= group_limit(p, n, placed, g, e) / unit)
        kept = r.buffer_cpu_s_per_step
        own = g * placed.learner_cores
        if g and own == len(n.cores):
            kept += p.ratio * r.learner_on(placed.learner_cores).cpu_s_per_sample
            own = 0
        work = r.actor_cpu_s_per_step * (x + y) + kept * (x + z) + r.courier_cpu_s_per_step * (y + z)
        solver.Add(work * unit <= max(0.0, n.capacity - light(p, i) - own))
        if n.mb_per_s is not None:
            solver.Add(y * unit * p.bytes_per_step / 1e6 <= n.mb_per_s)
            solver.Add(z * unit * p.bytes_per_step / 1e6 <= n.mb_per_s)
    solver.Add(sum(leave) == sum(come))
    solver.Maximize(sum(stay) + sum(come))
    assert solver.Solve() == pywraplp.Solver.OPTIMAL
    return float(solver.Objective().Value()) * unit * p.ratio


def best(p: Problem) -> tuple[float, Worth] | None:
    """The largest throughput and, of all that reach it to a millionth, the least worth; None where nothing fits."""
    every = [(min(limits(p, placed)) * p.ratio, placed) for placed in all_placements(p)]
    if not every:
        return None
    every.sort(key=lambda entry: -entry[0])
    known: dict[Placed, float] = {}
    most = -1.0
    for limit, placed in every:
        if limit <= most:
            break
        known[placed] = throughput(p, placed)
        most = max(most, known[placed])
    enough = most * (1 - 1e-6)
    alike = sorted((worth(p, placed), placed) for limit, placed in every if limit >= enough)
    for value, placed in alike:
        if known.get(placed) is None:
            known[placed] = throughput(p, placed)
        if known[placed] >= enough:
            return most, value
    raise AssertionError("the best reaches what it reaches")


class Settled(NamedTuple):
    """Which sizes: 0 for the usual ones, else the number of the choice. And what `best` says of them."""

    choice: int
    throughput: float
    worth: Worth


def best_sizes(p: Problem) -> Settled | None:
    """The usual sizes unless others give a quarter more, or the usual ones do not fit; then those that give most."""
    usual = best(p)
    if not all(n.rates for n in p.nodes):
        return None if usual is None else Settled(0, *usual)
    needed = 0.0 if usual is None else 1.25 * usual[0]
    others = []
    for number, choice in enumerate(p.choices, 1):
        nodes = tuple(replace(n, rates=rates) for n, rates in zip(p.nodes, choice.rates, strict=True))
        found = best(replace(p, nodes=nodes, memory=choice.memory))
        if found is not None and found[0] >= needed:
            others.append(Settled(number, *found))
    if others:
        most = max(each.throughput for each in others)
        return next(each for each in others if each.throughput >= most * (1 - 1e-6))
    return None if usual is None else Settled(0, *usual)

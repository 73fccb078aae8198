"""A conflict of limits in a sentence with numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from runtime.contract.drafting import MOST_PER_CORE
from runtime.contract.states import Role
from tianjictl.planning.room import most_actors
from tianjictl.planning.terms import terms_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Set

    from tianjictl.planning.node import Node
    from tianjictl.planning.problem import Problem


def of_conflict(problem: Problem, conflict: Set[str]) -> str:
    """What the request needs, and what the limits that conflict leave to it."""
    asked = problem.smallest
    if "elastic range" in conflict:
        return f"{asked} is outside elastic.min..max ({problem.least or '-'}..{problem.most or '-'})"
    if "memory" in conflict:
        return _memory(problem)
    if _by_place(problem, conflict):
        return _of_roles(problem, conflict)
    if "quota" in conflict:
        told = ", ".join(f"{node.name} {node.capacity:g}" for node in problem.nodes)
        return f"{_needs(problem)} and time for agent and evaluator; a quota leaves CPU time of {told}"
    cores = problem.num_cores
    if problem.oversubscribe:
        most = cores * MOST_PER_CORE
        return (
            f"{_needs(problem)}; {problem.where} has {cores}, and at most {MOST_PER_CORE} components may share one: "
            f"{most}"
        )
    return f"{_needs(problem)}; {problem.where} has {cores} usable{_quota(problem)}"


def of_counts(problem: Problem) -> Iterator[str]:
    """What is wrong with the request itself."""
    asked = problem.smallest
    if asked.learners > asked.actors:
        yield f"{asked}: each learner needs at least one actor of its own"


def of_node(node: Node) -> str:
    """What one of several nodes has."""
    held = [word for word, role in (("learners", Role.LEARNER), ("actors", Role.ACTOR)) if node.may(role)]
    count = len(node.cores)
    return f"{node.name}: {count} core{'s' if count != 1 else ''} for {' and '.join(held) or 'neither'}"


def _needs(problem: Problem) -> str:
    asked, each = problem.smallest, problem.learner_core_choices()[0]
    chosen = problem.least is not None and problem.learners is None and problem.actors is None
    learners = f"{asked.learners} learner{'' if asked.learners == 1 else 's'} × {each} + {asked.actors} actors"
    cores = asked.learners * each + asked.actors
    return f"{'elastic.min ' if chosen else ''}{asked} needs {cores} cores ({learners})"


def _by_place(problem: Problem, conflict: Set[str]) -> bool:
    """Whether it matters where things are, and not only how much there is in all."""
    asked, each = problem.smallest, problem.learner_core_choices()[0]
    enough = asked.learners * each + asked.actors <= problem.num_cores or problem.oversubscribe
    return enough and bool(conflict & {"roles", "one host", "NUMA"})


def _of_roles(problem: Problem, conflict: Set[str]) -> str:
    asked, each = problem.smallest, problem.learner_core_choices()[0]
    terms = terms_of(problem, each)
    room = sum(term.learner_counts[-1] for term in terms)
    inside = "one NUMA domain" if "NUMA" in conflict else "one host"
    if asked.learners > room:
        return (
            f"{asked} needs {asked.learners} learners of {each} core{'s' if each > 1 else ''} inside {inside} "
            f"each; only {_able(problem, Role.LEARNER)} may hold learners, {room} of them"
        )
    beside = most_actors(terms, asked.learners) or 0
    return (
        f"{asked} needs {asked.actors} cores for actors; only {_able(problem, Role.ACTOR)} may hold actors, and beside "
        f"the learners there is room for {beside}"
    )


def _able(problem: Problem, role: Role) -> str:
    return ", ".join(f"{node.name} ({len(node.cores)})" for node in problem.nodes if node.may(role)) or "no host"


def _memory(problem: Problem) -> str:
    asked, needs = problem.smallest, problem.memory
    once = needs.once * len(problem.nodes)
    total = once + asked.learners * needs.learner + asked.actors * needs.actor
    have = sum(node.usable_memory for node in problem.nodes)
    if len(problem.nodes) == 1 or total > have:
        return f"{asked} needs about {_gib(total)} of memory; {problem.where} allows {_gib(have)}"
    told = ", ".join(f"{node.name} {_gib(node.usable_memory)}" for node in problem.nodes)
    return (
        f"{asked} does not fit the memory of the hosts that it could be on: {_gib(needs.once)} each, "
        f"{_gib(needs.learner)} a learner, {_gib(needs.actor)} an actor; they allow {told}"
    )


def _quota(problem: Problem) -> str:
    capacity = sum(node.capacity for node in problem.nodes)
    return "" if capacity >= problem.num_cores else f" with a quota of {capacity:g} CPUs"


def _gib(size: int) -> str:
    return f"{size / 2**30:.2f} GiB"

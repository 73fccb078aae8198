"""Why nothing fits, and what would: the limits that conflict, and the nearest shape that respects them."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from runtime.contract.shape import Shape
from tianjictl.errors import Infeasible
from tianjictl.planning.choice import Choice, fits
from tianjictl.planning.greedy import smallest
from tianjictl.planning.problem import MOST_PER_CORE

if TYPE_CHECKING:
    from tianjictl.planning.problem import Pool, Problem


def refuse_what_cannot_fit(problem: Problem) -> None:
    """Raise Infeasible where even the fewest components the request allows do not fit."""
    asked = smallest(problem)
    if fits(problem, asked):
        return
    conflicts = _conflicts(problem, asked)
    raise Infeasible(conflicts[0], hint=_hint(problem, asked), details=tuple(conflicts[1:]))


def nearest_shape(problem: Problem, asked: Choice) -> Shape | None:
    """The largest shape within the request that fits: the learners asked for if possible, then as many actors.

    None where not even one learner with one actor does.
    """
    free = replace(problem, learners=None, actors=None, least=None, most=None)
    for learners in range(min(asked.learners, problem.num_cores * MOST_PER_CORE), 0, -1):
        room = problem.num_cores * (MOST_PER_CORE if problem.oversubscribe else 1) - learners * asked.learner_cores
        if problem.pools and not problem.oversubscribe:
            room = min(room, problem.cores_for_actors, problem.actor_room(learners, asked.learner_cores))
        most = min(asked.actors, room, _actors_in_memory(problem, learners))
        if most >= learners and fits(free, Choice(learners, asked.learner_cores, most)):
            return Shape(learners, most)
    return None


def _actors_in_memory(problem: Problem, learners: int) -> int:
    return (problem.usable_memory - problem.memory.of(learners, 0)) // problem.memory.actor


def _conflicts(problem: Problem, asked: Choice) -> list[str]:
    """One sentence for each limit that the smallest request breaks."""
    host, cores = problem.host.name, problem.num_cores
    found = []
    needed = f"{asked.shape} needs {asked.cores} cores ({_counted(asked)})"
    if problem.least is not None and problem.learners is None and problem.actors is None:
        needed = f"elastic.min {needed}"
    if asked.learners > asked.actors:
        found.append(f"{asked.shape}: each learner needs at least one actor of its own")
    if problem.oversubscribe and asked.cores > cores * MOST_PER_CORE:
        most = cores * MOST_PER_CORE
        found.append(f"{needed}; {host} has {cores}, and at most {MOST_PER_CORE} components may share one: {most}")
    elif not problem.oversubscribe and asked.cores > cores:
        found.append(f"{needed}; {host} has {cores} usable{_quota(problem)}")
    elif problem.pools and not problem.oversubscribe:
        found += _role_conflicts(problem, asked)
    if asked.learner_cores > cores:
        found.append(f"distributed.learner_cores is {asked.learner_cores}; {host} has {cores} usable cores")
    if not problem.fits_memory(asked.learners, asked.actors):
        need, have = problem.memory.of(asked.learners, asked.actors), problem.usable_memory
        found.append(f"{asked.shape} needs about {_gib(need)} of memory; {host} allows {_gib(have)}")
    if not problem.within_bounds(asked.learners, asked.actors):
        found.append(f"{asked.shape} is outside elastic.min..max ({problem.least or '-'}..{problem.most or '-'})")
    found = found or [f"{asked.shape} does not fit {host}"]
    return [*found, *(_told(pool) for pool in problem.pools)]


def _role_conflicts(problem: Problem, asked: Choice) -> list[str]:
    """What does not fit although there are cores enough: a learner in one host, and each role where it may be."""
    found = []
    each, room = asked.learner_cores, problem.learner_room(asked.learner_cores)
    if asked.learners > room:
        able = ", ".join(f"{pool.name} ({pool.cores})" for pool in problem.pools if pool.learners) or "no host"
        found.append(
            f"{asked.shape} needs {asked.learners} learners of {each} core{'s' if each > 1 else ''} inside one host "
            f"each; only {able} may hold learners, {room} of them"
        )
    beside = min(problem.cores_for_actors, problem.actor_room(asked.learners, each))
    if asked.actors > beside and asked.learners <= room:
        able = ", ".join(f"{pool.name} ({pool.cores})" for pool in problem.pools if pool.actors) or "no host"
        found.append(
            f"{asked.shape} needs {asked.actors} cores for actors; only {able} may hold actors, and beside the "
            f"learners there is room for {max(0, beside)}"
        )
    return found


def _told(pool: Pool) -> str:
    held = [word for word, may in (("learners", pool.learners), ("actors", pool.actors)) if may]
    return f"{pool.name}: {pool.cores} core{'s' if pool.cores != 1 else ''} for {' and '.join(held) or 'neither'}"


def _hint(problem: Problem, asked: Choice) -> str:
    shape = nearest_shape(problem, asked)
    ways = []
    if shape is not None:
        ways.append(f"the nearest shape that fits is {shape}: --shape {shape}")
    shared = replace(problem, oversubscribe=True)
    if not problem.oversubscribe and fits(shared, asked):
        ways.append("--oversubscribe lets components share cores")
    if not ways:
        return "a machine with more cores or memory is needed, or a smaller distributed.buffer_size"
    return "; or ".join(ways)


def _counted(choice: Choice) -> str:
    plural = "" if choice.learners == 1 else "s"
    return f"{choice.learners} learner{plural} × {choice.learner_cores} + {choice.actors} actors"


def _quota(problem: Problem) -> str:
    whole = float(problem.num_cores)
    return "" if problem.host.capacity >= whole else f" with a quota of {problem.host.capacity:g} CPUs"


def _gib(size: int) -> str:
    return f"{size / 2**30:.2f} GiB"

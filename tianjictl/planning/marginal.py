"""What one more of anything is worth: a core, a node, memory, network, speed, freedom in what was asked for. Pure."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from runtime.contract.model import Document
from runtime.contract.plan import HostPlan
from tianjictl.planning.cause import mb
from tianjictl.planning.relaxing import faster_actors, faster_buffers, faster_learners

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from tianjictl.planning.node import Node
    from tianjictl.planning.problem import Problem
    from tianjictl.planning.relaxing import Case, Outcome

_TENTH = 1.1
_GIB = 1 << 30
_KINDS, _FEW_KINDS = 4, 2  #: kinds of nodes that are looked at in small problems, and in large ones


class Marginal(Document):
    """One limit relaxed, and what that is worth."""

    what: str  #: `one more core on cn01`
    limit: str  #: `core`, `node`, `memory`, `network`, `actors`, `learners`, `buffers`, `shape`, `elastic.max`, …
    host: str | None = None
    samples_per_s: float  #: more than the plan reaches
    gain: float  #: the same as a part of it: 0.08 is 8 %
    shape: str | None = None  #: what it would lead to, where that is another shape


class Kind(NamedTuple):
    """Nodes that are alike."""

    indices: tuple[int, ...]
    node: Node  #: the first of them
    told: str  #: `cn01 (or cn02)`, `cn01 (or one of 7 like it)`


def marginals(case: Case) -> tuple[Marginal, ...]:
    """All that was looked at, the most valuable first; what is worth nothing is there too, with 0."""
    found = [*_speeds(case), *_networks(case), *_hardware(case), *_request(case)]
    return tuple(sorted(found, key=lambda each: (-each.gain, each.what)))


def kinds(problem: Problem) -> list[Kind]:
    """Nodes with equal hardware, roles and rates together, in the order of the first of each."""
    found: dict[object, list[int]] = {}
    for index, node in enumerate(problem.nodes):
        alike = (replace(node, name="", cores=()), node.domains)
        found.setdefault(alike, []).append(index)
    return [_kind(problem, indices) for indices in found.values()]


def _kind(problem: Problem, indices: Sequence[int]) -> Kind:
    first, *others = (problem.nodes[index] for index in indices)
    like = f" (or {others[0].name})" if len(others) == 1 else f" (or one of {len(others)} like it)" if others else ""
    return Kind(tuple(indices), first, f"{first.name}{like}")


def with_node(problem: Problem, index: int, node: Node) -> Problem:
    """The problem with one node changed."""
    nodes = list(problem.nodes)
    nodes[index] = node
    return replace(problem, nodes=tuple(nodes))


def with_core(node: Node) -> Node:
    """A core more, in the domain of the last."""
    last = max(node.cores, key=lambda core: core.cpu)
    more = last.model_copy(update={"cpu": last.cpu + 1, "core": last.core + 1, "thread": 0})
    return replace(node, cores=(*node.cores, more), capacity=node.capacity + 1.0)


def _speeds(case: Case) -> Iterator[Marginal]:
    for limit, what, faster in (
        ("actors", "environments and actors", faster_actors),
        ("learners", "learners", faster_learners),
        ("buffers", "buffers", faster_buffers),
    ):
        reached = case.with_rates(partial(faster, factor=_TENTH))
        yield _marginal(case, f"{what} 10 % faster", limit, None, reached)


def _networks(case: Case) -> Iterator[Marginal]:
    """One kind of network faster, and all of them: a way is as fast as its slower end."""
    limited = [kind for kind in kinds(case.problem) if kind.node.mb_per_s is not None]
    if len(case.problem.nodes) == 1 or not limited:
        return
    for kind in _looked_at(case, limited) if len(limited) > 1 else []:
        names = {case.problem.nodes[index].name for index in kind.indices}
        yield _network(case, f"the network of {kind.told}", kind.node.name, names)
    yield _network(case, "every network", None, {node.name for node in case.problem.nodes})


def _network(case: Case, what: str, host: str | None, names: set[str]) -> Marginal:
    """With components where they are, or, where that is quick to find, where they are best for it."""

    def there(plan: HostPlan) -> HostPlan:
        if plan.name not in names or plan.mb_per_s is None:
            return plan
        return plan.model_copy(update={"mb_per_s": plan.mb_per_s * _TENTH})

    def relaxed(node: Node) -> Node:
        return (
            node if node.name not in names or node.mb_per_s is None else replace(node, mb_per_s=node.mb_per_s * _TENTH)
        )

    speeds = [node.mb_per_s for node in case.problem.nodes if node.name in names and node.mb_per_s is not None]
    again = case.decided(replace(case.problem, nodes=tuple(relaxed(node) for node in case.problem.nodes)))
    reached = max(case.with_hosts(there), again.samples_per_s if again is not None else 0.0)
    return _marginal(case, f"{mb(min(speeds) * (_TENTH - 1.0))} MB/s more (10 %) on {what}", "network", host, reached)


def _hardware(case: Case) -> Iterator[Marginal]:
    problem = case.problem
    for kind in _looked_at(case, kinds(problem)):
        index, node = kind.indices[0], kind.node
        core = case.decided(with_node(problem, index, with_core(node)))
        yield _led(case, f"one more core on {kind.told}", "core", node.name, core)
        larger = replace(node, memory_bytes=node.memory_bytes + _GIB)
        memory = case.decided(with_node(problem, index, larger)) if memory_is_tight(case, index) else None
        yield _led(case, f"one more GiB of memory on {kind.told}", "memory", node.name, memory)
    best = max(problem.nodes, key=lambda each: problem.rates(each).actor_steps_per_s * len(each.cores))
    twin = replace(best, name=f"{best.name}'")
    more = case.decided(replace(problem, nodes=(*problem.nodes, twin)))
    yield _led(case, f"one more node like {best.name}", "node", best.name, more)


def _looked_at(case: Case, found: list[Kind]) -> list[Kind]:
    return found[: _KINDS if case.small else _FEW_KINDS]


def memory_is_tight(case: Case, index: int) -> bool:
    """Whether a node could not hold one learner and one actor more than it has."""
    counts, node = case.solution.nodes[index], case.problem.nodes[index]
    return case.problem.memory.of(counts.learners + 1, counts.actors + 1) > node.usable_memory


def _request(case: Case) -> Iterator[Marginal]:
    for what, limit, problem in relaxed_requests(case.problem):
        yield _led(case, what, limit, None, case.decided(problem))
    for opening in case.openings:
        what = f"{opening.key} left to be chosen ({opening.value:g} asked for)"
        yield _led(case, what, opening.key, None, opening.outcome)


def relaxed_requests(problem: Problem) -> Iterator[tuple[str, str, Problem]]:
    """What was asked for, one thing after the other left to be chosen."""
    if problem.learners is not None or problem.actors is not None:
        asked = f"L{problem.learners or '?'}A{problem.actors or '?'}"
        free = replace(problem, learners=None, actors=None, oversubscribe=False)
        yield f"learners and actors left to be chosen ({asked} was asked for)", "shape", free
    if problem.most is not None and (problem.learners is None or problem.actors is None):
        yield f"elastic.max left out ({problem.most})", "elastic.max", replace(problem, most=None)
    if problem.learner_cores is not None:
        what = f"cores of a learner left to be chosen ({problem.learner_cores} asked for)"
        yield what, "learner_cores", replace(problem, learner_cores=None)


def _led(case: Case, what: str, limit: str, host: str | None, outcome: Outcome | None) -> Marginal:
    if outcome is None:
        return _marginal(case, what, limit, host, case.samples_per_s)
    found = _marginal(case, what, limit, host, outcome.samples_per_s)
    if found.gain <= 0 or outcome.shape == case.solution.shape:
        return found
    return found.model_copy(update={"shape": str(outcome.shape)})


def _marginal(case: Case, what: str, limit: str, host: str | None, samples_per_s: float) -> Marginal:
    """A limit that is relaxed takes nothing away: what looks less is noise of how it was found."""
    gain = max(0.0, case.gain(samples_per_s))
    more = samples_per_s - case.samples_per_s if gain > 0 else 0.0
    return Marginal(what=what, limit=limit, host=host, samples_per_s=float(f"{more:.6g}"), gain=round(gain, 4))

"""The integer program of the free shape, solved with CP-SAT. The only module that imports ortools.

Variables: G learners with c cores each, N actors, and the throughput T in a unit that gives it about eight digits.

    T ≤ G·r_L(c)                          learners
    T ≤ ratio·r_A·N                       actors, a core each
    T·(1/r_A + b)/ratio + light ≤ M − G·c core time of everything that is no learner
    T·b/ratio ≤ G                         receivers, a core each
    G ≤ N,  N + G·c ≤ M,  memory, elastic range, what each host may hold where there are several

Lexicographic: the largest T (equal means: to a millionth), then the fewest cores, then the fewest learners, then the
fewest actors. One worker, a fixed seed and a limit in deterministic time give the same answer on every run.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import floor, log10
from typing import TYPE_CHECKING, Any

from tianjictl.planning.choice import Choice, Solution

if TYPE_CHECKING:
    from tianjictl.planning.problem import Problem, Rates

_DIGITS = 7  #: decimal digits of T, plus one
_ALIKE = 10**6  #: throughputs that differ by less than this part count as equal
_CORE = 10**13  #: integer units of a core's time
_TIME_LIMIT = 5.0  #: deterministic seconds for each of the three solves


@dataclass(frozen=True, slots=True)
class _Model:
    model: Any
    learners: Any
    actors: Any
    cores: Any  #: expression: whole cores used
    throughput: Any
    with_cores: dict[int, tuple[Any, Any]]  #: c → (is it chosen, learners if so)


def solve(problem: Problem, rates: Rates, hint: Choice | None) -> Solution | None:
    """The best shape and its proof; None where no shape fits. Components never share cores here."""
    from ortools.sat.python import cp_model

    made = _model(cp_model, problem, rates)
    if hint is not None:
        made.model.add_hint(made.learners, hint.learners)
        made.model.add_hint(made.actors, hint.actors)
    order = problem.num_cores + 1
    goals = [(made.throughput, True), (made.cores, False), (made.learners * order + made.actors, False)]
    found: Choice | None = None
    gap = 0.0
    for goal, upwards in goals:
        solver = _solver(cp_model)
        (made.model.maximize if upwards else made.model.minimize)(goal)
        status = solver.solve(made.model)
        if status == cp_model.INFEASIBLE:
            return None
        if status not in (cp_model.OPTIMAL, cp_model.FEASIBLE):
            break
        found = _extract(made, solver)
        reached = round(solver.objective_value)
        if upwards and status == cp_model.FEASIBLE:
            gap = solver.best_objective_bound / max(1, reached) - 1.0
        made.model.add(goal >= reached - reached // _ALIKE if upwards else goal <= reached)
    if found is None:
        return None if hint is None else Solution(hint, "greedy (the solver ran out of time)")
    return Solution(found, "optimal" if gap == 0.0 else f"feasible gap {gap:.1%}")


def _model(cp_model: Any, problem: Problem, rates: Rates) -> _Model:
    cores, ratio = problem.num_cores, problem.trained_per_step
    per_step = 1.0 / rates.actor_steps_per_s + rates.buffer_s_per_step  # core seconds beside the learner's
    most = max(rates.learner(c) * (cores // c) for c in problem.learner_core_choices())
    most = min(most, ratio * cores / per_step)  # both ends bounded, so that no product leaves 64 bits
    unit = 10.0 ** (floor(log10(most)) - _DIGITS)  # a power of ten keeps round rates exact
    model = cp_model.CpModel()
    throughput = model.new_int_var(0, _ceil(most / unit), "T")
    actors = _count(model, "N", problem.actors, cores)
    with_cores = {}
    for c in problem.learner_core_choices():
        chosen, count = model.new_bool_var(f"c={c}"), model.new_int_var(0, cores // c, f"G with c={c}")
        model.add(count == 0).only_enforce_if(chosen.negated())
        with_cores[c] = (chosen, count)
    model.add_exactly_one(chosen for chosen, _ in with_cores.values())
    learners = _count(model, "G", problem.learners, cores)
    model.add(learners == sum(count for _, count in with_cores.values()))
    learner_cores = sum(c * count for c, (_, count) in with_cores.items())
    model.add(learners <= actors)
    model.add(learner_cores + actors <= cores)
    if problem.pools:
        _limit_hosts(model, problem, actors, with_cores)
    _limit_throughput(model, problem, rates, unit, throughput, learners, actors, with_cores)
    step = unit / ratio  # environment steps per second that one unit of T needs
    work = _ceil(_CORE * step * per_step)
    fixed = _ceil(_CORE * problem.fixed_light)
    model.add(work * throughput + fixed <= floor(_CORE * problem.host.capacity) - _CORE * learner_cores)
    if problem.least is not None:
        model.add(learners >= problem.least.learners)
        model.add(actors >= problem.least.actors)
    if problem.most is not None:
        model.add(learners <= problem.most.learners)
        model.add(actors <= problem.most.actors)
    memory, room = problem.memory, problem.usable_memory
    model.add(memory.learner * learners + memory.actor * actors <= room - memory.once)
    return _Model(model, learners, actors, learner_cores + actors, throughput, with_cores)


def _limit_hosts(model: Any, problem: Problem, actors: Any, with_cores: dict[int, tuple[Any, Any]]) -> None:
    """Several hosts: a learner is inside one of them, and learners that share hosts with actors take their cores."""
    model.add(actors <= problem.cores_for_actors)
    for c, (chosen, count) in with_cores.items():
        model.add(count <= problem.learner_room(c))
        room = problem.cores_for_actors + c * problem.only_for_learners(c)
        model.add(actors + c * count <= room).only_enforce_if(chosen)
        model.add(actors <= problem.cores_for_actors - c * problem.beside_actors(c)).only_enforce_if(chosen)


def _limit_throughput(
    model: Any,
    problem: Problem,
    rates: Rates,
    unit: float,
    throughput: Any,
    learners: Any,
    actors: Any,
    with_cores: dict[int, tuple[Any, Any]],
) -> None:
    enough = 10 ** (_DIGITS + 2)  # above any throughput: a larger coefficient would only risk an overflow
    trained = sum(min(enough, round(rates.learner(c) / unit)) * count for c, (_, count) in with_cores.items())
    model.add(throughput <= trained)
    made = min(enough, round(problem.trained_per_step * rates.actor_steps_per_s / unit))
    model.add(throughput <= made * actors)
    if rates.buffer_s_per_step > 0:
        taken = min(enough, round(problem.trained_per_step / rates.buffer_s_per_step / unit))
        model.add(throughput <= taken * learners)


def _count(model: Any, name: str, fixed: int | None, most: int) -> Any:
    return model.new_int_var(fixed or 1, fixed or most, name)


def _ceil(value: float) -> int:
    return -floor(-value)


def _solver(cp_model: Any) -> Any:
    solver = cp_model.CpSolver()
    solver.parameters.num_workers = 1
    solver.parameters.random_seed = 1
    solver.parameters.max_deterministic_time = _TIME_LIMIT
    return solver


def _extract(made: _Model, solver: Any) -> Choice:
    cores = next(c for c, (chosen, _) in made.with_cores.items() if solver.value(chosen))
    return Choice(learners=solver.value(made.learners), learner_cores=cores, actors=solver.value(made.actors))

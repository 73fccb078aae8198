"""The integer program of one recipe over one or many nodes, for CP-SAT. The only module that imports ortools.

Of each kind of node (nodes with equal terms; usually one): learners l, of them e with a larger group, actors a, of
them `local` for groups of their own node, and flows in steps/s: x local, y to other nodes, z from other nodes.

    x ≤ r_A·local    y ≤ r_A·(a − local)    z ≤ r_A·(demand − local)    demand = k·l + e    Σy = Σz
    x + z ≤ (l − e)·v(k) + e·v(k + 1)                       learners, receivers, and at most r_A an actor
    c·l + a ≤ cores,  memory,  Σa = Σdemand,  Σe < Σl        counts
    (x + y)·actor + (x + z)·buffer + (y + z)·courier ≤ time − c·l        core time
    y, z ≤ network

    first: the largest Σ(x + z); then the least crossing, cores, learners; then learners and actors on early nodes

Learners that take every core of their node share them with what is light: instead of c·l they are then charged what
they really compute (`full`). Where a kind has several nodes, the sums of all of them stand in the same limits: that
is no less than they can do one by one, so it is a bound. One worker, a fixed seed and a limit in deterministic time
give the same answer on every run.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, floor, inf
from typing import TYPE_CHECKING, Any, NamedTuple

from tianjictl.planning.flows import taken
from tianjictl.planning.solution import Counts
from tianjictl.planning.terms import fastest_actor

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tianjictl.planning.recipes import Recipe, Weights
    from tianjictl.planning.terms import Terms

UNITS = 10**7  #: the bound of the best recipe, in units of flow
_FINE = 10**4  #: coefficients of flows are this much finer than a unit
_CORE = 10**14  #: integer units of a core's time
_SHORT = 0.02  #: deterministic seconds of a first attempt: most take less than a tenth of it
#: Ways to solve the same model. Flows are large whole numbers, in which each of these gets lost now and then.
_APPROACHES: tuple[dict[str, object], ...] = (
    {"cp_model_presolve": False},
    {"cp_model_presolve": True},
    {"cp_model_presolve": False, "linearization_level": 2},
    {"cp_model_presolve": True, "linearization_level": 2, "cp_model_probing_level": 0},
)


class Kind(NamedTuple):
    """Nodes with equal terms, by their places in the problem's order."""

    terms: Terms
    nodes: tuple[int, ...]


@dataclass(slots=True)
class Budget:
    """Deterministic seconds that may still be spent."""

    left: float

    def spend(self, seconds: float) -> None:
        self.left -= seconds

    @property
    def spent(self) -> bool:
        return self.left <= 0.01


class Found(NamedTuple):
    """Counts of each kind, what the model gives them, and what nothing can exceed."""

    counts: tuple[Counts, ...]
    full: tuple[int, ...]  #: nodes of each kind whose learners take every core
    value: int  #: units of flow, or of the later goals
    bound: int


class _Vars(NamedTuple):
    learners: Any
    larger: Any
    actors: Any
    local: Any
    full: Any
    x: Any
    y: Any
    z: Any
    shared: Any  #: flow to groups whose learners share their cores


class RecipeModel:
    """One recipe over kinds of nodes. `unit`: steps per second of one unit of flow."""

    def __init__(self, recipe: Recipe, kinds: Sequence[Kind], unit: float) -> None:
        from ortools.sat.python import cp_model

        self._cp = cp_model
        self._recipe = recipe
        self._kinds = tuple(kinds)
        self._unit = unit
        self._fastest = fastest_actor(recipe.terms)
        self._most_flow = 2 * UNITS
        self.model = cp_model.CpModel()
        self._vars = [self._kind(kind) for kind in self._kinds]
        self._limit_totals()
        self._order_alike()
        self.throughput = sum(v.x + v.z + v.shared for v in self._vars)

    # -- the model

    def _kind(self, kind: Kind) -> _Vars:
        term, many, recipe = kind.terms, len(kind.nodes), self._recipe
        most = term.learner_counts[-1] * many
        room = term.actors_beside(0) * many
        model = self.model
        if many == 1:
            learners = model.new_int_var_from_domain(self._cp.Domain.from_values(term.learner_counts), "l")
        else:
            learners = model.new_int_var(0, most, "l")
        full = model.new_int_var(0, many if term.full else 0, "full")
        made = _Vars(
            learners,
            model.new_int_var(0, most, "e"),
            model.new_int_var(0, room, "a"),
            model.new_int_var(0, room, "local"),
            full,
            *(model.new_int_var(0, self._most_units(term.actor_rate * room), name) for name in ("x", "y")),
            *(model.new_int_var(0, self._most_units(term.group_rate * most), name) for name in ("z", "shared")),
        )
        demand = recipe.each * learners + made.larger
        model.add(made.larger <= learners)
        model.add(term.learner_cores * learners + made.actors <= term.cores * many)
        model.add(term.learner_memory * learners + term.actor_memory * made.actors <= term.memory * many)
        if many == 1:
            model.add_min_equality(made.local, [made.actors, demand])
        else:
            model.add(made.local <= made.actors)
            model.add(made.local <= demand)
        self._limit_full(kind, made)
        self._limit_flows(kind, made, demand)
        return made

    def _limit_full(self, kind: Kind, v: _Vars) -> None:
        """`full` counts the nodes of the kind on which learners take every core."""
        term, many = kind.terms, len(kind.nodes)
        if term.full is None:
            self.model.add(v.shared == 0)
            beside = term.learner_counts[-1] * many
            self.model.add(v.learners <= beside)
            return
        beside = term.learner_counts[-2]
        self.model.add(v.learners >= term.full * v.full)
        self.model.add(v.learners <= term.full * v.full + beside * many - beside * v.full)

    def _limit_flows(self, kind: Kind, v: _Vars, demand: Any) -> None:
        term, many, each = kind.terms, len(kind.nodes), self._recipe.each
        rate, hoped = self._coefficient(term.actor_rate), self._coefficient(self._fastest)
        smaller = self._coefficient(taken(term, Counts(1, 0, each), each, self._fastest))
        larger = self._coefficient(taken(term, Counts(1, 1, each + 1), each, self._fastest))
        model = self.model
        model.add(_FINE * v.x <= rate * v.local)
        model.add(_FINE * v.y <= rate * (v.actors - v.local))
        model.add(_FINE * (v.z + v.shared) <= hoped * (demand - v.local))
        model.add(_FINE * (v.x + v.z + v.shared) <= smaller * (v.learners - v.larger) + larger * v.larger)
        beside = v.learners if term.full is None else v.learners - term.full * v.full
        actor, buffer = self._cost(term.actor_cpu), self._cost(term.buffer_cpu)
        courier, train = self._cost(term.courier_cpu), self._cost(term.train_cpu)
        time, each_learner = self._time(term.time), _CORE * term.learner_cores
        model.add(
            (actor + buffer) * v.x + (actor + courier) * v.y + (buffer + courier) * v.z
            <= time * many - time * v.full - each_learner * beside
        )
        if term.full is not None:
            model.add((buffer + courier + train) * v.shared <= time * v.full)
            model.add(_FINE * v.shared <= larger * term.full * v.full)
            model.add(_FINE * (v.x + v.z) <= larger * beside)
        if term.network < inf:
            carried = self._coefficient(term.network) * many
            model.add(_FINE * v.y <= carried)
            model.add(_FINE * (v.z + v.shared) <= carried)

    def _limit_totals(self) -> None:
        recipe, model, vs = self._recipe, self.model, self._vars
        learners, larger = sum(v.learners for v in vs), sum(v.larger for v in vs)
        actors = sum(v.actors for v in vs)
        model.add(actors == recipe.each * learners + larger)
        model.add(larger <= learners - 1)
        for total, (least, most) in ((learners, recipe.learners), (actors, recipe.actors)):
            model.add(total >= least)
            model.add(total <= most)
        # Flows are whole units: rounded down, what leaves may lack one for each node.
        model.add(sum(v.z + v.shared for v in vs) <= sum(v.y for v in vs) + len(vs))

    def _order_alike(self) -> None:
        """Of two nodes that are alike the earlier one has no fewer learners: the other order is the same plan."""
        last: dict[Terms, _Vars] = {}
        for kind, v in zip(self._kinds, self._vars, strict=True):
            if kind.terms in last:
                self.model.add(last[kind.terms].learners >= v.learners)
            last[kind.terms] = v

    def _most_units(self, steps: float) -> int:
        """Bounds of a flow, as near as they are known: products have to stay within 64 bits."""
        return ceil(min(steps / self._unit, float(self._most_flow)))

    def _coefficient(self, rate: float) -> int:
        """Of a rate in steps/s; one above every flow there can be counts as no limit."""
        return floor(min(rate / self._unit, float(self._most_flow)) * _FINE)

    def _cost(self, core_s: float) -> int:
        return round(core_s * self._unit * _CORE)

    def _time(self, cores: float) -> int:
        return round(max(0.0, cores) * _CORE)

    # -- solving

    def hint(self, counts: Sequence[Counts]) -> None:
        """Counts to try first."""
        for v, (learners, larger, actors) in zip(self._vars, counts, strict=True):
            self.model.add_hint(v.learners, learners)
            self.model.add_hint(v.larger, larger)
            self.model.add_hint(v.actors, actors)

    def most(self, at_least: int, budget: Budget) -> Found | None:
        """The largest throughput from `at_least` on; None where there is none, or none was found in time."""
        self.reach(at_least)
        self.model.maximize(self.throughput)
        return self._solve(budget, upwards=True)

    def reach(self, at_least: int) -> None:
        """From now on only what reaches so much."""
        self.model.add(self.throughput >= at_least)

    def thriftiest(self, weights: Weights, below: int | None, budget: Budget) -> Found | None:
        """The least crossing, then cores, then learners, with a value under `below`."""
        goal = self._thrift(weights)
        if below is not None:
            self.model.add(goal <= below - 1)
        self.model.minimize(goal)
        found = self._solve(budget)
        if found is not None:
            self.model.add(goal <= found.value)
        return found

    def earliest(self, budget: Budget) -> Found | None:
        """Learners on early nodes, the head first; then actors."""
        learners = sum(kind.nodes[0] * v.learners for kind, v in zip(self._kinds, self._vars, strict=True))
        others = sum(kind.nodes[0] * (v.actors + v.larger) for kind, v in zip(self._kinds, self._vars, strict=True))
        room = sum(kind.nodes[0] * kind.terms.cores * 2 for kind in self._kinds) + 1
        self.model.minimize(learners * room + others)
        return self._solve(budget)

    def _thrift(self, weights: Weights) -> Any:
        """As `Recipe.thrift`."""
        crossing = sum(
            self._recipe.crossing_weight(kind.nodes[0]) * (v.actors - v.local)
            for kind, v in zip(self._kinds, self._vars, strict=True)
        )
        learners, actors = sum(v.learners for v in self._vars), sum(v.actors for v in self._vars)
        return weights.of(crossing, self._recipe.learner_cores * learners + actors, learners)

    def _solve(self, budget: Budget, *, upwards: bool = False) -> Found | None:
        """The best in time. What one approach does not settle soon is given to the others, each for a little longer."""
        best: Found | None = None
        share = _SHORT
        while not budget.spent:
            for approach in _APPROACHES:
                solver, status = self._try(approach, min(share, budget.left), budget)
                if status == self._cp.INFEASIBLE:
                    return best
                if status in (self._cp.OPTIMAL, self._cp.FEASIBLE):
                    found = self._found(solver)
                    best = _better_of(best, found, upwards=upwards)
                if status == self._cp.OPTIMAL or budget.spent:
                    return best
            share *= 4
        return best

    def _try(self, approach: dict[str, object], seconds: float, budget: Budget) -> tuple[Any, Any]:
        solver = self._cp.CpSolver()
        solver.parameters.num_workers = 1
        solver.parameters.random_seed = 1
        solver.parameters.max_deterministic_time = max(0.001, seconds)
        for name, value in approach.items():
            setattr(solver.parameters, name, value)
        status = solver.solve(self.model)
        budget.spend(solver.response_proto.deterministic_time)
        return solver, status

    def _found(self, solver: Any) -> Found:
        return Found(
            counts=tuple(
                Counts(solver.value(v.learners), solver.value(v.larger), solver.value(v.actors)) for v in self._vars
            ),
            full=tuple(solver.value(v.full) for v in self._vars),
            value=round(solver.objective_value),
            bound=round(solver.best_objective_bound),
        )


def _better_of(one: Found | None, other: Found, *, upwards: bool) -> Found:
    """The better value and the tighter bound of two attempts at the same goal."""
    if one is None:
        return other
    better, tighter = (max, min) if upwards else (min, max)
    chosen = one if one.value == better(one.value, other.value) else other
    return chosen._replace(bound=tighter(one.bound, other.bound))

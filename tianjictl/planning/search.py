"""The best placement over several nodes: recipe after recipe, until none can be better than what was found.

Nodes that are alike are first taken together, which is quick and gives a bound; their counts are then dealt evenly.
Where that does not reach the bound, or the nodes are few, each node stands for itself.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tianjictl.planning.dealing import deal
from tianjictl.planning.flows import steps_per_s
from tianjictl.planning.greedy import grow
from tianjictl.planning.recipes import Weights, recipes
from tianjictl.planning.solution import ALIKE, Solution
from tianjictl.planning.solver import UNITS, Budget, Kind, RecipeModel

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tianjictl.planning.problem import Problem
    from tianjictl.planning.recipes import Recipe
    from tianjictl.planning.solution import Counts

_FEW = 8  #: nodes that need not be taken together
_COARSE = 8  #: times that the throughput may lie below the bounds before its units are too coarse
_TIME_LIMIT = 1.0  #: deterministic seconds for the throughput, and again for the goals after it
_TIME_LIMIT_OF_MANY = 0.3  #: the same where nodes are many; a second of these is several of the clock


def solve_over(problem: Problem, effort: float = 1.0) -> Solution | None:
    """The best counts of every node; None where the solver finds none, and nobody else does."""
    return _Search(problem, effort).solution()


class _Search:
    def __init__(self, problem: Problem, effort: float) -> None:
        self._problem = problem
        self._recipes = recipes(problem)
        self._unit = max(recipe.bound for recipe in self._recipes) / UNITS
        self._few = len(problem.nodes) <= _FEW
        self._time_limit = effort * (_TIME_LIMIT if self._few else _TIME_LIMIT_OF_MANY)
        self._budget = Budget(self._time_limit)
        cores = problem.num_cores + 1
        self._weights = Weights(crossing=cores * cores, cores=cores)
        self.best: tuple[Recipe, tuple[Counts, ...]] | None = None
        self.units = 0  #: what the best reaches
        self.bound = 0  #: what nothing can exceed

    def solution(self) -> Solution | None:
        greedy = grow(self._problem, self._recipes)
        if greedy is not None:
            self._take(*greedy, self._reached(*greedy))
        if self._few:
            self._one_by_one()
            if self.units < UNITS // _COARSE:
                self._scale_to_what_was_found()
                self._one_by_one()
            self._be_thrifty()
        elif self._problem.measured or self.best is None:
            if not self._together():
                self._one_by_one()
        else:
            self.bound = max(self._units_of(recipe.bound) for recipe in self._recipes)
        return None if self.best is None else self._stated()

    # -- the largest throughput

    def _together(self) -> bool:
        """Nodes that are alike as one. Whether what was found is as good as the bound that this gives.

        Of recipes that reach the same the thriftiest is kept.
        """
        self.bound = 0
        for recipe in self._recipes:
            if self._units_of(recipe.bound) < self._enough() or self._budget.spent:
                break
            if self.best is not None and self._is_dearer(recipe):
                continue
            kinds = kinds_of(recipe)
            found = RecipeModel(recipe, kinds, self._unit).most(self._enough(), self._budget)
            if found is None:
                continue
            self.bound = max(self.bound, found.bound)
            tidy = RecipeModel(recipe, kinds, self._unit)
            tidy.reach(_less(found.value))
            dealt = deal(recipe, kinds, tidy.thriftiest(self._weights, None, self._budget) or found)
            if dealt is not None:
                self._take(recipe, dealt, self._reached(recipe, dealt))
        return self.best is not None and self.bound <= self._better()

    def _one_by_one(self) -> None:
        """Every node for itself: exact where time suffices."""
        self.bound = self.units
        for recipe in self._recipes:
            if self._units_of(recipe.bound) < self._better():
                return
            if self._budget.spent:
                self.bound = max(self.bound, self._units_of(recipe.bound))
                return
            model = RecipeModel(recipe, _singly(recipe), self._unit)
            if self.best is not None and self.best[0] is recipe:
                model.hint(self.best[1])
            found = model.most(self._better(), self._budget)
            if found is not None:
                self._take(recipe, found.counts, found.value)
                self.bound = max(self.bound, found.bound)
            elif self._budget.spent:
                self.bound = max(self.bound, self._units_of(recipe.bound))

    def _scale_to_what_was_found(self) -> None:
        """Bounds that were far too high made the units of flow too coarse for the truth."""
        finer = self._unit * max(1, self.units) / (UNITS // 2)
        self.units = int(self.units * self._unit / finer * (1.0 - 10 * ALIKE))
        self._unit = finer

    def _enough(self) -> int:
        """The least that counts as no worse than the best so far."""
        return _less(self.units)

    def _better(self) -> int:
        """The least that counts as better than the best so far."""
        return self.units + self.units // int(1 / ALIKE) + 1

    def _take(self, recipe: Recipe, counts: tuple[Counts, ...], units: int) -> None:
        """Keep what is better, or as good and thriftier."""
        if self.best is not None and units < self._better():
            mine, other = recipe.thrift(self._weights, counts), self.best[0].thrift(self._weights, self.best[1])
            if units < self._enough() or mine >= other:
                return
        self.best, self.units = (recipe, counts), max(units, self.units)

    def _is_dearer(self, recipe: Recipe) -> bool:
        """Whether a recipe can neither be better than the best nor as good and thriftier."""
        assert self.best is not None
        same = self._units_of(recipe.bound) < self._better()
        found, counts = self.best
        least = recipe.least_thrift(self._weights, self._enough() * self._unit)
        return same and least >= found.thrift(self._weights, counts)

    def _units_of(self, steps: float) -> int:
        return int(steps / self._unit) + 1

    def _reached(self, recipe: Recipe, counts: Sequence[Counts]) -> int:
        return int(steps_per_s(recipe.terms, counts) / self._unit)

    # -- the goals after it

    def _be_thrifty(self) -> None:
        """Of all that reaches as much: the least crossing, cores and learners, and the earliest nodes."""
        enough, best = self._enough(), None
        self._budget = Budget(self._time_limit)
        for recipe in sorted(self._recipes, key=lambda recipe: (recipe.each, recipe.learner_cores)):
            if self._units_of(recipe.bound) < enough or self._budget.spent:
                continue
            if best is not None and recipe.least_thrift(self._weights, enough * self._unit) >= best:
                continue
            model = RecipeModel(recipe, _singly(recipe), self._unit)
            model.reach(enough)
            if self.best is not None and self.best[0] is recipe:
                model.hint(self.best[1])
            found = model.thriftiest(self._weights, best, self._budget)
            if found is not None:
                best = found.value
                self.best = (recipe, (model.earliest(self._budget) or found).counts)

    def _stated(self) -> Solution:
        assert self.best is not None
        recipe, counts = self.best
        each = self._unit * self._problem.ratio
        value, bound = self.units * each, max(self.units, self.bound) * each
        gap = self.bound / max(1, self.units) - 1.0
        return Solution(
            nodes=counts,
            learner_cores=recipe.learner_cores,
            value=value,
            bound=bound,
            proof="optimal" if gap <= 2 * ALIKE else f"feasible gap {max(gap, 0.001):.1%}",
        )


def _less(units: int) -> int:
    """What counts as the same."""
    return units - units // int(1 / ALIKE)


def _singly(recipe: Recipe) -> list[Kind]:
    return [Kind(terms, (index,)) for index, terms in enumerate(recipe.terms)]


def kinds_of(recipe: Recipe) -> list[Kind]:
    """Nodes with equal terms together, in the order of the first of each kind."""
    found: dict[object, list[int]] = {}
    for index, terms in enumerate(recipe.terms):
        found.setdefault(terms, []).append(index)
    return [Kind(recipe.terms[nodes[0]], tuple(nodes)) for nodes in found.values()]

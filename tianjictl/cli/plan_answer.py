"""Everything that `tianjictl plan` prints, for a person or as one JSON document."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tianjictl.cli.output import emit_json, note
from tianjictl.cli.plan_against import as_data, mention_living, show
from tianjictl.cli.plan_screen import show_plan
from tianjictl.cli.plan_words import show_why

if TYPE_CHECKING:
    from runtime.contract.plan import Plan
    from tianjictl.cli.job_input import Wanted
    from tianjictl.hosts.types import Inventory
    from tianjictl.planning.explain import Explanation
    from tianjictl.planning.plan_difference import PlanDifference
    from tianjictl.runs.registry import Run


@dataclass(frozen=True, slots=True)
class Answer:
    """All that is printed of a plan."""

    plan: Plan
    wanted: Wanted
    hosts: Inventory
    why: Explanation | None
    run: Run | None
    difference: PlanDifference | None

    def emit(self) -> None:
        """As one JSON document: the plan, with `explain` and `difference` where they were asked for."""
        data = self.plan.model_dump(mode="json")
        if self.why is not None:
            data["explain"] = self.why.model_dump(mode="json")
        if self.run is not None and self.difference is not None:
            data["difference"] = as_data(self.difference, self.run, self.wanted.words(), self.hosts.file)
        emit_json("plan", data, warnings=[*self.plan.notes, *map(str, self.hosts.notes)])

    def show(self) -> None:
        """For a person."""
        for problem in self.hosts.notes:
            note(f"warning: {problem}", style="yellow")
        show_plan(self.plan, self.wanted.path, self.hosts.file)
        show_why(self.plan, self.why)
        if self.run is not None and self.difference is not None:
            show(self.difference, self.run, self.wanted.words(), self.hosts.file)
        else:
            mention_living(self.plan, self.wanted.words())

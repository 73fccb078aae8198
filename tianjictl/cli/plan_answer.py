"""Everything that `tianjictl plan` prints, for a person or as one JSON document."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tianjictl.cli.output import emit_json, note, say
from tianjictl.cli.plan_against import as_data, mention_living, show
from tianjictl.cli.plan_screen import show_plan

if TYPE_CHECKING:
    from runtime.contract.plan import Plan
    from tianjictl.cli.job_input import Wanted
    from tianjictl.hosts.types import Inventory
    from tianjictl.planning.plan_difference import PlanDifference
    from tianjictl.runs.registry import Run


@dataclass(frozen=True, slots=True)
class Answer:
    """All that is printed of a plan."""

    plan: Plan
    wanted: Wanted
    hosts: Inventory
    explain: bool
    run: Run | None
    difference: PlanDifference | None

    def emit(self) -> None:
        """As one JSON document: the plan, with `difference` where that was asked for."""
        data = self.plan.model_dump(mode="json")
        if self.run is not None and self.difference is not None:
            data["difference"] = as_data(self.difference, self.run, self.wanted.words(), self.hosts.file)
        emit_json("plan", data, warnings=[*self.plan.notes, *map(str, self.hosts.notes)])

    def show(self) -> None:
        """For a person."""
        for problem in self.hosts.notes:
            note(f"warning: {problem}", style="yellow")
        show_plan(self.plan, self.wanted.path, self.hosts.file)
        shown = self.plan.predicted.explanation if self.explain else self.plan.predicted.explanation[:1]
        for line in shown:
            say(f"- {line}" if self.explain else line)
        for text in self.plan.notes:
            say(f"note: {text}")
        if self.run is not None and self.difference is not None:
            show(self.difference, self.run, self.wanted.words(), self.hosts.file)
        else:
            mention_living(self.plan, self.wanted.words())

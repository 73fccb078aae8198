"""A plan's prediction from the rates that it carries, also for a plan that has changed while its run lives. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from runtime.contract.forecast import forecast
from runtime.contract.plan import Prediction
from runtime.contract.states import Dependencies

if TYPE_CHECKING:
    from collections.abc import Mapping

    from runtime.contract.plan import Plan
    from runtime.contract.rates import HostRates


def predicted(plan: Plan, explanation: tuple[str, ...] = ()) -> Prediction:
    """What the plan should reach by `plan.rates`; only the words where nothing was measured."""
    found = forecast(plan, rates_of_all(plan))
    if found is None:
        return Prediction(explanation=explanation)
    turns = plan.job.training.dependencies is not Dependencies.RELAXED
    return Prediction(
        env_steps_per_s=_rounded(found.env_steps_per_s),
        samples_per_s=_rounded(found.samples_per_s),
        updates_per_s=_rounded(found.samples_per_s / plan.sizes.batch_size),
        bottleneck="turns" if turns else str(found.side),
        explanation=explanation,
    )


def rates_of_all(plan: Plan) -> Mapping[str, HostRates]:
    """Rates of every host of the plan: one that was not measured, as it joined later, is taken to be like the first."""
    model = next((plan.rates[host.name] for host in plan.hosts if host.name in plan.rates), None)
    if model is None:
        return {}
    return {host.name: plan.rates.get(host.name, model) for host in plan.hosts}


def _rounded(value: float) -> float:
    """Six significant digits: rates are not known better, and bytes stay stable across platforms."""
    return float(f"{value:.6g}")

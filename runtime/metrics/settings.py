"""What a run was made with, as a flat table by which runs are compared. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from runtime.contract.plan import Plan

Setting = bool | int | float | str

#: Parts of the job that decide what is learnt, and how fast.
_SECTIONS = ("env", "algorithm", "training", "distributed")


def settings_of(plan: Plan) -> dict[str, Setting]:
    """Keys of the job (`algorithm.learning_rate`), what `auto` became (`sizes.batch_size`) and the shape."""
    job = plan.job.model_dump(mode="json", include=set(_SECTIONS))
    sizes = plan.sizes.model_dump(mode="json")
    return {"shape": plan.shape, "hosts": len(plan.hosts), **dict(_flat(job, "")), **dict(_flat({"sizes": sizes}, ""))}


def _flat(values: Mapping[str, object], before: str) -> Iterator[tuple[str, Setting]]:
    """Leaves by dotted name; what is null or `auto` says nothing."""
    for name, value in values.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{before}{name}.")
        elif isinstance(value, bool | int | float):
            yield before + name, value
        elif value not in (None, "auto"):
            yield before + name, value if isinstance(value, str) else str(value)

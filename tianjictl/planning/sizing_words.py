"""That a plan has left the usual sizes, and why, in words. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from runtime.contract.sizings import USUAL, admitted
from tianjictl.planning.room import fits

if TYPE_CHECKING:
    from collections.abc import Iterator

    from runtime.contract.plan import Plan, Sizes
    from tianjictl.planning.decide import Settled

_NAMES = {
    "num_envs": "{:,} environments per actor",
    "batch_size": "batches of {:,} samples",
    "buffer_size": "buffers of {:,} samples",
}


def sizing_words(settled: Settled, plan: Plan) -> Iterator[str]:
    """Nothing where the sizes are the usual ones."""
    whole, chosen = settled.problem.usual, settled.problem.sizing
    if whole is None or chosen == USUAL:
        return
    if chosen.num_envs is None and chosen.batch_size is None and not fits(whole):
        yield f"buffers hold {plan.sizes.buffer_size} samples: memory allows no more"
        return
    usual = admitted(plan.job, USUAL, plan.learners_and_actors, plan.env)
    told = "other sizes" if usual is None else _changes(plan.sizes, usual)
    if not told:
        return  # for a shape like this the usual ones are the same
    if settled.instead is None:
        yield f"{told}: the usual sizes do not fit into memory"
    else:
        gain = settled.solution.value / settled.instead - 1.0
        yield f"{told}: by what was measured that gives {gain:+.0%} samples/s"


def _changes(sizes: Sizes, usual: Sizes) -> str:
    """`128 environments per actor instead of 64`."""
    differing = [name for name in _NAMES if getattr(sizes, name) != getattr(usual, name)]
    return ", ".join(
        f"{_NAMES[name].format(getattr(sizes, name))} instead of {getattr(usual, name):,}" for name in differing
    )

"""What an algorithm is to the learner that drives it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from runtime.models.arrays import Array, Columns, Floats


@dataclass(frozen=True)
class UpdateReport:
    """What one update did. With `finite` false the parameters are those from before the offending minibatch."""

    finite: bool
    reason: str = ""  #: what was not finite, in words; empty if all was
    diagnostics: Mapping[str, float] = field(default_factory=dict)  #: keyed by the gauge names of the stats block
    priorities: Floats | None = None  #: |TD error| [N] of each sample of the batch, where the algorithm has them


class Algorithm(Protocol):
    """Turns batches into better parameters. Single-threaded; knows no process, clock or transport."""

    @property
    def params(self) -> Floats:
        """All parameters, flat: a view, so it changes with each update."""

    @property
    def updates(self) -> int:
        """Updates made so far, over all attempts: the policy's version."""

    def update(
        self, batch: Columns, *, env_steps: int, learning_rate_scale: float, beat: Callable[[], None]
    ) -> UpdateReport:
        """Train on one batch (only read). `env_steps` of the whole run drives schedules; the learning rate is
        multiplied by `learning_rate_scale`; `beat` is called between minibatches."""

    def state(self) -> dict[str, Array]:
        """Everything needed to go on later, as views: optimiser, target, counters, parameters."""

    def load_state(self, state: Mapping[str, Array]) -> None:
        """Go on from what `state` returned; KeyError or ValueError where it does not fit."""

    def average_with(self, peers: Sequence[Floats]) -> None:
        """Replace the parameters by the mean of the own and the peers'; peers with non-finite values are left out."""

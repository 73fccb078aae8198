"""How fast one host is at one job: what a forecast is made from. Measured by a profile, or by a run that was there."""

from __future__ import annotations

from itertools import pairwise

from pydantic import Field, PositiveFloat, PositiveInt

from runtime.contract.model import Document


class LearnerSpeed(Document):
    """One learner with so many cores of its own, fed by a buffer in another process that never lets it wait."""

    cores: PositiveInt
    samples_per_s: PositiveFloat  #: a sample counts once, however many epochs train on it
    cpu_s_per_sample: float = Field(ge=0)  #: core seconds, over all of its cores


class HostRates(Document):
    """Costs of one step on one host, its neighbours as busy as in the run. A step is one step of one environment.

    Wall time and core time are told apart: an actor that waits for its simulator leaves its core to others.
    """

    actor_steps_per_s: PositiveFloat  #: one actor with a core of its own
    actor_cpu_s_per_step: float = Field(ge=0)
    learner: tuple[LearnerSpeed, ...] = Field(min_length=1)  #: cores rising
    buffer_cpu_s_per_step: float = Field(ge=0)
    receive_s_per_step: float = Field(ge=0)  #: wall time of a buffer: T_rv of formula (1), by step
    courier_cpu_s_per_step: float = Field(default=0.0, ge=0)  #: at either end, of a step that goes to another host

    def learner_on(self, cores: int) -> LearnerSpeed:
        """A learner on `cores` cores: as measured, between two measured counts on the line, else as the nearest.

        Below the smallest count the rate is taken to be proportional to the cores.
        """
        known = self.learner
        if cores <= known[0].cores:
            part = cores / known[0].cores
            return LearnerSpeed(
                cores=cores,
                samples_per_s=known[0].samples_per_s * part,
                cpu_s_per_sample=known[0].cpu_s_per_sample,
            )
        for below, above in pairwise(known):
            if cores <= above.cores:
                part = (cores - below.cores) / (above.cores - below.cores)
                return LearnerSpeed(
                    cores=cores,
                    samples_per_s=below.samples_per_s + part * (above.samples_per_s - below.samples_per_s),
                    cpu_s_per_sample=below.cpu_s_per_sample + part * (above.cpu_s_per_sample - below.cpu_s_per_sample),
                )
        return known[-1]

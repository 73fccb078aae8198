"""Rates of hosts for tests, in round numbers."""

from __future__ import annotations

from runtime.contract.rates import HostRates, LearnerSpeed


def host_rates(
    *,
    actor: float = 100.0,
    actor_cpu_share: float = 1.0,
    learner: float = 300.0,
    learner_cores: int = 1,
    buffer_cpu_s: float = 0.0,
    receive_s: float = 0.0,
    courier_cpu_s: float = 0.0,
) -> HostRates:
    """Actors of so many steps a second that use such a share of a core, learners of so many samples a second."""
    return HostRates(
        actor_steps_per_s=actor,
        actor_cpu_s_per_step=actor_cpu_share / actor,
        learner=(LearnerSpeed(cores=learner_cores, samples_per_s=learner, cpu_s_per_sample=learner_cores / learner),),
        buffer_cpu_s_per_step=buffer_cpu_s,
        receive_s_per_step=receive_s,
        courier_cpu_s_per_step=courier_cpu_s,
    )

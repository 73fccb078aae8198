"""What a run learns of the costs of its parts, and what it says when they are not what was planned with."""

from __future__ import annotations

from math import isclose
from typing import NamedTuple

import pytest

from runtime.contract.messages import ComponentReport
from runtime.contract.plan import Plan
from runtime.contract.predicting import predicted
from runtime.contract.rates import HostRates
from runtime.contract.states import ComponentState, Role
from runtime.control import drifting
from runtime.control.observed import LEAST_SPAN_S, SPAN_S, Observed, Others
from support.arranged import nodes, plan_over
from support.costs import host_rates


def planned(rates: HostRates, shape: str = "L1A2", cores: int = 8, *, oversubscribe: bool = False) -> Plan:
    plan = plan_over(nodes(cores), shape, oversubscribe=oversubscribe).model_copy(update={"rates": {"tj1": rates}})
    return plan.model_copy(update={"predicted": predicted(plan)})


class Played:
    """A run whose components work at chosen rates."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.observed = Observed(plan)
        self.now = 50.0
        self.attempt = 1
        self._counts = dict.fromkeys((p.name for p in plan.placements), 0.0)

    def work(
        self, seconds: float, *, steps_per_s: float, t_sp_s: float, actor_cores: float, learner_cores: float,
        learner_busy: float, buffer_cores: float = 0.0, t_rv_s: float = 0.0, actor_busy: float = 1.0,
        waiting: float = 0.0, throttled: float = 0.0,
    ) -> None:  # fmt: skip
        """So many steps per second of each actor; all of them are trained on. `waiting`: share of its time for which
        a learner or an actor is ready and others run; `throttled`: for which a quota holds it."""
        actors = len(self.plan.of_role(Role.ACTOR))
        pace = {Role.ACTOR: steps_per_s, Role.LEARNER: steps_per_s * actors, Role.BUFFER: 0.0}
        cores = {Role.ACTOR: actor_cores, Role.LEARNER: learner_cores, Role.BUFFER: buffer_cores}
        gauges = {
            Role.ACTOR: {"t_sp_s": t_sp_s, "busy_share": actor_busy},
            Role.LEARNER: {"busy_share": learner_busy},
            Role.BUFFER: {"t_rv_s": t_rv_s},
        }
        end = self.now + seconds
        while self.now < end:
            self.now += 0.1
            reports = []
            for p in self.plan.placements:
                self._counts[p.name] += pace[p.role] * 0.1
                counter = {Role.ACTOR: "env_steps", Role.LEARNER: "samples_trained"}.get(p.role, "batches")
                reports.append(
                    ComponentReport(
                        name=p.name, role=p.role, state=ComponentState.RUNNING, attempt=self.attempt,
                        cpu_percent=100.0 * cores[p.role], counters={counter: int(self._counts[p.name])},
                        waiting_percent=0.0 if p.role is Role.BUFFER else 100.0 * waiting,
                        throttled_percent=0.0 if p.role is Role.BUFFER else 100.0 * throttled,
                        gauges=gauges[p.role],
                    )
                )  # fmt: skip
            self.observed.take(reports, self.now)


def test_costs_are_measured_per_step_and_wall_and_core_time_are_told_apart():
    run = Played(planned(host_rates()))
    samples = run.plan.sizes.fragment_samples
    run.work(
        30, steps_per_s=50.0, t_sp_s=samples / 80.0, actor_cores=0.25, learner_cores=0.5, learner_busy=0.5,
        buffer_cores=0.1, t_rv_s=samples * 1e-3,
    )  # fmt: skip
    (rates,) = run.observed.rates().values()
    assert rates.actor_steps_per_s == pytest.approx(80.0), "it waits for room the rest of the time"
    assert rates.actor_cpu_s_per_step == pytest.approx(0.25 / 50.0, rel=0.02)
    assert rates.learner[0].samples_per_s == pytest.approx(200.0, rel=0.02)
    assert rates.learner[0].cpu_s_per_sample == pytest.approx(0.5 / 100.0, rel=0.02)
    assert rates.buffer_cpu_s_per_step == pytest.approx(0.1 / 100.0, rel=0.02)
    assert rates.receive_s_per_step == pytest.approx(1e-3)


def test_a_learner_that_is_idle_most_of_the_time_tells_nothing():
    run = Played(planned(host_rates(learner=300.0)))
    run.work(30, steps_per_s=1.0, t_sp_s=1.0, actor_cores=0.1, learner_cores=0.02, learner_busy=0.01)
    assert run.observed.rates()["tj1"].learner[0].samples_per_s == 300.0


def test_a_learner_that_its_actors_wait_for_reaches_its_rate_though_it_waits_for_batches_at_times():
    run = Played(planned(host_rates(learner=300.0)))
    work = {"steps_per_s": 100.0, "t_sp_s": 1.0, "actor_cores": 0.2, "learner_cores": 0.8, "learner_busy": 0.8}
    run.work(30, actor_busy=0.4, **work)
    assert run.observed.rates()["tj1"].learner[0].samples_per_s == pytest.approx(200.0, rel=0.02)


def test_where_cores_are_shared_the_wait_for_them_is_not_taken_for_a_slow_step():
    run = Played(planned(host_rates(actor=100.0), "L1A4", cores=2, oversubscribe=True))
    samples = run.plan.sizes.fragment_samples
    run.work(30, steps_per_s=25.0, t_sp_s=samples / 25.0, actor_cores=0.25, learner_cores=0.3, learner_busy=0.4)
    (rates,) = run.observed.rates().values()
    assert rates.actor_steps_per_s == pytest.approx(100.0)
    assert rates.actor_cpu_s_per_step == pytest.approx(0.01, rel=0.02)


def test_time_in_which_strangers_had_the_core_is_left_out():
    """Alone they would make 100 steps and 200 samples per second; strangers have a fifth of the time of all cores."""
    run = Played(planned(host_rates()))
    samples = run.plan.sizes.fragment_samples
    work = {"steps_per_s": 80.0, "t_sp_s": samples / 80.0, "actor_cores": 0.7, "learner_cores": 0.75}
    run.work(30, learner_busy=1.0, actor_busy=0.85, waiting=0.2, **work)
    (rates,) = run.observed.rates().values()
    assert rates.actor_steps_per_s == pytest.approx(100.0, rel=0.02)
    assert rates.learner[0].samples_per_s == pytest.approx(200.0, rel=0.02)
    assert rates.actor_cpu_s_per_step == pytest.approx(0.7 / 80.0, rel=0.02)


def test_time_in_which_a_quota_held_them_is_left_out_and_is_no_strangers_fault():
    """Alone they would make 100 steps and 200 samples per second; a quota leaves them 0.4 of the time."""
    run = Played(planned(host_rates()))
    samples = run.plan.sizes.fragment_samples
    work = {"steps_per_s": 40.0, "t_sp_s": samples / 40.0, "actor_cores": 0.35, "learner_cores": 0.38}
    run.work(30, learner_busy=1.0, actor_busy=0.85, throttled=0.6, **work)
    (rates,) = run.observed.rates().values()
    assert rates.actor_steps_per_s == pytest.approx(100.0, rel=0.02)
    assert rates.learner[0].samples_per_s == pytest.approx(200.0, rel=0.02)
    assert rates.learner[0].cpu_s_per_sample == pytest.approx(0.38 / 80.0, rel=0.02)
    others = run.observed.others()
    assert others is not None
    assert not others.matter


def test_of_a_host_that_strangers_crowd_nothing_is_learnt_and_they_are_named():
    run = Played(planned(host_rates()))
    run.work(30, steps_per_s=8.0, t_sp_s=2.0, actor_cores=0.1, learner_cores=0.1, learner_busy=1.0, waiting=0.85)
    assert run.observed.rates() == {}
    others = run.observed.others()
    assert others is not None
    assert others.matter
    assert others.told == "others have 82% of the time of learner-0's core on tj1", "what is light takes 3%"


def test_what_the_run_itself_has_beside_them_is_no_stranger():
    run = Played(planned(host_rates()))
    busy = {"t_sp_s": 1.0, "actor_cores": 0.7, "learner_cores": 0.7, "learner_busy": 1.0}
    run.work(30, steps_per_s=50.0, waiting=0.25, buffer_cores=0.2, **busy)
    others = run.observed.others()
    assert others is not None
    assert not others.matter


def test_components_that_share_a_core_of_the_plan_are_no_strangers_to_each_other():
    run = Played(planned(host_rates(), "L1A4", cores=2, oversubscribe=True))
    run.work(30, steps_per_s=25.0, t_sp_s=1.0, actor_cores=0.25, learner_cores=1.0, learner_busy=1.0, waiting=0.7)
    others = run.observed.others()
    assert others is not None
    assert others.component == "learner-0", "which has its core for itself"


def test_what_was_before_is_forgotten_after_a_while():
    run = Played(planned(host_rates()))
    run.work(60, steps_per_s=50.0, t_sp_s=1.0, actor_cores=0.5, learner_cores=0.5, learner_busy=0.5)
    run.work(1.6 * SPAN_S, steps_per_s=50.0, t_sp_s=1.0, actor_cores=0.1, learner_cores=0.5, learner_busy=0.5)
    assert run.observed.rates()["tj1"].actor_cpu_s_per_step == pytest.approx(0.1 / 50.0, rel=0.02)


def test_a_new_life_begins_anew_and_is_believed_after_some_seconds():
    run = Played(planned(host_rates(actor=100.0)))
    busy = {"t_sp_s": 1.0, "actor_cores": 0.5, "learner_cores": 0.5, "learner_busy": 0.5}
    run.work(30, steps_per_s=50.0, **busy)
    run.attempt = 2
    run.work(LEAST_SPAN_S / 2, steps_per_s=50.0, **busy)
    assert run.observed.rates() == {}, "nobody asked before, and of the new life too little is known"
    run.work(LEAST_SPAN_S, steps_per_s=50.0, **busy)
    assert run.observed.rates()["tj1"].actor_steps_per_s != 100.0


def test_when_components_leave_what_was_known_of_them_last_still_is():
    run = Played(planned(host_rates()))
    run.work(30, steps_per_s=50.0, t_sp_s=1.0, actor_cores=0.5, learner_cores=0.8, learner_busy=0.8)
    known = run.observed.rates()
    gone = [
        ComponentReport(name=p.name, role=p.role, state=ComponentState.STOPPING, attempt=1, cpu_percent=0.0)
        for p in run.plan.placements
    ]
    run.observed.take(gone, run.now + 1)
    assert run.observed.rates() == known != {}


def test_without_a_profile_a_run_measures_itself_from_nothing():
    plan = plan_over(nodes(8), "L1A2")
    run = Played(plan)
    assert run.observed.rates() == {}
    run.work(30, steps_per_s=50.0, t_sp_s=1.0, actor_cores=0.5, learner_cores=0.8, learner_busy=0.8)
    assert run.observed.rates()["tj1"].learner[0].samples_per_s == pytest.approx(125.0, rel=0.02)


# -- drift


class Told(NamedTuple):
    """What a run has observed."""

    measured: dict[str, HostRates]
    strangers: Others | None

    def rates(self) -> dict[str, HostRates]:
        return self.measured

    def others(self) -> Others | None:
        return self.strangers


class Looked:
    """A run whose measured rate is told."""

    def __init__(self, plan: Plan, observed: dict[str, HostRates] | None = None, others: Others | None = None) -> None:
        self.plan = plan
        self.memory = drifting.Memory(revision=plan.revision, changed_at=0.0)
        self.now = 0.0
        self.told = Told(observed or {}, others)

    def see(self, ratio: float, seconds: float, *, training: bool = True) -> list[drifting.Turned]:
        found = []
        expected = self.plan.predicted.samples_per_s or 0.0
        end = self.now + seconds
        while self.now < end:
            self.now += 0.5
            self.memory, turned = drifting.look(
                self.memory, self.plan, ratio * expected, self.told, training=training, now=self.now
            )  # type: ignore[arg-type]
            if turned is not None:
                found.append(turned)
        return found


def test_a_rate_that_stays_a_third_below_the_predicted_one_is_told_once_with_its_cause():
    slow = {"tj1": host_rates(actor=50.0)}
    run = Looked(planned(host_rates(actor=100.0)), slow)
    (turned,) = run.see(0.65, 300)
    assert turned.drifting
    assert "-35%" in turned.message
    assert "a step of an actor on tj1 takes 2 × the time" in turned.message
    assert run.memory.drift.drifting
    assert isclose(run.memory.drift.ratio or 0.0, 0.65)


def test_a_rate_near_the_predicted_one_is_no_drift():
    run = Looked(planned(host_rates()))
    assert run.see(0.85, 300) + run.see(1.15, 300) == []
    assert isclose(run.memory.drift.ratio or 0.0, 1.15)


def test_a_dip_is_no_drift():
    run = Looked(planned(host_rates()))
    for _ in range(10):
        assert run.see(0.5, drifting.HOLDS_S - 2) + run.see(1.0, 2) == []


def test_drift_ends_when_the_rate_is_well_within_again_and_not_at_its_brink():
    run = Looked(planned(host_rates()))
    run.see(0.5, 60)
    assert run.see(0.82, 100) == [], "no longer beyond, but not within either"
    (turned,) = run.see(0.95, 100)
    assert not turned.drifting
    assert not run.memory.drift.drifting


def test_a_changed_plan_is_given_time_and_begins_without_drift():
    run = Looked(planned(host_rates()))
    run.see(0.5, 60)
    run.plan = run.plan.model_copy(update={"revision": 2})
    assert run.see(0.5, drifting.SETTLES_S + drifting.HOLDS_S - 1) == []
    assert len(run.see(0.5, 5)) == 1


def test_a_run_that_does_not_train_with_all_it_should_have_is_not_compared():
    run = Looked(planned(host_rates()))
    assert run.see(0.1, 300, training=False) == []


def test_strangers_are_the_cause_before_any_cost_and_no_longer_when_they_have_left():
    """Their company makes everything cost more."""
    run = Looked(planned(host_rates()), {"tj1": host_rates(actor=50.0)}, Others("learner-0", "tj1", 0.76))
    (turned,) = run.see(0.3, 60)
    assert turned.message.endswith("others have 76% of the time of learner-0's core on tj1")
    run.told = Told(run.told.measured, Others("learner-0", "tj1", 0.02))
    assert run.see(0.6, drifting.REASONS_EVERY_S + 1) == []
    assert "a step of an actor on tj1" in run.memory.drift.reason


def test_where_every_part_costs_what_was_planned_the_cause_is_elsewhere():
    rates = host_rates()
    assert "wait for each other" in drifting.cause(planned(rates), {"tj1": rates})

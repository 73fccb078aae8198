"""What the job's environment really does, and what an actor is given of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from runtime.contract.job import EnvConfig
from runtime.contract.selfcheck import SelfcheckFinding, SelfcheckRequest
from runtime.envs import vector
from runtime.envs.making import make
from runtime.envs.probe import probe
from runtime.selfcheck.command import selfcheck
from runtime.selfcheck.finding import found
from runtime.selfcheck.limits import check_step_limit
from runtime.selfcheck.resets import check_resets
from runtime.selfcheck.streams import check_env_streams

MODES = {"NextStep": "next-step", "SameStep": "same-step", "Disabled": "disabled"}


@pytest.fixture(autouse=True)
def importable_liars(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(Path(__file__).parent))


def walk(**kwargs: Any) -> EnvConfig:
    return EnvConfig(id="liars:Walk", kwargs=kwargs)


def walks(**kwargs: Any) -> EnvConfig:
    return EnvConfig(id="liars:vector", kwargs=kwargs)


def resets(config: EnvConfig, look_s: float = 20.0) -> SelfcheckFinding:
    return found("autoreset", lambda: check_resets(config, 1, look_s))


def limit(config: EnvConfig, look_s: float = 20.0) -> SelfcheckFinding:
    return found("step-limit", lambda: check_step_limit(config, 1, look_s))


def beginnings(config: EnvConfig) -> SelfcheckFinding:
    return found("env-streams", lambda: check_env_streams(config, 1, 20.0))


@pytest.mark.parametrize("pays", [0.0, 1.0])
@pytest.mark.parametrize("length", [1, 5])
@pytest.mark.parametrize("mode", MODES)
def test_each_mode_is_told_from_what_the_environment_does(mode: str, length: int, pays: float) -> None:
    finding = resets(walks(really=mode, length=length, pays=pays))
    assert finding.ok, finding
    assert finding.evidence.startswith(f"{MODES[mode]} autoreset, as stated: 12 episodes")


@pytest.mark.parametrize("env_id", ["CartPole-v1", "Acrobot-v1"])
def test_environments_of_the_registry_pass(env_id: str) -> None:
    finding = resets(EnvConfig(id=env_id, delay_us=1_000_000))
    assert finding.ok and finding.took_s < 15.0 and "next-step autoreset, as stated" in finding.evidence


@pytest.mark.parametrize("said", MODES)
@pytest.mark.parametrize("really", MODES)
def test_a_mode_that_is_not_the_stated_one_is_found(really: str, said: str) -> None:
    if really == said:
        return
    finding = resets(walks(really=really, said=said))
    assert finding.ok is False
    assert (finding.expected, finding.seen) == (MODES[said], MODES[really])


@pytest.mark.parametrize("said", ["NextStep", "SameStep"])
def test_a_reset_within_the_step_that_loses_the_last_observation_is_found(said: str) -> None:
    finding = resets(walks(really="SameStep", said=said, loses_final=True))
    assert finding.ok is False and "no last observation was kept apart" in finding.evidence


def test_a_reset_step_that_is_marked_valid_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    real = vector.NextStepStepper.step

    def careless(self: Any, action: Any, **outs: Any) -> Any:
        then = real(self, action, **outs)
        outs["valid_out"][:] = True
        return then

    monkeypatch.setattr(vector.NextStepStepper, "step", careless)
    for config in (walk(), EnvConfig(id="CartPole-v1")):  # looped over, and native
        finding = resets(config)
        assert finding.ok is False and "a reset step is marked as a valid transition" in finding.evidence


def test_a_last_observation_that_is_that_of_the_next_episode_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vector.SameStepStepper, "_put_final_observations", lambda *_: None)
    finding = resets(walks(really="SameStep"))
    assert finding.ok is False and "the last observation of an episode is not the true one" in finding.evidence
    assert finding.expected.startswith("[") and finding.expected != finding.seen


def test_truncation_that_is_called_termination_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    real = vector.NextStepStepper.step

    def muddled(self: Any, action: Any, **outs: Any) -> Any:
        then = real(self, action, **outs)
        outs["terminated_out"] |= outs["truncated_out"]
        return then

    monkeypatch.setattr(vector.NextStepStepper, "step", muddled)
    finding = resets(walk())
    assert finding.ok is False and "termination is not the true one" in finding.evidence


def test_episodes_that_do_not_end_in_time_are_not_seen() -> None:
    finding = resets(walk(length=10**9), look_s=0.2)
    assert finding.ok is None and "no episode ended within 0.1 s" in finding.evidence


def test_copies_that_go_different_ways_cannot_be_compared() -> None:
    finding = resets(walk(seeds="none"))
    assert finding.ok is None and "different ways" in finding.evidence


def test_a_step_limit_that_is_applied_is_seen_as_it_is_or_with_a_short_one() -> None:
    as_it_is = limit(walk(length=6, limit=6))
    assert as_it_is.ok and "the limit of 6 steps were cut off" in as_it_is.evidence
    short = limit(EnvConfig(id="CartPole-v1"), look_s=1.0)
    assert short.ok and "no episode of random play lasted 500 steps" in short.evidence
    assert "with 3 as the limit: 8 episodes" in short.evidence


def test_episodes_too_long_to_see_an_end_are_shortened_where_that_can_be_done() -> None:
    long = EnvConfig(id="MountainCar-v0", kwargs={"max_episode_steps": 10**6})
    finding = resets(long, look_s=1.0)
    assert finding.ok and finding.evidence.startswith("with episodes of 20 steps: next-step")


def test_a_step_limit_that_is_stated_and_not_applied_is_found() -> None:
    finding = limit(walk(length=9, limit=6))
    assert finding.ok is False and "goes on after step 6" in finding.evidence


def test_a_step_limit_that_is_never_reached_is_not_seen_and_none_is_nothing_to_apply() -> None:
    finding = limit(walk(length=5, limit=6), look_s=0.1)
    assert finding.ok is None and "it takes no shorter one" in finding.evidence
    assert limit(walk()).ok


@pytest.mark.parametrize("config", [EnvConfig(id="CartPole-v1"), walk()], ids=["native", "looped over"])
def test_environments_of_several_actors_begin_differently_and_repeat(config: EnvConfig) -> None:
    finding = beginnings(config)
    assert finding.ok and finding.evidence.startswith("24 different beginnings")


@pytest.mark.parametrize(
    ("config", "ok", "words"),
    [
        (walk(seeds="none"), False, "a generator of its own"),
        (walk(seeds="ignored"), None, "deterministic, or it ignores its seed"),
        (EnvConfig(id="liars:twins"), False, "all 8 environments of a vector go the same way"),
    ],
    ids=["unseeded", "ignored", "one for all"],
)
def test_streams_of_environments_that_are_not_ones_own_are_found(
    config: EnvConfig, ok: bool | None, words: str
) -> None:
    finding = beginnings(config)
    assert finding.ok is ok and words in finding.evidence


def test_actors_that_all_play_the_same_episodes_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vector.VectorStepper, "reset", reset_with_one_seed)
    finding = beginnings(walk())
    assert finding.ok is False and "all play the same episodes" in finding.evidence


def reset_with_one_seed(self: Any) -> Any:
    self._seed = np.random.SeedSequence(1)
    return self._env.reset(seed=list(range(self.num_envs)))[0]


def test_an_environment_of_another_version_is_found() -> None:
    planned = probe(EnvConfig(id="CartPole-v1")).model_copy(update={"max_episode_steps": 200, "slow_step_s": 0.2})
    by_name = findings(EnvConfig(id="CartPole-v1"), spec=planned)
    finding = by_name["environment"]
    assert finding.ok is False
    assert (finding.expected, finding.seen) == ("max_episode_steps 200", "max_episode_steps 500")
    assert by_name["autoreset"].ok, "the others are made all the same"


def findings(env: EnvConfig, **request: Any) -> dict[str, SelfcheckFinding]:
    report = selfcheck(SelfcheckRequest(env=env, **request))
    return {finding.check: finding for finding in report.findings}


def test_an_environment_that_cannot_be_made_is_one_finding() -> None:
    by_name = findings(EnvConfig(id="CartPol-v1"))
    assert by_name["environment"].ok is False and "nearest: CartPole-v1" in by_name["environment"].evidence
    assert not {"autoreset", "step-limit", "env-streams"} & set(by_name)


def test_an_environment_that_breaks_while_it_is_played_is_a_finding_and_no_crash() -> None:
    by_name = findings(EnvConfig(id="liars:Breaking"))
    assert by_name["environment"].ok and by_name["gae"].ok
    assert by_name["autoreset"].ok is False and "RuntimeError: the licence has run out" in by_name["autoreset"].evidence


def test_a_slow_environment_is_looked_at_no_longer_than_allowed() -> None:
    report = selfcheck(SelfcheckRequest(env=walk(sleep_s=0.01, length=1000, limit=2000)))
    assert report.took_s < 3.0
    assert {finding.ok for finding in report.findings[-3:]} == {None, True}


def test_environments_are_closed_after_the_look(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[Any] = []

    def counted(*args: Any) -> Any:
        made.append(make(*args))
        return made[-1]

    for module in ("runtime.envs.vector", "runtime.selfcheck.resets", "runtime.selfcheck.reset_mode"):
        monkeypatch.setattr(f"{module}.make", counted)
    findings(walk())
    assert len(made) > 5 and all(each.env.closed for each in made)

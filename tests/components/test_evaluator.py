"""Greedy episodes: the right ones are counted, from the right parameters, at the right times."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pytest

from runtime.checkpoint.manifest import Manifest
from runtime.checkpoint.partial import PartialCheckpoint
from runtime.checkpoint.shard import save_shard
from runtime.components import evaluation
from runtime.components.base import Progress
from runtime.components.evaluation import main, play
from runtime.components.evaluator import Evaluator, EvaluatorPorts
from runtime.contract.algorithm import DqnConfig, PpoConfig
from runtime.contract.envspec import EnvSpec
from runtime.contract.job import EnvConfig, EvaluationConfig
from runtime.contract.paths import RunPaths
from runtime.memory.block import StatsBlock
from runtime.memory.board import Board, BoardReader, BoardSpec, BoardWriter
from runtime.memory.control import CONTROL_BYTES, ControlBlock
from runtime.memory.layout import Field, Layout
from runtime.memory.segment import Segment
from runtime.models.spec import NetworkSpec
from support.plans import make_job, make_plan

CARTPOLE = EnvConfig(id="CartPole-v1")
CARTPOLE_SPEC = EnvSpec(
    id="CartPole-v1", observation_shape=(4,), num_actions=2, native_vector=True, autoreset="next-step"
)
NETWORK = NetworkSpec.of(CARTPOLE_SPEC, PpoConfig(name="ppo"))


@pytest.fixture(autouse=True)
def importable_counting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(Path(__file__).parent.parent / "envs"))


def always(action: int) -> np.ndarray:
    """Parameters whose greedy action is always the same."""
    params = np.zeros(NETWORK.layout.size, np.float32)
    NETWORK.layout.views(params)["policy.2.bias"][action] = 1.0
    return params


def balanced() -> np.ndarray:
    """Parameters that push the cart to where the pole leans: lasts longer than a constant push."""
    params = np.zeros(NETWORK.layout.size, np.float32)
    views = NETWORK.layout.views(params)
    views["policy.0.weight"][2, 0], views["policy.0.weight"][3, 0] = 1.0, 0.5
    views["policy.1.weight"][0, 0] = 1.0
    views["policy.2.weight"][0, 1] = 1.0
    return params


@pytest.mark.parametrize("mode", ["NextStep", "SameStep", "Disabled"])
def test_every_environment_plays_its_quota_so_that_short_episodes_are_not_favoured(
    mode: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(evaluation, "MAX_ENVS", 2)
    spec = CARTPOLE_SPEC.model_copy(update={"observation_shape": (3,)})
    network = NetworkSpec.of(spec, DqnConfig(name="dqn"))
    config = EnvConfig(id="counting:vector", kwargs={"mode": mode, "stretch": 10})
    result = play(config, network, np.zeros(network.layout.size, np.float32), episodes=5, seed=0)
    # Environment 0: three episodes of 2, 3 and 4 steps; environment 1: two of 13 and 14. Each pays 1 + 2 + … + length.
    assert result.returns == (3.0, 6.0, 10.0, 91.0, 105.0)
    assert (result.mean, result.min, result.max) == (43.0, 3.0, 105.0)
    assert result.std == pytest.approx(np.std([3, 6, 10, 91, 105]))


def test_one_seed_gives_one_result_and_another_gives_another() -> None:
    results = [play(CARTPOLE, NETWORK, always(0), episodes=8, seed=seed).returns for seed in (3, 3, 4)]
    assert results[0] == results[1] != results[2]
    assert len(results[0]) == 8


def test_a_better_policy_gets_higher_returns() -> None:
    assert play(CARTPOLE, NETWORK, balanced(), 10, 0).mean > 2 * play(CARTPOLE, NETWORK, always(1), 10, 0).mean


def test_the_delay_of_a_slow_simulator_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("runtime.envs.vector.time.sleep", lambda _: pytest.fail("slept"))
    play(CARTPOLE.model_copy(update={"delay_us": 1000}), NETWORK, always(0), 2, 0)


class Rig:
    """A policy board and an evaluator beside it."""

    def __init__(self, folder: Path, *, shadow: bool = False) -> None:
        names = ("params", "shadow") if shadow else ("params",)
        board = BoardSpec("policy", Layout(tuple(Field(name, "float32", (NETWORK.layout.size,)) for name in names)))
        segment = Segment.anonymous(board.nbytes)
        Board.format(segment, board)
        self._writer = BoardWriter(segment, board)
        self.block = StatsBlock(Segment.anonymous(StatsBlock.nbytes(1)))
        self.control = ControlBlock(Segment.anonymous(CONTROL_BYTES))
        self.now = 100.0
        self.pace_s = 0.0
        ports = EvaluatorPorts(
            policy=BoardReader(segment, board),
            block=self.block,
            control=self.control,
            checkpoints=folder,
            clock=self._clock,
        )
        config = EvaluationConfig(enabled=True, episodes=3, every=10.0, seed=5)
        self.evaluator = Evaluator("evaluator-0", ports, config, CARTPOLE, NETWORK)
        self.evaluator.start()

    def _clock(self) -> float:
        self.now += self.pace_s
        return self.now

    def publish(self, version: int, **fields: np.ndarray) -> None:
        views = self._writer.begin()
        for name, array in fields.items():
            views[name][:] = array
        self._writer.publish(version)

    def finish_round(self) -> None:
        while self.evaluator.tick() is Progress.WORKED:
            pass

    @property
    def seen(self) -> tuple[int, float]:
        return int(self.block.gauge["reward_eval_version"]), self.block.gauge["reward_eval"]


def test_the_evaluator_plays_the_newest_version_and_reports_its_mean(tmp_path: Path) -> None:
    rig = Rig(tmp_path)
    assert rig.evaluator.tick() is Progress.IDLE
    rig.publish(4, params=balanced())
    rig.finish_round()
    assert rig.seen == (4, play(CARTPOLE, NETWORK, balanced(), 3, 5).mean)


def test_the_slowly_averaged_parameters_are_played_where_there_are_any(tmp_path: Path) -> None:
    rig = Rig(tmp_path, shadow=True)
    rig.publish(1, params=always(0), shadow=balanced())
    rig.finish_round()
    assert rig.seen == (1, play(CARTPOLE, NETWORK, balanced(), 3, 5).mean)


def test_a_round_begins_only_after_its_time_and_with_something_new(tmp_path: Path) -> None:
    rig = Rig(tmp_path)
    rig.publish(1, params=always(0))
    rig.finish_round()
    rig.publish(2, params=balanced())
    rig.now += 9.0
    assert rig.evaluator.tick() is Progress.IDLE
    rig.now += 1.5
    rig.finish_round()
    assert rig.seen[0] == 2
    rig.now += 100.0
    assert rig.evaluator.tick() is Progress.IDLE, "the same version need not be played again"


def test_a_round_is_played_in_slices_and_with_the_version_it_began_with(tmp_path: Path) -> None:
    rig = Rig(tmp_path)
    rig.publish(1, params=balanced())
    rig.pace_s = 1.0  # each look at the clock uses a tick's budget up
    ticks = 0
    while rig.block.gauge["reward_eval"] == 0.0:
        assert rig.evaluator.tick() is Progress.WORKED
        ticks += 1
        if ticks == 5:
            rig.publish(2, params=always(0))
    assert rig.seen == (1, play(CARTPOLE, NETWORK, balanced(), 3, 5).mean)
    assert ticks > 20


def test_the_evaluator_takes_part_in_checkpoints_and_pauses(tmp_path: Path) -> None:
    rig = Rig(tmp_path)
    rig.publish(1, params=always(0))
    rig.control.pause = True
    rig.control.checkpoint_request = 3
    assert rig.evaluator.tick() is Progress.IDLE
    assert rig.block.checkpoint_done == 3
    assert len(list(tmp_path.glob("*/evaluator-0.json"))) == 1
    rig.control.pause = False
    assert rig.evaluator.tick() is Progress.WORKED
    rig.evaluator.stop()


def checkpoint(root: Path, **arrays: np.ndarray) -> Path:
    """A complete checkpoint of one learner, in a run folder with its plan."""
    paths = RunPaths(root)
    plan = make_plan(make_job("ppo"))
    paths.plan.write_text(plan.model_dump_json())
    partial = PartialCheckpoint(paths.checkpoints, 64)
    save_shard(partial.folder, "learner-0", arrays, {"updates": 17})
    manifest = Manifest(
        run_id="r", name="n", step=64, created_at=datetime.now(UTC), shape="L1A1", job_digest=plan.fingerprints.job
    )
    return partial.complete(manifest, ["learner-0"])


def ask(capsys: pytest.CaptureFixture[str], **question: object) -> tuple[int, dict[str, object]]:
    code = main([json.dumps(question)])
    return code, json.loads(capsys.readouterr().out)


def test_eval_answers_with_the_returns_of_a_saved_policy(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = checkpoint(tmp_path, params=balanced())
    code, answer = ask(capsys, checkpoint=str(folder), episodes=6, seed=2)
    expected = play(CARTPOLE, NETWORK, balanced(), 6, 2)
    assert code == 0
    assert answer == {
        "episodes": 6,
        "seed": 2,
        "version": 17,
        "return": {"mean": expected.mean, "std": expected.std, "min": expected.min, "max": expected.max},
    }


def test_eval_plays_the_shadow_where_the_checkpoint_has_one(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = checkpoint(tmp_path, params=always(0), shadow=balanced())
    _, answer = ask(capsys, checkpoint=str(folder), episodes=6, seed=2)
    assert answer["return"]["mean"] == play(CARTPOLE, NETWORK, balanced(), 6, 2).mean  # type: ignore[index]


def test_a_flipped_byte_is_found_before_anything_is_played(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = checkpoint(tmp_path, params=balanced())
    shard = folder / "learner-0.safetensors"
    raw = bytearray(shard.read_bytes())
    raw[-1] ^= 1
    shard.chmod(0o644)
    shard.write_bytes(raw)
    code, answer = ask(capsys, checkpoint=str(folder))
    assert code == 11 and "learner-0.safetensors" in str(answer["error"])


def test_a_missing_checkpoint_or_plan_has_exit_code_11(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert ask(capsys, checkpoint=str(tmp_path / "nothing"))[0] == 11
    folder = checkpoint(tmp_path, params=balanced())
    RunPaths(tmp_path).plan.unlink()
    code, answer = ask(capsys, checkpoint=str(folder))
    assert code == 11 and "plan" in str(answer["error"]) and answer["hint"]


def test_parameters_of_another_network_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, answer = ask(capsys, checkpoint=str(checkpoint(tmp_path, params=np.zeros(3, np.float32))))
    assert code == 11 and "3 found" in str(answer["error"])


def test_a_bad_question_has_exit_code_2(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 2
    assert "usage" in capsys.readouterr().out
    assert ask(capsys, checkpoint="x", episodes=0)[0] == 2

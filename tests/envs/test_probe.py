"""One look at an environment, as the planner sees it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from runtime.contract.envspec import EnvSpec
from runtime.contract.job import EnvConfig
from runtime.envs.probe import main, probe


def test_probe_describes_cartpole() -> None:
    assert probe(EnvConfig(id="CartPole-v1")) == EnvSpec(
        id="CartPole-v1",
        observation_shape=(4,),
        num_actions=2,
        native_vector=True,
        autoreset="next-step",
        max_episode_steps=500,
    )


def test_main_prints_the_spec_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(['{"id": "Acrobot-v1"}']) == 0
    assert EnvSpec.model_validate_json(capsys.readouterr().out).num_actions == 3


@pytest.mark.parametrize(
    ("argument", "words"), [('{"id": "CartPol-v1"}', "nearest: CartPole-v1"), ('{"idd": 1}', "idd"), ("{", "JSON")]
)
def test_main_reports_what_is_wrong_with_exit_code_2(
    argument: str, words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([argument]) == 2
    assert words in json.loads(capsys.readouterr().out)["error"]


def test_an_environment_that_fails_in_its_first_step_is_reported(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(Path(__file__).parent))
    assert main(['{"id": "counting:BrokenEnv"}']) == 2
    error = json.loads(capsys.readouterr().out)["error"]
    assert "fails in its first steps" in error and "no licence for the simulator" in error


def test_probing_imports_no_torch() -> None:
    code = (
        "import sys, runtime.envs.probe as p; p.main(['{\"id\": \"CartPole-v1\"}']); sys.exit('torch' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False, capture_output=True).returncode == 0


def test_a_slow_step_is_told_and_a_quick_one_is_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "sluggish.py").write_text(
        "import time\nimport gymnasium\n"
        "class Slow(gymnasium.Wrapper):\n"
        "    def step(self, action):\n"
        "        time.sleep(0.12)\n"
        "        return super().step(action)\n"
        "def make(): return Slow(gymnasium.make('CartPole-v1'))\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    assert probe(EnvConfig(id="sluggish:make")).slow_step_s == pytest.approx(0.1, abs=0.05)
    assert probe(EnvConfig(id="CartPole-v1")).slow_step_s is None

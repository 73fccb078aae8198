"""`python -m runtime selfcheck`: one JSON answer, quickly, whatever happens."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from runtime.contract.selfcheck import SelfcheckReport
from runtime.selfcheck import command, golden
from runtime.selfcheck.command import main

NAMES = ["gae", "n-step", "v-trace", "not-finite", "prioritised-replay", "streams", "threads"]
OF_ENVIRONMENTS = ["environment", "autoreset", "step-limit", "env-streams"]


def test_a_sound_installation_is_proved_within_two_seconds_and_without_torch() -> None:
    script = (
        "import sys; from runtime.__main__ import main\n"
        "code = main(['selfcheck', sys.argv[1]])\n"
        "assert 'torch' not in sys.modules\n"
        "sys.exit(code)"
    )
    algorithm = '{"name": "dqn", "network": {"hidden": [4096]}}'  # in a run, torch would compute it
    request = f'{{"env": {{"id": "CartPole-v1"}}, "algorithm": {algorithm}, "seed": 5, "look_s": 0.6}}'
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", script, request], capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stderr == ""
    report = SelfcheckReport.model_validate_json(done.stdout)
    assert [finding.check for finding in report.findings] == NAMES + OF_ENVIRONMENTS
    assert {finding.ok for finding in report.findings} == {True} and report.failed == ()
    assert report.took_s < 2.0 and report.took_s >= sum(finding.took_s for finding in report.findings) - 0.01


def test_without_an_environment_only_the_code_is_looked_at_and_in_full_both_engines(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(['{"full": true}']) == 0
    report = SelfcheckReport.model_validate_json(capsys.readouterr().out)
    assert [finding.check for finding in report.findings] == [*NAMES, "engines"] and not report.failed


@pytest.mark.parametrize(
    ("arguments", "words"), [([], "usage"), (["{"], "JSON"), (['{"enf": 1}'], "enf"), (['{"seed": -1}'], "seed")]
)
def test_a_bad_request_is_refused_with_exit_code_2(
    arguments: list[str], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments) == 2
    assert words in json.loads(capsys.readouterr().out)["error"]


def test_an_environment_that_talks_does_not_spoil_the_answer(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(Path(__file__).parent))
    assert main(['{"env": {"id": "liars:Loud"}}']) == 0
    said = capsys.readouterr()
    assert "hello from the simulator" in said.err and SelfcheckReport.model_validate_json(said.out)


def test_what_a_broken_installation_raises_is_a_finding_and_the_others_are_made(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object, **__: object) -> None:
        raise AttributeError("module 'numpy' has no attribute 'bool'")

    monkeypatch.setattr(golden, "gae", broken)
    monkeypatch.setattr(command, "check_v_trace", lambda: 1 / 0)
    assert main(["{}"]) == 0
    report = SelfcheckReport.model_validate_json(capsys.readouterr().out)
    assert [finding.check for finding in report.failed] == ["gae", "v-trace"]
    assert "AttributeError: module 'numpy' has no attribute 'bool'" in report.failed[0].evidence
    assert "ZeroDivisionError" in report.failed[1].evidence and len(report.findings) == len(NAMES)

"""Whatever is wrong with what was typed: what, where and why, the next step, the right code, and nothing changed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

GOOD = """\
name: ok
env: {id: CartPole-v1}
algorithm: {name: ppo}
distributed: {actors: 1, learners: 1}
training: {stop: {updates: 2}}
"""

#: name → (how the good job is spoilt, exit code, what the error must name)
BAD_JOBS = {
    "an unknown key": (GOOD.replace("training:", "trainig:"), 2, ["job.yaml:5:1", "did you mean 'training'?"]),
    "a wrong type": (GOOD.replace("actors: 1", "actors: lots"), 2, ["job.yaml:4:23", "'lots'"]),
    "no such environment": (GOOD.replace("CartPole-v1", "CartPool-v1"), 2, ["CartPool-v1", "nearest: CartPole-v1"]),
    "a million actors": (GOOD.replace("actors: 1", "actors: 1000000"), 3, ["1000001 cores", "nearest shape"]),
    "a batch larger than its buffer": (
        GOOD.replace("training: {", "training: {batch_size: 4096, ").replace("s: 1}", "s: 1, buffer_size: 2048}"),
        2,
        ["job.yaml:5", "4096 is larger", "2048", "would fit"],
    ),
    "P above the tolerance": (
        GOOD.replace("training: {", "training: {batch_size: 1024, staleness_tolerance: 0.2, ").replace(
            "s: 1}", "s: 1, buffer_size: 2048}"
        ),
        2,
        ["job.yaml:5", "P = 0.5", "would fit"],
    ),
    "nothing at all": ("", 2, ["job.yaml:1:1", "empty"]),
    "bytes that are no text": (b"\x00\xff\xfe\x80abc", 2, ["job.yaml:1"]),
    "a list": ("- a\n- b\n", 2, ["job.yaml:1:1", "a list"]),
    "half a file": ("env: [\n", 2, ["job.yaml:2:1"]),
    "keys only": ("# no more than this\n", 2, ["job.yaml"]),
}

BAD_WORDS = {
    "a job that is not there": (["plan", "nowhere.yaml"], 2, ["nowhere.yaml: no such file"]),
    "a folder": (["plan", "."], 2, ["cannot be read: Is a directory"]),
    "no job": (["plan"], 2, ["--env", "--algo"]),
    "--set without =": (["plan", "good.yaml", "--set", "nonsense"], 2, ["section.key=value"]),
    "--set of no key": (["plan", "good.yaml", "--set", "training.sed=3"], 2, ["did you mean 'seed'?"]),
    "--set of no value": (["plan", "good.yaml", "--set", "training.seed="], 2, ["training.seed"]),
    "--shape": (["plan", "good.yaml", "--shape", "four"], 2, ["'four'"]),
    "--algo": (["plan", "--env", "CartPole-v1", "--algo", "sac"], 2, ["known algorithms: dqn, ppo"]),
    "a profile that is not there": (["plan", "good.yaml", "--profile", "none.json"], 2, ["none.json"]),
    "a plan that is no plan": (["launch", "broken.json"], 2, ["broken.json is not a plan"]),
    "options beside a plan": (["launch", "broken.json", "--set", "a.b=1"], 2, ["finished plan"]),
    "a name that is no name": (["launch", "good.yaml", "--name", "a/b"], 2, ["'a/b'"]),
    "a run that is not there": (["status", "nobody"], 2, ["no runs"]),
    "no runs to resume": (["resume", "--from-checkpoint"], 2, ["no runs"]),
    "resume without its flag": (["resume"], 2, ["--from-checkpoint"]),
    "a checkpoint that is not there": (["eval", "./nowhere"], 11, ["nowhere"]),
    "--since": (["logs", "--since", "yesterday"], 2, ["no runs"]),
    "too many words": (["checkpoints", "verify", "a", "b"], 2, ["too many words"]),
}


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "good.yaml").write_text(GOOD)
    (tmp_path / "broken.json").write_text('{"schema_version": 1')
    return tmp_path


def everything_in(folder: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def refused(tianjictl, place, words, code, names):
    before = everything_in(place)
    answer = tianjictl(*words, "--json")
    assert answer[0] == code, answer[2]
    document = json.loads(answer[1])
    assert document["data"] is None
    assert any(error["hint"] for error in document["errors"])
    assert all(error["code"] == code for error in document["errors"])
    # A machine that is slow today is waited for aloud.
    first, *_ = lines = [line for line in answer[2].splitlines() if not line.startswith("waiting for environment")]
    assert first.startswith("error: ")
    assert lines[-1].startswith("hint: ")
    assert all(line.partition(":")[0] in ("error", "hint") for line in lines), lines
    for name in names:
        assert name in answer[2]
    assert everything_in(place) == before


@pytest.mark.parametrize("name", BAD_JOBS)
def test_a_bad_job_is_refused(name, tianjictl, place):
    content, code, names = BAD_JOBS[name]
    (place / "job.yaml").write_bytes(content.encode() if isinstance(content, str) else content)
    refused(tianjictl, place, ["plan", "job.yaml"], code, names)


#: words after `plan` → what the hint must name; what `--help` says would help with none of them
WAYS_OUT = {
    "empty.yaml": "env: {id: CartPole-v1}",
    "half.yaml": "close what begins at line 1",
    "signs.yaml": "write key: value",
    ".": "name a file in it: empty.yaml",
    "--env Nope-v1 --algo ppo": "--env Hopper-v5",
    "--env Zzzqq-v1 --algo ppo": "gymnasium.pprint_registry()",
    "--env nosuch.games:make --algo ppo": "export PYTHONPATH=FOLDER, the one that holds nosuch",
    "--env Pendulum-v1 --algo ppo": "then --env wrapped:make",
    "--env os:listdirs --algo ppo": "--env os:listdir",
    "good.yaml --shape L0A1": "--shape L1A1",
    "good.yaml --shape L3A2": "--shape L3A3",
    "good.yaml --shape four": "--shape L1A2",
}


@pytest.mark.parametrize("words", WAYS_OUT)
def test_a_hint_leads_somewhere(words, tianjictl, place):
    (place / "empty.yaml").touch()
    (place / "half.yaml").write_text("a: [b\n")
    (place / "signs.yaml").write_text("a: *b\n  c\n- d\n")
    code, _, err = tianjictl("plan", *words.split())
    assert code == 2
    hint = err.splitlines()[-1]
    assert hint.startswith("hint: ")
    assert WAYS_OUT[words] in hint
    assert "--help" not in hint


@pytest.mark.parametrize("name", BAD_WORDS)
def test_bad_words_are_refused(name, tianjictl, place):
    words, code, names = BAD_WORDS[name]
    refused(tianjictl, place, words, code, names)


def test_each_finding_has_its_own_hint(tianjictl, place):
    (place / "job.yaml").write_text(GOOD.replace("training:", "trainig:").replace("actors", "actor"))
    lines = tianjictl("plan", "job.yaml")[2].splitlines()
    assert [line.partition(":")[0] for line in lines] == ["error", "hint", "error", "hint"]
    assert "'actors'" in lines[1]
    assert "'training'" in lines[3]


@pytest.mark.parametrize("words", [["status"], ["launch", "good.yaml", "-d"], ["runs"]])
def test_a_state_folder_that_is_none_is_refused(words, tianjictl, place, monkeypatch):
    monkeypatch.setenv("TIANJICTL_HOME", str(place / "good.yaml"))
    refused(tianjictl, place, words, 2, ["good.yaml/runs", "TIANJICTL_HOME"])


def test_a_profile_that_cannot_be_kept_is_refused_before_anything_is_measured(tianjictl, place, monkeypatch):
    monkeypatch.setenv("TIANJICTL_HOME", str(place / "good.yaml"))
    refused(tianjictl, place, ["profile", "good.yaml"], 2, ["good.yaml/profiles", "set TIANJICTL_HOME to a folder"])
    monkeypatch.setenv("TIANJICTL_HOME", "/proc/there")  # where nobody may make a folder
    refused(tianjictl, place, ["profile", "good.yaml"], 2, ["kept in /proc/there/profiles: ", "set TIANJICTL_HOME"])


def test_the_published_example_wants_env_and_algo_and_no_more(tianjictl, place):
    (place / "job.yaml").write_text(
        "distributed: {actors: 8, learners: 2, buffer_size: 65536}\n"
        "training: {batch_size: 2048, staleness_tolerance: 0.2}\n"
    )
    refused(tianjictl, place, ["plan", "job.yaml"], 2, ["--env CartPole-v1", "--algo ppo"])
    code, out, err = tianjictl(
        "plan", "job.yaml", "--env", "CartPole-v1", "--algo", "dqn", "--oversubscribe", "--json"
    )  # fmt: skip
    assert code == 0, err
    assert json.loads(out)["data"]["shape"] == "L2A8"


def test_hostfile_and_rankfile_are_written_beside_the_plan(tianjictl, place):
    code, _, err = tianjictl("plan", "good.yaml", "--oversubscribe", "--hostfile", "hosts", "--rankfile", "ranks")
    assert code == 0, err
    assert "slots=3" in (place / "hosts").read_text()
    assert "binding=user:" in (place / "hosts.mpich").read_text()
    assert "rank 2=" in (place / "ranks").read_text()
    refused(tianjictl, place, ["plan", "good.yaml", "--oversubscribe", "--rankfile", "no/such/folder"], 2, ["no/such"])

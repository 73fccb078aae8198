"""A job file is read strictly, and every mistake is reported at its place with the nearest thing that is right."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from runtime.contract.algorithm import DqnConfig, PpoConfig
from runtime.contract.job import Job
from runtime.contract.job_file import JobError, load_job

BASE = "env: {id: CartPole-v1}\nalgorithm: {name: dqn}\n"
PUBLISHED = """distributed:
  actors: 8
  learners: 2
  buffer_size: 10000
training:
  batch_size: 256
  staleness_tolerance: 0.2
"""
FULL = """name: cartpole-dqn
env: {id: CartPole-v1, num_envs: 16}      # any Gymnasium id
algorithm: {name: dqn, learning_rate: 5.0e-4}
distributed: {actors: 8, learners: 2, buffer_size: 65536}
training: {batch_size: 2048, staleness_tolerance: 0.2, seed: 0,
           stop: {reward: 475, env_steps: 2000000, wall_time: 30m}}
checkpoint: {every: 60s, keep: 5}
elastic: {min: L1A2, max: L4A16, mode: manual}                   # manual | advise | auto
"""


def read(text: str, **options: Any) -> Job:
    return load_job(Path("job.yaml"), text=text, **options)


def complaints(text: str, **options: Any) -> list[str]:
    with pytest.raises(JobError) as caught:
        read(text, **options)
    lines = [str(problem) for problem in caught.value.problems]
    assert str(caught.value).split("\n") == lines, "each problem must be one line"
    return lines


def test_the_documented_job_is_read_as_it_stands() -> None:
    job = read(FULL)
    assert job.name == "cartpole-dqn"
    assert job.algorithm.learning_rate == 5e-4
    assert (job.training.stop.reward, job.training.stop.env_steps, job.training.stop.wall_time) == (
        475,
        2_000_000,
        1800,
    )
    assert (job.elastic.min, job.checkpoint.every) == ("L1A2", 60)


def test_the_published_example_needs_only_env_and_algo() -> None:
    job = read(PUBLISHED, env="CartPole-v1", algo="ppo")
    assert (job.name, job.env.id, job.algorithm.name) == ("cartpole-v1-ppo", "CartPole-v1", "ppo")
    assert (job.distributed.actors, job.training.batch_size) == (8, 256)


def test_the_published_example_alone_names_the_options_that_are_missing() -> None:
    lines = complaints(PUBLISHED)
    assert len(lines) == 2
    assert "--env CartPole-v1" in lines[0]
    assert "--algo ppo" in lines[1]


def test_a_job_can_be_made_of_options_alone() -> None:
    job = load_job(None, env="ALE/Pong-v5", algo="dqn", overrides=["training.seed=4"], oversubscribe=True)
    assert (job.name, job.training.seed, job.distributed.oversubscribe) == ("ale-pong-v5-dqn", 4, True)


def test_a_default_name_is_a_valid_name_for_any_factory() -> None:
    assert load_job(None, env="_mine.envs:make", algo="ppo").name == "mine.envs-make-ppo"


@pytest.mark.parametrize(
    ("written", "value"),
    [("5.0e-4", 5e-4), ("1e-3", 1e-3), ("3e5", 3e5), ("0.5", 0.5), (".5", 0.5), ("1", 1.0), ("+2.", 2.0)],
)
def test_numbers_are_numbers_however_they_are_written(written: str, value: float) -> None:
    job = read(f"env: {{id: x}}\nalgorithm: {{name: dqn, learning_rate: {written}}}\n")
    assert job.algorithm.learning_rate == value


def test_whole_numbers_may_have_exponents_and_underscores() -> None:
    job = read(BASE + "training: {stop: {env_steps: 2e6, updates: 1_000}}")
    assert (job.training.stop.env_steps, job.training.stop.updates) == (2_000_000, 1_000)
    assert isinstance(job.training.stop.env_steps, int)


def test_byte_order_mark_and_windows_line_ends_are_accepted() -> None:
    assert read("\ufeff" + BASE.replace("\n", "\r\n") + "training: {seed: 7}\r\n").training.seed == 7


def test_sections_left_empty_count_as_left_out() -> None:
    assert read(BASE + "training:\nelastic:\ndistributed:\n").training.seed == 0
    assert read(BASE + "training:\n  stop:\n").training.stop.reward is None


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("training: {sed: 3}", "job.yaml:3:12: unknown key 'sed' in training (did you mean 'seed'?)"),
        ("trainig: {seed: 3}", "job.yaml:3:1: unknown key 'trainig' at the top (did you mean 'training'?)"),
        ("trainig:", "job.yaml:3:1: unknown key 'trainig' at the top (did you mean 'training'?)"),
        ("batch_size: 4", "job.yaml:3:1: unknown key 'batch_size' at the top (it belongs at training.batch_size)"),
        (
            "training: {stop: {rewrd: 4}}",
            "job.yaml:3:19: unknown key 'rewrd' in training.stop (did you mean 'reward'?)",
        ),
        (
            "training: {batch_size: many}",
            "job.yaml:3:24: training.batch_size: expected a whole number or auto, found 'many'",
        ),
        (
            'training: {batch_size: "2048"}',
            'job.yaml:3:24: training.batch_size: expected a whole number or auto, found "2048" (remove the quotes)',
        ),
        ("training: {seed: true}", "job.yaml:3:18: training.seed: expected a whole number, found 'true'"),
        ("training: {seed: 1.5}", "job.yaml:3:18: training.seed: expected a whole number, found '1.5'"),
        ("training: 3", "job.yaml:3:11: training: expected a section of keys, found '3'"),
        (
            "distributed: {oversubscribe: 1}",
            "job.yaml:3:30: distributed.oversubscribe: expected true or false, found '1'",
        ),
        ("distributed: {actors: -1}", "job.yaml:3:23: distributed.actors: expected a number above 0, found '-1'"),
        (
            "distributed: {actors: Auto}",
            "job.yaml:3:23: distributed.actors: expected a whole number or auto, found 'Auto' (did you mean 'auto'?)",
        ),
        (
            "training: {dependencies: strickt}",
            "job.yaml:3:26: training.dependencies: expected relaxed, policy-only or strict, found 'strickt' "
            "(did you mean 'strict'?)",
        ),
        (
            "training: {staleness_tolerance: 3}",
            "job.yaml:3:33: training.staleness_tolerance: must be above 0 and at most 1: "
            "it bounds batch_size / buffer_size (found '3')",
        ),
        (
            "checkpoint: {every: soon}",
            "job.yaml:3:21: checkpoint.every: 'soon' is not a duration: write 30s, 5m, 2h or a number of seconds",
        ),
        (
            "elastic: {min: L3}",
            "job.yaml:3:16: elastic.min: 'L3' is not a shape: write L<learners>A<actors>, for example L2A8",
        ),
        ("elastic: {min: L2A9, max: L2A8}", "job.yaml:3:16: elastic.min L2A9 is not within elastic.max L2A8"),
        (
            "distributed: {actors: 1, learners: 3}",
            "job.yaml:3:23: distributed.actors is 1 but distributed.learners is 3: each learner needs an actor",
        ),
        ("training:\n\tseed: 3", "job.yaml:4:1: tab at line 4, use spaces"),
        ("training: {seed:\t3}", "job.yaml:3:17: tab at line 3 (use spaces)"),
        ("env: {id: y}", "job.yaml:3:1: key 'env' is given twice, at lines 1 and 3"),
        ("training: &t {seed: 3}", "job.yaml:3:11: anchors (&t) are not supported (write the value out"),
        ("<<: {seed: 3}", "job.yaml:3:1: merge keys (<<) are not supported (write the keys out)"),
        ("training: {seed: !!int 3}", "job.yaml:3:18: tags (tag:yaml.org,2002:int) are not supported"),
        ("---\nname: x", "job.yaml:3:1: a second document begins here (keep one document per file)"),
        ("training: {seed: 3", "job.yaml:4:1: not YAML, expected ',' or '}'"),
        ("name: a: b", "job.yaml:3:8: not YAML, mapping values are not allowed here: 'name: a: b'"),
        ("name: \x00", "job.yaml:3:7: character U+0000 is not allowed in YAML"),
        ('name: "a\\nb\\u001b"', "job.yaml:3:7: name: expected letters, digits"),
    ],
)
def test_a_mistake_is_shown_at_its_place(text: str, expected: str) -> None:
    lines = complaints(BASE + text + "\n")
    assert len(lines) == 1
    assert lines[0].startswith(expected)


@pytest.mark.parametrize("word", ["no", "Yes", "off", "ON", "0755", "-007", "0x1F", "22:22", "2020-01-01", ".inf"])
def test_words_that_yaml_readers_disagree_on_must_be_quoted(word: str) -> None:
    (line,) = complaints(f"env: {{id: x, kwargs: {{k: {word}}}}}\nalgorithm: {{name: ppo}}\n")
    assert line.startswith("job.yaml:1:26: ")
    assert f'quote it: "{word}"' in line
    quoted = read(f'env: {{id: x, kwargs: {{k: "{word}", t: true}}}}\nalgorithm: {{name: ppo}}\n')
    assert quoted.env.kwargs == {"k": word, "t": True}


def test_a_refused_word_is_not_reported_a_second_time_as_a_wrong_type() -> None:
    assert len(complaints("env: {id: x, delay_us: 0755}\nalgorithm: {name: ppo}\n")) == 1


def test_every_problem_of_a_file_is_reported_at_once() -> None:
    lines = complaints(BASE + "training: {sed: 3, batch_size: many}\nlearning_rate: 3\ncheckpoint: {keep: 0}\n")
    assert [line.split(" ")[0] for line in lines] == [
        "job.yaml:3:12:",
        "job.yaml:3:32:",
        "job.yaml:4:1:",
        "job.yaml:5:20:",
    ]


def test_an_unknown_algorithm_lists_the_known_ones() -> None:
    (line,) = complaints("env: {id: x}\nalgorithm: {name: dqm}\n")
    assert line == "job.yaml:2:19: algorithm.name: 'dqm' is not known (did you mean 'dqn'? known algorithms: dqn, ppo)"


def test_bare_words_for_env_and_algorithm_get_the_long_form_as_hint() -> None:
    assert [line.partition("(")[2] for line in complaints("env: CartPole-v1\nalgorithm: ppo\n")] == [
        "write env: {id: CartPole-v1})",
        "write algorithm: {name: ppo})",
    ]


@pytest.mark.parametrize("text", ["", "# nothing\n", "hello", "- a\n- b\n", "[" * 100])
def test_a_text_that_holds_no_keys_is_refused(text: str) -> None:
    assert len(complaints(text)) == 1


def test_overrides_reach_any_depth_and_keep_their_order() -> None:
    job = read(
        BASE,
        overrides=[
            "training.seed=3",
            "training.seed=4",
            "training.stop.reward=1e1",
            "algorithm.network.hidden=[32, 16]",
            "env.kwargs={render: false}",
            "checkpoint.every=",
        ],
    )
    assert (job.training.seed, job.training.stop.reward) == (4, 10.0)
    assert job.algorithm.network.hidden == (32, 16)
    assert job.env.kwargs == {"render": False}
    assert job.checkpoint.every is None


@pytest.mark.parametrize(
    ("override", "expected"),
    [
        ("training.sed=3", "--set training.sed=3: unknown key 'sed' in training (did you mean 'seed'?)"),
        ("training.seed=x", "--set training.seed=x: training.seed: expected a whole number, found 'x'"),
        ("training.seed", "--set training.seed: write it as section.key=value (for example --set training.seed=3)"),
        ("training..seed=3", "--set training..seed=3: write it as section.key=value"),
        ("env.id.x=3", "--set env.id.x=3: env.id is a value, it has no key 'x'"),
        ("training.seed=no", "--set training.seed=no: 'no' means false to some YAML readers"),
        ("training.seed=[", "--set training.seed=[: not YAML"),
    ],
)
def test_a_bad_override_is_named_as_it_was_typed(override: str, expected: str) -> None:
    (line,) = complaints(BASE, overrides=[override])
    assert line.startswith(expected)


def test_switching_the_algorithm_names_the_keys_that_only_the_other_one_has() -> None:
    ppo = "env: {id: x}\nalgorithm: {name: ppo, clip: 0.1, gamma: 0.9}\n"
    assert isinstance(read(ppo).algorithm, PpoConfig)
    (line,) = complaints(ppo, algo="dqn")
    assert line == (
        "job.yaml:2:24: unknown key 'clip' in algorithm (it is a setting of ppo, and algorithm.name is dqn: remove it)"
    )
    assert isinstance(read(BASE, overrides=["algorithm.name=ppo"]).algorithm, PpoConfig)
    assert isinstance(read(BASE).algorithm, DqnConfig)


def test_a_batch_larger_than_the_buffer_is_refused_where_it_stands() -> None:
    (line,) = complaints(BASE + "distributed: {buffer_size: 2000}\ntraining: {batch_size: 4096}\n")
    assert line.startswith("job.yaml:4:24: training.batch_size 4096 is larger than distributed.buffer_size 2000")
    assert "training.batch_size: 500" in line
    assert "distributed.buffer_size: 16384" in line


def test_p_above_the_tolerance_is_refused_where_it_stands() -> None:
    (line,) = complaints(FULL.replace("65536", "8000"))
    assert line.startswith("job.yaml:5:24: training.batch_size 2048 / distributed.buffer_size 8000 gives P = 0.256")


def test_a_missing_file_suggests_one_that_is_there(tmp_path: Path) -> None:
    (tmp_path / "cartpole-ppo.yaml").write_text(BASE)
    with pytest.raises(JobError) as caught:
        load_job(tmp_path / "cartpole-pp0.yaml")
    assert str(caught.value) == (
        f"{tmp_path}/cartpole-pp0.yaml: no such file (did you mean {tmp_path}/cartpole-ppo.yaml?)"
    )


def test_a_file_that_is_not_utf_8_is_refused_at_the_byte(tmp_path: Path) -> None:
    (tmp_path / "j.yaml").write_bytes(BASE.encode() + b"name: caf\xe9\n")
    with pytest.raises(JobError, match=r"j\.yaml:3:10: not UTF-8 text"):
        load_job(tmp_path / "j.yaml")


def test_a_folder_in_place_of_a_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(JobError, match="cannot be read: Is a directory"):
        load_job(tmp_path)


@pytest.mark.parametrize(
    ("override", "hint"),
    [
        ("algorithm.gamma=2", "for example algorithm.gamma: 0.99"),
        ("distributed.actors=0", "for example distributed.actors: 4"),
        ("distributed.learners=many", "for example distributed.learners: 1"),
        ("training.seed=x", "for example training.seed: 0"),
        ("distributed.oversubscribe=3", "for example distributed.oversubscribe: false"),
    ],
)
def test_a_value_that_cannot_be_gets_an_example_of_one_that_can(override: str, hint: str) -> None:
    (line,) = complaints(BASE, overrides=[override])
    assert line.endswith(f"({hint})")

"""Random streams: no two lives of a run share one, and each repeats itself."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from runtime.contract.states import Role
from runtime.envs.vector import make_vector_env
from runtime.seeding import seed_sequence
from runtime.selfcheck.finding import Deadline, NotSeenError, Seen
from runtime.selfcheck.playing import act

if TYPE_CHECKING:
    from runtime.contract.job import EnvConfig

_INDICES, _ATTEMPTS, _CHILDREN = 8, 3, 2  # an actor's children: its environments, its actions
_ENVS = 8  #: in one vector: that all of them begin alike by chance is unlikely even if there are only two beginnings
_STEPS = 16
Life = tuple[int, int]  # index, attempt
_LIVES: tuple[Life, ...] = ((0, 0), (1, 0), (0, 1))


def check_streams(seed: int) -> Seen:
    """First draws of components of all roles, indices and attempts, of this run and one with the next seed."""
    first, again = _first_draws(seed), _first_draws(seed)
    owners: dict[int, str] = {}
    for name, draw in first.items():
        if (other := owners.setdefault(draw, name)) != name:
            return Seen(False, f"{other} and {name} draw the same numbers", "streams that differ", f"both {draw}")
    if first != again:
        return Seen(False, "a stream made twice from the same seed draws other numbers")
    return Seen(True, f"{len(first)} streams of components and their lives all differ, and each repeats itself")


def _first_draws(seed: int) -> dict[str, int]:
    draws = {}
    for run in (seed, seed + 1):
        for role in Role:
            for index, attempt in np.ndindex(_INDICES, _ATTEMPTS):
                for number, child in enumerate(seed_sequence(run, role, index, attempt).spawn(_CHILDREN)):
                    name = f"{role.value}-{index}, attempt {attempt}, seed {run}, stream {number}"
                    draws[name] = int(np.random.default_rng(child).integers(2**62))
    return draws


def check_env_streams(config: EnvConfig, seed: int, look_s: float) -> Seen:
    """Beginnings of the environments of several actors and attempts, played with the same actions."""
    every_s = look_s / (len(_LIVES) + 1)
    again, *shown = [_beginnings(config, seed, life, Deadline(every_s)) for life in (_LIVES[0], *_LIVES)]
    steps = min(len(each) for each in (again, *shown))  # slow ones do not come as far each time
    first, *_ = lives = [[each[:steps, index].tobytes() for index in range(_ENVS)] for each in shown]
    if [again[:steps, index].tobytes() for index in range(_ENVS)] != first:
        return Seen(
            False, "an environment made twice from one seed goes other ways: it draws from a generator of its own",
            "the same episode under the same seed and actions", "another one",
        )  # fmt: skip
    return _told_apart(lives, steps)


def _told_apart(lives: list[list[bytes]], steps: int) -> Seen:
    """Whether environments differ within a vector, and vectors between lives."""
    within = any(len(set(life)) > 1 for life in lives)
    between = len({tuple(life) for life in lives}) > 1
    if not within and not between:
        raise NotSeenError(
            f"environments go the same way whatever their seed for {steps} observations: this one is deterministic, "
            "or it ignores its seed"
        )
    if not within:
        return Seen(
            False, f"all {_ENVS} environments of a vector go the same way: its seed is given to each of them unchanged",
            "environments that differ", "equal ones",
        )  # fmt: skip
    if not between:
        return Seen(
            False, "actors and their later attempts all play the same episodes: the environment ignores its seed",
            "actors that differ", "equal ones",
        )  # fmt: skip
    count = len({row for life in lives for row in life})
    return Seen(
        True, f"{count} different beginnings in {len(lives)} lives of {_ENVS} environments; one made twice is the same"
    )  # fmt: skip


def _beginnings(config: EnvConfig, seed: int, life: Life, deadline: Deadline) -> np.ndarray:
    """First observations [steps, environments, *shape] of an actor's vector, with the same actions for all."""
    env_seed, _ = seed_sequence(seed, Role.ACTOR, *life).spawn(_CHILDREN)  # as an actor does
    env = make_vector_env(config.model_copy(update={"delay_us": 0}), _ENVS, env_seed)
    try:
        shown = [env.reset().copy()]
        rng = np.random.default_rng(0)
        while len(shown) < _STEPS and not deadline.over:
            shown.append(act(env, np.full(_ENVS, rng.integers(env.spec.num_actions))).next_obs)
    finally:
        env.close()
    return np.stack(shown)

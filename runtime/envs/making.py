"""From the `env` part of a job to a Gymnasium vector environment.

Two kinds of id: one of Gymnasium's registry (`CartPole-v1`, `package.module:Name-v0`), or `package.module:factory`, a
callable that is given `kwargs` and returns a `gymnasium.Env` or a `VectorEnv`. A factory with a parameter `num_envs` is
told how many environments are wanted.
"""

from __future__ import annotations

import difflib
import importlib
import importlib.util
import inspect
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import gymnasium
from gymnasium.vector import SyncVectorEnv, VectorEnv

from runtime.contract.job import EnvConfig
from runtime.envs.errors import EnvError

_NO_LIMIT = -1  #: what `gymnasium.make` takes for "no step limit"


@dataclass(frozen=True, slots=True)
class MadeEnv:
    """A fresh vector environment, not reset yet, and where it came from."""

    env: VectorEnv[Any, Any, Any]
    native: bool  #: the environment brought its own vector form; else it is a loop over single ones
    max_episode_steps: int | None


def make(config: EnvConfig, num_envs: int) -> MadeEnv:
    """Make `num_envs` copies of the environment as one vector environment.

    The environment's own vector form is preferred, as it is tens of times faster than a loop over single ones. Raises
    EnvError for whatever hinders it, foreign code's own exceptions included (as the cause).
    """
    if factory := _factory(config.id):
        made = _from_factory(config, factory, num_envs)
    else:
        made = _from_registry(config, num_envs)
    if made.env.num_envs != num_envs:
        found = made.env.num_envs
        made.env.close()
        raise EnvError(
            f"environment {config.id} made {found} sub-environments where {num_envs} are wanted: give its factory a "
            "parameter num_envs and use it"
        )
    return made


def _factory(env_id: str) -> Callable[..., object] | None:
    """The callable behind `package.module:name`; None where the id is one of the registry."""
    module_name, colon, name = env_id.partition(":")
    if not colon:
        return None
    try:
        module = importlib.import_module(module_name)
    except ImportError as cause:
        raise EnvError(
            f"environment {env_id}: cannot import {module_name} ({cause}): install it, or put its folder on PYTHONPATH",
            hint=f"export PYTHONPATH=FOLDER, the one that holds {module_name.partition('.')[0]}; "
            f"python -c 'import {module_name}' then says nothing",
        ) from cause
    attribute = getattr(module, name, None)
    if callable(attribute):
        return attribute  # type: ignore[no-any-return]  # callable() narrows Any no further
    if name in gymnasium.registry:
        return None  # the import has registered it: Gymnasium's own `module:Name-v0` form
    callables = [key for key in vars(module) if not key.startswith("_") and callable(getattr(module, key))]
    close = _close(name, callables)
    raise EnvError(
        f"environment {env_id}: module {module_name} has no callable {name}{_nearest(close)}",
        hint=f"--env {module_name}:{close[0]}" if close else f"define {name} in {module.__name__}, or name another",
    )


def _from_factory(config: EnvConfig, factory: Callable[..., object], num_envs: int) -> MadeEnv:
    kwargs: dict[str, Any] = dict(config.kwargs)
    if _takes_num_envs(factory):
        kwargs.setdefault("num_envs", num_envs)
    first = _called(config, factory, kwargs)
    if isinstance(first, VectorEnv):
        return MadeEnv(first, native=True, max_episode_steps=_step_limit(first.spec))
    if not isinstance(first, gymnasium.Env):
        raise EnvError(
            f"environment {config.id} returned a {type(first).__name__}: the factory must return a gymnasium.Env or a "
            "gymnasium.vector.VectorEnv"
        )
    limit = _step_limit(first.spec)
    singles = [first, *(_called(config, factory, kwargs) for _ in range(num_envs - 1))]
    return MadeEnv(_loop_over(config, [partial(_same, env) for env in singles]), native=False, max_episode_steps=limit)


def _same(env: object) -> object:
    return env


def _takes_num_envs(factory: Callable[..., object]) -> bool:
    try:
        return "num_envs" in inspect.signature(factory).parameters
    except ValueError:  # a callable without a readable signature, such as some C functions
        return False


def _from_registry(config: EnvConfig, num_envs: int) -> MadeEnv:
    _register_atari(config.id)
    name = config.id.rpartition(":")[2]  # `_factory` has imported the module of `module:Name-v0`
    try:
        spec = gymnasium.spec(name)
    except gymnasium.error.Error as cause:
        close = _close(config.id, list(gymnasium.registry))
        listed = "python -c 'import gymnasium; gymnasium.pprint_registry()' lists those there are"
        raise EnvError(
            f"no such environment: {config.id}{_nearest(close)}; "
            "environments of your own are named package.module:factory",
            hint=f"--env {close[0]}" if close else listed,
        ) from cause
    kwargs: dict[str, Any] = dict(config.kwargs)
    limit = kwargs.get("max_episode_steps", spec.max_episode_steps)
    if limit is not None and not isinstance(limit, int):
        raise EnvError(f"environment {config.id}: env.kwargs.max_episode_steps is {limit!r}: give a whole number")
    if limit == _NO_LIMIT:
        limit = None
    if spec.vector_entry_point is not None:
        env = _called(config, gymnasium.make_vec, {"id": name, "num_envs": num_envs, **kwargs})
        return MadeEnv(env, native=True, max_episode_steps=limit)

    def single() -> Any:
        # The checker looks at every step's types; `probe` has done so once, and the hot loop should not pay for it.
        return _called(config, gymnasium.make, {"id": name, "disable_env_checker": True, **kwargs})

    return MadeEnv(_loop_over(config, [single] * num_envs), native=False, max_episode_steps=limit)


def _loop_over(config: EnvConfig, singles: list[Callable[[], Any]]) -> VectorEnv[Any, Any, Any]:
    # copy=False: callers take what they need out of the returned observations before the next step.
    env: VectorEnv[Any, Any, Any] = _called(config, SyncVectorEnv, {"env_fns": singles, "copy": False})
    return env


def _called(config: EnvConfig, call: Callable[..., Any], kwargs: dict[str, Any]) -> Any:
    """The call's result; whatever an environment's own code raises becomes an EnvError that names it."""
    try:
        return call(**kwargs)
    except EnvError:
        raise
    except Exception as cause:  # an environment's constructor may raise anything at all
        given = ", ".join(f"{key}={value!r}" for key, value in config.kwargs.items()) or "none"
        raise EnvError(
            f"environment {config.id} could not be made ({type(cause).__name__}: {cause}); env.kwargs given: {given}"
        ) from cause


def _register_atari(env_id: str) -> None:
    if not env_id.startswith("ALE/"):
        return
    if importlib.util.find_spec("ale_py") is None:
        raise EnvError(f"environment {env_id} needs the package ale-py: pip install 'tianjictl[atari]'")
    gymnasium.register_envs(importlib.import_module("ale_py"))


def _step_limit(spec: Any) -> int | None:
    limit = getattr(spec, "max_episode_steps", None)
    return int(limit) if limit is not None else None


def _close(name: str, known: list[str]) -> list[str]:
    """Up to three known names that look like `name`, the nearest first."""
    by_lower = {key.lower(): key for key in known}
    return [by_lower[key] for key in difflib.get_close_matches(name.lower(), by_lower, n=3, cutoff=0.6)]


def _nearest(close: list[str]) -> str:
    return f"; nearest: {', '.join(close)}" if close else ""

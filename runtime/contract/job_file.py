"""Read a job: a YAML file, options of the command line on top, and every problem reported at once."""

from __future__ import annotations

import difflib
import json
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from runtime.contract.job import Job, default_name
from runtime.contract.job_problems import ALGORITHMS, key_path, place_of_sentence, problems_of
from runtime.contract.shape import Shape
from runtime.contract.sizes import SizesError, check_pool_ratio
from runtime.contract.yaml_source import Node, Place, Problem, Source, read_bytes, read_scalar, read_text

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

_LEAST = 'a job names at least an environment and an algorithm: "env: {id: CartPole-v1}" and "algorithm: {name: ppo}"'
_NO_FILE = "--env CartPole-v1 --algo ppo is a job that needs no file"
_LARGEST_FILE = 1 << 20  #: bytes; a job has a few hundred


class JobError(ValueError):
    """The job cannot be used. `problems` holds every finding; as text, one line each."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        super().__init__("\n".join(str(problem) for problem in problems))
        self.problems = list(problems)


def load_job(
    path: Path | None,
    *,
    text: str | None = None,
    overrides: Sequence[str] = (),
    env: str | None = None,
    algo: str | None = None,
    oversubscribe: bool = False,
) -> Job:
    """The job in `path` (or in `text`, then `path` is only its name), or one made of options alone.

    `env`, `algo` and `oversubscribe` are the options of the same names; `overrides` are `--set` values such as
    `training.seed=3`, applied after them in their order. JobError lists what is wrong.
    """
    source = _read(path, text)
    problems = list(source.problems)
    root = source.root if source.root is not None else Node(Place(_label(path)), entries={})
    if root.entries is None:
        if not problems:
            problems.append(root.place.problem(f"expected keys such as env: and training:, found {root.kind}", _LEAST))
        raise JobError(problems)
    if source.root is None and problems:
        raise JobError(problems)
    if env is not None:
        problems += _put(root, ("env", "id"), _option("--env", env))
    if algo is not None:
        problems += _put(root, ("algorithm", "name"), _option("--algo", algo))
    if oversubscribe:
        problems += _put(root, ("distributed", "oversubscribe"), _option("--oversubscribe", True))
    for override in overrides:
        problems += _override(root, override)
    _drop_empty_sections(root)
    problems += _what_is_not_named(root)
    job, found = _validated(root)
    told = {problem.place for problem in problems if problem.line is not None}
    problems += [problem for problem in found if problem.place not in told]
    if job is None or problems:
        raise JobError(problems)
    return job


def _label(path: Path | None) -> str:
    return str(path) if path is not None else "command line"


def _read(path: Path | None, text: str | None) -> Source:
    file = _label(path)
    if text is not None:
        return _not_empty(read_text(text, file), file)
    if path is None:
        return Source(None, ())
    place = Place(file)
    try:
        with path.open("rb") as opened:
            raw = opened.read(_LARGEST_FILE + 1)
    except FileNotFoundError:
        return Source(None, (place.problem("no such file", _similar_files(path)),))
    except OSError as error:
        return Source(None, (place.problem(f"cannot be read: {error.strerror}", _instead(path)),))
    if len(raw) > _LARGEST_FILE:
        return Source(None, (place.problem("larger than 1 MiB: this is no job file", _LEAST),))
    return _not_empty(read_bytes(raw, file), file)


def _not_empty(source: Source, file: str) -> Source:
    if source.root is None and not source.problems:
        return Source(None, (Place(file, 1, 1).problem("the file is empty", _LEAST),))
    return source


def _similar_files(path: Path) -> str:
    """Existing job files with a similar name, for a mistyped path."""
    names = [p.name for p in path.parent.glob("*.yaml")] if path.parent.is_dir() else []
    close = difflib.get_close_matches(path.name, names, n=1, cutoff=0.5)
    return f"did you mean {path.parent / close[0]}?" if close else _NO_FILE


def _instead(path: Path) -> str:
    """What to name where a file cannot be read: of a folder, a job in it."""
    inside = sorted(path.glob("*.yaml")) if path.is_dir() else []
    if inside:
        return f"name a file in it: {inside[0]}"
    return _NO_FILE if path.is_dir() else f"ls -l {path} tells who may"


def _option(flag: str, value: str | bool) -> Node:
    return Node(Place(f"{flag} {value}" if isinstance(value, str) else flag), value=value, text=str(value))


def _override(root: Node, override: str) -> list[Problem]:
    label = Place(f"--set {override}")
    key, equals, written = override.partition("=")
    path = tuple(key.strip().split("."))
    if not equals or not all(path):
        return [label.problem("write it as section.key=value", "for example --set training.seed=3")]
    source = read_scalar(written, label.file)
    if source.root is None or source.problems:
        return list(source.problems)
    return _put(root, path, source.root)


def _put(root: Node, path: tuple[str, ...], value: Node) -> list[Problem]:
    """Set the value at `path`, making the sections on the way."""
    node = root
    for depth, part in enumerate(path[:-1], start=1):
        entries = _entries(node)
        below = entries.get(part)
        if below is None:
            below = entries[part] = Node(value.place, entries={})
            node.key_places[part] = value.place
        if below.items is not None or below.value is not None:
            dotted = ".".join(path[:depth])
            return [value.place.problem(f"{dotted} is {below.kind}, it has no key '{path[depth]}'")]
        node = below
    _entries(node)[path[-1]] = value
    node.key_places[path[-1]] = value.place
    return []


def _entries(node: Node) -> dict[str, Node]:
    """The entries of a section; one that was left empty in the file (`training:`) becomes a section here."""
    if node.entries is None:
        node.entries = {}
    return node.entries


def _drop_empty_sections(root: Node) -> None:
    """`elastic:` with nothing below it means the same as leaving it out."""
    entries = _entries(root)
    for key in Job.model_fields:
        if key in entries and entries[key].plain() is None:
            del entries[key]


def _what_is_not_named(root: Node) -> list[Problem]:
    """Environment and algorithm may come from options; say which are missing, and name the job if it has no name."""
    entries = _entries(root)
    problems = []
    if "env" not in entries:
        problems.append(
            root.place.problem("no environment is named", "add env: {id: CartPole-v1}, or give --env CartPole-v1")
        )
    if "algorithm" not in entries:
        problems.append(
            root.place.problem("no algorithm is named", "add algorithm: {name: ppo}, or give --algo ppo (or dqn)")
        )
    env, algorithm = root.find(("env", "id")), root.find(("algorithm", "name"))
    if "name" not in entries and env is not None and algorithm is not None:
        entries["name"] = Node(root.place, value=default_name(str(env.value), str(algorithm.value)))
    return problems


def _validated(root: Node) -> tuple[Job | None, list[Problem]]:
    """The job, or what is wrong with it.

    Validation is strict (`"8"` is no number, `true` is no count), with two allowances: a number such as `2e6` counts
    as a whole number, and a section left empty counts as left out.
    """
    try:
        job = Job.model_validate_json(json.dumps(root.plain()), strict=True)
    except ValidationError as error:
        if _allow(root, error):
            return _validated(root)
        absent = {key for key in ("env", "algorithm", "name") if key not in _entries(root)}
        errors = [e for e in error.errors() if not (e["type"] == "missing" and e["loc"][0] in absent)]
        return None, problems_of(errors, root)
    return job, list(_contradictions(job, root))


def _allow(root: Node, error: ValidationError) -> bool:
    """Apply the allowances to the tree; whether anything changed."""
    changed = False
    for detail in error.errors():
        path = key_path(detail["loc"], root)
        node = root.find(path)
        if node is None or not path:
            continue
        value: Any = node.value
        if detail["type"] in ("int_type", "int_from_float") and isinstance(value, float) and value.is_integer():
            node.value = int(value)
            changed = True
        elif detail["type"] in ("model_type", "dict_type") and node.plain() is None:
            node.entries = {}
            changed = True
    return changed


def _contradictions(job: Job, root: Node) -> Iterator[Problem]:
    """Numbers that are fine one by one and cannot go together; those that need a machine are the planner's."""
    try:
        check_pool_ratio(job)
    except SizesError as error:
        yield place_of_sentence(error.message, root).place.problem(error.message, error.hint)
    smallest, largest = job.elastic.min, job.elastic.max
    if smallest and largest:
        low, high = Shape.parse(smallest), Shape.parse(largest)
        if not high.covers(low):
            said = f"elastic.min {low} is not within elastic.max {high}"
            yield place_of_sentence(said, root).place.problem(said)


__all__ = ["ALGORITHMS", "JobError", "load_job"]

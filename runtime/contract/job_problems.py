"""Turn what pydantic says of a job into problems that point at a place and name the nearest known key."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

from pydantic import BaseModel

from runtime.contract.algorithm import DqnConfig, PpoConfig
from runtime.contract.job import Job
from runtime.contract.yaml_source import Node, Problem, nearest

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from pydantic_core import ErrorDetails

Path = tuple[str | int, ...]

ALGORITHMS: dict[str, type[BaseModel]] = {"dqn": DqnConfig, "ppo": PpoConfig}

_EXPECTED = {
    "int_type": "a whole number",
    "int_from_float": "a whole number",
    "float_type": "a number",
    "bool_type": "true or false",
    "string_type": "text",
    "model_type": "a section of keys",
    "model_attributes_type": "a section of keys",
    "dict_type": "a section of keys",
    "tuple_type": "a list",
    "none_required": "null",
}
_BOUNDS = {
    "greater_than": ("above", "gt"),
    "greater_than_equal": ("at least", "ge"),
    "less_than": ("below", "lt"),
    "less_than_equal": ("at most", "le"),
}
#: Values of keys that have no default, or one that would help nobody.
_USUAL = {
    "env.id": "CartPole-v1",
    "algorithm.name": "ppo",
    "env.num_envs": "16",
    "distributed.actors": "4",
    "distributed.learners": "1",
    "distributed.learner_cores": "1",
    "distributed.buffer_size": "65536",
    "training.batch_size": "2048",
    "training.staleness_tolerance": "0.25",
    "elastic.min": "L1A1",
    "elastic.max": "L2A8",
}
_DOTTED_KEY = re.compile(r"[a-z_]+(?:\.[a-z_]+)+")


def problems_of(errors: Sequence[ErrorDetails], root: Node) -> list[Problem]:
    """One problem for each key that is wrong, in the order of the file, without pydantic's union branches."""
    by_path: dict[Path, list[ErrorDetails]] = {}
    for error in errors:
        by_path.setdefault(key_path(error["loc"], root), []).append(error)
    problems = [_problem(path, group, root) for path, group in by_path.items()]
    return sorted(problems, key=lambda p: (p.line or 0, p.column or 0))


def key_path(loc: Iterable[str | int], root: Node) -> Path:
    """The path of keys in pydantic's location, which also holds names of union branches."""
    path: list[str | int] = []
    model: type[BaseModel] | None = Job
    for part in loc:
        if model is not None:
            if path == ["algorithm"] and part in ALGORITHMS:
                continue
            path.append(part)
            model = _model_of(model, str(part), root)
        else:
            node = root.find(path)
            is_index = isinstance(part, int)
            is_key = node is not None and node.entries is not None and part in node.entries
            if is_index or is_key:
                path.append(part)
    return tuple(path)


def _model_of(parent: type[BaseModel], key: str, root: Node) -> type[BaseModel] | None:
    field = parent.model_fields.get(key)
    if field is None:
        return None
    if parent is Job and key == "algorithm":
        name = root.find(("algorithm", "name"))
        return ALGORITHMS.get(str(name.value), PpoConfig) if name is not None else PpoConfig
    return field.annotation if isinstance(field.annotation, type) and issubclass(field.annotation, BaseModel) else None


def _problem(path: Path, errors: list[ErrorDetails], root: Node) -> Problem:
    kinds = {error["type"] for error in errors}
    if "extra_forbidden" in kinds:
        return _unknown_key(path, root)
    if "missing" in kinds:
        return _nearest_place(path, root).place.problem(f"{_dotted(path)} is missing", _example(path, root))
    if kinds & {"union_tag_invalid", "union_tag_not_found"}:
        return _algorithm_name(root)
    node = root.find(path)
    first = errors[0]
    for error in errors:
        if error["type"] == "value_error":
            return _rule_broken(path, str(error["ctx"]["error"]), root)
        if error["type"] in _BOUNDS:
            word, limit = _BOUNDS[error["type"]]
            return _expected(path, f"a number {word} {error['ctx'][limit]}", root)
    if node is None:
        return _nearest_place(path, root).place.problem(f"{_dotted(path)}: {first['msg']}", _example(path, root))
    several = list(dict.fromkeys(_wanted(error) for error in errors))
    wanted = " or ".join(several) if len(several) < 4 else "one value: text, a number, true or false"
    return _expected(path, wanted, root)


def _wanted(error: ErrorDetails) -> str:
    if error["type"] in ("literal_error", "enum"):
        return str(error["ctx"]["expected"]).replace("'", "")
    if error["type"] == "string_pattern_mismatch":
        return "letters, digits, '.', '_' and '-', at most 63, the first a letter or a digit"
    return _EXPECTED.get(error["type"], error["msg"].removeprefix("Input should be "))


def _expected(path: Path, wanted: str, root: Node) -> Problem:
    node = root.find(path) or root
    found = f"found {_shown(node)}"
    hint = None
    if node.quoted and "number" in wanted and re.fullmatch(r"[-+0-9.eE_]+", node.text):
        hint = "remove the quotes"
    elif path == ("env",) and isinstance(node.value, str):
        hint = f"write env: {{id: {node.value}}}"
    elif path == ("algorithm",) and isinstance(node.value, str):
        hint = f"write algorithm: {{name: {node.value}}}"
    elif wanted == "text" and node.text and not node.quoted:
        hint = f'quote it: "{node.text}"'
    elif isinstance(node.value, str):
        close = nearest(node.value, re.findall(r"[a-z][a-z-]*", wanted))
        hint = f"did you mean '{close}'?" if close else None
    return node.place.problem(f"{_dotted(path)}: expected {wanted}, {found}", hint or _example(path, root))


def _example(path: Path, root: Node) -> str | None:
    """A value that a key may have: its default, or what is most usual; none where neither is known."""
    shown = _USUAL.get(_dotted(path))
    if shown is None:
        model: type[BaseModel] | None = Job
        for part in path[:-1]:
            model = _model_of(model, str(part), root) if model is not None else None
        field = model.model_fields.get(str(path[-1])) if model is not None and path else None
        default = field.default if field is not None else None
        if not isinstance(default, bool | int | float | str) or default == "":
            return None
        shown = json.dumps(default) if isinstance(default, bool) else f"{default}"
    return f"for example {_dotted(path)}: {shown}"


def _shown(node: Node) -> str:
    if node.entries is not None or node.items is not None:
        return node.kind
    if node.value is None:
        return "nothing"
    text = node.text if len(node.text) <= 60 else node.text[:57] + "..."
    return f'"{text}"' if node.quoted else f"'{text}'"


def _rule_broken(path: Path, said: str, root: Node) -> Problem:
    """A validator's own sentence; where it is about the whole job, the place is that of the first key it names."""
    if path:
        node = root.find(path)
        found = f" (found {_shown(node)})" if node is not None and node.text and node.text not in said else ""
        return _nearest_place(path, root).place.problem(f"{_dotted(path)}: {said}{found}", _example(path, root))
    return place_of_sentence(said, root).place.problem(said)


def place_of_sentence(sentence: str, root: Node) -> Node:
    """The node of the first `section.key` that a sentence names and the job holds; else the whole job."""
    for match in _DOTTED_KEY.finditer(sentence):
        node = root.find(match[0].split("."))
        if node is not None:
            return node
    return root


def _algorithm_name(root: Node) -> Problem:
    known = ", ".join(ALGORITHMS)
    name = root.find(("algorithm", "name"))
    if name is None:
        place = _nearest_place(("algorithm",), root).place
        return place.problem("algorithm.name is missing", f"known algorithms: {known}")
    close = nearest(str(name.value), ALGORITHMS)
    hint = f"did you mean '{close}'? " if close else ""
    return name.place.problem(f"algorithm.name: {_shown(name)} is not known", f"{hint}known algorithms: {known}")


def _unknown_key(path: Path, root: Node) -> Problem:
    key = str(path[-1])
    section = path[:-1]
    holder = root.find(section) or root
    place = holder.key_places.get(key, holder.place)
    where = f"in {_dotted(section)}" if section else "at the top"
    return place.problem(f"unknown key '{key}' {where}", _advice_for_key(key, section, root))


def _advice_for_key(key: str, section: Path, root: Node) -> str:
    if section == ("algorithm",):
        mine = root.find(("algorithm", "name"))
        owners = [name for name, model in ALGORITHMS.items() if key in model.model_fields]
        if owners and mine is not None:
            return f"it is a setting of {owners[0]}, and algorithm.name is {mine.value}: remove it"
    known = _keys_at(section, root)
    close = nearest(key, known)
    if close:
        return f"did you mean '{close}'?"
    homes = [_dotted(path) for path in _every_key(Job, (), root) if path[-1] == key]
    if homes:
        return f"it belongs at {homes[0]}"
    return f"known keys: {', '.join(known)}"


def _keys_at(section: Path, root: Node) -> list[str]:
    model: type[BaseModel] | None = Job
    for part in section:
        model = _model_of(model, str(part), root) if model is not None else None
    return list(model.model_fields) if model is not None else []


def _every_key(model: type[BaseModel], at: Path, root: Node) -> Iterator[Path]:
    for key in model.model_fields:
        yield (*at, key)
        below = _model_of(model, key, root)
        if below is not None:
            yield from _every_key(below, (*at, key), root)


def _nearest_place(path: Path, root: Node) -> Node:
    """The deepest node that exists on the way to `path`."""
    for length in range(len(path), 0, -1):
        node = root.find(path[:length])
        if node is not None:
            return node
    return root


def _dotted(path: Path) -> str:
    return ".".join(str(part) for part in path)

"""The groups of an inventory as a graph, built from YAML nodes; what does not belong there is noted and left out."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from runtime.contract.yaml_scalar import plain_value
from runtime.contract.yaml_source import Node, Place, Problem, nearest
from tianjictl.hosts.ranges import RangeError, expand, split_port
from tianjictl.hosts.variables import HONOURED, complaint

if TYPE_CHECKING:
    from collections.abc import Iterator

_GROUP_KEYS = ("hosts", "vars", "children")
_GROUP_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]*")
_HOST_NAME = re.compile(r"[A-Za-z0-9_](?:[A-Za-z0-9_.-]*[A-Za-z0-9_])?")


@dataclass(slots=True)
class Group:
    """A group: its own hosts, the groups directly below it, and its variables in the order of the file."""

    name: str
    place: Place
    hosts: dict[str, Place] = field(default_factory=dict)
    children: dict[str, Place] = field(default_factory=dict)
    variables: list[tuple[str, Node, Place]] = field(default_factory=list)


@dataclass(slots=True)
class Tree:
    """Everything that a file says. `host_variables` holds (name, value, place, group in which it was said)."""

    groups: dict[str, Group] = field(default_factory=dict)
    host_variables: dict[str, list[tuple[str, Node, Place, str]]] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)

    def group(self, name: str, place: Place) -> Group:
        return self.groups.setdefault(name, Group(name, place))


def build(root: Node) -> Tree:
    """The tree of an inventory's root node; problems are collected in it."""
    tree = Tree()
    tree.group("all", root.place)
    for name, node in (root.entries or {}).items():
        place = root.key_places[name]
        if name in _GROUP_KEYS:
            tree.problems.append(place.problem(f"'{name}' stands outside any group", "put it below 'all:'"))
        else:
            _group(tree, name, place, node)
    _attach_to_all(tree)
    _refuse_loops(tree)
    for name in tree.groups.keys() & tree.host_variables.keys():
        place = tree.groups[name].place
        tree.problems.append(place.problem(f"'{name}' is a group and a host", "give one of them another name"))
    return tree


def add_variables(tree: Tree, node: Node, owner: Group | str) -> None:
    """Take the variables of a mapping over to a group or to a host (`owner` is then the host's name)."""
    if node.entries is None:
        if node.value is not None or node.items is not None:
            tree.problems.append(node.place.problem(f"variables must be a section of keys, found {node.kind}"))
        return
    for name, value in node.entries.items():
        place = node.key_places[name]
        if _is_bad_variable(tree, name, place) or _has_template(tree, value):
            continue
        if isinstance(owner, str):
            tree.host_variables.setdefault(owner, []).append((name, value, place, ""))
        else:
            owner.variables.append((name, value, place))


def _group(tree: Tree, name: str, place: Place, node: Node) -> None:
    if not _GROUP_NAME.fullmatch(name):
        tree.problems.append(
            place.problem(f"'{name}' is no name for a group", "letters, digits, '_', '-' and '.', a letter first")
        )
        return
    group = tree.group(name, place)
    if node.entries is None:
        if node.value is not None or node.items is not None:
            tree.problems.append(node.place.problem(f"group {name} must be a section of keys, found {node.kind}"))
        return
    for key, value in node.entries.items():
        key_place = node.key_places[key]
        if key not in _GROUP_KEYS:
            near = {"host": "hosts", "childs": "children", "childrens": "children"}.get(key) or nearest(
                key, _GROUP_KEYS
            )
            hint = f"did you mean {near}?" if near else "a group holds hosts, vars and children"
            tree.problems.append(key_place.problem(f"unknown key '{key}' in group {name}", hint))
        elif key == "vars":
            add_variables(tree, value, group)
        elif key == "children":
            for child, child_place, child_node in _section(tree, value, f"children of {name}"):
                _group(tree, child, child_place, child_node)
                if child in tree.groups:
                    group.children.setdefault(child, child_place)
        else:
            _hosts(tree, group, value)


def _hosts(tree: Tree, group: Group, node: Node) -> None:
    for pattern, place, values in _section(tree, node, f"hosts of {group.name}"):
        if "::" in pattern or pattern.count(":") > 6:  # an IPv6 address, which looks like a range
            _is_bad_host(tree, pattern, place)
            continue
        bare, port = split_port(pattern)
        try:
            names = expand(bare)
        except RangeError as problem:
            tree.problems.append(place.problem(str(problem)))
            continue
        if len(names) > 1:
            _refuse_shared_address(tree, pattern, values)
        for name in names:
            if _is_bad_host(tree, name, place):
                break
            if name in group.hosts:
                first = group.hosts[name]
                tree.problems.append(
                    place.problem(
                        f"host {name} is given twice in group {group.name}, at lines {first.line} and {place.line}"
                    )
                )
                continue
            group.hosts[name] = place
            _host_variables(tree, name, values, group.name, first=name == names[0])
            if port is not None:
                number = Node(place, value=port, text=str(port))
                tree.host_variables[name].append(("ansible_port", number, place, group.name))


def _host_variables(tree: Tree, name: str, values: Node, group: str, *, first: bool) -> None:
    known = tree.host_variables.setdefault(name, [])
    seen = len(tree.problems)
    before = len(known)
    add_variables(tree, values, name)
    if not first:  # a range's values are looked at once
        del tree.problems[seen:]
    known[before:] = [(key, value, place, group) for key, value, place, _ in known[before:]]


def _section(tree: Tree, node: Node, what: str) -> Iterator[tuple[str, Place, Node]]:
    """Entries of a mapping, or the one name that stands in its place; an empty section has none."""
    if node.entries is not None:
        for name, value in node.entries.items():
            yield name, node.key_places[name], value
    elif node.items is not None:
        tree.problems.append(
            node.place.problem(f"{what} must be keys, found a list", "write 'name:' instead of '- name'")
        )
    elif node.value is not None:
        yield node.text, node.place, Node(node.place)


def _is_bad_variable(tree: Tree, name: str, place: Place) -> bool:
    said = complaint(name)
    if said is not None:
        tree.problems.append(place.problem(*said))
    return said is not None


def _has_template(tree: Tree, node: Node) -> bool:
    for child in [*(node.items or []), *(node.entries or {}).values()]:
        if _has_template(tree, child):
            return True
    if "{{" in node.text or "{%" in node.text:
        tree.problems.append(node.place.problem(f"templates are not supported: '{node.text}'", "write the value out"))
        return True
    return False


def _is_bad_host(tree: Tree, name: str, place: Place) -> bool:
    if not isinstance(plain_value(name), str):
        said = place.problem(
            f"'{name}' is no name for a host: YAML reads it as something else", "use an alias with ansible_host"
        )
    elif not _HOST_NAME.fullmatch(name):
        hint = "use an alias with ansible_host" if ":" in name or "[" in name else "letters, digits, '_', '-' and '.'"
        said = place.problem(f"'{name}' is no name for a host", hint)
    else:
        return False
    tree.problems.append(said)
    return True


def _refuse_shared_address(tree: Tree, pattern: str, values: Node) -> None:
    for name in (values.entries or {}).keys() & {n for n, v in HONOURED.items() if v.field == "address"}:
        message = f"{name} would give every host of '{pattern}' the same address"
        tree.problems.append(values.key_places[name].problem(message, "write the hosts out"))


def _attach_to_all(tree: Tree) -> None:
    children = {child for group in tree.groups.values() for child in group.children}
    top = tree.groups["all"]
    for name, group in tree.groups.items():
        if name not in children and name != "all":
            top.children.setdefault(name, group.place)


def _refuse_loops(tree: Tree) -> None:
    done: set[str] = set()

    def visit(name: str, above: tuple[str, ...]) -> None:
        for child, place in list(tree.groups[name].children.items()):
            if child in (*above, name):
                tree.problems.append(
                    place.problem(f"group {child} is below itself: {' > '.join([*above, name, child])}")
                )
                del tree.groups[name].children[child]
            elif child not in done:
                visit(child, (*above, name))
        done.add(name)

    for name in list(tree.groups):
        if name not in done:
            visit(name, ())

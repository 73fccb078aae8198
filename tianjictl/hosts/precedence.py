"""Which of several values a host gets: all < parent group < child group < host, each with its place of origin.

Groups are taken by their depth below `all`, of equal depth in alphabetical order, and the last one wins, as in
Ansible. Files in `group_vars/` come after all groups of the inventory, `host_vars/` after what it says of the host.
Stricter than Ansible: two groups that are not above each other may not disagree on how to reach a host.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tianjictl.hosts.types import Setting
from tianjictl.hosts.variables import HONOURED

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from runtime.contract.yaml_source import Node, Place, Problem
    from tianjictl.hosts.tree import Tree

ALL, UNGROUPED = "all", "ungrouped"
Values = list[tuple[str, "Node", "Place"]]


@dataclass(frozen=True, slots=True)
class Files:
    """What stands in `group_vars/` and `host_vars/` beside the inventory, by group and by host."""

    groups: Mapping[str, Values] = field(default_factory=dict)
    hosts: Mapping[str, Values] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Chosen:
    """One variable of one host as decided: its node, and the setting to show."""

    node: Node
    setting: Setting


def members(tree: Tree) -> dict[str, tuple[str, ...]]:
    """Hosts of every group, also those of its children, in the order in which they first appear."""
    order = {name: number for number, name in enumerate(tree.host_variables)}

    def below(name: str) -> set[str]:
        group = tree.groups[name]
        return set(group.hosts).union(*(below(child) for child in group.children))

    found = {name: below(name) for name in tree.groups}
    grouped = set().union(*(hosts for name, hosts in found.items() if name not in (ALL, UNGROUPED)))
    found[UNGROUPED] = set(order) - grouped
    found[ALL] = set(order)
    return {name: tuple(sorted(hosts, key=order.__getitem__)) for name, hosts in found.items()}


def in_order(tree: Tree, groups: Iterable[str]) -> list[str]:
    """Groups in the order in which their values apply; the last one wins."""
    depths = _depths(tree)
    return sorted(groups, key=lambda name: (depths.get(name, 1), name))


def decide(tree: Tree, host: str, groups: Iterable[str], files: Files, problems: list[Problem]) -> dict[str, Chosen]:
    """The variables of `host`, which is in `groups` (those above them included)."""
    chosen: dict[str, Chosen] = {}
    rest = [name for name in in_order(tree, groups) if name != ALL]
    layers = [*(_of_groups(tree, part) for part in ([ALL], rest)), *(_of_files(files, part) for part in ([ALL], rest))]
    own = {name for name, *_ in (*tree.host_variables[host], *files.hosts.get(host, ()))}
    ancestors = _ancestors(tree)
    for layer in layers:
        for group, name, node, place in layer:
            before = chosen.get(name)
            chosen[name] = made = _chosen(node, place, f"group {group}")
            if before is not None and name not in own:
                problems += _conflict(host, name, before, made, group, ancestors)
    said: dict[str, Chosen] = {}
    for name, node, place, group in tree.host_variables[host]:
        made = _chosen(node, place, f"host {host}")
        if name in said and said[name].setting.value != made.setting.value:
            problems.append(
                _disagreement(host, name, said[name], made, hint=f"say it once; group {group} says it again")
            )
        said[name] = made
    for name, node, place in files.hosts.get(host, ()):
        said[name] = _chosen(node, place, f"host {host}")
    return {**chosen, **said}


def _of_groups(tree: Tree, names: Iterable[str]) -> list[tuple[str, str, Node, Place]]:
    return [(g, *value) for g in names if g in tree.groups for value in tree.groups[g].variables]


def _of_files(files: Files, names: Iterable[str]) -> list[tuple[str, str, Node, Place]]:
    return [(g, *value) for g in names for value in files.groups.get(g, ())]


def _chosen(node: Node, place: Place, owner: str) -> Chosen:
    return Chosen(node, Setting(node.plain(), owner, place))


def _conflict(
    host: str, name: str, before: Chosen, made: Chosen, group: str, ancestors: Mapping[str, frozenset[str]]
) -> list[Problem]:
    """Two groups, neither above the other, that reach the host in different ways."""
    earlier = before.setting.owner.removeprefix("group ")
    related = earlier == group or ALL in (earlier, group) or earlier in ancestors.get(group, frozenset())
    if related or before.setting.value == made.setting.value or name not in HONOURED or not HONOURED[name].connects:
        return []
    return [_disagreement(host, name, before, made, hint=f"say it on host {host} itself")]


def _disagreement(host: str, name: str, first: Chosen, second: Chosen, hint: str) -> Problem:
    one, other = first.setting, second.setting
    told = f"{name} of host {host} is {one.value!r} ({one.origin}) and {other.value!r} ({other.origin})"
    return second.setting.place.problem(told, hint)


def _depths(tree: Tree) -> dict[str, int]:
    """Length of the longest way from `all` to each group."""
    depths = {ALL: 0}

    def visit(name: str) -> None:
        for child in tree.groups[name].children:
            if depths.get(child, -1) < depths[name] + 1:
                depths[child] = depths[name] + 1
                visit(child)

    visit(ALL)
    return depths


def _ancestors(tree: Tree) -> dict[str, frozenset[str]]:
    found: dict[str, frozenset[str]] = {}
    for name in in_order(tree, tree.groups):
        parents = [parent for parent, group in tree.groups.items() if name in group.children]
        found[name] = frozenset(parents).union(*(found.get(parent, frozenset()) for parent in parents))
    return found

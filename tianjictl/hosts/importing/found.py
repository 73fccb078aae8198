"""A host as another tool's file names it, and what it takes to write it down as one of ours."""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from runtime.contract.yaml_scalar import plain_value
from tianjictl.errors import Finding, UsageProblem

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from runtime.contract.yaml_source import Place, Problem

_NAME = re.compile(r"[A-Za-z0-9_](?:[A-Za-z0-9_.-]*[A-Za-z0-9_])?")


@dataclass(frozen=True, slots=True)
class Found:
    """One host: its name in the inventory to be, its variables, and where it was named."""

    name: str
    place: Place
    variables: Mapping[str, str | int] = field(default_factory=dict)


def named(written: str, place: Place, **variables: str | int) -> Found | Problem:
    """A host by the name that another tool knows it by; an IPv6 address, which cannot be a name, becomes its address.

    Problem where an inventory cannot have such a name.
    """
    bare = written[1:-1] if written.startswith("[") and written.endswith("]") else written
    if _is_ipv6(bare):
        return Found("ip-" + bare.replace(":", "-").replace("%", "-"), place, {"ansible_host": bare, **variables})
    if not _NAME.fullmatch(written) or not isinstance(plain_value(written), str):
        return place.problem(f"'{written}' is no name for a host", "letters, digits, '_', '-' and '.', not a number")
    return Found(written, place, variables)


def all_or_problem(found: Sequence[Found | Problem]) -> list[Found]:
    """The hosts, or one UsageProblem with everything that is wrong."""
    problems = [each for each in found if not isinstance(each, Found)]
    hosts = [each for each in found if isinstance(each, Found)]
    if not problems:
        problems = _twice(hosts)
    if problems:
        problems.sort(key=lambda problem: (problem.file, problem.line or 0))
        raise UsageProblem.listing([Finding(*problem.told()) for problem in problems])
    return hosts


def _twice(hosts: Sequence[Found]) -> list[Problem]:
    first: dict[str, Found] = {}
    return [
        host.place.problem(f"host {host.name} is named twice{_where(first[host.name].place)}")
        for host in hosts
        if first.setdefault(host.name, host) is not host
    ]


def _where(place: Place) -> str:
    return f", first at line {place.line}" if place.line is not None else ""


def _is_ipv6(text: str) -> bool:
    try:
        return ipaddress.ip_address(text).version == 6
    except ValueError:
        return False

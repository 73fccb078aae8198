"""Where the control groups of a process are, for v1, v2 and hybrid layouts. Pure: the texts are passed in."""

from __future__ import annotations

import posixpath
from typing import NamedTuple


class Hierarchy(NamedTuple):
    """One mounted hierarchy: its controllers (empty for v2), where it is mounted, and our group's folders in it."""

    controllers: frozenset[str]
    folders: tuple[str, ...]  #: own group first, root last


def hierarchies(cgroup: str, mountinfo: str) -> list[Hierarchy]:
    """Join /proc/self/cgroup with /proc/self/mountinfo; lines that make no sense are passed over."""
    groups: dict[str, str] = {}
    for line in cgroup.splitlines():
        number, _, rest = line.partition(":")
        names, colon, path = rest.partition(":")
        if not colon:
            continue
        for name in names.split(",") if names else ([""] if number == "0" else []):
            groups[name] = path
    found = []
    for line in mountinfo.splitlines():
        before, dash, after = line.partition(" - ")
        fields, kinds = before.split(), after.split()
        if not dash or len(fields) < 5 or len(kinds) < 3 or kinds[0] not in ("cgroup", "cgroup2"):
            continue
        root, mount = fields[3], fields[4]
        options = set(kinds[2].split(",")) if kinds[0] == "cgroup" else {""}
        bound = options & groups.keys()
        if bound:
            controllers = frozenset(bound - {""})
            found.append(Hierarchy(controllers, _folders(mount, root, groups[min(bound)])))
    return found


def _folders(mount: str, root: str, group: str) -> tuple[str, ...]:
    """Folders from our group up to the mount point.

    A container often sees the host's path in /proc/self/cgroup while its mount starts at its own group (`root`), or at
    a namespace where the path climbs out (`/..`): then the mount point itself is our group.
    """
    inside = posixpath.relpath(group, root) if group.startswith("/") and root.startswith("/") else "."
    if inside.startswith(".."):
        inside = "."
    folders = []
    while inside not in (".", ""):
        folders.append(posixpath.join(mount, inside))
        inside = posixpath.dirname(inside)
    return (*folders, mount)

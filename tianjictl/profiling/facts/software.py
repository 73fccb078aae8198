"""Interpreters that a host has and that are of no use: so that "no Python" can say what was found instead."""

from __future__ import annotations

import re


def parse_old(listing: str) -> tuple[str, ...]:
    """Lines `PATH Python 3.8.10`, as `-V` prints after the path; others, such as a shell's complaints, are left out."""
    found = re.findall(r"^(\S+) Python (\d\S*)$", listing, re.MULTILINE)
    return tuple(dict.fromkeys(f"{path} {version}" for path, version in found))

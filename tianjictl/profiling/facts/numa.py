"""NUMA nodes of a host: their CPUs, their memory, and how far they are from each other."""

from __future__ import annotations

import re
from collections.abc import Mapping

from runtime.contract.model import Document
from tianjictl.profiling.facts.cpulist import parse_cpulist

FILES = (
    "/sys/devices/system/node/node[0-9]*/cpulist",
    "/sys/devices/system/node/node[0-9]*/distance",
    "/sys/devices/system/node/node[0-9]*/meminfo",
)
_NODE = re.compile(r"/sys/devices/system/node/node(\d+)/cpulist")
_MEMORY = re.compile(r"MemTotal:\s+(\d+) kB")


class NumaNode(Document):
    """One node; all its online CPUs, whoever may use them. A node may have no CPU, or no memory."""

    node: int
    cpus: tuple[int, ...] = ()
    memory_bytes: int | None = None
    distances: tuple[int, ...] = ()  #: to every node, in the order of their numbers; 10 is its own memory


def parse(files: Mapping[str, str]) -> tuple[NumaNode, ...]:
    """All nodes, by number; none where the kernel has no such folder."""
    found = []
    for path, text in files.items():
        if match := _NODE.fullmatch(path):
            folder = path.rpartition("/")[0]
            memory = _MEMORY.search(files.get(f"{folder}/meminfo", ""))
            distances = files.get(f"{folder}/distance", "").split()
            found.append(
                NumaNode(
                    node=int(match[1]),
                    cpus=parse_cpulist(text),
                    memory_bytes=int(memory[1]) * 1024 if memory else None,
                    distances=tuple(int(word) for word in distances if word.isdigit()),
                )
            )
    return tuple(sorted(found, key=lambda node: node.node))

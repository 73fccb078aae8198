"""The `mpirun` of each MPI, where it is installed, and a program whose ranks say where they are."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

OPEN_MPI = "TIANJI_OPENMPI"  #: names its mpirun, which cannot lie beside MPICH's
_SAY = """
import os, socket, sys
rank = os.environ.get("PMI_RANK") or os.environ["OMPI_COMM_WORLD_RANK"]
sys.stdout.write(f"{rank} {socket.gethostname()} {','.join(map(str, sorted(os.sched_getaffinity(0))))}\\n")
"""
Said = dict[int, tuple[str, set[int]]]


def mpich() -> str | None:
    """MPICH's mpirun, as installed with this package; none if there is another."""
    return _of_kind([str(Path(sys.executable).with_name("mpirun")), shutil.which("mpirun")], "HYDRA")


def open_mpi() -> str | None:
    """Open MPI's mpirun: the one that TIANJI_OPENMPI names, else one on the PATH."""
    return _of_kind([os.environ.get(OPEN_MPI), shutil.which("mpirun"), shutil.which("mpirun.openmpi")], "Open MPI")


def _of_kind(candidates: list[str | None], word: str) -> str | None:
    for program in candidates:
        if program is None or not Path(program).exists():
            continue
        told = subprocess.run([program, "--version"], capture_output=True, text=True, check=False)
        if word in told.stdout:
            return program
    return None


def run_ranks(words: list[str], place: Path) -> Said:
    """Start the program by `words`; for each rank its host's name for itself, and the CPUs that it is bound to."""
    script = place / "say.py"
    script.write_text(_SAY)
    allowed = dict.fromkeys(("OMPI_ALLOW_RUN_AS_ROOT", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM"), "1")
    done = subprocess.run(
        [*words, sys.executable, str(script)], env={**os.environ, **allowed}, timeout=60,
        stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    said = [line.split() for line in done.stdout.splitlines()]
    return {int(rank): (host, {int(cpu) for cpu in cpus.split(",")}) for rank, host, cpus in said}

"""What is installed: Python, packages, MPI; and whether all hosts have the same."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from tianjictl.doctor.finding import Check, Verdict, fail, info, ok, skip, warn
from tianjictl.doctor.situation import on, setting
from tianjictl.launching.host_check import env_modules

if TYPE_CHECKING:
    from collections.abc import Callable

    from tianjictl.doctor.situation import Examined, Situation

OLDEST = (3, 11)
NEWEST_TRIED = (3, 14)
MPI_MODULE = "mpi4py.MPI"
#: Packages whose first two numbers may change what an environment does or how numbers are rounded.
_COUNTED = ("gymnasium", "numpy", "torch", "ale-py", "mujoco")


def _python(one: Examined, situation: Situation) -> Verdict:
    if one.software is None and one.software_problem is None:
        return skip("nobody has looked")
    if one.software is None:
        return fail(one.software_problem or "", _bootstrap(one, situation))
    version = one.software.version
    told = f"Python {'.'.join(map(str, version))}, {one.software.python}"
    if version < OLDEST:
        return fail(f"{told}; 3.11 or newer is needed", _bootstrap(one, situation))
    if version[:2] > NEWEST_TRIED:
        return info(f"{told}: newer than any that was tried")
    return ok(told)


def _packages(one: Examined, situation: Situation) -> Verdict:
    if one.software is None or one.software.version < OLDEST:
        return skip("there is no Python to ask")
    missing = {name: why for name, why in one.software.missing.items() if name != MPI_MODULE}
    if not missing:
        versions = ", ".join(f"{name} {version}" for name, version in one.facts.packages.items() if name in _COUNTED)
        return ok(versions or "all can be imported")
    told = "; ".join(f"{name}: {why}" for name, why in missing.items())
    wanted = env_modules(situation.env_id) if situation.env_id else ()
    if set(missing) <= set(wanted):
        install = on(one, f"{one.software.python} -m pip install {' '.join(wanted)}")
        return fail(told, f"{install}, or whatever distribution has that module")
    return fail(told, _bootstrap(one, situation))


def _environment(one: Examined, situation: Situation) -> Verdict:
    if situation.env_id is None:
        return skip("no job is named")
    if situation.hosts[0] is not one or all(each.here for each in situation.hosts):
        return skip("what the host itself makes of it stands under learning.environment")
    if situation.env_problem is None:
        return ok(f"{situation.env_id} can be made where it is planned")
    package = situation.env_id.partition(":")[0] if ":" in situation.env_id else "'gymnasium[all]'"
    mend = f"install what it needs beside tianjictl, such as: pip install {package}"
    return fail(f"this machine, which plans, cannot make {situation.env_id}: {situation.env_problem}", mend)


def _mpi_library(one: Examined, situation: Situation) -> Verdict:
    if one.software is None or one.software.version < OLDEST:
        return skip("there is no Python to ask")
    problem = one.software.missing.get(MPI_MODULE)
    mpi = one.facts.mpi
    told = ", ".join(word for word in (mpi.library, f"mpi4py {mpi.mpi4py}" if mpi.mpi4py else "") if word)
    if problem is not None:
        evidence, mend = f"mpi4py cannot load an MPI library: {problem}", _bootstrap(one, situation)
        return fail(evidence, mend) if situation.linked else warn(f"{evidence}; a single node needs none", mend)
    if one.host.mpi_abi:
        return ok(f"tianji_mpi_abi {one.host.mpi_abi}")
    library = _library(one)
    strangers = {each.name: _library(each) for each in situation.there if _library(each) not in (library, "")}
    if library and strangers:
        listed = ", ".join(f"{name} {other}" for name, other in strangers.items())
        if any(_family(other) != _family(library) for other in strangers.values()):
            return fail(f"{told}; {listed}: libraries of different kinds do not meet", _bootstrap(one, situation))
        return warn(f"{told}; {listed}", _bootstrap(one, situation))
    if mpi.mpiexec and mpi.family and mpi.library and _family(mpi.library) not in mpi.family:
        return info(f"{told}; {mpi.mpiexec} is {mpi.family} {mpi.version}, and is not used")
    return ok(told or "mpi4py can load an MPI library")


def _mpi_launch(one: Examined, situation: Situation) -> Verdict:
    if not situation.linked:
        return skip("a single node: no courier is needed")
    if situation.meetings is None:
        return skip("tried with --full only")
    mine = [road for road in situation.meetings if one.name in (road.source, road.target)]
    failed = [road for road in mine if road.took_s is None]
    if failed:
        told = "; ".join(f"{road.source} with {road.target}: {road.problem}" for road in failed)
        return fail(told, f"tianjictl doctor --only network.ports,fabric.provider,mpi.library --limit {one.name}")
    if not mine:
        return skip("there was no other host to try with")
    return ok("; ".join(f"{road.source} met {road.target} over {road.address} in {road.took_s:.1f} s" for road in mine))


def _agree(one: Examined, situation: Situation) -> Verdict:
    if len(situation.there) < 2:
        return skip("there is no other host to compare with")
    pythons = _odd(one, situation, lambda each: ".".join(each.facts.python.split(".")[:2]))
    if not one.facts.python:
        return skip("there is no Python to ask")
    odd = [f"Python {pythons}"] if pythons else []
    small = []
    for name in sorted({name for each in situation.there for name in each.facts.packages}):
        differs = _odd(one, situation, lambda each, name=name: each.facts.packages.get(name, "missing"))  # type: ignore[misc]
        coarse = _odd(one, situation, lambda each, name=name: _coarse(each, name))  # type: ignore[misc]
        if coarse and name in _COUNTED:
            odd.append(f"{name} {coarse}")
        elif differs:
            small.append(f"{name} {differs}")
    if odd:
        return warn("; ".join(odd + small), _bootstrap(one, situation))
    return info("; ".join(small), _bootstrap(one, situation)) if small else ok("as on the other hosts")


def _odd(one: Examined, situation: Situation, what: Callable[[Examined], str]) -> str:
    """How a host differs from what most have (the first of these, where two are as many); empty where it does not."""
    values = [what(each) for each in situation.there if each.facts.python]
    usual = Counter(values).most_common(1)[0][0] if values else ""
    return "" if what(one) == usual else f"{what(one)} where others have {usual}"


def _coarse(one: Examined, name: str) -> str:
    return ".".join(one.facts.packages.get(name, "missing").split(".")[:2])


def _library(one: Examined) -> str:
    """MPI library with the numbers that decide whether two meet: `MPICH 5.0`."""
    words = one.facts.mpi.library.partition(",")[0].split()
    return " ".join([*words[:-1], ".".join(words[-1].split(".")[:2])]) if words else ""


def _family(library: str) -> str:
    return library.rpartition(" ")[0]


def _bootstrap(one: Examined, situation: Situation) -> str:
    if situation.inventory is None:
        return situation.playbook("bootstrap", one)
    other = setting(one, "ansible_python_interpreter", "a Python that has them")
    return f"{situation.playbook('bootstrap', one)}, or {other}"


CHECKS = (
    Check("python.version", "everything on a host is started by this Python", _python),
    Check("python.packages", "a component that cannot import what it needs never starts", _packages),
    Check("versions.agree", "the same seed gives other numbers, and an environment may play otherwise", _agree,
          quick=True),
    Check("job.environment", "a plan is made for the shapes that the environment shows", _environment),
    Check("mpi.library", "couriers carry training data between hosts by MPI", _mpi_library),
    Check("mpi.launch", "two couriers that cannot meet are a link that never comes up", _mpi_launch),
)  # fmt: skip

"""Whether a host can take part in a run: its Python, the packages there, and room in a folder of its own.

One script for everything, as each exchange with a host costs more than what it does.
"""

from __future__ import annotations

import json
import os
import sys
from typing import TYPE_CHECKING

from pydantic import Field, ValidationError

from runtime.contract.model import View
from runtime.contract.paths import state_home
from tianjictl.errors import DoctorFailed

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tianjictl.hosts.types import Host
    from tianjictl.remote.base import Connection

#: What the runtime imports on every node. `mpi4py.MPI` shows whether an MPI library is there, and starts none.
MODULES = (
    "numpy", "pydantic", "gymnasium", "zmq", "psutil", "safetensors", "mpi4py.MPI", "zstandard", "threadpoolctl",
    "yaml",
)  # fmt: skip
_DISTRIBUTIONS = {"zmq": "pyzmq", "yaml": "pyyaml", "mpi4py.MPI": "mpi4py"}
_OLDEST = (3, 11)
_WITHIN_S = 60.0  #: the first import on a cold network file system takes its time

# $1 interpreter that the inventory names or "", $2 folder for runs or "", $3 another interpreter to try or "",
# $4 the program below, $5 modules, $6 digest of the runtime that is wanted, $7 MPI library or "", $8 "here" where
# programs run in the folder of whoever started them, as on this machine
_SCRIPT = """case $2 in
"") tj_state=${XDG_STATE_HOME:-$HOME/.local/state}/tianjictl ;;
"~") tj_state=$HOME ;;
"~/"*) tj_state=$HOME/${2#??} ;;
/*) tj_state=$2 ;;
*) tj_state=$HOME/$2 ;;
esac
umask 077
mkdir -p -- "$tj_state/stage" "$tj_state/nodes" || exit 3
case "$7" in
"~/"*) export MPI4PY_LIBMPI="$HOME/${7#??}" ;;
*/*) export MPI4PY_LIBMPI="$7" ;;
?*) export MPI4PY_MPIABI="$7" ;;
esac
[ "$8" = here ] || cd -- "$tj_state" || exit 3
tj_first=
tj_try() {
command -v -- "$1" >/dev/null 2>&1 || return 0
tj_said=$("$1" -c "$2" "$3" "$4" "$5" 2>&1) && { printf '%s\\n' "$tj_said"; exit 0; }
[ -n "$tj_first" ] || tj_first=$tj_said
}
if [ -n "$1" ]; then
tj_try "$1" "$4" "$tj_state" "$5" "$6"
else
for tj_python in "$tj_state/venv/bin/python" "$3" python3 python3.13 python3.12 python3.11; do
tj_try "$tj_python" "$4" "$tj_state" "$5" "$6"
done
fi
printf '%s\\n' "$tj_first"
exit 1
"""

# Also for interpreters that are too old to be used: they are told apart from broken ones.
_PROGRAM = r"""
import json, os, sys
state, modules, digest = sys.argv[1:4]
found = {"python": sys.executable, "version": list(sys.version_info[:3]), "state": state, "missing": {}}
try:
    with open("/proc/sys/kernel/random/boot_id") as file:
        spaces = [os.readlink("/proc/self/ns/" + kind) for kind in ("pid", "net")]
        found["machine"] = " ".join([file.read().strip()] + spaces)
except (IOError, OSError):
    pass
if sys.version_info >= (3, 11):
    import importlib
    try:
        import mpi4py
        mpi4py.rc.initialize = mpi4py.rc.finalize = False
    except ImportError:
        pass
    said, sys.stdout = sys.stdout, sys.stderr
    for name in modules.split():
        try:
            importlib.import_module(name)
        except BaseException as error:
            found["missing"][name] = type(error).__name__ + ": " + str(error)[:300]
    sys.stdout = said
    room = os.statvfs(state)
    found["free_bytes"] = room.f_bavail * room.f_frsize
    found["staged"] = os.path.isdir(os.path.join(state, "stage", digest))
sys.stdout.flush()
os.write(1, (json.dumps(found) + "\n").encode())
os._exit(1 if found["missing"] or "staged" not in found else 0)
"""


class FolderRefused(DoctorFailed):
    """There can be no folder for runs on a host."""


class HostCheck(View):
    """What was found on a host that can take part."""

    python: str  #: absolute path of the interpreter
    version: tuple[int, ...]
    state: str  #: absolute folder for runs and for what is staged; it is there and can be written to
    missing: dict[str, str] = Field(default_factory=dict)  #: module → why it cannot be imported
    free_bytes: int = 0
    staged: bool = False  #: the wanted runtime is there already
    machine: str = ""  #: alike for two names of one machine until that boots; empty where it cannot be told

    @property
    def told(self) -> str:
        """The check in a few words."""
        return f"Python {'.'.join(map(str, self.version))}, {self.free_bytes / 2**30:.1f} GiB free"


def check_host(connection: Connection, host: Host, *, digest: str, modules: Sequence[str] = ()) -> HostCheck:
    """Look at a host; `modules` are wanted besides the runtime's own, `digest` names the runtime to be staged.

    DoctorFailed says what is missing and which command mends it.
    """
    found = examine(connection, host, digest=digest, modules=modules)
    _judge(host, found)
    return found


def examine(connection: Connection, host: Host, *, digest: str, modules: Sequence[str] = ()) -> HostCheck:
    """The same without a judgement: what is missing or too old is in the answer.

    DoctorFailed where there is no Python to ask, or no folder for runs.
    """
    here = host.connection == "local"
    # This very interpreter runs tianjictl, so its packages are there.
    own = here and host.python in (None, sys.executable)
    wanted = (*(() if own else MODULES), *modules)
    folder = host.workdir or (str(state_home()) if here else "")
    python = sys.executable if own else host.python or ""
    done = connection.run(
        _SCRIPT, python, _absolute(folder, here=here), sys.executable, _PROGRAM, " ".join(wanted), digest,
        host.mpi_abi or "", "here" if here else "", timeout_s=_WITHIN_S,
    )  # fmt: skip
    if done.status == 3:
        hint = "set tianji_workdir to a folder that can be written to"
        raise FolderRefused(f"{host.name}: check: its folder for runs cannot be made: {done.complaint}", hint=hint)
    if not done.text.strip():
        sought = host.python or "python3 (3.11 or newer)"
        raise _failed(host, f"there is no {sought}", _bootstrap(host))
    try:
        return HostCheck.model_validate(json.loads(done.text.strip().splitlines()[-1]))
    except (ValueError, ValidationError) as error:
        words = " / ".join(done.text.strip().splitlines()[-3:])
        raise _failed(host, f"its Python cannot be used: {words[-300:]}", _bootstrap(host)) from error


def _judge(host: Host, found: HostCheck) -> None:
    if found.version < _OLDEST:
        version = ".".join(map(str, found.version))
        raise _failed(host, f"{found.python} is Python {version}, and 3.11 or newer is needed", _bootstrap(host))
    if found.missing:
        absent = [_DISTRIBUTIONS.get(name, name) for name, why in found.missing.items() if "No module named" in why]
        broken = [f"{name} ({why})" for name, why in found.missing.items() if "No module named" not in why]
        said = [f"{found.python} lacks {', '.join(absent)}"] if absent else []
        said += [f"{found.python} cannot import {', '.join(broken)}"] if broken else []
        raise _failed(host, "; ".join(said), _bootstrap(host))


def check_room(host: Host, found: HostCheck, needed: int) -> None:
    """DoctorFailed unless the host's disk has room for `needed` bytes."""
    if found.free_bytes < needed:
        free, wanted = found.free_bytes / 2**20, needed / 2**20
        raise _failed(
            host,
            f"the disk of {found.state} has {free:.0f} MiB free, and this run may need {wanted:.0f} MiB there",
            "free some space, keep fewer checkpoints (--set checkpoint.keep=1) or set tianji_workdir elsewhere",
        )


def env_modules(env_id: str) -> tuple[str, ...]:
    """What must be importable for an environment: the module of `package.module:factory`, or the package of ALE."""
    if ":" in env_id:
        return (env_id.partition(":")[0],)
    return ("ale_py",) if env_id.startswith("ALE/") else ()


def _absolute(folder: str, *, here: bool) -> str:
    return os.path.abspath(os.path.expanduser(folder)) if here and folder else folder  # noqa: PTH100, PTH111 - text


def _failed(host: Host, why: str, hint: str) -> DoctorFailed:
    return DoctorFailed(f"{host.name}: check: {why}", hint=hint)


def _bootstrap(host: Host) -> str:
    return (
        f"tianjictl playbook bootstrap --limit {host.name} installs what is needed, or set ansible_python_interpreter"
    )

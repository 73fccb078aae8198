"""Facts of a host across a connection: one script asks for all of them, and answers the same calls as LocalHost."""

from __future__ import annotations

import json
import secrets
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING

from tianjictl.errors import TianjiError
from tianjictl.hosts.local import READ_LIMIT
from tianjictl.profiling.facts import network
from tianjictl.profiling.facts.cgroups import V1_FILES, V2_FILES
from tianjictl.profiling.facts.host import HostFacts, understand
from tianjictl.profiling.facts.raw import FILES, GPU_COMMAND, PACKAGES, gather

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from tianjictl.hosts.types import Host
    from tianjictl.remote.base import Completed, Connection

_TIMEOUT_S = 30.0
_NAMES = " ".join(dict.fromkeys((*V2_FILES, *(name for names in V1_FILES.values() for name in names))))
_SHORT = [pattern for pattern in FILES if pattern.startswith("/sys/")]  #: of one line each
_LONG = [pattern for pattern in (*FILES, *network.FILES) if pattern not in _SHORT]
#: What Python tells of itself; one that is too old is passed over.
_ASK_PYTHON = (
    "import json,platform,sys\nfrom importlib import metadata as m\nassert sys.version_info>=(3,11)\nv={}\n"
    f"for n in {list(PACKAGES)!r}:\n try: v[n]=m.version(n)\n except m.PackageNotFoundError: pass\n"
    "print(json.dumps([sys.executable,platform.python_version(),v]))"
)
# $1 a mark before each piece, $2 where runs will lie, $3 `devices` asks for GPUs, $4 what to ask Python; then
# interpreters to look for. Short files are read by the shell itself: a process for each takes a second on a big host.
_SCRIPT = (
    """PATH=$PATH:/usr/sbin:/sbin
tj_mark=$1 tj_folder=$2 tj_devices=$3 tj_ask=$4
shift 4
tj_home() { case "$1" in "~") printf %s "$HOME" ;; "~/"*) printf %s "$HOME/${1#??}" ;; *) printf %s "$1" ;; esac; }
tj_say() { printf '\\n%s %s %s\\n' "$tj_mark" "$1" "$2"; }
tj_short() {
for tj_file; do
tj_line=; IFS= read -r tj_line 2>/dev/null <"$tj_file"
[ -z "$tj_line" ] || { tj_say file "$tj_file"; printf '%s\\n' "$tj_line"; }
done
}
tj_long() {
for tj_file; do
[ -r "$tj_file" ] && { tj_say file "$tj_file"; head -c %LIMIT% "$tj_file" 2>/dev/null; }
done
}
tj_levels() {
tj_group=${2%/}
while :; do
tj_say looked "$1$tj_group"
for tj_name in %NAMES%; do tj_short "$1$tj_group/$tj_name"; done
case "$tj_group" in /*) tj_group=${tj_group%/*} ;; *) break ;; esac
done
}
tj_long %LONG%
tj_short %SHORT%
while IFS=: read -r tj_number tj_kind tj_path; do
if [ -z "$tj_kind" ]; then tj_levels /sys/fs/cgroup "$tj_path"; tj_levels /sys/fs/cgroup/unified "$tj_path"
else for tj_one in "$tj_kind" $(echo "$tj_kind" | tr , ' '); do tj_levels "/sys/fs/cgroup/$tj_one" "$tj_path"; done
fi
done </proc/self/cgroup
tj_say said identity
cat /proc/sys/kernel/random/boot_id 2>/dev/null
readlink /proc/self/ns/pid /proc/self/ns/net 2>/dev/null
tj_say said addresses
ip -o addr show 2>/dev/null
tj_place=$(tj_home "$tj_folder")
while [ ! -d "$tj_place" ] && [ "${tj_place%/*}" != "$tj_place" ]; do tj_place=${tj_place%/*}; done
tj_say disk "${tj_place:-/}"
df -Pk "${tj_place:-/}" 2>/dev/null
for tj_python; do
tj_found=$("$(tj_home "$tj_python")" -c "$tj_ask" 2>/dev/null) || continue
tj_say said python
printf '%s\\n' "$tj_found"
break
done
[ "$tj_devices" = devices ] || exit 0
tj_say said gpus
timeout 10 %GPUS% 2>/dev/null
exit 0
""".replace("%LIMIT%", str(READ_LIMIT))
    .replace("%NAMES%", _NAMES)
    .replace("%LONG%", " ".join(_LONG))
    .replace("%SHORT%", " ".join(_SHORT))
    .replace("%GPUS%", " ".join(GPU_COMMAND))
)


@dataclass(frozen=True, slots=True)
class NodeFacts:
    """One host of an inventory as it was found."""

    host: Host
    facts: HostFacts
    identity: str  #: alike for two names of one machine
    network: network.NetworkFacts
    python: str | None = None  #: the interpreter that was found


def node_facts(connection: Connection, host: Host, *, operator_python: str, devices: bool = False) -> NodeFacts:
    """Look at a host; TianjiError where it gives no facts, HostFailure where it cannot be asked.

    `operator_python` is where this program's interpreter lies, which on a shared file system is on the host too.
    """
    folder = host.workdir or "~"
    reader = RemoteHost(connection, folder=folder, pythons=python_candidates(host, operator_python), devices=devices)
    raw = gather(reader, run_folder=Path(folder), devices=devices)
    if not raw.files.get("/proc/meminfo"):
        raise TianjiError(f"{host.name}: it has no /proc to read facts from: is it Linux?")
    return NodeFacts(
        host=host,
        facts=understand(raw),
        identity=reader.said("identity").strip() or f"unknown {host.name}",
        network=network.understand(reader.said("addresses"), reader.files),
        python=reader.python,
    )


def python_candidates(host: Host, operator_python: str) -> tuple[str, ...]:
    """Interpreters to look for on a host, the best first; `~/` is the user's home there."""
    if host.python is not None:
        return (host.python,)
    if host.connection == "local":
        return (operator_python,)
    return (f"{host.workdir or '~/.local/state/tianjictl'}/venv/bin/python", operator_python, "python3")


class RemoteHost:
    """Answers the calls of LocalHost from one exchange; a file that it did not foresee costs another."""

    def __init__(self, connection: Connection, *, folder: str, pythons: Sequence[str], devices: bool = False) -> None:
        self._connection = connection
        mark = f"@@{secrets.token_hex(8)}"
        words = (mark, folder, "devices" if devices else "", _ASK_PYTHON, *pythons)
        pieces = _pieces(connection.run(_SCRIPT, *words, timeout_s=_TIMEOUT_S), mark)
        self.files = {name: text for kind, name, text in pieces if kind == "file"}
        self._looked = {name for kind, name, _ in pieces if kind == "looked"}
        self._said = {name: text for kind, name, text in pieces if kind == "said"}
        self._disk = next(((name, text) for kind, name, text in pieces if kind == "disk"), None)
        self._python: tuple[str, str, dict[str, str]] | None = None
        if "python" in self._said:
            executable, version, packages = json.loads(self._said["python"].strip().splitlines()[-1])
            self._python = (str(executable), str(version), dict(packages))

    @property
    def name(self) -> str:
        return self._connection.host

    @property
    def python(self) -> str | None:
        """The interpreter that answered."""
        return None if self._python is None else self._python[0]

    def said(self, name: str) -> str:
        """What the host has said of `identity` or `addresses`; empty where it said nothing."""
        return self._said.get(name, "")

    def read(self, patterns: Sequence[str]) -> dict[str, str]:
        """Text of every readable file that matches a shell pattern; what cannot be read is left out."""
        found: dict[str, str] = {}
        unforeseen = []
        for pattern in patterns:
            found |= {path: text for path, text in self.files.items() if fnmatchcase(path, pattern)}
            if pattern not in FILES and pattern.rpartition("/")[0] not in self._looked:
                unforeseen.append(pattern)
        return found | (self._read_now(unforeseen) if unforeseen else {})

    def run(self, argv: Sequence[str], *, timeout_s: float = 5.0) -> str | None:  # noqa: ARG002 - it ran already
        """What the exchange has brought of a command; None for any other."""
        return self._said.get("gpus") or None if tuple(argv) == GPU_COMMAND else None

    def affinity(self) -> tuple[int, ...] | None:
        """None: /proc/self/status says the same."""
        return None

    def disk(self, folder: Path) -> tuple[str, int, int] | None:  # noqa: ARG002 - it was asked for in the exchange
        """(path, total bytes, free bytes) where runs will lie; None where `df` does not say."""
        if self._disk is None:
            return None
        fields = self._disk[1].strip().splitlines()[-1:] and self._disk[1].strip().splitlines()[-1].split()
        if not fields or len(fields) < 6 or not (fields[1].isdigit() and fields[3].isdigit()):
            return None
        return self._disk[0], int(fields[1]) * 1024, int(fields[3]) * 1024

    def software(self, packages: Iterable[str]) -> tuple[str, dict[str, str]]:
        """Version of the Python that was found, and of its packages; empty where there is none."""
        if self._python is None:
            return "", {}
        return self._python[1], {name: self._python[2][name] for name in packages if name in self._python[2]}

    def _read_now(self, paths: Sequence[str]) -> dict[str, str]:
        mark = f"@@{secrets.token_hex(8)}"
        script = 'm=$1; shift; for f; do [ -r "$f" ] && printf "\\n%s file %s\\n" "$m" "$f" && cat "$f"; done; exit 0'
        return {name: text for _, name, text in _pieces(self._connection.run(script, mark, *paths), mark)}


def _pieces(done: Completed, mark: str) -> list[tuple[str, str, str]]:
    """(kind, name, text) of every piece of an answer."""
    found = []
    for piece in done.out.decode("utf-8", "replace").split(f"\n{mark} ")[1:]:
        head, _, text = piece.partition("\n")
        kind, _, name = head.partition(" ")
        found.append((kind, name, text))
    return found

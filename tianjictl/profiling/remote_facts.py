"""Facts of a host across a connection: one script asks for all of them, and answers the same calls as LocalHost."""

from __future__ import annotations

import json
import secrets
import time
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING

from runtime.contract.paths import runs_home
from tianjictl.errors import TianjiError
from tianjictl.hosts.local import ASK_TIMEOUT_S, READ_LIMIT
from tianjictl.profiling.facts import network, survey
from tianjictl.profiling.facts.cgroups import V1_FILES, V2_FILES
from tianjictl.profiling.facts.host import HostFacts, understand
from tianjictl.profiling.facts.raw import FILES, PACKAGES, gather

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from tianjictl.hosts.types import Host
    from tianjictl.remote.base import Completed, Connection

_MOST_LOGIN = 300  #: characters that are kept of what a login shell prints
_NAMES = " ".join(dict.fromkeys((*V2_FILES, *(name for names in V1_FILES.values() for name in names))))
_SYS = [pattern for pattern in FILES if pattern.startswith("/sys/")]  #: hundreds of files on a big host
_LONG = [pattern for pattern in (*FILES, *network.FILES) if pattern not in _SYS]
#: What Python tells of itself; one that is too old is passed over.
_ASK_PYTHON = (
    "import json,os,platform,sys\nfrom importlib import metadata as m\nassert sys.version_info>=(3,11)\nv={}\n"
    f"for n in {list(PACKAGES)!r}:\n try: v[n]=m.version(n)\n except m.PackageNotFoundError: pass\n"
    "print(json.dumps([sys.executable,platform.python_version(),v,sorted(os.sched_getaffinity(0))]))"
)
# $1 a mark before each piece, $2 where runs will lie or "", $3 `devices` asks slow programs too, $4 what to ask Python;
# then interpreters to look for. One grep reads all of /sys: a process for each file takes a second on a big host, and
# to a shell that reads byte by byte, as dash does, the kernel's lists of CPUs are empty.
_SCRIPT = (
    """PATH=$PATH:/usr/sbin:/sbin
tj_mark=$1 tj_folder=$2 tj_devices=$3 tj_ask=$4
shift 4
[ -n "$tj_folder" ] || tj_folder=${XDG_STATE_HOME:-$HOME/.local/state}/tianjictl
%PRELUDE%
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
%FIRST%
tj_long %LONG%
tj_say lines sys
grep -H '' %SYS% 2>/dev/null
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
%QUICK%
tj_old=
for tj_python; do
tj_python=$(tj_home "$tj_python")
tj_found=$("$tj_python" -c "$tj_ask" 2>/dev/null) || {
tj_old="$tj_old$tj_python $("$tj_python" -V 2>&1)
"
continue
}
tj_say said python
printf '%s\\n' "$tj_found"
break
done
tj_say said old-pythons
printf %s "$tj_old"
[ "$tj_devices" = devices ] && {
%THOROUGH%
}
%LAST%
exit 0
""".replace("%LIMIT%", str(READ_LIMIT))
    .replace("%NAMES%", _NAMES)
    .replace("%LONG%", " ".join(_LONG))
    .replace("%SYS%", " ".join(_SYS))
    .replace("%PRELUDE%", survey.PRELUDE)
    .replace("%FIRST%", survey.FIRST)
    .replace("%QUICK%", survey.QUICK)
    .replace("%THOROUGH%", survey.THOROUGH)
    .replace("%LAST%", survey.LAST)
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
    folder = _run_folder(host)
    reader = RemoteHost(connection, folder=folder, pythons=python_candidates(host, operator_python), devices=devices)
    raw = gather(reader, run_folder=Path(folder), devices=devices)
    raw = raw.model_copy(update={"login_prints": reader.login_prints})
    if not raw.files.get("/proc/meminfo"):
        raise TianjiError(f"{host.name}: it has no /proc to read facts from: is it Linux?")
    return NodeFacts(
        host=host,
        facts=understand(raw),
        identity=reader.said("identity").strip() or f"unknown {host.name}",
        network=network.understand(reader.said("addresses"), reader.files),
        python=reader.python,
    )


def _run_folder(host: Host) -> str:
    """Where runs of a host will lie, for its shell; empty is the default of whoever logs in there."""
    if host.connection != "local":
        return host.workdir or ""
    return str(Path(host.workdir).expanduser().absolute() if host.workdir else runs_home())


def python_candidates(host: Host, operator_python: str) -> tuple[str, ...]:
    """Interpreters to look for on a host, the best first; `~/` is the user's home there."""
    if host.python is not None:
        return (host.python,)
    if host.connection == "local":
        return (operator_python,)
    return (f"{host.workdir or '~/.local/state/tianjictl'}/venv/bin/python", operator_python, "python3")


@dataclass(frozen=True, slots=True)
class _Python:
    """The interpreter that answered, and what it told."""

    executable: str
    version: str
    packages: dict[str, str]
    affinity: tuple[int, ...]


class RemoteHost:
    """Answers the calls of LocalHost from one exchange; a file that it did not foresee costs another."""

    def __init__(self, connection: Connection, *, folder: str, pythons: Sequence[str], devices: bool = False) -> None:
        self._connection = connection
        mark = f"@@{secrets.token_hex(8)}"
        words = (mark, folder, "devices" if devices else "", _ASK_PYTHON, *pythons)
        sent = time.time()
        done = connection.run(_SCRIPT, *words, timeout_s=ASK_TIMEOUT_S)
        found = _pieces(done, mark)
        self._answers = survey.answers(found, sent=sent, received=time.time())
        self._said = self._answers.said
        self.login_prints = done.before.decode("utf-8", "replace").strip()[-_MOST_LOGIN:]
        self.files = {piece.name: piece.text for piece in found if piece.kind == "file"}
        self.files |= _by_path("".join(piece.text for piece in found if piece.kind == "lines"))
        self._looked = {piece.name for piece in found if piece.kind == "looked"}
        self._python = _python_of(self._said.get("python"))

    @property
    def name(self) -> str:
        return self._connection.host

    @property
    def python(self) -> str | None:
        """The interpreter that answered."""
        return None if self._python is None else self._python.executable

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

    def ask(self, run_folder: Path, *, devices: bool) -> survey.Answers:  # noqa: ARG002 - it was asked already
        """What the exchange has brought."""
        return self._answers

    def affinity(self) -> tuple[int, ...] | None:
        """What the kernel grants to Python there; None where there is none, and /proc/self/status must do."""
        return None if self._python is None else self._python.affinity

    def software(self, packages: Iterable[str]) -> tuple[str, dict[str, str]]:
        """Version of the Python that was found, and of its packages; empty where there is none."""
        if self._python is None:
            return "", {}
        known = self._python.packages
        return self._python.version, {name: known[name] for name in packages if name in known}

    def _read_now(self, paths: Sequence[str]) -> dict[str, str]:
        mark = f"@@{secrets.token_hex(8)}"
        script = 'm=$1; shift; for f; do [ -r "$f" ] && printf "\\n%s file %s\\n" "$m" "$f" && cat "$f"; done; exit 0'
        return {piece.name: piece.text for piece in _pieces(self._connection.run(script, mark, *paths), mark)}


def _python_of(said: str | None) -> _Python | None:
    if said is None:
        return None
    executable, version, packages, affinity = json.loads(said.strip().splitlines()[-1])
    return _Python(str(executable), str(version), dict(packages), tuple(affinity))


def _by_path(listing: str) -> dict[str, str]:
    """Texts by path, of lines `PATH:TEXT`; no path of them holds a colon."""
    found: dict[str, str] = {}
    for line in listing.splitlines():
        path, colon, text = line.partition(":")
        if colon and path.startswith("/"):
            found[path] = found.get(path, "") + text + "\n"
    return found


def _pieces(done: Completed, mark: str) -> list[survey.Piece]:
    return survey.pieces(done.out.decode("utf-8", "replace"), mark)

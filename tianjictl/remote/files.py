"""The scripts by which files come to a host and from it, over nothing but a shell, and what their answers mean.

No SFTP: it breaks where a login shell prints, is switched off on some servers, and is no faster.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from tianjictl.remote.failures import RemoteFileProblem

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tianjictl.remote.base import Completed, Connection

CHUNK = 1 << 18
_HOME = """case "$1" in "~/"*) tj_path="$HOME/${1#??}" ;; *) tj_path=$1 ;; esac
"""
#: $1 target, $2 bytes, $3 mode, $4 a word for the temporary name. Content that breaks off leaves no file behind.
PUT = (
    _HOME
    + """umask 077
tj_new="$tj_path.$4"
trap 'rm -f -- "$tj_new"' EXIT
trap 'exit 1' HUP INT TERM
cat >"$tj_new" || exit 1
tj_size=$(wc -c <"$tj_new") || exit 1
[ "$tj_size" -eq "$2" ] || { echo "only $tj_size of $2 bytes have arrived" >&2; exit 1; }
chmod "$3" "$tj_new" && mv -f -- "$tj_new" "$tj_path"
"""
)
GET = _HOME + 'exec cat -- "$tj_path"\n'
#: $1 file, $2 number of the first byte, counted from 1, $3 how many
_GET_PART = _HOME + 'tail -c "+$2" -- "$tj_path" | head -c "$3"; [ -r "$tj_path" ]\n'
PART = 64 << 20  #: bytes fetched at a time


def fetch(connection: Connection, source: str, target: Path, *, timeout_s: float = 120.0, part: int = PART) -> int:
    """Bring a file of any size from a host into `target` here, part by part; its bytes.

    `timeout_s` is for each part. RemoteFileProblem where it cannot be read; what has arrived by then is left.
    """
    arrived = 0
    with target.open("wb") as file:
        while True:
            done = connection.run(_GET_PART, source, str(arrived + 1), str(part), timeout_s=timeout_s)
            check(done, connection.host, source)
            file.write(done.out)
            arrived += len(done.out)
            if len(done.out) < part:
                return arrived


def put_arguments(size: int, target: str, mode: int, nonce: str) -> tuple[str, ...]:
    """Arguments of PUT for content of `size` bytes."""
    return target, str(size), f"{mode:o}", f"tianji-{nonce}"


def size_of(content: bytes | Path) -> int:
    """Bytes of a content; UsageProblem is not for this layer: a missing local file stays an OSError."""
    return content.stat().st_size if isinstance(content, Path) else len(content)


def chunks_of(content: bytes | Path) -> Iterator[bytes]:
    """The content piece by piece, so that a large file is never held whole."""
    if isinstance(content, Path):
        with content.open("rb") as file:
            while piece := file.read(CHUNK):
                yield piece
        return
    for start in range(0, len(content), CHUNK):
        yield content[start : start + CHUNK]


def check(done: Completed, host: str, path: str) -> None:
    """Raise RemoteFileProblem where a file's script has failed."""
    if done.status != 0:
        raise RemoteFileProblem(host, path, done.complaint)

"""The runtime's way to a host: one archive, named by its content, unpacked once and used by every run that wants it."""

from __future__ import annotations

import hashlib
import io
import tarfile
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

import runtime
from tianjictl.errors import TianjiError

if TYPE_CHECKING:
    from tianjictl.remote.base import Connection

_WITHIN_S = 120.0
# $1 folder of everything staged, $2 digest, $3 the archive. Whoever is first wins; the content is the same.
_UNPACK = """umask 077
tj_new="$1/.$2.$$"
trap 'rm -rf -- "$tj_new"; rm -f -- "$3"' EXIT
mkdir -p -- "$tj_new" && tar -xzomf "$3" -C "$tj_new" || exit 1
[ -d "$1/$2" ] || mv -- "$tj_new" "$1/$2" || [ -d "$1/$2" ]
"""


@dataclass(frozen=True, slots=True)
class Archive:
    """A compressed archive, and the name that its content has."""

    digest: str
    content: bytes


@lru_cache(maxsize=1)
def runtime_archive() -> Archive:
    """The package `runtime` as it is here; the same files give the same bytes."""
    root = Path(runtime.__file__).parent
    files = {f"runtime/{path.relative_to(root)}": path.read_bytes() for path in _files_of(root)}
    return pack(files)


def pack(files: dict[str, bytes], *, mode: int = 0o600) -> Archive:
    """Files by their names as an archive: nothing in it but names, contents and `mode`."""
    raw = io.BytesIO()
    with tarfile.open(fileobj=raw, mode="w:gz", format=tarfile.USTAR_FORMAT, compresslevel=6) as archive:
        for name in sorted(files):
            member = tarfile.TarInfo(name)
            member.size, member.mode = len(files[name]), mode
            archive.addfile(member, io.BytesIO(files[name]))
    content = hashlib.sha256()
    for name in sorted(files):
        content.update(f"{name}\0{len(files[name])}\0".encode())
        content.update(files[name])
    return Archive(content.hexdigest(), raw.getvalue())


def unpacked(archive: Archive) -> dict[str, bytes]:
    """The files of an archive by their names."""
    with tarfile.open(fileobj=io.BytesIO(archive.content)) as packed:
        opened = {member.name: packed.extractfile(member) for member in packed}
        return {name: file.read() for name, file in opened.items() if file is not None}


def stage(connection: Connection, state: str, archive: Archive) -> str:
    """Bring the archive to a host that does not have it; the folder for PYTHONPATH. TianjiError where it fails."""
    folder = f"{state}/stage"
    arrived = f"{folder}/.{archive.digest}.tar.gz-{connection.host}"
    connection.put(archive.content, arrived, timeout_s=_WITHIN_S)
    done = connection.run(_UNPACK, folder, archive.digest, arrived, timeout_s=_WITHIN_S)
    if done.status != 0:
        raise TianjiError(f"{connection.host}: stage: the runtime cannot be unpacked in {folder}: {done.complaint}")
    return staged_at(state, archive)


def staged_at(state: str, archive: Archive) -> str:
    """Where an archive lies once it is staged."""
    return f"{state}/stage/{archive.digest}"


def _files_of(root: Path) -> list[Path]:
    return sorted(path for path in root.rglob("*") if path.is_file() and "__pycache__" not in path.parts)

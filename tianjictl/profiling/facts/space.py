"""Room in a file system: where runs will lie, in /dev/shm and in the folder for temporary files."""

from __future__ import annotations

import re

from runtime.contract.model import Document

#: Types of file systems that another machine serves; what FUSE serves is told by its second name.
_OVER_NETWORK = re.compile(
    r"nfs4?|cifs|smb[23s]*|lustre|gpfs|beegfs|ceph|9p|afs|panfs|orangefs|pvfs2|"
    r"fuse\.(sshfs|glusterfs|ceph.*|s3fs|rclone|juicefs|gcsfuse|goofys|beegfs|mfs|moosefs|weed)"
)


class SpaceFacts(Document):
    """The file system of one folder; bytes. `path` is the folder asked about, or the nearest one above that exists."""

    path: str
    total_bytes: int
    free_bytes: int  #: for a user who is not root
    mount: str = ""  #: where the file system is mounted
    fs_type: str = ""  #: as the kernel names it: ext4, tmpfs, nfs4, …
    options: tuple[str, ...] = ()  #: of the mount: rw, noexec, …
    inodes_free: int | None = None  #: None where the file system does not count them
    writable: bool | None = None  #: whether who asked may make something in `path`; None where that was not asked

    @property
    def over_network(self) -> bool:
        """Whether another machine serves it, so that locks, renames and speed are not a local disk's."""
        return _OVER_NETWORK.fullmatch(self.fs_type) is not None


def parse(listing: str, mountinfo: str, inodes: str = "", writable: str = "") -> SpaceFacts | None:
    """From a path in the first line, then the table of `df -PkT`; `inodes` is that of `df -Pi`, `writable` yes or no.

    None if unreadable.
    """
    path, _, table = listing.strip().partition("\n")
    fields = _last_line(table)
    if len(fields) < 7 or not (fields[-5].isdigit() and fields[-3].isdigit()):
        return None
    counted = _last_line(inodes)
    mount = fields[-1]
    has_inodes = len(counted) >= 6 and counted[-3].isdigit() and counted[-5] not in ("0", "-")
    return SpaceFacts(
        path=path,
        total_bytes=int(fields[-5]) * 1024,
        free_bytes=int(fields[-3]) * 1024,
        mount=mount,
        fs_type=fields[-6],
        options=_options(mountinfo, mount),
        inodes_free=int(counted[-3]) if has_inodes else None,
        writable=writable.strip() == "yes" if writable.strip() else None,
    )


def _last_line(table: str) -> list[str]:
    """Fields of a table's only row; the name of a device may hold blanks, so they are counted from the end."""
    lines = table.strip().splitlines()
    return lines[-1].split() if len(lines) > 1 else []


def _options(mountinfo: str, mount: str) -> tuple[str, ...]:
    """Options of what is mounted last at a place, for it hides what was mounted there before."""
    found: tuple[str, ...] = ()
    for line in mountinfo.splitlines():
        fields = line.split()
        if len(fields) > 5 and fields[4] == mount:
            found = tuple(fields[5].split(","))
    return found

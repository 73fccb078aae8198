"""Folders of a host: where runs lie, and where programs put what is temporary."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tianjictl.doctor.finding import Check, Verdict, fail, info, ok, skip, warn
from tianjictl.doctor.situation import on, setting

if TYPE_CHECKING:
    from tianjictl.doctor.situation import Examined, Situation
    from tianjictl.profiling.facts.space import SpaceFacts

MIB = 1 << 20
LEAST = 64 * MIB  #: logs and staged code of a node that holds no checkpoint
TIGHT = 1024 * MIB  #: five checkpoints of a replay memory of vector observations
LEAST_INODES = 200  #: a run folder with its logs, and the staged runtime
TIGHT_INODES = 10_000
LONG_PATH = 60  #: characters; the path of a Unix socket may have 107, and programs add some 40 of their own
_IN_MEMORY = ("tmpfs", "ramfs")


def _folder(one: Examined, _situation: Situation) -> Verdict:
    if one.software is not None:
        return ok(f"{one.software.state} can be written to")
    if one.folder_problem is not None:
        return fail(one.folder_problem, _elsewhere(one, "a folder that can be written to"))
    disk = one.facts.disk
    if disk is not None and disk.writable is False:
        return fail(f"{disk.path} cannot be written to", _elsewhere(one, "a folder that can be written to"))
    if one.software_problem:
        return skip("there is no Python to ask")
    if disk is None or disk.writable is None:
        return skip("nobody has tried")
    return ok(f"{disk.path} may be written to")


def _elsewhere(one: Examined, where: str) -> str:
    """How to have runs lie in another place."""
    if one.here and one.host.workdir is None:
        return f"set TIANJICTL_HOME to {where}"
    return setting(one, "tianji_workdir", where)


def _space(one: Examined, situation: Situation) -> Verdict:
    disk = one.facts.disk
    if disk is None:
        return skip("df does not say")
    told = f"{_size(disk.free_bytes)} free of {_size(disk.total_bytes)} at {disk.path}"
    other = _elsewhere(one, "a folder on a larger disk")
    mend = f"{situation.playbook('cleanup', one, '-e', 'tianji_keep_days=1')}, or {other}"
    if disk.free_bytes < LEAST:
        return fail(f"{told}, and {_size(LEAST)} are needed for logs and code alone", mend)
    if disk.inodes_free is not None and disk.inodes_free < LEAST_INODES:
        return fail(f"{told}, but room for {disk.inodes_free} more files only", mend)
    if disk.free_bytes < TIGHT:
        return warn(told, mend)
    if disk.inodes_free is not None and disk.inodes_free < TIGHT_INODES:
        return warn(f"{told}, but room for {disk.inodes_free} more files only", mend)
    return ok(told)


def _filesystem(one: Examined, _situation: Situation) -> Verdict:
    disk = one.facts.disk
    if disk is None or not disk.fs_type:
        return skip("the host does not say")
    told = f"{disk.path} is on {disk.fs_type}" + (f", mounted at {disk.mount}" if disk.mount else "")
    elsewhere = _elsewhere(one, "a folder on a local disk")
    if "ro" in disk.options:
        return fail(f"{told}, read-only", on(one, f"sudo mount -o remount,rw {disk.mount}"))
    if "noexec" in disk.options:
        return warn(f"{told}, noexec: packages of a venv there cannot be loaded", elsewhere)
    if disk.fs_type in _IN_MEMORY:
        return warn(f"{told}: checkpoints would be gone with the next boot, and take memory", elsewhere)
    if disk.over_network:
        return info(f"{told}: checkpoints are written over the network", elsewhere)
    return ok(told)


def _temporary(one: Examined, _situation: Situation) -> Verdict:
    tmp = one.facts.tmp
    wanted = one.facts.environment.get("TMPDIR", "/tmp")
    unset = "unset TMPDIR" if one.here else on(one, "grep -n TMPDIR ~/.bashrc ~/.profile /etc/environment")
    if tmp is None:
        return skip("df does not say")
    if tmp.path.rstrip("/") != wanted.rstrip("/"):
        return fail(f"{wanted} does not exist", on(one, f"mkdir -p -m 700 {wanted}"))
    if "ro" in tmp.options:
        return fail(f"{wanted} is read-only", unset)
    if len(wanted) > LONG_PATH:
        return warn(f"{wanted} has {len(wanted)} characters: sockets there cannot be made", unset)
    if tmp.over_network:
        return warn(f"{wanted} is on {tmp.fs_type}: sockets and locks there are slow, or refused", unset)
    if _nearly_full(tmp):
        return warn(f"{_size(tmp.free_bytes)} free at {wanted}", on(one, f"du -xsh {wanted}/* | sort -h | tail"))
    return ok(f"{wanted}, {_size(tmp.free_bytes)} free")


def _nearly_full(space: SpaceFacts) -> bool:
    return space.free_bytes < LEAST or (space.inodes_free is not None and space.inodes_free < LEAST_INODES)


def _size(amount: float) -> str:
    return f"{amount / 2**30:.1f} GiB" if amount >= 2**30 else f"{amount / MIB:.0f} MiB"


CHECKS = (
    Check("state.folder", "code, orders, logs and checkpoints of every run lie there", _folder, quick=True),
    Check("disk.space", "a checkpoint that cannot be written is no checkpoint", _space, quick=True),
    Check("disk.filesystem", "checkpoints and logs are as fast and as lasting as what they lie on", _filesystem,
          quick=True),
    Check("tmp.path", "sockets and temporary files of libraries lie there", _temporary, quick=True),
)  # fmt: skip

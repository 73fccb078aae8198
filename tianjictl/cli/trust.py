"""`tianjictl inventory trust`: shows the SSH keys of hosts that are seen for the first time, and keeps them if told to.

A key that has changed is never replaced here. Hosts behind jump hosts come after those on the way to them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tianjictl.cli.options import confirm
from tianjictl.cli.output import emit_json, note, print_error, print_table
from tianjictl.errors import TianjiError
from tianjictl.remote.fanout import Err, Limits, Ok, fan_out
from tianjictl.remote.host_keys import keep_key
from tianjictl.remote.jump import MOST_HOPS
from tianjictl.remote.reach import first_unknown_key, lane

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tianjictl.hosts.types import Host
    from tianjictl.remote.host_keys import NewKey


def trust(hosts: Sequence[Host], *, yes: bool, json: bool) -> int:
    """Ask every host for its key, show those that are new, and keep them; the exit code of what stood in the way."""
    waiting = {host.name: host for host in hosts if host.connection != "local"}
    trusted: list[tuple[str, NewKey, str]] = []
    failed: dict[str, TianjiError] = {}
    for _hop in range(MOST_HOPS + 1):
        new = _new_keys(waiting, failed)
        if not new:
            break
        shown = [(name, f"{key.name} port {key.config.port}", key.kind, key.fingerprint) for name, key in new.items()]
        if not json:
            print_table(("host", "key of", "type", "fingerprint"), shown)
        confirm(f"Trust {'this key' if len(new) == 1 else f'these {len(new)} keys'}, seen for the first time?", yes=yes)
        trusted += [(name, key, keep_key(key)) for name, key in new.items()]
        waiting = {name: host for name, host in waiting.items() if name not in failed}
    return _told([host.name for host in hosts], trusted, failed, json=json)


def _new_keys(hosts: dict[str, Host], failed: dict[str, TianjiError]) -> dict[str, NewKey]:
    """The first unknown key on the way to each host, each key once; failures are added to `failed`."""
    found: dict[str, NewKey] = {}
    outcomes = fan_out(hosts, lambda host: first_unknown_key(host, note=note), limits=Limits(), lane=lane)
    seen = set()
    for name, came in outcomes.items():
        if isinstance(came, Err):
            failed[name] = came.error
        elif isinstance(came, Ok) and came.value is not None:
            identity = (came.value.name, came.value.config.port, came.value.blob)
            if identity not in seen:
                found[name] = came.value
            seen.add(identity)
    return found


def _told(
    names: Sequence[str], trusted: Sequence[tuple[str, NewKey, str]], failed: dict[str, TianjiError], *, json: bool
) -> int:
    code = next((error.exit_code for error in failed.values()), 0)
    known = [name for name in names if name not in failed and name not in {host for host, _, _ in trusted}]
    if json:
        data: dict[str, Any] = {
            "known": known,
            "trusted": [
                {
                    "host": name,
                    "name": key.name,
                    "port": key.config.port,
                    "type": key.kind,
                    "fingerprint": key.fingerprint,
                    "kept": where,
                }
                for name, key, where in trusted
            ],
        }
        errors = [{"code": e.exit_code, "message": e.message, "hint": e.hint} for e in failed.values()]
        emit_json("inventory", data, errors=errors)
        return code
    for name, _, where in trusted:
        note(f"{name}: {where}")
    if known:
        note(f"nothing new: {', '.join(known)}")
    for error in failed.values():
        print_error(error.lines())
    return code

"""The nodes of a run as its record keeps them: hosts of an inventory, rebuilt without the inventory."""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING, Any

from tianjictl.hosts.types import Host

if TYPE_CHECKING:
    from pydantic import JsonValue

    from runtime.contract.record import NodeRecord

_NOT_KEPT = ("name", "groups", "variables", "settings")  #: what only the inventory's own commands show


def settings_of(host: Host) -> dict[str, JsonValue]:
    """What a record keeps of a host: every setting that differs from its default, as JSON takes it."""
    kept: dict[str, JsonValue] = {"address": host.address}
    for field in fields(host):
        value = getattr(host, field.name)
        if field.name not in _NOT_KEPT and value != field.default:
            kept[field.name] = list(value) if isinstance(value, tuple) else value
    return kept


def host_of(node: NodeRecord) -> Host:
    """The host as the inventory had it. Settings that this version does not know are left out."""
    known = {field.name for field in fields(Host)} - set(_NOT_KEPT)
    settings: dict[str, Any] = {"address": node.name}
    for name, value in node.host.items():
        if name in known:
            settings[name] = tuple(value) if isinstance(value, list) else value
    return Host(name=node.name, **settings)

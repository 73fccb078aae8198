"""Network interfaces: state, speed, largest packet and driver, from /sys/class/net."""

from __future__ import annotations

import re
from collections.abc import Mapping

from runtime.contract.model import Document

FILES = (
    "/sys/class/net/*/operstate",
    "/sys/class/net/*/speed",
    "/sys/class/net/*/mtu",
    "/sys/class/net/*/device/uevent",
)
_NIC = re.compile(r"/sys/class/net/([^/]+)/operstate")
_DRIVER = re.compile(r"^DRIVER=(\S+)", re.MULTILINE)


class NicFacts(Document):
    """One network interface; speed in Mbit/s where the driver tells, `mtu` in bytes, no driver for virtual ones."""

    name: str
    up: bool
    mbit_per_s: int | None = None
    mtu: int | None = None
    driver: str | None = None
    state: str = ""  #: the kernel's own word: up, down, dormant, unknown, …


def parse(files: Mapping[str, str]) -> tuple[NicFacts, ...]:
    """All interfaces but the loopback, by name."""
    found = []
    for path in sorted(files):
        match = _NIC.fullmatch(path)
        if match is None or match[1] == "lo":
            continue
        folder = path.rsplit("/", 1)[0]
        speed = _number(files.get(f"{folder}/speed", ""))
        state = files[path].strip()
        found.append(
            NicFacts(
                name=match[1],
                up=state == "up",
                mbit_per_s=speed if speed is not None and speed > 0 else None,  # -1: the driver does not know
                mtu=_number(files.get(f"{folder}/mtu", "")),
                driver=driver(files.get(f"{folder}/device/uevent", "")),
                state=state,
            )
        )
    return tuple(found)


def driver(uevent: str) -> str | None:
    """The driver that a device's uevent file names."""
    match = _DRIVER.search(uevent)
    return match[1] if match else None


def _number(text: str) -> int | None:
    try:
        return int(text.strip())
    except ValueError:
        return None

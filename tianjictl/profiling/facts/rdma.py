"""RDMA devices and their ports, from /sys/class/infiniband, or from ibv_devinfo where that is not to be seen."""

from __future__ import annotations

import re
from collections.abc import Mapping

from runtime.contract.model import Document
from tianjictl.profiling.facts.nics import driver

FILES = (
    "/sys/class/infiniband/*/device/uevent",
    "/sys/class/infiniband/*/device/net/*/operstate",
    "/sys/class/infiniband/*/ports/*/state",
    "/sys/class/infiniband/*/ports/*/phys_state",
    "/sys/class/infiniband/*/ports/*/rate",
    "/sys/class/infiniband/*/ports/*/link_layer",
    "/sys/class/infiniband/*/ports/*/gid_attrs/ndevs/0",
)
_PORT = re.compile(r"/sys/class/infiniband/([^/]+)/ports/(\d+)/state")
_NETDEV = re.compile(r"/sys/class/infiniband/([^/]+)/device/net/([^/]+)/operstate")


class RdmaPort(Document):
    """One port of an RDMA device; speed in Gbit/s, `mtu` in bytes as ibv_devinfo has it."""

    device: str
    port: int
    state: str = ""  #: ACTIVE, DOWN, INIT, …
    physical: str = ""  #: LinkUp, Polling, Disabled, …
    gbit_per_s: float | None = None
    layer: str = ""  #: InfiniBand, Ethernet (RoCE), Unspecified (EFA)
    netdev: str | None = None  #: the network interface of the same port
    driver: str | None = None
    mtu: int | None = None

    @property
    def active(self) -> bool:
        return self.state == "ACTIVE"


def parse(files: Mapping[str, str], devinfo: str = "") -> tuple[RdmaPort, ...]:
    """All ports, by device and number."""
    told = _from_devinfo(devinfo)
    found = []
    for path in files:
        if match := _PORT.fullmatch(path):
            port = _from_sys(files, match[1], int(match[2]))
            also = told.pop((port.device, port.port), None)
            found.append(port if also is None else port.model_copy(update={"mtu": also.mtu}))
    return tuple(sorted((*found, *told.values()), key=lambda port: (port.device, port.port)))


def _from_sys(files: Mapping[str, str], device: str, number: int) -> RdmaPort:
    folder = f"/sys/class/infiniband/{device}"
    port = f"{folder}/ports/{number}"
    rate = re.match(r"[\d.]+", files.get(f"{port}/rate", "").strip())
    netdevs = [match[2] for match in map(_NETDEV.fullmatch, sorted(files)) if match and match[1] == device]
    named = files.get(f"{port}/gid_attrs/ndevs/0", "").strip()
    return RdmaPort(
        device=device,
        port=number,
        state=_word(files.get(f"{port}/state", "")),
        physical=_word(files.get(f"{port}/phys_state", "")),
        gbit_per_s=float(rate[0]) if rate else None,
        layer=files.get(f"{port}/link_layer", "").strip(),
        netdev=named or (netdevs[0] if netdevs else None),
        driver=driver(files.get(f"{folder}/device/uevent", "")),
    )


def _word(text: str) -> str:
    """The word of a state file: `4: ACTIVE`."""
    return text.strip().rpartition(" ")[2]


def _from_devinfo(text: str) -> dict[tuple[str, int], RdmaPort]:
    found = {}
    device = ""
    lines = [(key.strip(), value.strip()) for key, _, value in (line.partition(":") for line in text.splitlines())]
    for at, (key, value) in enumerate(lines):
        if key == "hca_id":
            device = value
        elif key == "port" and value.isdigit():
            says = dict(_until_next_port(lines[at + 1 :]))
            mtu = says.get("active_mtu", "").split()
            found[device, int(value)] = RdmaPort(
                device=device,
                port=int(value),
                state=says.get("state", "").split(" ")[0].removeprefix("PORT_"),
                layer=says.get("link_layer", ""),
                mtu=int(mtu[0]) if mtu and mtu[0].isdigit() else None,
            )
    return found


def _until_next_port(lines: list[tuple[str, str]]) -> list[tuple[str, str]]:
    ends = (at for at, (key, _) in enumerate(lines) if key in ("hca_id", "port"))
    return lines[: next(ends, len(lines))]

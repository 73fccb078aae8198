"""A slow cable: hands frames on later, at a given rate, and loses some. Not every kernel has netem, so it is a program.

    python slow_cable.py PORT TAP MBIT_S DELAY_S LOSS

Moves frames between network device PORT and a new device TAP, both ways, until standard input ends. MBIT_S 0: without
limit; LOSS is a share. What would wait longer than QUEUE_S for its turn is lost, as in a switch. Frames travel with the
headers by which the kernel hands on large and unfinished ones, so that checksum and segmentation offloads hold.
"""

from __future__ import annotations

import fcntl
import os
import random
import select
import socket
import struct
import sys
import time
from collections import deque
from contextlib import suppress

QUEUE_S = 0.5
_FRAME_BYTES = 1 << 17
_ETH_P_ALL = 3
_SO_RCVBUFFORCE = 33
_SOL_PACKET, _PACKET_VNET_HDR, _PACKET_OUTGOING = 263, 15, 4
_TUNSETIFF, _TUNSETOFFLOAD = 0x400454CA, 0x400454D0
_IFF_TAP, _IFF_NO_PI, _IFF_VNET_HDR = 0x0002, 0x1000, 0x4000
_OFFLOADS = 0x01 | 0x02 | 0x04  # checksums, TCP segmentation for both versions of IP
_PER_BYTE_S = 8e-6  # at 1 Mbit/s


class Lane:
    """One direction: what is on its way, and when the wire is free again."""

    def __init__(self, mbit_s: float, delay_s: float, loss: float) -> None:
        self._per_byte_s = _PER_BYTE_S / mbit_s if mbit_s else 0.0
        self._delay_s, self._loss = delay_s, loss
        self._free_at = 0.0
        self._moving: deque[tuple[float, bytes]] = deque()
        self._chance = random.Random(1)

    def enter(self, frame: bytes, now: float) -> None:
        """A frame comes to the near end."""
        starts = max(now, self._free_at)
        if starts - now > QUEUE_S or self._chance.random() < self._loss:
            return
        self._free_at = starts + len(frame) * self._per_byte_s
        self._moving.append((self._free_at + self._delay_s, frame))

    def leave(self, now: float) -> list[bytes]:
        """Frames that have reached the far end."""
        out = []
        while self._moving and self._moving[0][0] <= now:
            out.append(self._moving.popleft()[1])
        return out

    @property
    def next_at(self) -> float:
        return self._moving[0][0] if self._moving else float("inf")


def open_tap(name: str) -> int:
    """A new network device, whose other side is this descriptor."""
    fd = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
    fcntl.ioctl(fd, _TUNSETIFF, struct.pack("16sH22x", name.encode(), _IFF_TAP | _IFF_NO_PI | _IFF_VNET_HDR))
    fcntl.ioctl(fd, _TUNSETOFFLOAD, _OFFLOADS)
    return fd


def open_port(name: str) -> socket.socket:
    """Every frame that comes in by a device, and a way to send by it."""
    port = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
    port.setsockopt(_SOL_PACKET, _PACKET_VNET_HDR, 1)
    port.setsockopt(socket.SOL_SOCKET, _SO_RCVBUFFORCE, 1 << 24)
    port.setblocking(False)
    port.bind((name, _ETH_P_ALL))
    return port


def main() -> None:
    name, tap_name, *numbers = sys.argv[1:]
    port, tap = open_port(name), open_tap(tap_name)
    mbit_s, delay_s, loss = map(float, numbers)
    outward, inward = Lane(mbit_s, delay_s, loss), Lane(mbit_s, delay_s, loss)
    print("ready", flush=True)  # noqa: T201 - whoever started it waits for this
    while True:
        now = time.monotonic()
        wait_s = max(0.0, min(outward.next_at, inward.next_at, now + 1.0) - now)
        readable, _, _ = select.select([port, tap, 0], [], [], wait_s)
        now = time.monotonic()
        if 0 in readable and not os.read(0, 1):
            return
        with suppress(OSError):  # nothing more, or the cable is pulled
            while port in readable:
                frame, (_, _, kind, *_) = port.recvfrom(_FRAME_BYTES)
                if kind != _PACKET_OUTGOING:
                    outward.enter(frame, now)
        with suppress(OSError):
            while tap in readable:
                inward.enter(os.read(tap, _FRAME_BYTES), now)
        for frame in outward.leave(now):
            with suppress(OSError):  # a frame that cannot be handed on is lost
                os.write(tap, frame)
        for frame in inward.leave(now):
            with suppress(OSError):
                port.send(frame)


if __name__ == "__main__":
    main()

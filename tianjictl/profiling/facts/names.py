"""What a host calls itself, and where that name leads on the host itself."""

from __future__ import annotations

from collections.abc import Mapping
from ipaddress import ip_address

from runtime.contract.model import Document

FILES = ("/proc/sys/kernel/hostname", "/etc/hosts")


class NameFacts(Document):
    """`resolves_to` holds addresses in the order the host finds them; empty where it does not find its own name."""

    hostname: str = ""
    resolves_to: tuple[str, ...] = ()

    @property
    def resolves_to_loopback(self) -> bool:
        """Whether others who are told the name's address would be sent to themselves (Debian's 127.0.1.1)."""
        return any(ip_address(address).is_loopback for address in self.resolves_to)


def parse(files: Mapping[str, str], found: str = "") -> NameFacts:
    """`found` is what `getent ahosts NAME` prints; without it /etc/hosts is read, as nearly all hosts do first."""
    hostname = files.get("/proc/sys/kernel/hostname", "").strip()
    lines = [line.partition("#")[0].split() for line in (found or files.get("/etc/hosts", "")).splitlines()]
    written = [words[0] for words in lines if words and (found or hostname in words[1:])]
    return NameFacts(hostname=hostname, resolves_to=tuple(dict.fromkeys(filter(_is_address, written))))


def _is_address(text: str) -> bool:
    try:
        ip_address(text)
    except ValueError:
        return False
    return True

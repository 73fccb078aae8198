"""Which variables of an inventory tianjictl honours, what they must look like, and which it refuses and why."""

from __future__ import annotations

import ipaddress
import re
import shlex
from typing import TYPE_CHECKING, Any, NamedTuple

from runtime.contract.units import seconds
from runtime.contract.yaml_source import nearest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from runtime.contract.yaml_source import Node

ROLES = ("actor", "buffer", "learner", "evaluator")
SSH_LETTERS = "oJFipl"  #: the options of `ssh` that ansible_ssh_*_args may hold


class UnfitError(ValueError):
    """Why a value does not fit, without the variable's name; `hint` says what to write."""

    def __init__(self, message: str, hint: str | None = None) -> None:
        super().__init__(message)
        self.hint = hint


class Variable(NamedTuple):
    """A variable that is honoured: the Host field it sets, how its value is read, whether it says how to connect."""

    field: str
    read: Callable[[Node], Any]
    connects: bool = False
    old: str | None = None  #: the present name, where this is an old one


def text(node: Node) -> str:
    """A text; numbers and booleans that YAML made of a word must be quoted."""
    if not isinstance(node.value, str):
        hint = f'quote it: "{node.text}"' if node.items is None and node.entries is None and node.text else None
        raise UnfitError(f"must be a text, found {_shown(node)}", hint)
    if not node.value.strip():
        raise UnfitError("is empty")
    return node.value


def whole(least: int, most: int | None = None) -> Callable[[Node], int]:
    """A reader of whole numbers; a quoted one is taken too, as Ansible's own files often quote them."""

    def read(node: Node) -> int:
        value = int(node.text) if node.quoted and re.fullmatch(r"[0-9]{1,9}", node.text) else node.value
        if isinstance(value, bool) or not isinstance(value, int):
            raise UnfitError(f"must be a whole number, found {_shown(node)}")
        if value < least or (most is not None and value > most):
            raise UnfitError(f"must be {f'from {least} to {most}' if most is not None else f'at least {least}'}")
        return value

    return read


def one_of(*words: str) -> Callable[[Node], str]:
    """A reader of one word out of a few."""

    def read(node: Node) -> str:
        word = text(node)
        if word not in words:
            near = nearest(word, words)
            raise UnfitError(f"must be {' or '.join(words)}, found '{word}'", f"did you mean {near}?" if near else None)
        return word

    return read


def _roles(node: Node) -> tuple[str, ...]:
    items = node.items if node.items is not None else [node]
    return tuple(dict.fromkeys(one_of(*ROLES)(item) for item in items))


def _network(node: Node) -> str:
    written = text(node)
    try:
        return str(ipaddress.ip_network(written))
    except ValueError as error:
        raise UnfitError(f"must be a network such as 10.0.0.0/24: {error}") from error


def _ports(node: Node) -> tuple[int, int]:
    match = re.fullmatch(r"([0-9]{1,5})-([0-9]{1,5})", text(node))
    first, last = (int(match[1]), int(match[2])) if match else (0, 0)
    if not 1024 <= first <= last <= 65535:
        raise UnfitError(f"must be a range of ports above 1023 such as 5000-5100, found '{node.text}'")
    return first, last


def _labels(node: Node) -> tuple[str, ...]:
    items = node.items if node.items is not None else [node]
    return tuple(dict.fromkeys(text(item) for item in items))


def _timeout(node: Node) -> float:
    try:
        return seconds(node.text)
    except ValueError as error:
        raise UnfitError(f"must be a duration: {error}") from error


def _ssh_words(node: Node) -> tuple[str, ...]:
    try:
        words = shlex.split(text(node))
    except ValueError as error:
        raise UnfitError(f"cannot be split into words: {error}") from error
    read: list[str] = []
    while words:
        word = words.pop(0)
        if len(word) < 2 or word[0] != "-" or word[1] not in SSH_LETTERS:
            allowed = ", ".join(f"-{letter}" for letter in SSH_LETTERS)
            raise UnfitError(
                f"'{word}' is not supported; {allowed} are", "put it into the SSH configuration file instead"
            )
        value = word[2:] or (words.pop(0) if words else "")
        if not value:
            raise UnfitError(f"'{word}' has no value")
        if word[1] == "o" and not re.match(r"[A-Za-z]+\s*[= ]\s*\S", value):
            raise UnfitError(f"'-o {value}' is not of the form -o Key=value")
        read += [word[:2], value]
    return tuple(read)


def _python(node: Node) -> str | None:
    word = text(node)
    return None if word.startswith("auto") else word


def _checking(node: Node) -> str | None:
    if node.value is False:
        raise UnfitError(
            "cannot be switched off", "write tianji_host_keys: accept-new to trust keys seen for the first time"
        )
    if node.value is not True:
        raise UnfitError(f"must be true, found {_shown(node)}")
    return None


_USER = Variable("user", text, connects=True)
_PORT = Variable("port", whole(1, 65535), connects=True)
_ADDRESS = Variable("address", text, connects=True)
_KEY = Variable("key_file", text, connects=True)

#: In the order in which they are applied: of two that set the same field, the later one wins.
HONOURED: dict[str, Variable] = {
    "ansible_ssh_host": _ADDRESS._replace(old="ansible_host"),
    "ansible_ssh_port": _PORT._replace(old="ansible_port"),
    "ansible_ssh_user": _USER._replace(old="ansible_user"),
    "ansible_host": _ADDRESS,
    "ansible_port": _PORT,
    "ansible_user": _USER,
    "ansible_private_key_file": _KEY,
    "ansible_ssh_private_key_file": _KEY,
    "ansible_ssh_common_args": Variable("ssh_words", _ssh_words, connects=True),
    "ansible_ssh_extra_args": Variable("ssh_words", _ssh_words, connects=True),
    "ansible_ssh_timeout": Variable("connect_timeout_s", _timeout),
    "ansible_host_key_checking": Variable("", _checking),
    "ansible_connection": Variable("connection", one_of("ssh", "local"), connects=True),
    "ansible_python_interpreter": Variable("python", _python),
    "tianji_network": Variable("network", _network),
    "tianji_max_cores": Variable("max_cores", whole(1)),
    "tianji_reserve_cores": Variable("reserve_cores", whole(0)),
    "tianji_roles": Variable("roles", _roles),
    "tianji_workdir": Variable("workdir", text),
    "tianji_link": Variable("link", one_of("lan", "wan")),
    "tianji_ports": Variable("ports", _ports),
    "tianji_mpiexec": Variable("mpiexec", text),
    "tianji_mpi_abi": Variable("mpi_abi", text),
    "tianji_labels": Variable("labels", _labels),
    "tianji_host_keys": Variable("host_keys", one_of("strict", "accept-new")),
}

_PASSWORD = ("passwords are not kept in inventories", "use a key file or an agent")
REFUSED: dict[str, tuple[str, str]] = {
    **dict.fromkeys(
        (
            "ansible_password", "ansible_pass", "ansible_ssh_pass", "ansible_ssh_password", "ansible_become_pass",
            "ansible_become_password", "ansible_sudo_pass", "ansible_ssh_private_key_passphrase",
        ),
        _PASSWORD,
    ),
    "ansible_ssh_args": ("it would replace what SSH is told elsewhere", "use ansible_ssh_common_args"),
    "ansible_group_priority": ("priorities are not supported", "set the value on the host, or on a deeper group"),
    "ansible_ssh_executable": ("another ssh program is not supported", "leave it out"),
    "ansible_ssh_private_key": ("keys are not kept in inventories", "write ansible_ssh_private_key_file: PATH"),
}  # fmt: skip


def complaint(name: str, known: Iterable[str] = HONOURED) -> tuple[str, str | None] | None:
    """What is wrong with a variable's name: (message, hint), or none where it may stand there."""
    if name in REFUSED:
        why, hint = REFUSED[name]
        return f"{name}: {why}", hint
    if name in HONOURED:
        return None
    near = nearest(name, [word for word in known if HONOURED[word].old is None])
    if name.startswith("tianji_"):
        return f"unknown variable '{name}'", f"did you mean {near}?" if near else f"known: {', '.join(_ours())}"
    if name.startswith("ansible_") and near and _is_slip(name, near):
        return f"unknown variable '{name}'", f"did you mean {near}?"
    return None


def _ours() -> list[str]:
    return [name for name in HONOURED if name.startswith("tianji_")]


def _is_slip(name: str, near: str) -> bool:
    """Whether `name` is `near` mistyped, and not one of Ansible's many other variables."""
    import difflib

    return difflib.SequenceMatcher(None, name, near).ratio() >= 0.9


def _shown(node: Node) -> str:
    return node.kind if node.kind != "a value" else f"'{node.text}'" if node.text else "nothing"

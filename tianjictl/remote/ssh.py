"""Hosts behind SSH: one transport for each hop, checked and logged in to, and channels in which framed scripts run.

The only module that knows paramiko. Of it only the protocol is used: configuration, host keys and the choice of keys
follow OpenSSH in modules of their own.
"""

from __future__ import annotations

import logging
import os
import socket
import threading
import time
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING

import paramiko
from paramiko.agent import AgentSSH

from tianjictl.remote import known_hosts
from tianjictl.remote.conversing import converse
from tianjictl.remote.failures import CommandTimedOut, ConnectionLost, HostFailure, LoginRefused, Phase
from tianjictl.remote.framing import SHELL, Answer, frame, new_nonce
from tianjictl.remote.host_keys import NewKey, Policy, algorithms, judge, keep_key, other_kind
from tianjictl.remote.keys import Offer, choose
from tianjictl.remote.proxy_command import ProxySocket, connect_by_command
from tianjictl.remote.shell import ShellConnection
from tianjictl.remote.tcp import connect_tcp, no_session

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from tianjictl.remote.base import Completed
    from tianjictl.remote.deadlines import Deadlines
    from tianjictl.remote.openssh_config import SshConfig

KEEPALIVE_S = 15
_AGENT_WITHIN_S = 5.0

logging.getLogger("paramiko").addHandler(logging.NullHandler())  # what fails is raised; nobody wants it twice


def connect(
    host: str,
    way: Sequence[SshConfig],
    *,
    deadlines: Deadlines,
    policy: Policy = Policy.STRICT,
    note: Callable[[str], None] = lambda _text: None,
) -> SshConnection:
    """Log in to every host of `way` in turn, each through the one before; the last is `host`.

    `note` hears what a person should know: lines of known_hosts that were passed over, keys that were accepted.
    """
    transports: list[paramiko.Transport] = []
    try:
        for number, config in enumerate(way, start=1):
            try:
                transports.append(_reach(config, transports[-1] if transports else None, deadlines, policy, note))
            except HostFailure as failure:
                hop = f"hop {number} of {len(way)}, {config.host}" if len(way) > 1 else None
                raise failure.of(host, hop) from failure
    except BaseException:
        for transport in reversed(transports):
            transport.close()
        raise
    return SshConnection(host, transports, deadlines)


def _reach(
    config: SshConfig,
    before: paramiko.Transport | None,
    deadlines: Deadlines,
    policy: Policy,
    note: Callable[[str], None],
) -> paramiko.Transport:
    with _opened(config, before, deadlines) as transport:
        known, kind, blob = _shown_key(transport, config, deadlines, note)
        if judge(config, known, kind, blob, policy):
            kept = keep_key(NewKey(config, kind, blob))
            shown = f"{kind} {known_hosts.fingerprint(blob)}"
            note(f"{config.host}: its key is seen for the first time and accepted: {shown}, {kept}")
        _log_in(transport, config, deadlines)
    transport.set_keepalive(KEEPALIVE_S)
    return transport


def unknown_key(
    host: str,
    way: Sequence[SshConfig],
    *,
    deadlines: Deadlines,
    note: Callable[[str], None] = lambda _text: None,
) -> NewKey | None:
    """The first key on the way to `host` that is not known yet; none where all are. Nobody logs in to `host` itself.

    HostKeyRefused for a key that has changed or is revoked.
    """
    transports: list[paramiko.Transport] = []
    try:
        for number, config in enumerate(way, start=1):
            try:
                with _opened(config, transports[-1] if transports else None, deadlines) as transport:
                    transports.append(transport)
                    known, kind, blob = _shown_key(transport, config, deadlines, note)
                    if judge(config, known, kind, blob, Policy.ACCEPT_NEW):
                        return NewKey(config, kind, blob)
                    if number < len(way):
                        _log_in(transport, config, deadlines)
            except HostFailure as failure:
                raise failure.of(
                    host, f"hop {number} of {len(way)}, {config.host}" if len(way) > 1 else None
                ) from failure
    finally:
        for transport in reversed(transports):
            transport.close()
    return None


@contextmanager
def _opened(config: SshConfig, before: paramiko.Transport | None, deadlines: Deadlines) -> Iterator[paramiko.Transport]:
    """The beginning of a session, which is closed where the block fails."""
    sock: socket.socket | paramiko.Channel
    if before is not None:
        sock = _through(before, config, deadlines)
    elif config.proxy_command is not None:
        sock = connect_by_command(config)
    else:
        sock = connect_tcp(config, deadlines.connect_s)
    transport = paramiko.Transport(sock)
    try:
        yield transport
    except HostFailure as failure:
        told = sock.explained(failure) if isinstance(sock, ProxySocket) else failure
        transport.close()
        raise told from failure
    except BaseException:
        transport.close()
        raise


def _through(before: paramiko.Transport, config: SshConfig, deadlines: Deadlines) -> paramiko.Channel:
    where = (config.hostname, config.port)
    try:
        return before.open_channel("direct-tcpip", where, ("127.0.0.1", 0), timeout=deadlines.connect_s)
    except (paramiko.SSHException, EOFError, OSError) as error:
        why = f"the host before it cannot connect to {config.hostname} port {config.port}: {_said(error)}"
        raise HostFailure(config.host, Phase.CONNECT, why, hint="does it allow TCP forwarding?") from error


def _shown_key(
    transport: paramiko.Transport,
    config: SshConfig,
    deadlines: Deadlines,
    note: Callable[[str], None],
) -> tuple[known_hosts.Known, str, bytes]:
    """What is known of the host, and the key that it shows: type and content."""
    lines, warnings = known_hosts.read((*config.user_known_hosts, *config.global_known_hosts))
    for warning in warnings:
        note(f"{config.host}: {warning}")
    name = config.host_key_alias or config.hostname
    known = known_hosts.look_up(lines, name, config.port)
    if known.kinds:
        options = transport.get_security_options()
        options.key_types = algorithms(known.kinds, options.key_types) or tuple(options.key_types)
    began = time.monotonic()
    transport.banner_timeout = transport.handshake_timeout = deadlines.banner_s
    try:
        transport.start_client(timeout=deadlines.banner_s)
        key = transport.get_remote_server_key()
    except (paramiko.SSHException, EOFError, OSError) as error:
        if known.keys and "host key" in str(error):
            raise other_kind(config, known) from error
        raise no_session(config, _said(error), time.monotonic() - began, deadlines) from error
    return known, key.get_name(), key.asbytes()


def _log_in(transport: paramiko.Transport, config: SshConfig, deadlines: Deadlines) -> None:
    with closing(_Agent(config)) as agent:
        offers, passed_over = choose(config, agent.offers(), _load)
        tried = _try_keys(transport, config, offers, deadlines)
    if transport.is_authenticated():
        return
    offered = f"tried {', '.join(tried)}" if tried else "there is no key to offer"
    rest = f"; passed over {', '.join(passed_over)}" if passed_over else ""
    hint = "set ansible_user and ansible_ssh_private_key_file, or ssh-add the key"
    raise LoginRefused(config.host, Phase.LOGIN, f"it does not let {config.user} in: {offered}{rest}", hint=hint)


def _try_keys(
    transport: paramiko.Transport, config: SshConfig, offers: Sequence[Offer[paramiko.PKey]], deadlines: Deadlines
) -> list[str]:
    """Offer keys until one is taken; the names of those that were tried."""
    transport.auth_timeout = deadlines.login_s
    tried: list[str] = []
    for name, key in offers:
        tried.append(name)
        try:
            missing = transport.auth_publickey(config.user, key)
        except paramiko.BadAuthenticationType as error:
            why = f"{config.user} cannot log in with a key, only by {', '.join(error.allowed_types)}"
            raise LoginRefused(config.host, Phase.LOGIN, why) from error
        except paramiko.AuthenticationException as error:
            if "timeout" in str(error).lower():
                why = f"no answer to {name} within {deadlines.login_s:g} s"
                raise HostFailure(config.host, Phase.LOGIN, why) from error
            continue
        except (paramiko.SSHException, EOFError, OSError) as error:
            why = f"it closed the connection after {len(tried)} keys: {', '.join(tried)}"
            raise LoginRefused(config.host, Phase.LOGIN, why, hint="name the right key: IdentityFile") from error
        if missing:
            raise LoginRefused(config.host, Phase.LOGIN, f"a key is not enough for it: it wants {', '.join(missing)}")
        break
    return tried


def _load(path: Path) -> tuple[bytes, paramiko.PKey]:
    try:
        key = paramiko.PKey.from_path(path)
    except (paramiko.SSHException, paramiko.pkey.UnknownKeyType, OSError, ValueError, TypeError) as error:
        locked = "password" in str(error)  # said by the library below paramiko, in a type of no use
        raise ValueError("it needs a passphrase: ssh-add it" if locked else _said(error)) from error
    return key.asbytes(), key


class _Agent(AgentSSH):
    """The agent that a configuration names, which must answer in time; without one, an agent that has no keys."""

    def __init__(self, config: SshConfig) -> None:
        super().__init__()
        self._sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._sock.settimeout(_AGENT_WITHIN_S)
        path = os.environ.get("SSH_AUTH_SOCK") if config.agent == "SSH_AUTH_SOCK" else config.agent
        if not path:
            return
        try:
            self._sock.connect(path)
            self._connect(self._sock)  # type: ignore[attr-defined]  # missing in the stubs
        except (OSError, EOFError, paramiko.SSHException):
            return  # nothing listens there: its keys are simply not among those that are tried

    def offers(self) -> dict[bytes, Offer[paramiko.PKey]]:
        """Its keys by their public halves."""
        return {key.asbytes(): Offer(f"{key.comment or key.get_name()} (agent)", key) for key in self.get_keys()}

    def close(self) -> None:
        self._sock.close()


class SshConnection(ShellConnection):
    """A host behind SSH. Closing it, or losing it, ends what `run` has going on the host."""

    def __init__(self, host: str, transports: Sequence[paramiko.Transport], deadlines: Deadlines) -> None:
        super().__init__(host, deadlines)
        self._transports = tuple(transports)

    def close(self) -> None:
        for transport in reversed(self._transports):
            transport.close()

    def _exchange(
        self, script: str, args: tuple[str, ...], payload: Iterator[bytes] | None, limit_s: float
    ) -> Completed:
        nonce = new_nonce()
        framed = frame(script, args, nonce, takes_input=payload is not None)
        answer = Answer(nonce)
        with closing(self._channel()) as channel:
            try:
                converse(channel, answer, framed, payload, time.monotonic() + limit_s)
            except TimeoutError as error:
                raise CommandTimedOut(self._host, f"not done after {limit_s:g} s, and ended") from error
            except OverflowError as error:
                raise HostFailure(self._host, Phase.COMMAND, str(error), hint="write it into a file") from error
            except (paramiko.SSHException, EOFError, OSError) as error:
                raise self._lost(_said(error)) from error
            done = answer.result()
            if done is None:
                if not self._transports[-1].is_active():
                    raise self._lost("the connection broke")
                raise self._lost(f"its login shell ended early: {answer.outside or 'no output'}")
        return done

    def _channel(self) -> paramiko.Channel:
        if not self._transports[-1].is_active():
            raise ConnectionLost(self._host, Phase.CHANNEL, "the connection is closed", passing=True)
        limit_s = self._deadlines.channel_s
        try:
            channel = self._transports[-1].open_session(timeout=limit_s)
            # exec_command waits for as long as it takes: a close from beside ends it.
            alarm = threading.Timer(limit_s, channel.close)
            alarm.daemon = True
            alarm.start()
            try:
                channel.exec_command(SHELL)
            finally:
                alarm.cancel()
        except (paramiko.SSHException, EOFError, OSError) as error:
            why = f"no command can be sent within {limit_s:g} s: {_said(error)}"
            raise ConnectionLost(self._host, Phase.CHANNEL, why, passing=True) from error
        return channel

    def _lost(self, why: str) -> ConnectionLost:
        return ConnectionLost(self._host, Phase.COMMAND, why, passing=True)


def _said(error: BaseException) -> str:
    return str(error) or type(error).__name__

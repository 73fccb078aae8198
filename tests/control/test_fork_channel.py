"""What a forkserver and its agent see of each other's death."""

from __future__ import annotations

from runtime.control import fork_protocol as protocol


def test_an_agent_that_dies_with_a_message_unread_is_gone_like_any_other() -> None:
    """The kernel says `connection reset` then, and not `end of file`."""
    for unread in (0, 1):
        agent, forkserver = protocol.channel()
        for _ in range(unread):
            protocol.send(forkserver, protocol.Ready())
        agent.close()
        assert protocol.receive(forkserver) == (None, [])
        forkserver.close()

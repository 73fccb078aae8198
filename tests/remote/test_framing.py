"""A script's frame survives whatever a login shell says around it, and whatever the script says inside it."""

from __future__ import annotations

import subprocess
from contextlib import suppress

import pytest

from tianjictl.remote.framing import Answer, frame


def run_in(shell: list[str], script: str, *args: str) -> Answer:
    """As a server would: the frame on standard input, the connection open until the shell has ended."""
    process = subprocess.Popen(shell, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                               bufsize=0, start_new_session=True)  # fmt: skip
    assert process.stdin is not None
    assert process.stdout is not None
    assert process.stderr is not None
    with process:
        with suppress(BrokenPipeError):  # a shell that leaves at once does not wait for its orders
            process.stdin.write(frame(script, args, "nonce"))
        answer = Answer("nonce")
        answer.feed(out=process.stdout.read(), err=process.stderr.read())
    return answer


@pytest.mark.parametrize("shell", [["/bin/sh", "-s"], ["bash", "-s"]])
def test_any_posix_shell_runs_a_frame_to_its_end(shell):
    done = run_in(shell, "printf '%s|' \"$@\"\r\nexit 7\r\n", "a b", "'", "$x").result()
    assert done is not None
    assert (done.status, done.out) == (7, b"a b|'|$x|")


def test_words_around_the_frame_are_not_heard_and_told_where_there_is_no_frame():
    noise = "echo Welcome; echo hush >&2; exec /bin/sh -s"
    assert run_in(["/bin/sh", "-c", noise], "echo in; echo err >&2").result().out == b"in\n"
    answer = run_in(["/bin/sh", "-c", "echo closed; cat >/dev/null & kill $!; exit 1"], "echo in")
    assert (answer.result(), answer.outside) == (None, "closed")


def test_an_answer_may_come_in_any_pieces():
    out = b"hello\n\n@@TJ-nonce-BEGIN@@\nab\n@@TJ-other-END 1@@\n\n@@TJ-nonce-END 12@@\n"
    err = b"\n@@TJ-nonce-BEGIN@@\n\n@@TJ-nonce-END 12@@\n"
    for size in (1, 2, 5, 1000):
        answer = Answer("nonce")
        for start in range(0, len(out), size):
            assert not answer.whole
            answer.feed(out=out[start : start + size])
        assert answer.begun
        assert not answer.whole, "the other stream is still to come"
        for start in range(0, len(err), size):
            answer.feed(err=err[start : start + size])
        assert answer.whole
        done = answer.result()
        assert done is not None
        assert (done.status, done.out, done.err) == (12, b"ab\n@@TJ-other-END 1@@\n", b"")


def test_what_cannot_be_framed_is_refused_before_anything_is_sent():
    with pytest.raises(ValueError, match="too long"):
        frame("x" * 100_000, (), "nonce")
    with pytest.raises(ValueError, match="NUL"):
        frame("echo", ("a\0b",), "nonce")

"""Waiting for a descriptor, however many there are."""

from __future__ import annotations

import os
import resource

from runtime.contract.waiting import wait_readable, wait_writable


def test_a_descriptor_above_a_thousand_can_be_waited_for() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(4096, hard), hard))
    near, far = os.pipe()
    high_near, high_far = os.dup2(near, 2001), os.dup2(far, 2002)
    try:
        assert not wait_readable(high_near, 0.01)
        assert wait_writable(high_far, 1.0)
        os.write(far, b"x")
        assert wait_readable(high_near, 1.0)
    finally:
        for descriptor in (near, far, high_near, high_far):
            os.close(descriptor)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_the_other_ends_leaving_is_something_to_read() -> None:
    near, far = os.pipe()
    os.close(far)
    try:
        assert wait_readable(near, 1.0)
    finally:
        os.close(near)

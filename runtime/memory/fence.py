"""The one memory fence that rings and boards are ordered by."""

from __future__ import annotations

import os
import threading

_lock = threading.Lock()


def fence() -> None:
    """A full fence: every load and store before it is ordered before every load and store after it (≈ 0.3 µs).

    The fence is two acquire/release cycles of a private lock: A₁ R₁ A₂ R₂. An acquire keeps what follows it from moving
    before it; a release keeps what precedes it from moving behind it. So everything before the call precedes R₁,
    and everything after the call follows A₂. What is left is R₁ before A₂:

    - x86-64: A and R are `lock`-prefixed read-modify-writes, each a full barrier by itself. (TSO orders all pairs but
      store → load even without one.)
    - aarch64: R₁ is a store-release (STLXR, or CASL/LDADDL with LSE) and A₂ a load-acquire (LDAXR, CASA). Armv8 makes
      these RCsc: a load-acquire is not performed before an earlier store-release of the same processor. A₂ also
      reads the very word that R₁ wrote. Hence before ≺ R₁ ≺ A₂ ≺ after, which one cycle alone would not give
      (things before A₁ and things after R₁ could both move into the critical section and pass each other there).

    CPython's lock is a POSIX semaphore or a compare-and-swap mutex; both promise acquire and release. The compiler
    cannot move an access across the calls, because they are opaque to it.

    Loads and stores of the words themselves need to be whole, not ordered: they are aligned 8-byte accesses, which
    both architectures perform in one piece.
    """
    _lock.acquire()
    _lock.release()
    _lock.acquire()
    _lock.release()


def _renew() -> None:
    # Another thread of the parent may have held the lock at the fork; the child's copy would stay locked for ever.
    global _lock
    _lock = threading.Lock()


os.register_at_fork(after_in_child=_renew)

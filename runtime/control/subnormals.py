"""Numbers too small to matter count as nothing.

Once a policy has converged, its gradients and their moments shrink below 1e-38, and a processor takes a hundred times
as long for such a number: a learner was seen to slow down by a quarter within half a minute. NumPy has no switch for
it, the processor has: the control word that glibc's `fenv_t` holds (fenv.h; Intel SDM vol. 1, 10.2.3; Arm ARM, FPCR).
"""

from __future__ import annotations

import ctypes
import platform
import sys

#: machine → (size of `fenv_t`, offset of the control word, bits that flush results and operands)
_WORDS = {"x86_64": (32, 28, 0x8040), "aarch64": (8, 0, 1 << 24)}


def flush_subnormals() -> bool:
    """Have this thread, and those that it starts, take subnormal numbers for 0; False where that cannot be done."""
    known = _WORDS.get(platform.machine())
    if known is None or not sys.platform.startswith("linux"):
        return False
    size, offset, bits = known
    environment = ctypes.create_string_buffer(size)
    try:
        library = ctypes.CDLL("libm.so.6")
    except OSError:  # another C library, whose structure may be another one too
        return False
    if library.fegetenv(environment) != 0:
        return False
    word = ctypes.c_uint32.from_buffer(environment, offset)
    word.value |= bits
    return bool(library.fesetenv(environment) == 0)

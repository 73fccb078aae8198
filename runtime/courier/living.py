"""A courier's process from its first line to its last, however it was started."""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Mapping
from typing import NoReturn

from runtime.courier.pmi import launched


def live(socket: str, environment: Mapping[str, str] | None = None) -> NoReturn:
    """Serve the agent at `socket` until told to leave. `environment` is what MPI needs; none: it is there already.

    With one, this process was forked and not started by a launcher, whose variables are not meant for it then.
    """
    if environment is not None:
        for name in [name for name in os.environ if launched([name])]:
            del os.environ[name]
        os.environ.update(environment)
    code = 1
    try:
        from runtime.courier.courier import run  # initialises MPI, by what the environment says now

        code = run(socket)
    except Exception:
        traceback.print_exc()  # and then the process must end without finalising MPI
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)

"""`python -m runtime.courier SOCKET`."""

import sys
import traceback

from runtime.courier.courier import run
from runtime.courier.world import leave

if __name__ == "__main__":
    code = 1
    try:
        code = run(sys.argv[1])
    except Exception:
        traceback.print_exc()  # and then the process must end without finalising MPI
    leave(code)

"""`python -m runtime.courier SOCKET`."""

import sys

from runtime.courier.living import live

if __name__ == "__main__":
    live(sys.argv[1])

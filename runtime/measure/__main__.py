"""`python -m runtime.measure JSON`."""

import sys

from runtime.measure.command import main

sys.exit(main(sys.argv[1:]))

"""`python -m tianjictl`: the command line."""

import sys

from tianjictl.cli.main import main

sys.exit(main())

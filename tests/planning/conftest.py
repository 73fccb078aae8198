"""Makes this folder's builders importable: the suite runs with importlib mode, which adds no folder to the path."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

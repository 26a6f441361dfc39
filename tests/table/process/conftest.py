"""The kits beside the tests, and that of the operators' tests, are imported by name."""

import sys
from pathlib import Path

for directory in (Path(__file__).parent, Path(__file__).parents[1] / "runtime"):
    sys.path.insert(0, str(directory))

"""Makes `graph_programs` importable: with `--import-mode=importlib` tests have no directory on the path."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

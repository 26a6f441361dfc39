"""Makes the programs importable: with `--import-mode=importlib` tests have no directory on the path."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

collect_ignore = ["recovery_programs.py", "recovery_support.py", "storage_programs.py"]

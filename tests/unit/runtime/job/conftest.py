"""Makes `epoch_loop` importable."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

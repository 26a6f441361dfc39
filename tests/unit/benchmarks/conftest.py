"""The benchmarks are scripts beside each other, not a package: their folder is put on the path, behind all others."""

import sys
from pathlib import Path

BENCHMARKS = str(Path(__file__).parents[3] / "benchmarks")
if BENCHMARKS not in sys.path:
    sys.path.append(BENCHMARKS)

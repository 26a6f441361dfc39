"""The benchmark of killed SQL jobs, small: driver, broker and database are killed, and the tables are right."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]


@pytest.mark.long
@pytest.mark.timeout(900)
def test_tables_are_those_of_an_undisturbed_run_after_three_kills():
    command = [sys.executable, str(ROOT / "benchmarks" / "sql_kills.py"), "--kills", "3", "--records", "6000"]
    done = subprocess.run([*command, "--workers", "0"], capture_output=True, text=True, timeout=800)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "| totals (PostgreSQL, upserts) | 501 | 0 | 0 |" in done.stdout

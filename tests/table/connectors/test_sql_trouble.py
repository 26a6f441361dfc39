"""A full disk below a table of files: what is told, and what is there when there is room again."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys

import pytest

SCRIPT = """
CREATE TABLE numbers (n INT, word STRING) WITH ('connector' = 'filesystem', 'path' = 'in.csv', 'format' = 'csv');
CREATE TABLE copy (n INT, word STRING) WITH ('connector' = 'filesystem', 'path' = 'out', 'format' = 'json');
INSERT INTO copy SELECT n, word FROM numbers;
"""
COUNT = 20_000
ROOM = 100_000  # bytes of a file; the rows take some 500,000


@pytest.mark.long
def test_a_disk_that_is_full_is_told_and_rows_are_there_once_when_there_is_room(tmp_path):
    (tmp_path / "in.csv").write_text("".join(f"{n},word\n" for n in range(COUNT)))
    (tmp_path / "job.sql").write_text(SCRIPT)

    def run(limit=None):
        def prepare():
            if limit is not None:
                resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))

        return subprocess.run(
            [sys.executable, "-m", "millstream.cli", "sql", "-f", "job.sql"],
            cwd=tmp_path,
            env={**os.environ, "MILLSTREAM_CONFIG": ""},
            preexec_fn=prepare,
            capture_output=True,
            text=True,
            timeout=240,
        )

    def visible():
        return [each for each in (tmp_path / "out").rglob("*") if each.is_file() and each.name[0] not in "._"]

    full = run(ROOM)
    assert full.returncode == 1
    assert "could not be written" in full.stderr
    assert "File too large" in full.stderr
    assert "free space" in full.stderr
    assert "Traceback" not in full.stderr
    assert visible() == [], "nothing of a job that failed is there"
    done = run()
    assert done.returncode == 0, done.stderr
    rows = [json.loads(line)["n"] for path in visible() for line in path.read_text().splitlines()]
    assert sorted(rows) == list(range(COUNT))

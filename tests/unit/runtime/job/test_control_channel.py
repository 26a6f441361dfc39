"""Where a job listens for other processes."""

from __future__ import annotations

import tempfile
import uuid
from concurrent.futures import Future
from pathlib import Path

import pytest

from millstream.runtime.job import control_channel
from millstream.runtime.job.control_channel import ControlChannel, ControlledJob, find_jobs


@pytest.fixture
def short(monkeypatch):
    """Stands in for /tmp."""
    with tempfile.TemporaryDirectory(prefix="ms", dir="/tmp") as directory:
        monkeypatch.setattr(control_channel, "_SHORT_DIRECTORY", Path(directory))
        yield Path(directory)


@pytest.mark.parametrize(("name", "is_long"), [("t", False), ("t" * 120, True)])
def test_job_answers_however_long_the_path_of_the_temporary_directory_is(short, monkeypatch, name, is_long):
    temporary = short / name
    temporary.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(temporary))
    channel = ControlChannel(
        ControlledJob(
            job_id=uuid.uuid4().hex,
            name="orders",
            started_ms=0,
            status=lambda: {"status": "RUNNING"},
            savepoint=lambda directory, stop, drain: Future(),
            cancel=lambda: None,
        )
    )
    channel.start()
    try:
        (job,) = find_jobs()
        assert Path(job.address).is_relative_to(temporary) is not is_long
        assert Path(job.address).parent.stat().st_mode & 0o077 == 0
        assert job.ask("status") == {"status": "RUNNING"}
    finally:
        channel.close()
    assert find_jobs() == []
    assert [path for path in short.rglob("*") if path.is_socket()] == []

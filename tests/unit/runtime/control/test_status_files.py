"""Files of running jobs, as another process finds them."""

import json
import os

import pytest

from millstream.files.private_files import private_directory
from millstream.runtime.control.announced import find_announced
from millstream.runtime.control.status_files import process_start, read_running_jobs


@pytest.fixture
def jobs(tmp_path, monkeypatch):
    """The directory of jobs, with one of this process."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    directory = private_directory("jobs")
    document = {
        "job_id": "a",
        "started_ms": 5,
        "pid": os.getpid(),
        "process_start": process_start(os.getpid()),
    }
    (directory / "a.json").write_text(json.dumps(document))
    return directory


@pytest.mark.parametrize("other", ["{", "[]", "{}", '{"pid": 1}', '{"pid": 1, "job_id": 3, "started_ms": 1}'])
def test_files_of_another_version_keep_nobody_from_finding_jobs(jobs, other):
    for suffix in ("json", "control"):
        (jobs / f"b.{suffix}").write_text(other)
    assert [document["job_id"] for document in read_running_jobs()] == ["a"]
    assert find_announced("jobs") == []
    assert (jobs / "b.json").exists(), "whoever wrote it may need it"

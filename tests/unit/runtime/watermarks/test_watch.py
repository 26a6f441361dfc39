from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from millstream.base.clock import ManualClock
from millstream.files.private_files import NotPrivateError
from millstream.graph.job_graph import JobGraph
from millstream.runtime.control.status_files import (
    StatusFile,
    read_running_jobs,
    status_directory,
)
from millstream.runtime.watermarks.progress import WatermarkMonitor
from millstream.runtime.watermarks.watch import WatermarkWatch

DOCUMENT = {"job_id": "j1", "name": "job", "started_ms": 5}


@pytest.fixture(autouse=True)
def own_directory(monkeypatch, tmp_path):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))


def written(job_id="j1", **more):
    file = StatusFile(job_id)
    file.write({**DOCUMENT, "job_id": job_id, **more})
    return file


def test_what_is_known_is_told_once_a_second_and_not_in_the_first():
    clock = ManualClock(0)
    told = []
    watch = WatermarkWatch(
        WatermarkMonitor(JobGraph((), ())),
        job_id="j1",
        job_name="job",
        batch=False,
        clock=clock,
        publish=told.append,
    )
    for _ in range(40):
        watch.publish()
        clock.advance(100)
    assert [each.written_ms for each in told] == [1_000, 2_000, 3_000]


def test_what_is_written_is_read_and_gone_after_the_end():
    file = written()
    (read,) = read_running_jobs()
    assert {**read, **DOCUMENT, "pid": os.getpid()} == read
    file.remove()
    assert read_running_jobs() == []
    assert os.listdir(status_directory()) == []


def test_jobs_are_listed_by_their_start():
    written("late", started_ms=9)
    written("early", started_ms=1)
    assert [document["job_id"] for document in read_running_jobs()] == ["early", "late"]


def test_directory_is_for_its_user_only():
    written()
    assert [os.stat(path).st_mode & 0o777 for path in (status_directory(), status_directory().parent)] == [
        0o700,
        0o700,
    ]


def test_directory_that_others_may_write_is_not_trusted(caplog):
    status_directory().mkdir(parents=True)
    status_directory().chmod(0o777)
    with pytest.raises(NotPrivateError, match="not for this user only"):
        read_running_jobs()
    file = written()
    file.write(DOCUMENT)
    assert caplog.text.count("status of the job is not written") == 1


def test_directory_that_is_a_link_is_not_trusted(tmp_path):
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir(mode=0o700)
    status_directory().parent.mkdir(mode=0o700)
    status_directory().symlink_to(elsewhere)
    with pytest.raises(NotPrivateError):
        read_running_jobs()


def test_file_of_a_process_that_is_gone_is_left_out_and_removed():
    written()
    ended = subprocess.run(
        [sys.executable, "-c", "import os; print(os.getpid())"], capture_output=True, text=True
    )
    path = status_directory() / "j1.json"
    path.write_text(json.dumps({**DOCUMENT, "pid": int(ended.stdout)}))
    assert read_running_jobs() == []
    assert not path.exists()


def test_process_that_has_ended_but_was_not_waited_for_is_gone():
    written()
    path = status_directory() / "j1.json"
    ended = subprocess.Popen([sys.executable, "-c", ""], stdout=subprocess.PIPE)
    assert ended.stdout is not None
    ended.stdout.read()
    os.waitid(os.P_PID, ended.pid, os.WEXITED | os.WNOWAIT)
    path.write_text(json.dumps({**json.loads(path.read_text()), "pid": ended.pid}))
    assert read_running_jobs() == []
    ended.wait()


def test_other_process_with_the_same_number_is_not_taken_for_the_job():
    written()
    path = status_directory() / "j1.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "process_start": "1"}))
    assert read_running_jobs() == []


def test_file_that_is_not_json_is_left_out(caplog):
    written()
    (status_directory() / "j2.json").write_text("{")
    assert [document["job_id"] for document in read_running_jobs()] == ["j1"]
    assert "not JSON" in caplog.text


def test_job_that_was_never_written_removes_nothing_that_is_not_its_own():
    written("j1")
    StatusFile("j1").remove()
    assert len(read_running_jobs()) == 1

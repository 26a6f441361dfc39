"""What was seen of jobs that have ended."""

from __future__ import annotations

import uuid

import pytest

from millstream.base.clock import ManualClock
from millstream.base.errors import JobRequestError
from millstream.files.private_files import NotPrivateError
from millstream.runtime.control import views
from millstream.runtime.control.archive import JobArchive
from millstream.runtime.control.commands import Cancel
from millstream.runtime.control.gateway import JobGateway

PLAN = views.PlanView(1, (), (), ())


class Ended(JobGateway):
    def __init__(self, name, ended_ms):
        self.job_id, self.name, self.started_ms = uuid.uuid4().hex, name, 0
        self.ended_ms = ended_ms

    def view(self, kind):
        if kind is views.JobView:
            status = (
                "FINISHED",
                9,
                0,
                self.ended_ms,
                {},
                (),
                0,
                0,
                1,
                128,
                1,
                1,
                5,
                None,
                True,
                None,
                1,
                "host",
            )
            return views.JobView(self.job_id, self.name, "STREAMING", *status, plan=PLAN)
        if kind in (views.WatermarksView, views.MetricsView):
            empty = (self.job_id, self.name, 0, 0, False, 0, 0)
            return kind(*empty[: 7 if kind is views.WatermarksView else 3])
        return kind()

    def perform(self, command):
        raise NotImplementedError


@pytest.fixture
def clock(tmp_path, public):
    return ManualClock(10_000)


def test_ended_jobs_are_shown_as_they_were_the_latest_first(clock):
    archive = JobArchive(clock=clock)
    assert archive.jobs() == []
    first, second = Ended("first", 9_000), Ended("second", 9_500)
    for job in (first, second):
        clock.advance(1)
        archive.write(job)
    latest, earlier = archive.jobs()
    assert (latest.name, earlier.name) == ("second", "first")
    assert earlier.view(views.JobView) == first.view(views.JobView)
    assert earlier.view(views.CheckpointsView) == views.CheckpointsView()
    assert archive.find(first.job_id) == earlier
    assert archive.find("0" * 32) is None
    with pytest.raises(JobRequestError, match="has ended: FINISHED"):
        earlier.perform(Cancel()).result()


def test_jobs_are_kept_for_some_time_only(clock):
    archive = JobArchive(expiration_ms=1_000, clock=clock)
    archive.write(Ended("old", 9_000))
    clock.advance(900)
    archive.write(Ended("new", 9_000))
    clock.advance(500)
    assert [job.name for job in archive.jobs()] == ["new"]
    clock.advance(60_000)
    assert archive.jobs() == []


def test_of_too_many_jobs_the_oldest_go(clock):
    archive = JobArchive(max_capacity=2, clock=clock)
    for number in range(4):
        clock.advance(1)
        archive.write(Ended(f"job {number}", 9_000))
    assert [job.name for job in archive.jobs()] == ["job 3", "job 2"]


@pytest.mark.parametrize("sizes", [{"expiration_ms": 0}, {"max_capacity": 0}])
def test_nothing_is_kept_where_nothing_is_to_be_kept(clock, public, sizes):
    JobArchive(clock=clock, **sizes).write(Ended("job", 9_000))
    assert list(public.iterdir()) == []


def test_a_file_that_is_none_of_ours_is_left_out(clock, tmp_path, caplog):
    directory = tmp_path / "archive"
    archive = JobArchive(str(directory), clock=clock)
    archive.write(Ended("job", 9_000))
    (directory / f"{9_500:015d}-{'a' * 32}.json").write_text('{"job": 5}')
    (directory / "notes.txt").write_text("mine")
    assert [job.name for job in archive.jobs()] == ["job"]
    assert "does not tell of a job" in caplog.text


def test_files_are_for_this_user_only_and_a_directory_of_others_is_refused(clock, tmp_path, caplog):
    archive = JobArchive(str(tmp_path / "own"), clock=clock)
    archive.write(Ended("job", 9_000))
    assert {path.stat().st_mode & 0o077 for path in (tmp_path / "own").iterdir()} == {0}
    (tmp_path / "open").mkdir()
    (tmp_path / "open").chmod(0o777)
    archive = JobArchive(str(tmp_path / "open"), clock=clock)
    archive.write(Ended("job", 9_000))
    assert "is not kept" in caplog.text
    with pytest.raises(NotPrivateError):
        archive.jobs()

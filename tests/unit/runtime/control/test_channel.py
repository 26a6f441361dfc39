"""Where a job listens for other processes."""

from __future__ import annotations

import socket
import tempfile
import threading
import time
import uuid
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import pytest

from millstream.base.errors import JobExecutionError, JobRequestError
from millstream.base.time import MIN_TIMESTAMP
from millstream.files.private_files import NotPrivateError
from millstream.runtime.control import announced
from millstream.runtime.control.channel import ControlChannel, find_jobs
from millstream.runtime.control.commands import Cancel, TriggerSavepoint
from millstream.runtime.control.conversations import Conversations
from millstream.runtime.control.gateway import JobGateway
from millstream.runtime.control.status_files import status_directory
from millstream.runtime.control.views import JobView, WatermarksView


class Job(JobGateway):
    """A job whose view tells how often it was told to do something, and which never does it."""

    def __init__(self, job_id=None, started_ms=0):
        self.job_id, self.name, self.started_ms = job_id or uuid.uuid4().hex, "orders", started_ms
        self.told = []

    def view(self, kind):
        assert kind is WatermarksView
        return WatermarksView(
            self.job_id,
            self.name,
            self.started_ms,
            0,
            batch=False,
            epoch=len(self.told),
            watermark_ms=MIN_TIMESTAMP,
        )

    def perform(self, command):
        self.told.append(command)
        return Future()


@pytest.fixture
def short(monkeypatch):
    """Stands in for /tmp."""
    with tempfile.TemporaryDirectory(prefix="ms", dir="/tmp") as directory:
        monkeypatch.setattr(announced, "_SHORT_DIRECTORY", Path(directory))
        yield Path(directory)


@pytest.mark.parametrize(("name", "is_long"), [("t", False), ("t" * 120, True)])
def test_job_answers_however_long_the_path_of_the_temporary_directory_is(short, monkeypatch, name, is_long):
    temporary = short / name
    temporary.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(temporary))
    channel = ControlChannel(Job())
    channel.start()
    try:
        (job,) = find_jobs()
        assert Path(job.announced.address).is_relative_to(temporary) is not is_long
        assert Path(job.announced.address).parent.stat().st_mode & 0o077 == 0
        assert job.view(WatermarksView).epoch == 0
        with pytest.raises(JobExecutionError, match="does not answer"):
            replace(job, announced=replace(job.announced, secret=b"a guess")).perform(Cancel()).result()
    finally:
        channel.close()
    assert find_jobs() == []
    assert [path for path in short.rglob("*") if path.is_socket()] == []


@pytest.fixture
def job(public):
    """A job that runs, and its channel."""
    channel = ControlChannel(Job())
    channel.start()
    (job,) = find_jobs()
    yield job
    channel.close()


def test_connections_that_say_nothing_keep_nobody_from_steering_a_job(job):
    with ExitStack() as stack:
        for _ in range(100):
            stack.enter_context(socket.socket(socket.AF_UNIX)).connect(job.announced.address)
        assert job.view(WatermarksView).epoch == 0


def test_another_user_neither_finds_nor_reaches_a_job(job, nobody, public):
    directory = status_directory()
    with pytest.raises(PermissionError):
        nobody.do(lambda: list(directory.iterdir()))
    with pytest.raises(JobExecutionError, match="PermissionError"):
        nobody.do(lambda: job.view(WatermarksView))
    assert job.view(WatermarksView).epoch == 0


def test_jobs_of_another_users_making_are_not_believed(public, nobody):
    directory = status_directory()
    nobody.do(lambda: directory.mkdir(parents=True, mode=0o700))
    with pytest.raises(NotPrivateError):
        find_jobs()


def driver(job_id, *, started_ms):
    """Begin the channel of one driver of a job."""
    channel = ControlChannel(Job(job_id, started_ms))
    channel.start()
    return channel


def test_a_driver_is_steered_that_goes_on_with_a_job_before_the_one_before_it_has_ended(public):
    job_id = uuid.uuid4().hex
    former, latter = driver(job_id, started_ms=1), driver(job_id, started_ms=2)
    try:
        (job,) = find_jobs()
        assert job.view(WatermarksView).started_ms == 2
        former.close()
        (job,) = find_jobs()
        assert job.view(WatermarksView).started_ms == 2
    finally:
        latter.close()
    assert find_jobs() == []
    assert [path.name for path in status_directory().iterdir()] == []


def test_who_waits_is_answered_when_the_job_ends(public):
    channel = ControlChannel(Job())
    channel.start()
    (job,) = find_jobs()
    answer = job.perform(TriggerSavepoint("/s"))
    while not job.view(WatermarksView).epoch:  # until it has been told
        pass
    channel.close()
    with pytest.raises(JobExecutionError, match="ended before it had done"):
        answer.result(timeout=10)


def until(condition):
    deadline = time.monotonic() + 10
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_who_has_connected_before_the_job_ends_may_still_ask(public):
    channel = ControlChannel(Job())
    channel.start()
    (remote,) = find_jobs()
    with remote.announced.connect() as connected:
        until(lambda: channel._socket._channels)
        closing = threading.Thread(target=channel.close)
        closing.start()
        until(lambda: find_jobs() == [])
        assert b'"epoch":0' in remote.announced.ask_over(connected, {"view": "watermarks"})
        closing.join(10)
    assert not closing.is_alive()


@pytest.fixture
def asked_often(public):
    """A job, its channel, and how it is asked by who keeps connections."""
    job = Job()
    channel = ControlChannel(job)
    channel.start()
    conversations = Conversations()
    yield job, channel, lambda: next(iter(find_jobs(conversations)))
    channel.close()


def test_the_second_question_needs_no_connection(asked_often):
    job, _, find = asked_often
    remote = find()
    assert remote.view(WatermarksView).epoch == 0
    Path(remote.announced.address).unlink()  # nobody can connect any more
    job.perform(Cancel())
    assert find().view(WatermarksView).epoch == 1
    with pytest.raises(JobExecutionError, match="does not answer"):
        replace(remote, conversations=None).view(WatermarksView)


def test_many_may_ask_at_once_over_kept_connections(asked_often):
    _, _, find = asked_often
    remote = find()
    with ThreadPoolExecutor(8) as threads:
        views = list(threads.map(lambda _: remote.view(WatermarksView), range(200)))
    assert {view.epoch for view in views} == {0}


def test_a_connection_that_was_silent_for_too_long_is_made_anew(asked_often, monkeypatch):
    monkeypatch.setattr(announced, "_SILENCE_S", 0.05)
    _, channel, find = asked_often
    assert find().view(WatermarksView).epoch == 0
    until(lambda: not channel._socket._channels)
    assert find().view(WatermarksView).epoch == 0


def test_a_job_that_has_ended_answers_over_no_connection(asked_often):
    _, channel, find = asked_often
    remote = find()
    assert remote.view(WatermarksView).epoch == 0
    channel.close()
    with pytest.raises(JobRequestError, match="does not answer"):
        remote.view(WatermarksView)
    until(lambda: not channel._socket._channels)


def test_a_refusal_leaves_the_connection_as_it_is(asked_often):
    _, _, find = asked_often
    remote = find()
    assert remote.view(WatermarksView).epoch == 0
    Path(remote.announced.address).unlink()
    for _ in range(2):
        with pytest.raises(JobRequestError, match="AssertionError"):
            remote.view(JobView)
    assert remote.view(WatermarksView).epoch == 0

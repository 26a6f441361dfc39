"""A dispatcher whose disk is full for a while."""

import errno
import os
import threading
import time

import pytest

from millstream.cluster.application_store import ApplicationStore
from millstream.cluster.applications import Program
from millstream.cluster.dispatcher import Dispatcher, DispatcherConfig


@pytest.fixture
def dispatcher(tmp_path):
    made = Dispatcher(DispatcherConfig(tmp_path / "cluster", {}, "local", dict(os.environ)))
    thread = threading.Thread(target=made.run)
    thread.start()
    yield made
    made.stop()
    thread.join(30)
    assert not thread.is_alive()


def test_full_disk_refuses_submissions_and_holds_back_what_cannot_be_noted(dispatcher, tmp_path, monkeypatch):
    job = tmp_path / "job.py"
    job.write_text("raise SystemExit(7)")
    program = Program(str(job), working_directory=str(tmp_path))
    right, writes = ApplicationStore.write, []

    def full(store, application):
        writes.append(application.status)
        if len(writes) == 1 or (application.status == "RUNNING" and writes.count("RUNNING") == 1):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        right(store, application)

    monkeypatch.setattr(ApplicationStore, "write", full)
    with pytest.raises(OSError, match="No space"):
        dispatcher.submit(program)
    assert dispatcher.applications() == []

    application = dispatcher.submit(program)
    deadline = time.monotonic() + 60
    while not (found := dispatcher.find(application.application_id)).has_ended:
        assert time.monotonic() < deadline, found
        time.sleep(0.05)
    assert (found.status, found.message) == ("FAILED", "it ended with exit code 7")
    assert found.starts == 2, "the first start could not be noted, and was not made"
    assert len(list((tmp_path / "cluster").glob("applications/*/log/*.log"))) == 1

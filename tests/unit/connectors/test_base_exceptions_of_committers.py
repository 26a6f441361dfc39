"""What a committer raises is its error, whatever it is; and the other transactions are aborted all the same."""

import asyncio

import pytest

from millstream.base.errors import SinkError
from millstream.datastream.connectors.base import TwoPhaseCommitSink, WriteAheadSink, WriterContext
from millstream.spi.batch import Rows

KINDS = [SystemExit, KeyboardInterrupt, asyncio.CancelledError, GeneratorExit]


@pytest.fixture(params=KINDS, ids=lambda kind: kind.__name__)
def kind(request, monkeypatch):
    # As on a job's own thread: on pytest's main thread a KeyboardInterrupt might be the user's.
    monkeypatch.setattr("millstream.base.interrupts._ctrl_c_raises_here", lambda: False)
    return request.param


class Transactions(TwoPhaseCommitSink):
    def __init__(self, kind, aborted):
        self.kind, self.aborted = kind, aborted

    def begin_transaction(self):
        return "transaction"

    def invoke(self, transaction, value, context):
        pass

    def commit(self, committable):
        raise self.kind("of the user")

    def abort(self, committable):
        self.aborted.append(committable)
        raise self.kind("of the user")


class Waiting(WriteAheadSink):
    def __init__(self, kind, directory):
        super().__init__(directory=directory)
        self.kind = kind

    def send_values(self, values, checkpoint_id, subtask_index):
        raise self.kind("of the user")


def test_a_commit_that_raises_no_exception_fails_as_any_other(kind):
    committer = Transactions(kind, []).build_committer()
    for commit in (committer.commit, committer.recover):
        with pytest.raises(SinkError, match=f"{kind.__name__}: of the user") as raised:
            commit(["one"])
        assert isinstance(raised.value.__cause__, kind)
        assert "Transactions" in raised.value.detail


def test_an_abort_that_raises_no_exception_leaves_no_other_transaction(kind):
    aborted = []
    Transactions(kind, aborted).build_committer().abort(["one", "two"])
    assert aborted == ["one", "two"]


def test_values_that_are_not_sent_because_of_no_exception_are_kept(kind, tmp_path):
    sink = Waiting(kind, str(tmp_path))
    writer = sink.build_writer(WriterContext("job", "sink", 0, 1, 0, None, "operator"))
    writer.open()
    writer.write(Rows([1]), watermark_ms=0, now_ms=0)
    staged = writer.prepare_commit(now_ms=0, checkpoint=True, end_of_input=False)
    committables = writer.number_committables(staged, 1)
    with pytest.raises(SinkError, match="Waiting") as raised:
        sink.build_committer().commit(committables)
    assert f"{kind.__name__}: of the user" in raised.value.detail
    assert list(tmp_path.glob("*.waiting"))

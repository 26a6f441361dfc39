"""Writers that send records together: how many, how large, and when."""

from __future__ import annotations

import pytest

from millstream.connectors.batching_writer import BatchingWriter
from millstream.spi.batch import Rows


class Recorder(BatchingWriter[str]):
    def __init__(self, *limits):
        super().__init__(*limits)
        self.sent = []

    def message(self, value):
        return value.upper()

    def size_of(self, message):
        return len(message)

    def send(self, messages):
        if "BAD" in messages:
            raise OSError("refused")
        self.sent.append(messages)


def write(writer, *values):
    writer.write(Rows(list(values)), watermark_ms=0, now_ms=0)


def end_epoch(writer):
    return writer.prepare_commit(now_ms=0, checkpoint=False, end_of_input=False)


def test_messages_go_by_number_and_the_rest_with_the_epoch():
    writer = Recorder(2)
    write(writer, "a", "b", "c")
    assert writer.sent == [["A", "B"]]
    assert end_epoch(writer) == []
    assert writer.sent == [["A", "B"], ["C"]]
    end_epoch(writer)
    assert len(writer.sent) == 2


def test_no_batch_is_larger_than_allowed_but_for_one_large_message():
    writer = Recorder(100, 4)
    write(writer, "aaa", "b", "cc", "dddddd", "e")
    end_epoch(writer)
    assert writer.sent == [["AAA", "B"], ["CC"], ["DDDDDD"], ["E"]]


def test_what_could_not_be_sent_is_kept():
    writer = Recorder()
    write(writer, "a", "bad")
    for _ in range(2):
        with pytest.raises(OSError, match="refused"):
            end_epoch(writer)
    assert writer.sent == []


def test_an_error_of_a_record_tells_the_record():
    with pytest.raises(AttributeError) as caught:
        write(Recorder(), "a", 7)
    assert "7" in str(vars(caught.value))

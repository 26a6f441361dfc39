"""Decoding messages, and what becomes of those that do not parse."""

from __future__ import annotations

import json
import logging
import pickle

import pytest

from millstream.base.errors import (
    ConfigurationError,
    JobExecutionError,
    MalformedRecordError,
    MillstreamError,
    SourceError,
    TypeMismatchError,
)
from millstream.common import Types, WatermarkStrategy
from millstream.common.output_tag import OutputTag
from millstream.connectors.index_splits import IndexEnumerator, cut
from millstream.connectors.messages import DeadLetter, MalformedPolicy, MessageDecoder
from millstream.formats.json.messages import JsonRowDeserializationSchema
from millstream.metrics.groups import MetricGroup
from millstream.spi.batch import Columns, Rows
from millstream.spi.serialization import DeserializationSchema, SimpleStringSchema
from millstream.spi.source import Boundedness, RangeEnd, Source, SourceReader, SourceReaderContext
from millstream.testing import FailurePoint, MiniCluster
from millstream.types.row import Row

DEAD = OutputTag("dead")
KIND = Types.ROW_NAMED(["n"], [Types.LONG()])
NUMBERS = JsonRowDeserializationSchema.builder().type_info(KIND).build()


def where(index):
    return f"offset {index}"


class Context:
    def __init__(self, side_outputs=None):
        self.metrics = MetricGroup(lambda: 0)
        self.aside = []
        self.given = SourceReaderContext(
            self.metrics, lambda tag_id, batch: self.aside.append((tag_id, batch)), side_outputs
        )

    @property
    def errors(self):
        return self.metrics.counter("numRecordsInErrors").get_count()


def decoder(schema=NUMBERS, policy=None, context=None, **more):
    given = (context or Context()).given
    return MessageDecoder(schema, policy or MalformedPolicy.fail(), given, source="topic orders", **more)


def message(number):
    return json.dumps({"n": number}).encode()


def test_messages_become_rows_with_their_timestamps():
    batch = decoder().decode([message(1), message(2)], where, [10, 20])
    assert batch == Rows([Row(n=1), Row(n=2)], [10, 20])
    assert decoder().decode([], where) == Rows([])


def test_columns_are_given_where_they_are_wanted_and_the_schema_can():
    messages = [message(n) for n in range(5_000)]
    batch = decoder(columns=True).decode(messages, where, list(range(5_000)))
    assert isinstance(batch, Columns)
    assert batch.to_rows() == decoder().decode(messages, where, list(range(5_000)))
    assert isinstance(decoder(SimpleStringSchema(), columns=True).decode(messages, where), Rows)


def test_message_that_does_not_parse_fails_and_is_named():
    messages = [message(n) for n in range(100)]
    messages[17] = messages[40] = b"{" + b"x" * 500
    for columns in (False, True):
        with pytest.raises(MalformedRecordError) as raised:
            decoder(columns=columns).decode(messages, where)
        assert raised.value.message.startswith("message of topic orders, offset 17, does not parse: b'{xxx")
        assert "504 chars" in raised.value.message
        assert len(raised.value.message) < 300
        assert "Expecting property name" in raised.value.detail
        assert "skip()" in raised.value.hint
        assert "dead_letters" in raised.value.hint


@pytest.mark.parametrize("columns", [False, True])
@pytest.mark.parametrize(
    "malformed", [{0}, {4_999}, {7, 8, 2_500}, set(range(0, 5_000, 7)), set(range(5_000))]
)
def test_skipped_messages_are_counted_and_the_others_come_with_their_timestamps(malformed, columns):
    messages = [b"x" if n in malformed else message(n) for n in range(5_000)]
    context = Context()
    batch = decoder(policy=MalformedPolicy.skip(), context=context, columns=columns).decode(
        messages, where, list(range(5_000))
    )
    rest = [n for n in range(5_000) if n not in malformed]
    assert batch == Rows([Row(n=n) for n in rest], rest)
    assert context.errors == len(malformed)
    assert context.aside == []


def test_skipped_messages_are_logged_now_and_then(caplog):
    one = decoder(policy=MalformedPolicy.skip())
    with caplog.at_level(logging.WARNING):
        for _ in range(1_000):
            one.decode([b"x"], where)
    assert [record.getMessage().split()[0] for record in caplog.records] == ["1", "10", "100", "1000"]
    assert "topic orders" in caplog.text


def test_dead_letters_hold_message_and_cause():
    context = Context(frozenset({"dead"}))
    one = decoder(policy=MalformedPolicy.dead_letters(DEAD), context=context)
    assert one.decode([b"x", message(1), b"y"], where, [5, 6, 7]) == Rows([Row(n=1)], [6])
    ((tag_id, batch),) = context.aside
    assert tag_id == "dead"
    assert batch.timestamps == [5, 7]
    assert [(each.source, each.position, each.message) for each in batch.values] == [
        ("topic orders", "offset 0", b"x"),
        ("topic orders", "offset 2", b"y"),
    ]
    assert "Expecting value" in batch.values[0].error
    assert context.errors == 2
    assert pickle.loads(pickle.dumps(batch.values)) == batch.values


def test_dead_letters_that_nobody_reads_are_an_error_at_the_start():
    with pytest.raises(ConfigurationError, match="'dead', which nobody reads"):
        decoder(policy=MalformedPolicy.dead_letters(DEAD), context=Context(frozenset()))
    with pytest.raises(TypeMismatchError, match="not an OutputTag"):
        MalformedPolicy.dead_letters("dead")


def test_messages_without_record_give_nothing():
    class EvenOnly(DeserializationSchema):
        def deserialize(self, message):
            number = int(message)
            return None if number % 2 else number

    context = Context()
    one = decoder(EvenOnly(), context=context)
    assert one.decode([b"1", b"2", None, b"4"], where, [1, 2, 3, 4]) == Rows([2, 4], [2, 4])
    assert one.decode_values([b"1", b"2", None, b"4"], where) == ([2, 4], [1, 3])
    assert one.decode_values([b"2", b"4"], where) == ([2, 4], None)
    assert one.decode([None, None], where, [1, 2]) == Rows([], [])
    assert context.errors == 0


def test_a_message_may_have_several_records():
    class Words(DeserializationSchema):
        gives_many = True

        def deserialize(self, message):
            raise NotImplementedError

        def deserialize_many(self, message):
            return message.decode().split()

    messages = [b"a b", b"", None, b"\xff", b"c"]
    one = decoder(Words(), MalformedPolicy.skip(), columns=True)
    assert one.decode(messages, where, [1, 2, 3, 4, 5]) == Rows(["a", "b", "c"], [1, 1, 5])
    assert one.decode_values([b"a b"], where) == (["a", "b"], [0, 0])


class _ParserError(Exception):
    """As packages have them that parse."""


@pytest.mark.parametrize("error", [KeyError("x"), TypeError("x"), _ParserError("x"), RecursionError("x")])
def test_whatever_a_schema_raises_about_a_message_is_up_to_the_policy(error):
    assert decoder(_Raising(error), MalformedPolicy.skip()).decode([b"x", b"ok"], where) == Rows([b"ok"])


@pytest.mark.parametrize(
    "error", [SourceError("away"), ConnectionError("away"), ConfigurationError("missing")]
)
def test_what_is_not_about_the_message_fails_whatever_the_policy(error):
    with pytest.raises(type(error), match=str(error.args[0])):
        decoder(_Raising(error), MalformedPolicy.skip()).decode([b"x", b"ok"], where)


class _Raising(DeserializationSchema):
    def __init__(self, error):
        self.error = error

    def deserialize(self, message):
        if message == b"x":
            raise self.error
        return message


def test_schema_that_loses_messages_is_told_so():
    class Loses(DeserializationSchema):
        def deserialize(self, message):
            return message

        def deserialize_all(self, messages):
            return list(messages[1:])

    with pytest.raises(MillstreamError, match="gave 1 values for 2 messages"):
        decoder(Loses(), MalformedPolicy.fail()).decode([b"a", b"b"], where)


# ---- in jobs ----


class MessageSource(Source):
    """Messages by index; every third one is malformed."""

    def __init__(self, count, policy):
        self.count = count
        self.policy = policy

    def get_boundedness(self):
        return Boundedness.BOUNDED

    def build_enumerator(self, parallelism, restored):
        return IndexEnumerator(cut(0, self.count, parallelism), parallelism, restored)

    def build_reader(self, subtask_index, parallelism):
        return MessageReader(self.policy)


def nth(index):
    return b"malformed %d" % index if index % 3 == 0 else message(index)


class MessageReader(SourceReader):
    def __init__(self, policy):
        self.policy = policy

    def open(self):
        self.decoder = MessageDecoder(
            NUMBERS, self.policy, self.context, source="list", columns=self.wants_columns
        )

    def read(self, split_range, emit):
        indices = split_range.split[split_range.start : split_range.stop]
        count, done, goes_on = 0, 0, True
        while done < len(indices) and goes_on:
            some = indices[done : done + 10]
            batch = self.decoder.decode([nth(n) for n in some], f"message {some[0]} + {{}}".format)
            goes_on = emit(batch)
            count, done = count + len(batch), done + len(some)
        position = split_range.start + done
        return RangeEnd(split_range.split_id, position, position == len(split_range.split), count)


def both_outputs(environment, policy):
    stream = environment.from_source(
        MessageSource(200, policy), WatermarkStrategy.no_watermarks(), "messages"
    )
    dead = stream.get_side_output(DEAD).map(lambda letter: letter.message.decode())
    return stream.map(lambda row: str(row.n)).union(dead)


EXPECTED = sorted([str(n) for n in range(200) if n % 3] + [f"malformed {n}" for n in range(0, 200, 3)])


@pytest.mark.parametrize("parallelism", [1, 2])
@pytest.mark.parametrize("point", [None, *FailurePoint])
def test_dead_letters_come_once_whatever_fails(point, parallelism):
    options = {"millstream.epoch.fixed-records": 7}
    with MiniCluster(parallelism=parallelism, options=options) as cluster:
        if point is not None:
            cluster.fail_at(point, 3)
        stream = both_outputs(cluster.environment(), MalformedPolicy.dead_letters(DEAD))
        assert sorted(cluster.collect(stream)) == EXPECTED
        assert len(cluster.failures) == (point is not None)


def test_job_with_a_malformed_message_fails_and_says_which():
    with MiniCluster(options={"restart-strategy.type": "none"}) as cluster:
        stream = cluster.environment().from_source(
            MessageSource(5, MalformedPolicy.fail()), WatermarkStrategy.no_watermarks(), "messages"
        )
        with pytest.raises(JobExecutionError) as raised:
            cluster.collect(stream)
        assert "message of list, message 0 + 0, does not parse" in str(raised.value.__cause__)


def test_policies_show_what_they_are():
    assert repr(MalformedPolicy.fail()) == "MalformedPolicy.fail()"
    assert repr(MalformedPolicy.dead_letters(DEAD)) == "MalformedPolicy.dead_letters('dead')"
    assert pickle.loads(pickle.dumps(MalformedPolicy.skip())) == MalformedPolicy.skip()
    assert DeadLetter("s", "p", b"m", "e") == DeadLetter("s", "p", b"m", "e")

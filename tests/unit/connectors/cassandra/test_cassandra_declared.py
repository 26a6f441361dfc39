"""What can be said of Cassandra sinks without a server."""

from __future__ import annotations

import pickle

import pytest

from millstream.base.errors import ConfigurationError, TypeMismatchError
from millstream.common import Instant, Row, Types
from millstream.common.time import Duration
from millstream.connectors.cassandra.options import WriteSettings
from millstream.connectors.cassandra.rows import ByName, ByPosition, convert
from millstream.connectors.cassandra.statements import Query, Table
from millstream.datastream.connectors.cassandra import (
    CassandraCommitter,
    CassandraFailureHandler,
    CassandraRowSink,
    CassandraSink,
    ClusterBuilder,
    ConsistencyLevel,
    MapperOptions,
)

CLUSTER = ClusterBuilder("host", username="me", password="secret-word")
TYPE = Types.ROW_NAMED(["id", "word"], [Types.LONG(), Types.STRING()])


class Skipping(CassandraFailureHandler):
    def on_failure(self, failure):
        pass


def table(name="shop.orders"):
    return CassandraRowSink.builder().set_cluster_builder(CLUSTER).set_table(name)


@pytest.mark.parametrize(
    ("declare", "said"),
    [
        (lambda: CassandraRowSink.builder().set_query("INSERT").build(), "no cluster"),
        (lambda: CassandraRowSink.builder().set_host("h").build(), "not said"),
        (lambda: table().set_columns("id").set_query("INSERT").build(), "said twice"),
        (lambda: table().set_query(""), "query"),
        (lambda: table("orders").set_columns("id").build(), "keyspace.table"),
        (lambda: table().build(), "not named"),
        (lambda: table().set_type_info(TYPE).set_columns("id", "words").build(), "words.*no fields"),
        (lambda: table().set_cluster_builder("h"), "no ClusterBuilder"),
        (lambda: table().set_failure_handler(print), "no CassandraFailureHandler"),
        (lambda: table().set_mapper_options({}), "no MapperOptions"),
        (lambda: table().enable_write_ahead_log(5), "no CassandraCommitter"),
        (lambda: table().set_max_concurrent_requests(0), "positive"),
        (lambda: table().set_max_concurrent_requests(1, Duration.of_millis(0)), "positive"),
        (
            lambda: (
                table()
                .set_columns("id")
                .enable_write_ahead_log()
                .set_failure_handler(Skipping())
                .build()
            ),
            "would lose records",
        ),
        (
            lambda: (
                table()
                .set_columns("id")
                .set_mapper_options(MapperOptions().if_not_exists(True).timestamp(5))
                .build()
            ),
            "if_not_exists and a timestamp",
        ),
        (lambda: MapperOptions().ttl(-1), "negative"),
        (lambda: MapperOptions().consistency_level("ONE"), "no ConsistencyLevel"),
        (lambda: ClusterBuilder(), "no host"),
        (lambda: ClusterBuilder("h", username="me"), "only one"),
        (lambda: CassandraCommitter(CLUSTER, "no-name"), "no-name"),
    ],
)  # fmt: skip
def test_what_makes_no_sense_is_refused_when_it_is_said(declare, said):
    with pytest.raises(ConfigurationError, match=said):
        declare()


def test_pyflinks_program_makes_a_plan(restarting):
    """As in PyFlink's own tests."""
    environment = restarting()
    type_info = Types.ROW([Types.STRING(), Types.INT()])
    stream = environment.from_collection([("ab", 1), ("bdc", 2)], type_info=type_info)
    sink = (
        CassandraSink.add_sink(stream)
        .set_host("localhost", 9876)
        .set_query("query")
        .enable_ignore_null_fields()
        .set_mapper_options(
            MapperOptions()
            .ttl(1)
            .timestamp(100)
            .tracing(True)
            .if_not_exists(False)
            .consistency_level(ConsistencyLevel.ANY)
            .save_null_fields(True)
        )
        .set_max_concurrent_requests(1000)
        .set_failure_handler(CassandraFailureHandler.no_op())
        .build()
    )
    sink.name("cassandra_sink").set_parallelism(3)

    assert isinstance(sink, CassandraSink)
    assert "cassandra_sink" in environment.get_execution_plan()


def test_add_sink_wants_a_stream():
    with pytest.raises(TypeMismatchError, match="not a DataStream"):
        CassandraSink.add_sink([1])


def test_declared_sinks_travel_and_show_no_password():
    query = "INSERT INTO shop.orders (id) VALUES (?)"
    plain = CassandraRowSink.builder().set_cluster_builder(CLUSTER).set_query(query)
    ahead = CassandraRowSink.builder().set_cluster_builder(CLUSTER).set_query(query).enable_write_ahead_log()
    for sink in (plain.build(), ahead.build(), table().set_type_info(TYPE).build()):
        assert "secret-word" not in repr(pickle.loads(pickle.dumps(sink))) + str(vars(sink))
    assert repr(CLUSTER) == "ClusterBuilder(host:9042)"
    assert "secret-word" not in repr(WriteSettings(CLUSTER))


def test_columns_are_those_of_the_declared_type():
    assert Table.of("shop.orders", (), TYPE).fields == ("id", "word")
    assert Table.of("shop.orders", ("word",), TYPE).fields == ("word",)
    assert Query("q", TYPE).type_info == TYPE


class TestRecords:
    @pytest.mark.parametrize(
        "record", [Row(1, "a"), Row(x=1, y="a"), (1, "a"), [1, "a"], {"word": "a", "id": 1}]
    )
    def test_a_query_takes_fields_in_their_order(self, record):
        assert list(ByPosition(["id", "word"]).values(record)) == [1, "a"]

    @pytest.mark.parametrize(
        "record", [Row(1, "a"), Row(word="a", id=1), Row(more=0, word="a", id=1), (1, "a"), {"word": "a", "id": 1}]
    )  # fmt: skip
    def test_a_table_takes_fields_by_their_names(self, record):
        assert list(ByName(["id", "word"]).values(record)) == [1, "a"]

    def test_objects_have_fields_too(self):
        assert ByName(["real", "imag"]).values(1 + 2j) == [1, 2]

    @pytest.mark.parametrize("reader", [ByPosition(["id", "word"]), ByName(["id", "word"])])
    @pytest.mark.parametrize("record", [(1,), Row(1, 2, 3), {"id": 1}, 5])
    def test_fields_that_are_missing_are_named(self, reader, record):
        with pytest.raises(TypeMismatchError, match="of which id, word are wanted"):
            reader.values(record)

    def test_values_of_ours_become_the_drivers(self):
        value = [Instant.of_epoch_milli(5), {"a": Row(1)}]
        assert convert(value) == [5, {"a": (1,)}]


def test_handler_raises_unless_somebody_else_decides():
    with pytest.raises(OSError):
        CassandraFailureHandler.no_op().on_failure(OSError())

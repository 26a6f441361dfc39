"""What is declared of Elasticsearch, without a server: what is refused at once, what is shown, what is kept."""

from __future__ import annotations

import pickle

import pytest

from millstream.base.errors import ConfigurationError, NotSupportedError
from millstream.connectors.elasticsearch.connection import ElasticsearchConnection
from millstream.datastream.connectors.elasticsearch import (
    DeliveryGuarantee,
    Elasticsearch6SinkBuilder,
    Elasticsearch7SinkBuilder,
    Elasticsearch8SinkBuilder,
    ElasticsearchEmitter,
    ElasticsearchLookup,
    ElasticsearchSource,
    FlushBackoffType,
    OpenSearchSinkBuilder,
    RejectedPolicy,
)

EMITTER = ElasticsearchEmitter.static_index("orders", "id")
BUILDERS = [
    Elasticsearch6SinkBuilder,
    Elasticsearch7SinkBuilder,
    Elasticsearch8SinkBuilder,
    OpenSearchSinkBuilder,
]


@pytest.mark.parametrize("kind", BUILDERS)
def test_all_that_pyflink_offers_can_be_set(kind):
    sink = (
        kind()
        .set_emitter(ElasticsearchEmitter.dynamic_index("name", "id"))
        .set_hosts(["localhost:9200", "https://other"])
        .set_delivery_guarantee(DeliveryGuarantee.AT_LEAST_ONCE)
        .set_bulk_flush_max_actions(1)
        .set_bulk_flush_max_size_mb(2)
        .set_bulk_flush_interval(1000)
        .set_bulk_flush_backoff_strategy(FlushBackoffType.CONSTANT, 3, 3000)
        .set_connection_username("foo")
        .set_connection_password("b4r-secret")
        .set_connection_path_prefix("foo-bar")
        .set_connection_request_timeout(30000)
        .set_connection_timeout(31000)
        .set_socket_timeout(32000)
        .build()
    )
    shown = repr(sink)
    assert "http://localhost:9200/foo-bar, https://other:9200/foo-bar" in sink._connection.address
    assert "b4r-secret" not in shown
    assert repr(pickle.loads(pickle.dumps(sink))) == shown


@pytest.mark.parametrize(
    "host", ["", 7, "ftp://host", "host:port", "host:9200/path", "http://me:s3cret@host"]
)
def test_hosts_that_are_none(host):
    with pytest.raises(ConfigurationError) as failed:
        Elasticsearch7SinkBuilder().set_hosts([host])
    assert "s3cret" not in str(failed.value)


def test_addresses():
    assert ElasticsearchConnection(("[::1]:1", "http://a:2/"), path_prefix="/x/").urls == [
        "http://[::1]:1/x",
        "http://a:2/x",
    ]


@pytest.mark.parametrize(
    ("builder", "said"),
    [
        (Elasticsearch7SinkBuilder().set_hosts(["a:1"]), "no emitter"),
        (Elasticsearch7SinkBuilder().set_emitter(EMITTER), "no server"),
        (
            Elasticsearch7SinkBuilder().set_emitter(EMITTER).set_hosts(["a:1"]).set_connection_username("me"),
            "password of the connection is missing",
        ),
        (
            Elasticsearch7SinkBuilder()
            .set_emitter(EMITTER)
            .set_hosts(["a:1"])
            .set_connection_username("me")
            .set_connection_password("word")
            .set_api_key("key"),
            "a user and a key",
        ),
    ],
)
def test_what_is_missing_is_named(builder, said):
    with pytest.raises(ConfigurationError, match=said):
        builder.build()


@pytest.mark.parametrize(
    "set_wrong",
    [
        lambda builder: builder.set_bulk_flush_max_actions(0),
        lambda builder: builder.set_bulk_flush_max_size_mb(-2),
        lambda builder: builder.set_bulk_flush_interval("1 s"),
        lambda builder: builder.set_socket_timeout(0),
        lambda builder: builder.set_emitter("orders"),
        lambda builder: builder.set_bulk_flush_backoff_strategy(FlushBackoffType.CONSTANT, 0, 10),
        lambda builder: builder.set_bulk_flush_backoff_strategy("CONSTANT", 1, 10),
    ],
)
def test_values_that_do_not_fit(set_wrong):
    with pytest.raises(ConfigurationError):
        set_wrong(Elasticsearch7SinkBuilder())


def test_exactly_once_is_refused():
    with pytest.raises(NotSupportedError, match=r"(?s)not exactly once.*key_field"):
        Elasticsearch7SinkBuilder().set_delivery_guarantee(DeliveryGuarantee.EXACTLY_ONCE)


def test_policies():
    assert [RejectedPolicy.fail(), RejectedPolicy.skip()] == [RejectedPolicy.fail(), RejectedPolicy.skip()]
    with pytest.raises(ConfigurationError, match="no name of an index"):
        RejectedPolicy.to_index("")


def test_lookup():
    builder = ElasticsearchLookup.builder().set_hosts(["a:1"]).set_api_key("s3cret")
    with pytest.raises(ConfigurationError, match="no index"):
        builder.build()
    lookup = builder.set_index("customers").build()
    assert "s3cret" not in repr(lookup)
    assert repr(pickle.loads(pickle.dumps(lookup))) == repr(lookup)


@pytest.mark.parametrize(
    "set_wrong",
    [
        lambda builder: builder.set_page_size(10_001),
        lambda builder: builder.set_slices_per_shard(0),
        lambda builder: builder.set_hosts(["a:1"]).build(),
    ],
)
def test_sources_that_do_not_fit(set_wrong):
    with pytest.raises(ConfigurationError):
        set_wrong(ElasticsearchSource.builder())


def test_source():
    source = (
        ElasticsearchSource.builder().set_hosts(["a:1"]).set_index("orders").set_api_key("s3cret").build()
    )
    assert "s3cret" not in repr(source)
    assert repr(pickle.loads(pickle.dumps(source))) == repr(source)

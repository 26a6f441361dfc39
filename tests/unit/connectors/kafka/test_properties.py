"""Kafka's properties, as Java programs give them, for librdkafka."""

from __future__ import annotations

import pickle

import pytest

from millstream.base.errors import ConfigurationError, SinkError
from millstream.connectors.kafka.clients import Cluster
from millstream.connectors.kafka.properties import KafkaProperties, translate

PLAIN = (
    'org.apache.kafka.common.security.plain.PlainLoginModule required username="millie" password="a\\"b;c";'
)


def config(properties: dict[str, object], kind: str = "producer") -> dict[str, object]:
    return translate(KafkaProperties(properties), kind)[0]  # type: ignore[arg-type]


def test_names_that_are_the_same_are_passed_on_and_others_renamed() -> None:
    given = {"acks": "all", "max.request.size": 5, "buffer.memory": 33554432, "send.buffer.bytes": -1}
    assert config(given) == {"acks": "all", "message.max.bytes": "5", "queue.buffering.max.kbytes": "32768"}


def test_a_client_is_not_given_what_only_others_have() -> None:
    given = {"acks": "all", "group.id": "g", "linger.ms": 5, "client.id": "c"}
    assert config(given, "producer") == {"acks": "all", "linger.ms": "5", "client.id": "c"}
    assert config(given, "consumer") == {"group.id": "g", "client.id": "c"}
    assert config(given, "admin") == {"client.id": "c"}


def test_the_login_is_taken_out_of_the_configuration_of_java() -> None:
    given = {"sasl.mechanism": "PLAIN", "sasl.jaas.config": PLAIN}
    expected = {"sasl.mechanism": "PLAIN", "sasl.username": "millie", "sasl.password": 'a"b;c'}
    assert config(given) == expected


def test_oauth_passes_through() -> None:
    login = "OAuthBearerLoginModule required clientId='me' clientSecret='hush' scope='all';"
    given = {"sasl.jaas.config": login, "sasl.oauthbearer.token.endpoint.url": "https://login/token"}
    assert config(given) == {
        "sasl.oauthbearer.method": "oidc",
        "sasl.oauthbearer.client.id": "me",
        "sasl.oauthbearer.client.secret": "hush",
        "sasl.oauthbearer.scope": "all",
        "sasl.oauthbearer.token.endpoint.url": "https://login/token",
    }


def test_a_login_that_does_not_parse_is_not_shown() -> None:
    with pytest.raises(ConfigurationError) as raised:
        config({"sasl.jaas.config": "hunter2"})
    assert "hunter2" not in str(raised.value)


def test_stores_of_pem_and_pkcs12_are_taken_and_those_of_java_refused() -> None:
    given = {
        "ssl.truststore.location": "/ca.pem",
        "ssl.truststore.type": "PEM",
        "ssl.truststore.password": "x",
    }
    assert config(given) == {"ssl.ca.location": "/ca.pem"}
    given = {"ssl.keystore.location": "/me.p12", "ssl.keystore.password": "x"}
    assert config(given) == {"ssl.keystore.location": "/me.p12", "ssl.keystore.password": "x"}
    assert config({"ssl.endpoint.identification.algorithm": ""}) == {
        "ssl.endpoint.identification.algorithm": "none"
    }
    for key in ("ssl.truststore.location", "ssl.keystore.location"):
        with pytest.raises(ConfigurationError, match="Java key store"):
            config({key: "/store.jks"})


def test_serializers_are_ignored_with_the_reason() -> None:
    taken, ignored = translate({"value.serializer": "org.StringSerializer"}, "producer")
    assert taken == {}
    assert "schema" in ignored["value.serializer"]


def test_a_partitioner_of_java_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="set_partitioner"):
        config({"partitioner.class": "org.RoundRobinPartitioner"})


def test_secrets_are_in_no_text() -> None:
    properties = KafkaProperties({"sasl.jaas.config": PLAIN, "ssl.key.password": "hush", "acks": "all"})
    assert "hush" not in repr(properties)
    assert "millie" not in repr(properties)
    assert "all" in repr(properties)
    assert properties.without_secrets('failed: a"b;c and hush') == "failed: ****** and ******"
    assert pickle.loads(pickle.dumps(properties)) == properties


@pytest.mark.parametrize("given", [{"acks": "seven"}, {"no.such.property": "1"}])
def test_what_librdkafka_does_not_know_is_said(given: dict[str, str]) -> None:
    cluster = Cluster({"bootstrap.servers": "127.0.0.1:1", **given}, SinkError)
    with pytest.raises(ConfigurationError, match="does not take the properties"):
        cluster.producer()


def test_brokers_have_to_be_named() -> None:
    with pytest.raises(ConfigurationError, match="no Kafka brokers"):
        Cluster({}, SinkError)

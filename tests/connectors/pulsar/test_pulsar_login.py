"""Pulsar with tokens and rights, a real server: who may log in, and what is said to others."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
from collections.abc import Iterator
from typing import Any

import pulsar as client_library
import pytest

from millstream.base.errors import SinkError, SourceError
from millstream.common.serialization import SimpleStringSchema
from millstream.datastream.connectors.pulsar import (
    DeliveryGuarantee,
    Patience,
    PulsarSink,
    PulsarSource,
    StopCursor,
)
from millstream.testing import SourceRun
from servers.pulsar import PulsarServer

pytestmark = pytest.mark.long

KEY = b"0123456789abcdef0123456789abcdef"
AUTH = "org.apache.pulsar.client.impl.auth.AuthenticationToken"


def token_of(role: str) -> str:
    """Return a signed token (JWT, HS256)."""

    def encode(data: bytes) -> str:
        return base64.urlsafe_b64encode(data).rstrip(b"=").decode()

    head = encode(json.dumps({"alg": "HS256"}).encode())
    text = f"{head}.{encode(json.dumps({'sub': role}).encode())}"
    return f"{text}.{encode(hmac.new(KEY, text.encode(), hashlib.sha256).digest())}"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PulsarServer]:
    """A server that only the role admin may do anything at, and worker read and write in one namespace."""
    admin = token_of("admin")
    settings = {
        "authenticationEnabled": "true",
        "authorizationEnabled": "true",
        "superUserRoles": "admin",
        "authenticationProviders": "org.apache.pulsar.broker.authentication.AuthenticationProviderToken",
        "tokenSecretKey": f"data:;base64,{base64.b64encode(KEY).decode()}",
        "brokerClientAuthenticationPlugin": AUTH,
        "brokerClientAuthenticationParameters": f"token:{admin}",
    }
    server = PulsarServer(
        tmp_path_factory.mktemp("pulsar-login"),
        settings,
        client_library.AuthenticationToken(admin),
        {"Authorization": f"Bearer {admin}"},
    )
    try:
        server.start()
        server.admin("POST", "namespaces/public/default/permissions/worker", ["produce", "consume"])
        yield server
    finally:
        server.stop()


def source(server: PulsarServer, topic: str, token: str) -> PulsarSource:
    new = PulsarSource.builder().set_service_url(server.url).set_subscription_name("job").set_topics(topic)
    new.set_patience(Patience(total_s=1)).set_authentication(AUTH, f"token:{token}").set_bounded_stop_cursor(
        StopCursor.latest()
    )
    return new.set_deserialization_schema(SimpleStringSchema()).build()


def sink(server: PulsarServer, topic: str, token: str) -> PulsarSink:
    new = PulsarSink.builder().set_service_url(server.url).set_admin_url(server.admin_url).set_topics(topic)
    new.set_authentication("token", f"token:{token}").set_serialization_schema(SimpleStringSchema())
    return new.set_delivery_guarantee(DeliveryGuarantee.EXACTLY_ONCE).build()


def refused(action: Any, token: str) -> str:
    with pytest.raises((SourceError, SinkError)) as failed:
        action()
    assert token not in str(failed.value) + repr(failed.value.__cause__)
    return str(failed.value)


def test_who_may_log_in(server):
    topic = server.new_topic()
    topic.add(["a", "b"])
    worker, wrong, stranger = token_of("worker"), token_of("worker")[:-4] + "AAAA", token_of("stranger")

    assert SourceRun(source(server, topic.name, worker), 1, 100).run() == ["a", "b"]
    said = refused(lambda: source(server, topic.name, wrong).build_enumerator(1, None), wrong)
    assert "Timeout" in said  # the client library does not tell it from a cluster that is away
    said = refused(lambda: source(server, topic.name, stranger).build_enumerator(1, None), stranger)
    assert "AuthorizationError" in said and "which rights the role has" in said
    sink(server, topic.name, token_of("admin")).check()
    said = refused(sink(server, topic.name, stranger).check, stranger)
    assert "which rights the role has" in said

"""Avro messages with schemas in a registry: Apicurio, behind a door that asks who comes where logins are tested."""

from __future__ import annotations

import base64
import http.server
import json
import pickle
import threading
import urllib.error
import urllib.request
import uuid

import pytest

from millstream.base.errors import (
    ConfigurationError,
    MalformedRecordError,
    NotSupportedError,
    SinkError,
    SourceError,
    TypeMismatchError,
)
from millstream.connectors.messages import MalformedPolicy, MessageDecoder
from millstream.connectors.patience import Patience
from millstream.datastream.formats.avro import (
    AvroSchema,
    ConfluentRegistryAvroDeserializationSchema,
    ConfluentRegistryAvroSerializationSchema,
    SchemaRegistry,
    Subject,
)
from millstream.spi.batch import Rows
from millstream.spi.source import SourceReaderContext
from millstream.types.row import Row

NOW = Patience(total_s=0)


def schema(*fields, name="User"):
    return AvroSchema.parse_string(
        json.dumps({"type": "record", "name": name, "namespace": "org.example", "fields": list(fields)})
    )


AGE = {"name": "age", "type": "int"}
NAME = {"name": "name", "type": "string", "default": "nobody"}
OLD, NEW = schema(AGE), schema(NAME, {"name": "age", "type": "long"})


@pytest.fixture
def subject():
    return f"topic-{uuid.uuid4().hex[:12]}-value"


def ask(url, body=None):
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url, data, {"Content-Type": "application/json"})
    return json.loads(urllib.request.urlopen(request, timeout=10).read())


def test_messages_have_the_id_of_their_schema(schema_registry, subject):
    writes = pickle.loads(
        pickle.dumps(ConfluentRegistryAvroSerializationSchema(schema_registry.url, OLD, subject))
    )
    messages = writes.serialize_all([Row(age=5), {"age": 6}, (7,)])
    (version,) = ask(f"{schema_registry.url}/subjects/{subject}/versions")
    registered = ask(f"{schema_registry.url}/subjects/{subject}/versions/{version}")
    assert messages[0] == b"\0" + registered["id"].to_bytes(4, "big") + b"\x0a"
    reads = pickle.loads(pickle.dumps(ConfluentRegistryAvroDeserializationSchema(schema_registry.url, OLD)))
    assert reads.deserialize_all(messages) == [Row(age=5), Row(age=6), Row(age=7)]
    assert reads.deserialize(messages[2]) == Row(age=7)
    assert reads.get_produced_type() == OLD.type_info()


def test_each_message_is_read_by_the_schema_it_was_written_with_and_given_in_the_wanted_one(
    schema_registry, subject
):
    set_compatibility(schema_registry, subject, "NONE")
    old = ConfluentRegistryAvroSerializationSchema(schema_registry.url, OLD, subject)
    new = ConfluentRegistryAvroSerializationSchema(schema_registry.url, NEW, subject)
    messages = [
        old.serialize({"age": 1}),
        new.serialize({"age": 2, "name": "bo"}),
        new.serialize({"age": 3, "name": "cy"}),
        old.serialize({"age": 4}),
    ]
    # New readers of old messages, then old readers of new ones, then each as it was written.
    by_new = ConfluentRegistryAvroDeserializationSchema(schema_registry.url, NEW).deserialize_all(messages)
    assert by_new == [
        Row(name="nobody", age=1),
        Row(name="bo", age=2),
        Row(name="cy", age=3),
        Row(name="nobody", age=4),
    ]
    only_name = schema(NAME)
    by_name = ConfluentRegistryAvroDeserializationSchema(schema_registry.url, only_name)
    assert [row.name for row in by_name.deserialize_all(messages)] == ["nobody", "bo", "cy", "nobody"]
    own = ConfluentRegistryAvroDeserializationSchema(schema_registry.url)
    assert own.deserialize_all(messages) == [
        Row(age=1),
        Row(name="bo", age=2),
        Row(name="cy", age=3),
        Row(age=4),
    ]
    assert own.get_produced_type() is None  # they have none in common


def set_compatibility(registry, subject, level):
    """Register the old schema, and say which others may follow."""
    ask(f"{registry.url}/subjects/{subject}/versions", {"schema": str(OLD)})
    body = json.dumps({"compatibility": level}).encode()
    headers = {"Content-Type": "application/json"}
    request = urllib.request.Request(f"{registry.url}/config/{subject}", body, headers, method="PUT")
    urllib.request.urlopen(request, timeout=10).close()


def test_schema_that_is_not_compatible_is_refused(schema_registry, subject):
    set_compatibility(schema_registry, subject, "BACKWARD")
    text = schema({"name": "age", "type": "string"})
    with pytest.raises(SinkError, match=f"refused the schema of subject '{subject}'") as raised:
        ConfluentRegistryAvroSerializationSchema(schema_registry.url, text, subject).serialize({"age": "x"})
    assert "not compatible" in raised.value.hint


def test_schema_is_registered_only_where_that_is_wanted(schema_registry, subject):
    careful = ConfluentRegistryAvroSerializationSchema(schema_registry.url, OLD, subject, registers=False)
    with pytest.raises(SinkError, match=f"refused the schema of subject '{subject}'") as raised:
        careful.serialize({"age": 1})
    assert "registers=True" in raised.value.hint
    first = ConfluentRegistryAvroSerializationSchema(schema_registry.url, OLD, subject).serialize({"age": 1})
    assert careful.serialize({"age": 1}) == first


def test_subjects_are_named_by_topic_or_record_or_both(schema_registry):
    topic, name = f"t{uuid.uuid4().hex[:12]}", f"R{uuid.uuid4().hex[:12]}"
    own = schema(AGE, name=name)
    for strategy in (
        Subject.of_topic(topic),
        Subject.of_topic(topic, is_key=True),
        Subject.of_record(),
        Subject.of_topic_and_record(topic),
    ):
        ConfluentRegistryAvroSerializationSchema(schema_registry.url, own, strategy).serialize({"age": 1})
    subjects = ask(f"{schema_registry.url}/subjects")
    full = f"org.example.{name}"
    assert {f"{topic}-value", f"{topic}-key", full, f"{topic}-{full}"} <= set(subjects)


@pytest.mark.parametrize(
    ("message", "match"),
    [
        (b"", "does not begin with the id"),
        (b"\0\0\0\0", "does not begin with the id"),
        (b"\1\0\0\0\1\2", "does not begin with the id"),
        (b"\0\x7f\xff\xff\xff\2", "has schema 2147483647, which"),
    ],
)
def test_messages_without_a_schema_are_malformed_and_up_to_the_policy(schema_registry, message, match):
    reads = ConfluentRegistryAvroDeserializationSchema(schema_registry.url, OLD)
    with pytest.raises(MalformedRecordError, match=match):
        reads.deserialize(message)
    decoder = MessageDecoder(reads, MalformedPolicy.skip(), SourceReaderContext(), source="topic")
    assert decoder.decode([message], str) == Rows([])


def test_schemas_are_asked_for_once(door, subject):
    writes = ConfluentRegistryAvroSerializationSchema(door.registry(), OLD, subject)
    messages = writes.serialize_all([{"age": n} for n in range(100)])
    assert len(door.asked) == 1
    reads = ConfluentRegistryAvroDeserializationSchema(door.registry(), NEW)
    for _ in range(3):
        reads.deserialize_all(messages)
    assert len(door.asked) == 2


def test_schemas_of_other_kinds_are_not_taken_for_avro(schema_registry, subject):
    text = json.dumps({"$schema": "http://json-schema.org/draft-07/schema#", "type": "object"})
    found = ask(f"{schema_registry.url}/subjects/{subject}/versions", {"schema": text, "schemaType": "JSON"})
    reads = ConfluentRegistryAvroDeserializationSchema(schema_registry.url, OLD)
    with pytest.raises(NotSupportedError, match="is of type JSON"):
        reads.deserialize(b"\0" + found["id"].to_bytes(4, "big") + b"\2")


# ---- who asks, and trouble ----


class Door:
    """Lets those in who know the word, and hands on what they ask; it can be busy, and send them elsewhere."""

    def __init__(self, url):
        door = self
        self.asked = []
        self.word = None
        self.busy = 0
        self.elsewhere = None

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                door.asked.append((self.path, self.headers.get("Authorization")))
                length = int(self.headers.get("Content-Length", 0))
                body = self.rfile.read(length) if length else None
                if door.word is not None and self.headers.get("Authorization") != door.word:
                    self.answer(401, b'{"error_code": 40101, "message": "Unauthorized"}')
                elif door.elsewhere is not None:
                    self.send_response(307)
                    self.send_header("Location", door.elsewhere + self.path)
                    self.send_header("Content-Length", "0")
                    self.end_headers()
                elif door.busy:
                    door.busy -= 1
                    self.answer(503, b"busy")
                else:
                    request = urllib.request.Request(url + self.path, body, dict(self.headers))
                    try:
                        with urllib.request.urlopen(request, timeout=10) as found:
                            self.answer(found.status, found.read())
                    except urllib.error.HTTPError as error:
                        self.answer(error.code, error.read())

            do_POST = do_GET

            def answer(self, status, body):
                self.send_response(status)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *arguments):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def registry(self, **more):
        return SchemaRegistry(self.url, **{"patience": NOW, **more})


@pytest.fixture
def door(schema_registry):
    door = Door(schema_registry.url)
    yield door
    door.server.shutdown()
    door.server.server_close()


def test_users_and_tokens_are_told_and_never_shown(door, subject):
    secret = "h0rse-battery"
    door.word = "Basic " + base64.b64encode(f"ann:{secret}".encode()).decode()
    host = door.url.removeprefix("http://")
    for registry in (
        door.registry(user="ann", password=secret),
        SchemaRegistry(f"http://ann:{secret}@{host}", patience=NOW),
    ):
        assert registry.url == door.url
        assert secret not in repr(registry)
        writes = ConfluentRegistryAvroSerializationSchema(registry, OLD, subject)
        message = pickle.loads(pickle.dumps(writes)).serialize({"age": 1})
        assert ConfluentRegistryAvroDeserializationSchema(registry, OLD).deserialize(message) == Row(age=1)
    door.word = "Bearer " + secret
    registry = door.registry(token=secret)
    assert secret not in repr(registry)
    assert ConfluentRegistryAvroDeserializationSchema(registry, OLD).deserialize(message) == Row(age=1)


def test_login_that_is_refused_says_so_without_the_secret(door, subject):
    door.word = "Basic other"
    registry = door.registry(user="ann", password="h0rse-battery")
    with pytest.raises(SinkError, match="refused the schema of subject") as raised:
        ConfluentRegistryAvroSerializationSchema(registry, OLD, subject).serialize({"age": 1})
    assert "Check user and password" in raised.value.hint
    assert "401" in raised.value.detail
    assert "h0rse" not in str(raised.value) + repr(raised.value.__cause__)
    with pytest.raises(SourceError, match="refused schema 1") as refused:
        ConfluentRegistryAvroDeserializationSchema(registry, OLD).deserialize(b"\0\0\0\0\1\2")
    assert not isinstance(refused.value, MalformedRecordError)


def test_credentials_are_not_taken_to_another_place(door, schema_registry, subject):
    other = Door(schema_registry.url)
    door.elsewhere = other.url
    with pytest.raises(SinkError, match="refused"):
        ConfluentRegistryAvroSerializationSchema(
            door.registry(user="ann", password="x"), OLD, subject
        ).serialize({"age": 1})
    assert other.asked == []
    other.server.shutdown()
    other.server.server_close()


def test_registry_that_is_busy_or_away_is_waited_for(door, subject, caplog):
    door.busy = 2
    patient = door.registry(patience=Patience(total_s=20))
    assert ConfluentRegistryAvroSerializationSchema(patient, OLD, subject).serialize({"age": 1})
    assert "asking schema registry" in caplog.text
    assert len(door.asked) == 3


def test_registry_that_stays_away_is_an_error_whatever_the_policy(subject):
    away = SchemaRegistry("http://127.0.0.1:1", patience=NOW)
    with pytest.raises(SinkError, match=r"'http://127\.0\.0\.1:1' does not answer") as raised:
        ConfluentRegistryAvroSerializationSchema(away, OLD, subject).serialize({"age": 1})
    assert "last checkpoint" in raised.value.hint
    reads = ConfluentRegistryAvroDeserializationSchema(away, OLD)
    decoder = MessageDecoder(reads, MalformedPolicy.skip(), SourceReaderContext(), source="topic")
    with pytest.raises(SourceError, match="does not answer"):
        decoder.decode([b"\0\0\0\0\1\2"], str)


def test_arguments_are_checked():
    for url in ("registry", "ftp://registry", "http://", ""):
        with pytest.raises(ConfigurationError, match="has no address"):
            SchemaRegistry(url)
    with pytest.raises(ConfigurationError, match="a user and a token"):
        SchemaRegistry("http://a", user="x", token="y")
    with pytest.raises(ConfigurationError, match="no Avro schema of a record"):
        ConfluentRegistryAvroDeserializationSchema("http://a", AvroSchema('"long"'))
    with pytest.raises(ConfigurationError, match="subject"):
        ConfluentRegistryAvroSerializationSchema("http://a", OLD, "")
    with pytest.raises(ConfigurationError, match="certificates"):
        missing = SchemaRegistry("https://a", ca_file="/no/such.pem", patience=NOW)
        ConfluentRegistryAvroDeserializationSchema(missing, OLD).deserialize(b"\0\0\0\0\1\2")


def test_values_that_do_not_fit_are_named(schema_registry, subject):
    with pytest.raises(TypeMismatchError, match="no field 'x'"):
        ConfluentRegistryAvroSerializationSchema(schema_registry.url, OLD, subject).serialize({"x": 1})

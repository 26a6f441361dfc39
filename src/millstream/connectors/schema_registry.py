"""Schemas of messages in a registry that speaks the protocol of Confluent's (Apicurio and Karapace do, too).

A message is a zero byte, the id of the schema that it was written with (4 bytes, the highest first), and the record::

    00 │ 00 00 00 07 │ Avro
    00 │ 00 00 00 07 │ which of the file's messages │ Protocol Buffers

Each schema is asked for once by each subtask: ids never change their meaning. Requests are made by the standard
library: there are three of them, and the clients that there are bring a library of C or one for HTTP.
"""

from __future__ import annotations

import base64
import json
import logging
import ssl
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from millstream.base.errors import (
    ConfigurationError,
    MalformedRecordError,
    MillstreamError,
    NotSupportedError,
    SinkError,
    SourceError,
    shorten,
)
from millstream.connectors.patience import Patience
from millstream.formats.avro.messages import AvroDecoder, AvroEncoder
from millstream.formats.avro.schema import AvroSchema
from millstream.formats.protobuf import ProtobufRowDeserializationSchema, ProtobufRowSerializationSchema
from millstream.spi.serialization import DeserializationSchema, SerializationSchema
from millstream.types.typeinfo import TypeInformation

__all__ = [
    "ConfluentRegistryAvroDeserializationSchema",
    "ConfluentRegistryAvroSerializationSchema",
    "ConfluentRegistryProtobufDeserializationSchema",
    "ConfluentRegistryProtobufSerializationSchema",
    "SchemaRegistry",
    "Subject",
]

_LOG = logging.getLogger("millstream.connectors.schema_registry")
_HEADER_BYTES = 5
_CONTENT = "application/vnd.schemaregistry.v1+json"
_LOGIN_REFUSED = (401, 403)
_PASSING = (408, 429, 500, 502, 503, 504)
_NO_SUBJECT, _NO_SCHEMA = 40401, 40403


@dataclass(frozen=True, slots=True)
class SchemaRegistry:
    """Where a registry is, and who asks.

    Attributes:
        url: Its address: `http://registry:8081`, Apicurio's `http://registry:8080/apis/ccompat/v7`. What stands in it
            as `user:password@` is taken for these.
        user: For basic authentication; None for none.
        password: The user's.
        token: For bearer authentication, in the place of user and password.
        ca_file: Certificates of authorities, PEM; None for the system's.
        certificate_file: The client's own certificate, PEM.
        key_file: Its key, if that is in another file.
        timeout_s: How long an answer is waited for.
        patience: How long a registry that is away is waited for.

    Example:
        >>> from millstream.datastream.formats.avro import SchemaRegistry
        >>> registry = SchemaRegistry("http://registry:8081", user="app", password="secret")
        >>> registry.url, registry.timeout_s
        ('http://registry:8081', 10.0)
    """

    url: str
    user: str | None = None
    password: str | None = field(default=None, repr=False)
    token: str | None = field(default=None, repr=False)
    ca_file: str | None = None
    certificate_file: str | None = None
    key_file: str | None = None
    timeout_s: float = 10.0
    patience: Patience = field(default_factory=Patience)

    def __post_init__(self) -> None:
        parts = urllib.parse.urlsplit(self.url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            shown = self.url.rpartition("@")[2]
            raise ConfigurationError(
                f"schema registry {shown!r} has no address", hint="Use http://host:port or https://host:port."
            )
        if parts.username is not None:
            object.__setattr__(self, "user", urllib.parse.unquote(parts.username))
            object.__setattr__(self, "password", urllib.parse.unquote(parts.password or ""))
        plain = parts._replace(netloc=parts.netloc.rpartition("@")[2], query="", fragment="")
        object.__setattr__(self, "url", plain.geturl().rstrip("/"))
        if self.token is not None and self.user is not None:
            raise ConfigurationError(
                f"schema registry {self.url!r} was given a user and a token", hint="Give one."
            )


class Subject:
    """Under which name the schema of messages is registered: the three strategies that registries know.

    Example:
        >>> from millstream.datastream.formats.avro import AvroSchema, Subject
        >>> text = '{"type": "record", "name": "click", "namespace": "shop", "fields": []}'
        >>> schema = AvroSchema.parse_string(text)
        >>> Subject.of_topic("clicks")(schema), Subject.of_topic_and_record("clicks")(schema)
        ('clicks-value', 'clicks-shop.click')
    """

    @staticmethod
    def of_topic(topic: str, *, is_key: bool = False) -> Callable[[AvroSchema], str]:
        """Take the topic's name, with `-value` or `-key`: all messages of a topic have one schema."""
        return lambda schema: f"{topic}-{'key' if is_key else 'value'}"

    @staticmethod
    def of_record() -> Callable[[AvroSchema], str]:
        """Take the full name of the record, whatever the topic."""
        return _record_name

    @staticmethod
    def of_topic_and_record(topic: str) -> Callable[[AvroSchema], str]:
        """Take both: a topic has messages of several schemas."""
        return lambda schema: f"{topic}-{_record_name(schema)}"


def _record_name(schema: AvroSchema) -> str:
    return str(schema.root["name"])


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """Credentials go where they were meant to go, and nowhere else."""

    def redirect_request(self, *args: Any, **kwargs: Any) -> None:
        return None


class _RefusedError(Exception):
    """The registry answered that it will not."""

    def __init__(self, status: int, code: int, text: str) -> None:
        super().__init__(f"{status}: {text}")
        self.status = status
        self.code = code


class _Client:
    """Asks a registry; one for each subtask.

    Args:
        registry: Where it is.
        fails: Makes the error for what cannot be had: `SourceError` or `SinkError`.
    """

    def __init__(self, registry: SchemaRegistry, fails: type[SourceError | SinkError]) -> None:
        self._registry = registry
        self._fails = fails
        self._headers = {"Accept": _CONTENT, "Content-Type": _CONTENT}
        if registry.user is not None:
            login = base64.b64encode(f"{registry.user}:{registry.password or ''}".encode()).decode()
            self._headers["Authorization"] = f"Basic {login}"
        elif registry.token is not None:
            self._headers["Authorization"] = f"Bearer {registry.token}"
        self._opener = urllib.request.build_opener(
            _NoRedirect(), urllib.request.HTTPSHandler(context=self._tls())
        )

    def _tls(self) -> ssl.SSLContext:
        registry = self._registry
        try:
            context = ssl.create_default_context(cafile=registry.ca_file)
            if registry.certificate_file is not None:
                context.load_cert_chain(registry.certificate_file, registry.key_file)
        except OSError as error:
            raise ConfigurationError(
                f"certificates for schema registry {registry.url!r} cannot be read: {error}"
            ) from error
        return context

    def schema_of(self, schema_id: int) -> AvroSchema | None:
        """Return the schema of an id; None if the registry has none.

        Raises:
            SourceError: If it does not answer, or refuses the login.
            NotSupportedError: If the schema is not Avro's, or refers to others.
        """
        try:
            found = self._ask(f"/schemas/ids/{schema_id}")
        except _RefusedError as error:
            if error.status == 404:
                return None
            raise self._refused(f"schema {schema_id}", error) from error
        kind = found.get("schemaType", "AVRO")
        if kind != "AVRO" or found.get("references"):
            what = "refers to other subjects" if kind == "AVRO" else f"is of type {kind}"
            raise NotSupportedError(
                f"schema {schema_id} of {self._registry.url!r} {what}",
                hint="Register Avro schemas that are complete in themselves.",
            )
        return AvroSchema(found["schema"])

    def id_of(self, subject: str, schema: AvroSchema, *, registers: bool) -> int:
        """Return the id of a schema in a subject, where it is registered if it is not there yet.

        Raises:
            SinkError: If the registry does not answer, refuses the login or the schema, or has it not.
        """
        path = f"/subjects/{urllib.parse.quote(subject, safe='')}"
        try:
            found = self._ask(f"{path}/versions" if registers else path, {"schema": str(schema)})
        except _RefusedError as error:
            raise self._refused(f"the schema of subject {subject!r}", error) from error
        return int(found["id"])

    def latest_id_of(self, subject: str) -> int:
        """Return the id of the latest version of a subject.

        Raises:
            SinkError: If the registry does not answer, refuses the login, or has no such subject.
        """
        try:
            found = self._ask(f"/subjects/{urllib.parse.quote(subject, safe='')}/versions/latest")
        except _RefusedError as error:
            raise self._refused(f"the schema of subject {subject!r}", error) from error
        return int(found["id"])

    def _ask(self, path: str, body: dict[str, str] | None = None) -> dict[str, Any]:
        registry = self._registry
        request = urllib.request.Request(
            registry.url + path,
            data=None if body is None else json.dumps(body).encode(),
            headers=self._headers,
        )

        def ask() -> dict[str, Any]:
            with self._opener.open(request, timeout=registry.timeout_s) as answer:
                found: dict[str, Any] = json.loads(answer.read())
                return found

        try:
            return registry.patience.call(
                ask, is_passing=_is_passing, what=f"asking schema registry {registry.url}", log=_LOG
            )
        except urllib.error.HTTPError as error:
            raise _refusal(error) from error
        except (OSError, ValueError) as error:
            raise self._fails(
                f"schema registry {registry.url!r} does not answer",
                detail=f"{type(error).__name__}: {error}",
                hint="Check that it runs and can be reached from the machines that run the job; the job goes on from "
                "its last checkpoint.",
            ) from error

    def _refused(self, what: str, error: _RefusedError) -> MillstreamError:
        hint = "See the registry's log."
        if error.status in _LOGIN_REFUSED:
            hint = "Check user and password, or the token, of SchemaRegistry(...), and what they may do."
        elif error.status == 409:
            hint = "The schema is not compatible with those before: change it, or the compatibility of the subject."
        elif error.code in (_NO_SUBJECT, _NO_SCHEMA):
            hint = "Register the schema first, or have it registered (registers=True, for Avro)."
        return self._fails(
            f"schema registry {self._registry.url!r} refused {what}", detail=str(error), hint=hint
        )


def _is_passing(error: Exception) -> bool:
    if isinstance(error, urllib.error.HTTPError):
        return error.code in _PASSING
    reason = getattr(error, "reason", None)
    return isinstance(error, OSError) and not isinstance(reason, ssl.SSLCertVerificationError)


def _refusal(error: urllib.error.HTTPError) -> _RefusedError:
    text = error.read().decode(errors="replace")
    try:
        answer = json.loads(text)
        return _RefusedError(error.code, int(answer["error_code"]), str(answer["message"]))
    except (ValueError, KeyError, TypeError):
        return _RefusedError(error.code, 0, shorten(text))


class ConfluentRegistryAvroDeserializationSchema(DeserializationSchema):
    """Avro messages with the id of their schema into rows.

    Args:
        registry: Where the schemas are; an address, or a `SchemaRegistry`.
        schema: The schema that all messages are read by, whichever they were written with, as Avro resolves schemas;
            None reads each by its own: rows differ then.

    Raises:
        ConfigurationError: If the address or the schema does not fit; if fastavro is not installed.

    Example:
        >>> from millstream.datastream.formats.avro import AvroSchema, ConfluentRegistryAvroDeserializationSchema
        >>> text = '{"type": "record", "name": "click", "fields": [{"name": "page", "type": "string"}]}'
        >>> schema = AvroSchema.parse_string(text)
        >>> reads = ConfluentRegistryAvroDeserializationSchema("http://registry:8081", schema)
        >>> reads.get_produced_type()
        RowTypeInfo(page: String)
    """

    def __init__(self, registry: SchemaRegistry | str, schema: AvroSchema | None = None) -> None:
        self._registry = _registry_of(registry)
        if schema is not None:
            _check_record(schema)
        self._schema = schema
        self._asked: _Client | None = None
        self._decoders: dict[int, AvroDecoder] = {}

    def get_produced_type(self) -> TypeInformation | None:
        """Return the type of the rows; None if no schema was given, and they have no common type."""
        return None if self._schema is None else self._schema.rows_type()

    def deserialize(self, message: bytes) -> Any:
        """Return the row of a message.

        Raises:
            MalformedRecordError: If it does not parse, or the registry has no schema of its id.
            SourceError: If the registry does not answer.
        """
        decoder = self._decoders.get(_id_of(message)) or self._new_decoder(message)
        return decoder.rows((decoder.read(message, _HEADER_BYTES),))[0]

    def deserialize_all(self, messages: Sequence[bytes]) -> list[Any]:
        """Return the row of each message; errors are those of `deserialize`."""
        rows: list[Any] = []
        values: list[Any] = []
        former: AvroDecoder | None = None
        for message in messages:
            decoder = self._decoders.get(_id_of(message)) or self._new_decoder(message)
            if decoder is not former and former is not None:
                rows += former.rows(values)
                values = []
            values.append(decoder.read(message, _HEADER_BYTES))
            former = decoder
        return rows if former is None else rows + former.rows(values)

    def _new_decoder(self, message: bytes) -> AvroDecoder:
        schema_id = _id_of(message)
        if self._asked is None:
            self._asked = _Client(self._registry, SourceError)
        written = self._asked.schema_of(schema_id)
        if written is None:
            raise MalformedRecordError(
                f"message {shorten(message)} has schema {schema_id}, which {self._registry.url!r} has not"
            )
        decoder = self._decoders[schema_id] = AvroDecoder(written, self._schema)
        return decoder

    def __reduce__(self) -> tuple[Any, ...]:
        return ConfluentRegistryAvroDeserializationSchema, (self._registry, self._schema)


class ConfluentRegistryAvroSerializationSchema(SerializationSchema):
    """Rows, dicts or tuples into Avro messages with the id of their schema.

    Args:
        registry: Where the schema is; an address, or a `SchemaRegistry`.
        schema: The schema.
        subject: Under which name it is registered: a text, or one of the strategies of `Subject`.
        registers: Whether the schema is registered if it is not there; if not, it has to be.

    Raises:
        ConfigurationError: If the address or the schema does not fit; if fastavro is not installed.

    Example:
        >>> from millstream.datastream.formats.avro import AvroSchema, ConfluentRegistryAvroSerializationSchema, Subject
        >>> text = '{"type": "record", "name": "click", "fields": [{"name": "page", "type": "string"}]}'
        >>> writes = ConfluentRegistryAvroSerializationSchema(
        ...     "http://registry:8081", AvroSchema.parse_string(text), Subject.of_topic("clicks")
        ... )  # for KafkaRecordSerializationSchema, set_value_serialization_schema(writes)
    """

    def __init__(
        self,
        registry: SchemaRegistry | str,
        schema: AvroSchema,
        subject: str | Callable[[AvroSchema], str],
        *,
        registers: bool = True,
    ) -> None:
        self._registry = _registry_of(registry)
        _check_record(schema)
        self._schema = schema
        self._subject = subject if isinstance(subject, str) else subject(schema)
        if not self._subject:
            raise ConfigurationError("the subject of an Avro schema is empty")
        self._registers = registers
        self._encoder = AvroEncoder(schema)
        self._header: bytes | None = None

    def serialize(self, value: Any) -> bytes:
        """Return a row's message; the registry is asked for the id with the first.

        Raises:
            TypeMismatchError: If it does not fit.
            SinkError: If the registry does not answer, or refuses the schema.
        """
        if self._header is None:
            client = _Client(self._registry, SinkError)
            schema_id = client.id_of(self._subject, self._schema, registers=self._registers)
            self._header = b"\0" + schema_id.to_bytes(4, "big")
        return self._encoder.write(value, self._header)

    def __reduce__(self) -> tuple[Any, ...]:
        return _serializer, (self._registry, self._schema, self._subject, self._registers)


def _id_of(message: bytes) -> int:
    if len(message) < _HEADER_BYTES or message[0]:
        raise MalformedRecordError(
            f"message {shorten(message)} does not begin with the id of a schema",
            detail="That is a zero byte and four more.",
        )
    return int.from_bytes(message[1:_HEADER_BYTES], "big")


class ConfluentRegistryProtobufDeserializationSchema(DeserializationSchema):
    """Protocol Buffers messages with the id of their schema into rows of a message that is known here.

    The registry is not asked: by its numbers each field is found, whichever version of the schema it was written with.

    Args:
        message: The type of messages, or a class that `protoc` generated.

    Raises:
        ConfigurationError: If it is none; if protobuf is not installed.
        NotSupportedError: If the message holds itself.

    Example:
        >>> from millstream.datastream.formats.protobuf import ConfluentRegistryProtobufDeserializationSchema
        >>> from google.protobuf.duration_pb2 import Duration  # any class that protoc generated
        >>> ConfluentRegistryProtobufDeserializationSchema(Duration).get_produced_type()
        RowTypeInfo(seconds: Long, nanos: Integer)
    """

    def __init__(self, message: Any) -> None:
        self._reads = ProtobufRowDeserializationSchema(message)

    def get_produced_type(self) -> TypeInformation:
        """Return the type of the rows."""
        return self._reads.get_produced_type()

    def deserialize(self, message: bytes) -> Any:
        """Return the row of a message.

        Raises:
            MalformedRecordError: If it does not parse, or does not begin with an id.
        """
        _id_of(message)
        return self._reads.deserialize(message[_end_of_indexes(message) :])

    def __reduce__(self) -> tuple[Any, ...]:
        return ConfluentRegistryProtobufDeserializationSchema, (self._reads._message,)


class ConfluentRegistryProtobufSerializationSchema(SerializationSchema):
    """Rows, or dicts, into Protocol Buffers messages with the id of their schema.

    The id is that of the subject's latest version: the schema's source, which a registry keeps, is not known here, so
    it has to be registered already.

    Args:
        registry: Where the schema is; an address, or a `SchemaRegistry`.
        message: The type of messages, or a class that `protoc` generated.
        subject: Under which name it is registered, such as `orders-value`.

    Raises:
        ConfigurationError: If an argument does not fit; if protobuf is not installed.
        NotSupportedError: If the message holds itself.

    Example:
        >>> from millstream.datastream.formats.protobuf import ConfluentRegistryProtobufSerializationSchema
        >>> from google.protobuf.duration_pb2 import Duration  # any class that protoc generated
        >>> writes = ConfluentRegistryProtobufSerializationSchema("http://registry:8081", Duration, "waits-value")
    """

    def __init__(self, registry: SchemaRegistry | str, message: Any, subject: str) -> None:
        self._registry = _registry_of(registry)
        if not subject:
            raise ConfigurationError("the subject of a Protocol Buffers schema is empty")
        self._subject = subject
        self._writes = ProtobufRowSerializationSchema(message)
        self._header: bytes | None = None

    def serialize(self, value: Any) -> bytes:
        """Return a row's message; the registry is asked for the id with the first.

        Raises:
            TypeMismatchError: If it does not fit.
            SinkError: If the registry does not answer, or has no such subject.
        """
        if self._header is None:
            schema_id = _Client(self._registry, SinkError).latest_id_of(self._subject)
            descriptor = self._writes._message.message_class.DESCRIPTOR
            self._header = b"\0" + schema_id.to_bytes(4, "big") + _indexes_of(descriptor)
        return self._header + self._writes.serialize(value)

    def __reduce__(self) -> tuple[Any, ...]:
        return (
            ConfluentRegistryProtobufSerializationSchema,
            (self._registry, self._writes._message, self._subject),
        )


def _indexes_of(descriptor: Any) -> bytes:
    """Return which of its file's messages one is: how deep it is, and its place at each depth; 0 for the first."""
    places: list[int] = []
    while descriptor is not None:
        parent = descriptor.containing_type
        siblings = descriptor.file.message_types_by_name if parent is None else parent.nested_types_by_name
        places.append(list(siblings).index(descriptor.name))
        descriptor = parent
    if places == [0]:
        return b"\0"
    return b"".join(map(_varint, [len(places), *reversed(places)]))


def _varint(number: int) -> bytes:
    number <<= 1  # zigzag: it is not negative
    data = bytearray()
    while number > 0x7F:
        data.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes((*data, number))


def _end_of_indexes(message: bytes) -> int:
    """Return where the record begins, behind the places of its message."""
    at, left = _HEADER_BYTES, -1
    while left:
        number = shift = 0
        while True:
            if at >= len(message):
                raise MalformedRecordError(f"message {shorten(message)} ends within its header")
            number |= (message[at] & 0x7F) << shift
            shift += 7
            at += 1
            if message[at - 1] < 0x80:
                break
        left = number >> 1 if left < 0 else left - 1
    return at


def _serializer(
    registry: SchemaRegistry, schema: AvroSchema, subject: str, registers: bool
) -> ConfluentRegistryAvroSerializationSchema:
    return ConfluentRegistryAvroSerializationSchema(registry, schema, subject, registers=registers)


def _registry_of(given: SchemaRegistry | str) -> SchemaRegistry:
    return given if isinstance(given, SchemaRegistry) else SchemaRegistry(given)


def _check_record(schema: AvroSchema) -> None:
    root = schema.root if isinstance(schema, AvroSchema) else None
    if not isinstance(root, dict) or root["type"] not in ("record", "error"):
        raise ConfigurationError(
            f"{shorten(schema)} is no Avro schema of a record", hint="Use AvroSchema.parse_string(...)."
        )

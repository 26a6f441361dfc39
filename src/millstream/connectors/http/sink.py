"""Services as sinks: batches of records, by POST or PUT.

Each request has a key that is the same wherever it is repeated; a server that remembers keys leaves out what it has.

- at least once: slots send at the end of each epoch. A request that is repeated, because its answer was lost or the
  server was busy, has the same key. What is sent again behind a failure of the job has other ones, as it may be other
  batches.
- exactly once, if the server remembers keys: records wait in files (`connectors/write_ahead.py`), and the driver sends
  them when their checkpoint is complete. A failure repeats the same requests with the same keys::

      key   <job> - <operator> - <checkpoint> - <subtask> - <number in it>
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from millstream.base.errors import ConfigurationError, SinkError
from millstream.base.time import Duration, Time, to_milliseconds
from millstream.connectors.guarantee import DeliveryGuarantee
from millstream.connectors.http.client import HttpClient
from millstream.connectors.http.requests import HttpBody, HttpRequests
from millstream.connectors.http.target import HttpTarget
from millstream.connectors.patience import Patience
from millstream.connectors.write_ahead import WriteAheadSink
from millstream.spi.batch import Rows
from millstream.spi.serialization import SerializationSchema
from millstream.spi.sink import Sink, SinkWriter, WriterContext

__all__ = ["HttpSink", "HttpSinkBuilder", "WriteAheadHttpSink"]

_METHODS = ("POST", "PUT", "PATCH")


class HttpSink(Sink):
    """Sends batches of records to a server, at least once; made by `HttpSink.builder()`.

    Example:
        >>> from millstream.datastream.connectors.http import HttpSink
        >>> sink = HttpSink.builder().set_url("http://localhost:8080/take").build()  # stream.sink_to(sink)
    """

    def __init__(self, requests: HttpRequests) -> None:
        self._requests = requests

    @staticmethod
    def builder() -> HttpSinkBuilder:
        """Return a builder."""
        return HttpSinkBuilder()

    def build_writer(self, context: WriterContext) -> SinkWriter:
        """Make the writer of one subtask."""
        return _SendingWriter(self._requests, context.new_name())


class WriteAheadHttpSink(WriteAheadSink):
    """Sends batches of records when their checkpoint is complete; made by `HttpSink.builder()`.

    Example:
        >>> from millstream.datastream.connectors.base import DeliveryGuarantee
        >>> from millstream.datastream.connectors.http import HttpSink
        >>> builder = HttpSink.builder().set_url("http://localhost:8080/take")
        >>> type(builder.set_delivery_guarantee(DeliveryGuarantee.EXACTLY_ONCE).build()).__name__
        'WriteAheadHttpSink'
    """

    def __init__(self, requests: HttpRequests, directory: str | None) -> None:
        super().__init__(None, directory)
        self._requests = requests

    def open(self) -> None:
        """Make the client."""
        self._sender = _Sender(self._requests)

    def send_values(self, values: Sequence[Any], checkpoint_id: int, subtask_index: int) -> bool:
        """Send the records of one subtask and one checkpoint.

        Raises:
            SinkError: If the server refuses them, or stays away.
        """
        self._sender.send(values, f"{self.job_id}-{self.operator_id}-{checkpoint_id}-{subtask_index}", 0)
        return True

    def close(self) -> None:
        """End the client."""
        self._sender.close()


class HttpSinkBuilder:
    """Builds an HTTP sink; each method returns the builder.

    Example:
        >>> from millstream.datastream.connectors.http import HttpSink
        >>> builder = HttpSink.builder().set_url("http://localhost:8080/take")
        >>> builder = builder.set_headers({"Authorization": "Bearer 7c2a"})
        >>> sink = builder.set_batch_size(100).set_idempotency_header("Idempotency-Key").build()
    """

    def __init__(self) -> None:
        self._target: HttpTarget | None = None
        self._changes: dict[str, Any] = {}
        self._method = "POST"
        self._body = HttpBody.JSON_ARRAY
        self._schema: SerializationSchema | None = None
        self._batch_size = 500
        self._key_header: str | None = "Idempotency-Key"
        self._guarantee = DeliveryGuarantee.AT_LEAST_ONCE
        self._directory: str | None = None

    def set_url(self, url: str) -> HttpSinkBuilder:
        """Name where records are sent to: `https://user:password@host/path`.

        Raises:
            ConfigurationError: If it is no such URL.
        """
        self._target = HttpTarget(url)
        return self

    def set_method(self, method: str) -> HttpSinkBuilder:
        """Choose POST, the default, PUT or PATCH.

        Raises:
            ConfigurationError: If it is something else.
        """
        if method not in _METHODS:
            raise ConfigurationError(f"the method is {method!r}, must be one of {', '.join(_METHODS)}")
        self._method = method
        return self

    def set_headers(self, headers: Mapping[str, str]) -> HttpSinkBuilder:
        """Choose headers that are sent with each request, such as `Authorization`; they are shown nowhere."""
        self._changes["headers"] = dict(headers)
        return self

    def set_certificate_authority(self, path: str) -> HttpSinkBuilder:
        """Choose the file with the certificates of who signed the server's; by default those of the system."""
        self._changes["authority"] = path
        return self

    def set_timeout(self, duration: Time | Duration) -> HttpSinkBuilder:
        """Choose how long connecting, and each wait for data, may take; 30 s by default."""
        self._changes["timeout_s"] = to_milliseconds(duration) / 1_000
        return self

    def set_patience(self, patience: Patience) -> HttpSinkBuilder:
        """Choose how long a server that is away, or has too much to do, is waited for."""
        self._changes["patience"] = patience
        return self

    def set_body(self, body: HttpBody) -> HttpSinkBuilder:
        """Choose what a body is: a JSON array of records (the default), a line for each, or a single record."""
        self._body = HttpBody(body)
        return self

    def set_batch_size(self, records: int) -> HttpSinkBuilder:
        """Choose how many records a request has at most; 500 by default.

        Raises:
            ConfigurationError: If it is less than one.
        """
        if records < 1:
            raise ConfigurationError(f"the batch size is {records}, must be positive")
        self._batch_size = records
        return self

    def set_value_serialization_schema(self, schema: SerializationSchema) -> HttpSinkBuilder:
        """Choose the schema that makes the bytes of a record; by default records are JSON as they are.

        Raises:
            ConfigurationError: If it is no schema.
        """
        if not isinstance(schema, SerializationSchema):
            raise ConfigurationError(f"{type(schema).__name__} is no SerializationSchema")
        self._schema = schema
        return self

    def set_idempotency_header(self, name: str | None) -> HttpSinkBuilder:
        """Choose the header that has each request's key, `Idempotency-Key` by default; None for none."""
        self._key_header = name
        return self

    def set_delivery_guarantee(self, guarantee: DeliveryGuarantee) -> HttpSinkBuilder:
        """Choose the guarantee: AT_LEAST_ONCE, the default; or EXACTLY_ONCE, if the server remembers keys.

        NONE is written as AT_LEAST_ONCE.
        """
        self._guarantee = DeliveryGuarantee(guarantee)
        return self

    def set_directory(self, path: str) -> HttpSinkBuilder:
        """Choose where records wait for their checkpoint, with EXACTLY_ONCE; by default beside the checkpoints."""
        self._directory = path
        return self

    def build(self) -> HttpSink | WriteAheadHttpSink:
        """Return the sink.

        Raises:
            ConfigurationError: If there is no URL, or something does not fit.
        """
        if self._target is None:
            raise ConfigurationError("the HTTP sink has no URL", hint="set_url('https://host/path').")
        exactly = self._guarantee is DeliveryGuarantee.EXACTLY_ONCE
        if exactly and self._key_header is None:
            raise ConfigurationError(
                "an HTTP sink that is exactly once has no header for keys",
                detail="The server knows by them what it has already.",
                hint="set_idempotency_header('Idempotency-Key').",
            )
        requests = HttpRequests(
            replace(self._target, **self._changes),
            self._method,
            self._body,
            self._schema,
            self._batch_size,
            self._key_header,
        )
        return WriteAheadHttpSink(requests, self._directory) if exactly else HttpSink(requests)


class _Sender:
    """Sends records, some at a time."""

    def __init__(self, requests: HttpRequests) -> None:
        self._requests = requests
        self._client = HttpClient(requests.target, SinkError)

    def send(self, values: Sequence[Any], key: str, first: int) -> int:
        """Send records in order; return the number of the next request.

        Args:
            values: The records.
            key: What the keys begin with.
            first: Number of the first request.
        """
        requests, number = self._requests, first
        for body, count in requests.bodies(values):
            self._client.send(
                f"sending {count} records",
                requests.method,
                requests.target.bare_url,
                headers=requests.headers(f"{key}-{number}"),
                body=body,
            )
            number += 1
        return number

    def close(self) -> None:
        """End the connections."""
        self._client.close()


class _SendingWriter(SinkWriter):
    """Sends full batches, and the rest at the end of each epoch."""

    def __init__(self, requests: HttpRequests, key: str) -> None:
        self._requests = requests
        self._key = key
        self._number = 0
        self._values: list[Any] = []
        self._sender: _Sender | None = None

    def open(self) -> None:
        self._sender = _Sender(self._requests)

    def write(self, batch: Rows, *, watermark_ms: int, now_ms: int) -> None:
        self._values += batch.values
        whole = len(self._values) - len(self._values) % self._requests.batch_size
        self._send(whole)

    def prepare_commit(self, *, now_ms: int, checkpoint: bool, end_of_input: bool) -> list[Any]:
        self._send(len(self._values))
        return []

    def close(self) -> None:
        if self._sender is not None:
            self._sender.close()
            self._sender = None

    def _send(self, count: int) -> None:
        assert self._sender is not None
        if count:
            self._number = self._sender.send(self._values[:count], self._key, self._number)
            del self._values[:count]

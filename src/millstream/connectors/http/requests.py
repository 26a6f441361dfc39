"""From records to requests."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from millstream.base.errors import NotSerializableError, shorten
from millstream.connectors.http.target import HttpTarget
from millstream.operators.user_code import attach_element
from millstream.spi.serialization import SerializationSchema

__all__ = ["HttpBody", "HttpRequests"]


class HttpBody(Enum):
    """What the body of a request is.

    Example:
        >>> from millstream.datastream.connectors.http import HttpBody, HttpSink
        >>> builder = HttpSink.builder().set_url("http://localhost:8080/take").set_body(HttpBody.JSON_LINES)
    """

    JSON_ARRAY = "application/json"
    JSON_LINES = "application/x-ndjson"
    SINGLE = "application/json; one record"


@dataclass(frozen=True, slots=True)
class HttpRequests:
    """How records are sent.

    Attributes:
        target: Where to.
        method: `POST` or `PUT`.
        body: What a body is.
        schema: Makes the bytes of a record; None for JSON.
        batch_size: How many records a request has at most.
        key_header: The header that has a key of its own for each request; None for none.
    """

    target: HttpTarget
    method: str
    body: HttpBody
    schema: SerializationSchema | None = field(repr=False)
    batch_size: int
    key_header: str | None

    def bodies(self, values: Sequence[Any]) -> Iterator[tuple[bytes, int]]:
        """Return the bodies for records in order, and the number of records of each.

        Raises:
            NotSerializableError: If a record is no JSON.
        """
        size = 1 if self.body is HttpBody.SINGLE else self.batch_size
        for start in range(0, len(values), size):
            encoded = [self.encode(value) for value in values[start : start + size]]
            yield self._join(encoded), len(encoded)

    def headers(self, key: str) -> dict[str, str]:
        """Return the headers of a request; a content type of the target's own comes first.

        Args:
            key: What the request is known by, wherever it is repeated.
        """
        headers = {} if self.key_header is None else {self.key_header: key}
        if not any(name.lower() == "content-type" for name in self.target.headers):
            headers["Content-Type"] = self.body.value.partition(";")[0]
        return headers

    def encode(self, value: Any) -> bytes:
        """Return the bytes of a record.

        Raises:
            NotSerializableError: If it is no JSON.
        """
        try:
            if self.schema is not None:
                return self.schema.serialize(value)
            return json.dumps(value, separators=(",", ":"), allow_nan=False).encode()
        except (TypeError, ValueError) as error:
            wrong = NotSerializableError(
                f"a record cannot be sent as JSON: {shorten(value)}",
                detail=str(error),
                hint="set_value_serialization_schema(...) of the sink, such as JsonRowSerializationSchema for rows.",
            )
            attach_element(wrong, value)
            raise wrong from error
        except BaseException as error:
            attach_element(error, value)
            raise

    def _join(self, encoded: list[bytes]) -> bytes:
        if self.body is HttpBody.JSON_ARRAY:
            return b"[" + b",".join(encoded) + b"]"
        if self.body is HttpBody.JSON_LINES:
            return b"".join(each + b"\n" for each in encoded)
        return encoded[0]

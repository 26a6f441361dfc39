"""Requests of Kafka's protocol that librdkafka has no call for: which transactions there are, and how to end one.

They are ListTransactions and DescribeTransactions, version 0 of each; FindCoordinator, InitProducerId,
AddPartitionsToTxn, AddOffsetsToTxn and EndTxn, version 1 of each; and what it takes to log in with a password:
https://kafka.apache.org/protocol.
"""

from __future__ import annotations

import contextlib
import os
import socket
import ssl
import struct
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from millstream.base.errors import NotSupportedError, SinkError
from millstream.connectors.kafka.clients import confluent_kafka
from millstream.connectors.kafka.properties import KafkaProperties, translate

__all__ = ["BrokerConnection", "connected"]

_FIND_COORDINATOR, _SASL_HANDSHAKE, _SASL_AUTHENTICATE = 10, 17, 36
_INIT_PRODUCER_ID, _ADD_PARTITIONS, _ADD_OFFSETS, _END_TRANSACTION = 22, 24, 25, 26
_DESCRIBE_TRANSACTIONS, _LIST_TRANSACTIONS = 65, 66
_NO_SUCH_TRANSACTION = 105
_TIMEOUT_S = 15
_MOST_BYTES = 1 << 28


class BrokerConnection:
    """A connection to one broker.

    Args:
        host: Where it is.
        port: Where it listens.
        properties: Kafka's, for how to log in.

    Raises:
        NotSupportedError: If they log in in another way than PLAIN.
        SinkError: If the broker refuses.
        OSError: If it cannot be reached.
    """

    def __init__(self, host: str, port: int, properties: KafkaProperties) -> None:
        self._number = 0
        config, _ = translate(properties, "admin")
        protocol = str(config.get("security.protocol", "PLAINTEXT")).upper()
        mechanism = str(config.get("sasl.mechanism", config.get("sasl.mechanisms", "GSSAPI"))).upper()
        if protocol.startswith("SASL") and mechanism != "PLAIN":
            raise NotSupportedError(
                f"transactions cannot be listed with the login {mechanism}",
                detail="Kafka's client library has no call for it; millstream's own logs in by PLAIN only.",
                hint="Use kafka-transactions.sh of Kafka itself.",
            )
        if protocol.endswith("SSL") and config.get("ssl.keystore.location"):
            raise NotSupportedError(
                "transactions cannot be listed with a key store of the type PKCS12",
                hint="Use ssl.keystore.location of the type PEM, or kafka-transactions.sh of Kafka itself.",
            )
        self._socket: socket.socket = socket.create_connection((host, port), _TIMEOUT_S)
        try:
            if protocol.endswith("SSL"):
                self._socket = _secure(self._socket, host, config)
            if protocol.startswith("SASL"):
                self._log_in(config)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Close the connection."""
        self._socket.close()

    def has_ended(self) -> bool:
        """Return whether the broker has closed the connection, or is gone; asks nothing of it."""
        number = self._socket.fileno()
        if number < 0:
            return True
        # The bytes themselves, also where they are encrypted: what is there to be read is only looked at.
        with socket.socket(fileno=os.dup(number)) as plain:
            try:
                return plain.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT) == b""
            except BlockingIOError:
                return False
            except OSError:
                return True

    def transactions(self) -> list[tuple[str, str]]:
        """Return transactional id and state of the transactions that the broker coordinates.

        Raises:
            SinkError: If it refuses.
        """
        answer = self._ask(_LIST_TRANSACTIONS, b"\1\1\0", flexible=True)  # no filters
        answer.skip(4)
        _check(answer.int16(), "transactions could not be listed")
        for _ in range(answer.length()):  # filters that it does not know
            answer.text()
        found = []
        for _ in range(answer.length()):
            name = answer.text()
            answer.skip(8)
            found.append((name, answer.text()))
            answer.tags()
        return found

    def describe(self, transactional_id: str) -> dict[str, Any]:
        """Return what a transaction is about: state, timeout, start, topics.

        Raises:
            SinkError: If the broker refuses, or does not coordinate it.
        """
        name = transactional_id.encode()
        body = b"\2" + _varint(len(name) + 1) + name + b"\0"
        answer = self._ask(_DESCRIBE_TRANSACTIONS, body, flexible=True)
        answer.skip(4)
        answer.length()
        _check(answer.int16(), f"transaction {transactional_id!r} could not be described")
        answer.text()
        described: dict[str, Any] = {"state": answer.text(), "timeout_ms": answer.int32()}
        described["started_ms"] = answer.int64()
        answer.skip(8 + 2)
        described["topics"] = []
        for _ in range(answer.length()):
            described["topics"].append(answer.text())
            answer.skip(4 * answer.length())
            answer.tags()
        return described

    def coordinator(self, transactional_id: str) -> tuple[str, int]:
        """Return host and port of the broker that coordinates a transactional id.

        Raises:
            KafkaException: If there is none at present, or this user must not know.
        """
        answer = self._ask(_FIND_COORDINATOR, _text(transactional_id) + b"\1", version=1)
        answer.skip(4)
        _check_passing(answer.int16())
        answer.short_text()
        answer.skip(4)
        return answer.short_text(), answer.int32()

    def state(self, transactional_id: str) -> str:
        """Return the state of a transaction, as the broker that coordinates it tells; "" if it knows of none.

        Raises:
            KafkaException: If it cannot tell.
        """
        name = transactional_id.encode()
        body = b"\2" + _varint(len(name) + 1) + name + b"\0"
        answer = self._ask(_DESCRIBE_TRANSACTIONS, body, flexible=True)
        answer.skip(4)
        answer.length()
        code = answer.int16()
        if code == _NO_SUCH_TRANSACTION:
            return ""
        _check_passing(code)
        answer.text()
        return answer.text()

    def begin(self, transactional_id: str, timeout_ms: int) -> tuple[int, int]:
        """Take a transactional id over, as a new producer does; return producer id and epoch.

        Raises:
            KafkaException: If that cannot be at present.
        """
        body = _text(transactional_id) + struct.pack(">i", timeout_ms)
        answer = self._ask(_INIT_PRODUCER_ID, body, version=1)
        answer.skip(4)
        _check_passing(answer.int16())
        return answer.int64(), answer.int16()

    def add(
        self, transactional_id: str, owner: tuple[int, int], topics: Mapping[str, Sequence[int]], group: str
    ) -> None:
        """Make partitions, and the offsets of a group, part of a transaction.

        Raises:
            KafkaException: If the broker refuses, or another producer has the id.
        """
        head = _text(transactional_id) + struct.pack(">qh", *owner)
        body = struct.pack(">i", len(topics)) + b"".join(
            _text(topic) + struct.pack(f">i{len(numbers)}i", len(numbers), *numbers)
            for topic, numbers in topics.items()
        )
        answer = self._ask(_ADD_PARTITIONS, head + body, version=1)
        answer.skip(4)
        for _ in range(answer.int32()):
            answer.short_text()
            for _ in range(answer.int32()):
                answer.skip(4)
                _check_passing(answer.int16())
        answer = self._ask(_ADD_OFFSETS, head + _text(group), version=1)
        answer.skip(4)
        _check_passing(answer.int16())

    def end(self, transactional_id: str, owner: tuple[int, int], *, commits: bool) -> None:
        """Decide that a transaction is committed, or aborted.

        Raises:
            KafkaException: If the broker refuses, or another producer has the id.
        """
        body = _text(transactional_id) + struct.pack(">qh?", *owner, commits)
        answer = self._ask(_END_TRANSACTION, body, version=1)
        answer.skip(4)
        _check_passing(answer.int16())

    def _log_in(self, config: Mapping[str, Any]) -> None:
        answer = self._ask(_SASL_HANDSHAKE, struct.pack(">h", 5) + b"PLAIN", version=1)
        _check(answer.int16(), "the broker takes no login by PLAIN")
        token = f"\0{config.get('sasl.username', '')}\0{config.get('sasl.password', '')}".encode()
        answer = self._ask(_SASL_AUTHENTICATE, struct.pack(">i", len(token)) + token)
        if answer.int16():
            raise SinkError(
                "the broker refused the login",
                hint="Check sasl.mechanism, and user name and password in sasl.jaas.config.",
            )

    def _ask(self, key: int, body: bytes, *, version: int = 0, flexible: bool = False) -> _Answer:
        self._number += 1
        client = b"millstream"
        head = (
            struct.pack(">hhih", key, version, self._number, len(client))
            + client
            + (b"\0" if flexible else b"")
        )
        self._socket.sendall(struct.pack(">i", len(head) + len(body)) + head + body)
        length = int.from_bytes(self._receive(4), "big")
        if length > _MOST_BYTES:
            raise SinkError("what answers does not speak Kafka's protocol", hint="Check security.protocol.")
        answer = _Answer(self._receive(length))
        answer.skip(4)
        if flexible:
            answer.tags()
        return answer

    def _receive(self, length: int) -> bytes:
        parts = []
        while length:
            part = self._socket.recv(min(length, 1 << 16))
            if not part:
                raise ConnectionError("the broker closed the connection: check security.protocol")
            parts.append(part)
            length -= len(part)
        return b"".join(parts)


def _secure(plain: socket.socket, host: str, config: Mapping[str, Any]) -> socket.socket:
    context = ssl.create_default_context(
        cafile=config.get("ssl.ca.location"), cadata=config.get("ssl.ca.pem")
    )
    if config.get("ssl.endpoint.identification.algorithm") == "none":
        context.check_hostname = False
    if certificate := config.get("ssl.certificate.location"):
        context.load_cert_chain(certificate, config.get("ssl.key.location"), config.get("ssl.key.password"))
    return context.wrap_socket(plain, server_hostname=host)


def _check(code: int, doing: str) -> None:
    if code:
        raise SinkError(doing, detail=f"The broker answered with error {code}.")


def _check_passing(code: int) -> None:
    """Raise an error as the client library has it: some pass by themselves."""
    if code:
        kafka = confluent_kafka()
        raise kafka.KafkaException(kafka.KafkaError(code))


def _text(text: str) -> bytes:
    data = text.encode()
    return struct.pack(">h", len(data)) + data


def _varint(number: int) -> bytes:
    """Return an unsigned number as Kafka has it.

    >>> _varint(300)
    b'\\xac\\x02'
    """
    parts = bytearray()
    while number > 127:
        parts.append(number & 127 | 128)
        number >>= 7
    return bytes([*parts, number])


class _Answer:
    """Reads an answer from its begin to its end."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._place = 0

    def skip(self, count: int) -> None:
        self._place += count

    def _take(self, form: str) -> int:
        (value,) = struct.unpack_from(form, self._data, self._place)
        self._place += struct.calcsize(form)
        number: int = value
        return number

    def int16(self) -> int:
        return self._take(">h")

    def int32(self) -> int:
        return self._take(">i")

    def short_text(self) -> str:
        """Read a text as older versions of requests have it; "" if there is none."""
        count = max(self.int16(), 0)
        self._place += count
        return self._data[self._place - count : self._place].decode()

    def int64(self) -> int:
        return self._take(">q")

    def _unsigned(self) -> int:
        value = shift = 0
        while True:
            byte = self._data[self._place]
            self._place += 1
            value |= (byte & 127) << shift
            if byte < 128:
                return value
            shift += 7

    def length(self) -> int:
        return max(self._unsigned() - 1, 0)

    def text(self) -> str:
        count = self.length()
        self._place += count
        return self._data[self._place - count : self._place].decode()

    def tags(self) -> None:
        for _ in range(self._unsigned()):
            self._unsigned()
            self.skip(self._unsigned())


@contextlib.contextmanager
def connected(host: str, port: int, properties: KafkaProperties) -> Iterator[BrokerConnection]:
    """Give a connection to a broker, and close it."""
    connection = BrokerConnection(host, port, properties)
    try:
        yield connection
    finally:
        connection.close()

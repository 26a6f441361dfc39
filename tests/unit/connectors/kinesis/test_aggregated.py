"""Records that were packed into one, as Amazon's producer library does it."""

from __future__ import annotations

import hashlib

from millstream.connectors.kinesis.aggregated import unpack

MAGIC = b"\xf3\x89\x9a\xc2"


def field(number: int, data: bytes) -> bytes:
    return bytes([number << 3 | 2]) + size(len(data)) + data


def size(number: int) -> bytes:
    return bytes([number]) if number < 128 else bytes([number & 0x7F | 0x80]) + size(number >> 7)


def record(key: int, data: bytes) -> bytes:
    explicit_hash_key = b"\x10\x00"
    return field(3, b"\x08" + size(key) + explicit_hash_key + field(3, data) + field(4, b"\x0a\x01t"))


def packed(message: bytes) -> bytes:
    return MAGIC + message + hashlib.md5(message).digest()


def test_records_have_the_keys_and_data_that_were_packed():
    large = b"x" * 300
    message = field(1, b"tea") + field(1, b"milk") + field(2, b"17") + record(1, b"a") + record(0, large)

    assert unpack("a", packed(message)) == [("milk", b"a"), ("tea", large)]


def test_nothing_may_be_packed():
    assert unpack("a", packed(b"")) == []


def test_what_only_looks_packed_is_left_as_it_is():
    for data in (MAGIC, MAGIC + b"x" * 40, b"", b"plain"):
        assert unpack("k", data) == [("k", data)]

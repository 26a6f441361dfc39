"""Hashes of keys, as Pulsar makes them: which partition a key goes to, and which range of keys it is in."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

from millstream.base.errors import ConfigurationError

__all__ = ["KeyHash", "RangeGenerator", "java_hash", "murmur3"]

_MASK = 0xFFFFFFFF
_POSITIVE = 0x7FFFFFFF
_SLOTS = 65_536
_NO_KEY = b"NONE_KEY"


class KeyHash(Enum):
    """How keys choose partitions (option `pulsar.sink.messageKeyHash`)."""

    JAVA = "java-hash"
    MURMUR3_32 = "murmur-3-32-hash"

    def of(self, key: str) -> int:
        """Return a key's hash, not negative."""
        return murmur3(key.encode()) if self is KeyHash.MURMUR3_32 else java_hash(key)


def java_hash(text: str) -> int:
    """Return Java's hash of a text, not negative.

    >>> java_hash("hello")
    99162322
    """
    data, value = text.encode("utf-16-be", "surrogatepass"), 0
    for index in range(0, len(data), 2):
        value = (31 * value + (data[index] << 8 | data[index + 1])) & _MASK
    return value & _POSITIVE


def murmur3(data: bytes) -> int:
    """Return Murmur3 (32 bits, seed 0), not negative.

    >>> murmur3(b"hello")
    613153351
    """
    value, whole = 0, len(data) & ~3
    for index in range(0, whole, 4):
        value ^= _mix(int.from_bytes(data[index : index + 4], "little"))
        value = (_turn(value, 13) * 5 + 0xE6546B64) & _MASK
    if whole < len(data):
        value ^= _mix(int.from_bytes(data[whole:], "little"))
    value ^= len(data)
    value = ((value ^ value >> 16) * 0x85EBCA6B) & _MASK
    value = ((value ^ value >> 13) * 0xC2B2AE35) & _MASK
    return (value ^ value >> 16) & _POSITIVE


def _mix(word: int) -> int:
    return (_turn((word * 0xCC9E2D51) & _MASK, 15) * 0x1B873593) & _MASK


def _turn(value: int, bits: int) -> int:
    return ((value << bits) | (value >> (32 - bits))) & _MASK


@dataclass(frozen=True, slots=True)
class RangeGenerator:
    """Which keys are read: all, or those in the hash ranges of some keys; made by its static methods.

    Attributes:
        slots: Hashes of the keys that are read; None for all messages.

    Example:
        >>> from millstream.datastream.connectors.pulsar import RangeGenerator
        >>> len(RangeGenerator.fixed_key(keys=["bonn", "ulm"]).slots)
        2
    """

    slots: frozenset[int] | None = None

    @staticmethod
    def full() -> RangeGenerator:
        """All messages."""
        return RangeGenerator()

    @staticmethod
    def fixed_key(
        support_null_key: bool = False,
        keys: str | Sequence[str] | None = None,
        key_bytes: bytes | None = None,
        ordering_key_bytes: bytes | None = None,
    ) -> RangeGenerator:
        """Messages with these keys, and with those that share one of 65,536 hashes with one of them, as in Flink.

        A message's ordering key counts, or its key if it has none.

        Args:
            support_null_key: Whether messages without a key are read too.
            keys: A key, or several.
            key_bytes: One more, of bytes: messages have it as base64.
            ordering_key_bytes: An ordering key.

        Raises:
            ConfigurationError: If nothing is chosen.
        """
        named = [keys] if isinstance(keys, str) else list(keys or ())
        chosen = [key.encode() for key in named]
        if key_bytes is not None:
            chosen.append(base64.b64encode(key_bytes))
        if ordering_key_bytes is not None:
            chosen.append(ordering_key_bytes)
        if support_null_key:
            chosen.append(_NO_KEY)
        if not chosen:
            raise ConfigurationError("fixed_key was given no key", hint='fixed_key(keys=["a", "b"]).')
        return RangeGenerator(frozenset(murmur3(key) % _SLOTS for key in chosen))

    def wants(self, message: Any) -> bool:
        """Return whether a message is read."""
        if self.slots is None:
            return True
        key = message.ordering_key() or message.partition_key()
        return murmur3(key.encode() if key else _NO_KEY) % _SLOTS in self.slots

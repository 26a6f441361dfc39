"""Chooses the partition key of a record, and by that its shard."""

from __future__ import annotations

import uuid
from abc import ABC
from collections.abc import Callable
from typing import Any

from millstream.base.errors import ConfigurationError, NotSupportedError, SinkError, shorten

__all__ = ["PartitionKeyGenerator"]

_MOST_CHARACTERS = 256


class PartitionKeyGenerator(ABC):
    """Gives the partition key of a record; one of your own is derived from it, and implements `apply`.

    Example:
        >>> from millstream.datastream.connectors.kinesis import PartitionKeyGenerator
        >>> class ByShop(PartitionKeyGenerator):
        ...     def apply(self, element):
        ...         return element["shop"]
        >>> ByShop().apply({"shop": "Bonn", "cents": 250})
        'Bonn'
    """

    def __init__(self, j_partition_key_generator: Any = None) -> None:
        if j_partition_key_generator is not None:
            raise NotSupportedError(
                "a PartitionKeyGenerator was given an object of a JVM",
                hint="Derive a class and implement apply, or give the builder a function.",
            )

    def open(self, subtask_index: int) -> None:
        """Called once, before the first record.

        Args:
            subtask_index: Of the sink's subtask that it gives keys for.
        """

    def apply(self, element: Any) -> str:
        """Return the key: 1 to 256 characters. Records of one key go to one shard."""
        raise NotImplementedError(f"{type(self).__name__} does not override apply(element)")

    @staticmethod
    def fixed() -> PartitionKeyGenerator:
        """All records of a subtask of the sink have one key, the subtask's index: they go to one shard."""
        return _Fixed()

    @staticmethod
    def random() -> PartitionKeyGenerator:
        """Every record has a key of its own: they go to all shards alike."""
        return _Random()


class _Fixed(PartitionKeyGenerator):
    def open(self, subtask_index: int) -> None:
        self._key = str(subtask_index)

    def apply(self, element: Any) -> str:
        return self._key


class _Random(PartitionKeyGenerator):
    def apply(self, element: Any) -> str:
        return uuid.uuid4().hex


class FunctionKeys(PartitionKeyGenerator):
    """Keys by a function."""

    def __init__(self, function: Callable[[Any], str]) -> None:
        super().__init__()
        self._function = function

    def apply(self, element: Any) -> str:
        """Ask the function."""
        return self._function(element)


def generator_of(generator: Any) -> PartitionKeyGenerator:
    """Return a generator, of a function too.

    Raises:
        ConfigurationError: If it is neither.
    """
    if isinstance(generator, PartitionKeyGenerator):
        return generator
    if callable(generator):
        return FunctionKeys(generator)
    raise ConfigurationError(
        f"{type(generator).__name__} is no PartitionKeyGenerator and no function of a record"
    )


def check_key(key: Any) -> str:
    """Return a key that Kinesis takes.

    Raises:
        SinkError: If it does not.
    """
    if not isinstance(key, str) or not 1 <= len(key) <= _MOST_CHARACTERS:
        raise SinkError(
            f"the partition key of a record is {shorten(key)}", detail="It is a text of 1 to 256 characters."
        )
    return key

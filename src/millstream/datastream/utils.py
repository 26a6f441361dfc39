"""Less common operations on streams (Java Flink's `DataStreamUtils`)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from millstream.base.errors import JobDefinitionError
from millstream.common.functions import KeySelector
from millstream.datastream.streams.data_stream import DataStream, check_stream, transform
from millstream.datastream.streams.keyed_stream import KeyedStream
from millstream.datastream.streams.settings import check_type
from millstream.operators.functions_adapter import as_key_selector
from millstream.operators.owned_keys import OwnedKeysSpec
from millstream.operators.partitioners import Forward
from millstream.types.typeinfo import TypeInformation

__all__ = ["DataStreamUtils", "ResultTypeQueryable"]


class ResultTypeQueryable(ABC):
    """Something that knows the type of the records it makes."""

    @abstractmethod
    def get_produced_type(self) -> TypeInformation:
        """Return that type."""


class DataStreamUtils:
    """Operations that are not methods of streams.

    Example:
        >>> from millstream.datastream import DataStreamUtils
        >>> from millstream.testing import MiniCluster
        >>> with MiniCluster() as cluster:
        ...     pairs = cluster.environment().from_collection([("a", 1), ("a", 2)])
        ...     doubled = pairs.key_by(lambda pair: pair[0]).map(lambda pair: (pair[0], 2 * pair[1]))
        ...     # Each pair still is where its key belongs.
        ...     keyed = DataStreamUtils.reinterpret_as_keyed_stream(doubled, lambda pair: pair[0])
        ...     cluster.collect(keyed.sum(1))
        [('a', 2), ('a', 6)]
    """

    @staticmethod
    def reinterpret_as_keyed_stream(
        stream: DataStream,
        key_selector: KeySelector | Callable[[Any], Any],
        key_type: TypeInformation | None = None,
    ) -> KeyedStream:
        """Take a stream for keyed without dealing it anew: the next operator may be chained to it.

        Its records have to be where `key_by` would bring them, such as those of an operator on a stream keyed by
        the same key, with the same parallelism. That is checked for every record as the job runs: a key that
        belongs to another subtask fails the job (StateAccessError), as its state would be lost at rescaling.

        Args:
            stream: The direct result of one operator, or of its side output.
            key_selector: Gives a record's key.
            key_type: Type of the keys.

        Raises:
            TypeMismatchError: If an argument is of another kind.
            JobDefinitionError: If the stream is a union, or is dealt in another way already.
        """
        check_stream("reinterpret_as_keyed_stream", stream, stream._environment)
        selector = as_key_selector(key_selector)
        check_type(key_type)
        if len(stream._ports) > 1 or stream._ports[0].partitioning is not None:
            raise JobDefinitionError(
                "reinterpret_as_keyed_stream was called on a stream that is not an operator's direct result",
                detail="Unions and streams that are dealt anew are not where their operator put them.",
            )
        port = stream._ports[0]
        source = DataStream(stream._environment, (replace(port, partitioning=Forward()),), stream._type_info)
        checked = transform("Reinterpret As Keyed", OwnedKeysSpec(selector), [source], stream._type_info)
        checked._transformation.be_as_parallel_as(port.source)
        checked._transformation.max_parallelism = port.source.max_parallelism
        return KeyedStream(checked._partition(Forward()), selector, key_type)

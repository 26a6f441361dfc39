"""Loops in the graph (`IterativeStream` of Flink's DataStream API before 2.0; PyFlink has none)."""

from __future__ import annotations

from typing import Any

from millstream.base.errors import JobDefinitionError, TypeMismatchError
from millstream.base.type_variables import T
from millstream.datastream.streams.data_stream import DataStream, transform
from millstream.operators.iteration import IterationHeadSpec, IterationTailSpec

__all__ = ["IterativeStream", "iterate"]


class IterativeStream(DataStream[T]):
    """The head of a loop: gives its input, and whatever `close_with` sends back.

    Example:
        >>> def halve_until_odd(numbers):
        ...     loop = numbers.iterate()
        ...     halved = loop.map(lambda n: n // 2 if n % 2 == 0 else n)
        ...     loop.close_with(halved.filter(lambda n: n % 2 == 0))
        ...     return halved.filter(lambda n: n % 2 == 1)
    """

    def close_with(self, feedback_stream: DataStream[T]) -> DataStream[T]:
        """Send the records of a stream, made of this one, back to the head; may be called several times.

        They are there again in the next epoch. Watermarks do not go round: what was sent back may be late for
        event-time operators in the loop.

        Returns:
            The feedback stream.

        Raises:
            TypeMismatchError: If it is not a DataStream.
            JobDefinitionError: If it is not made of this stream.
        """
        if not isinstance(feedback_stream, DataStream):
            raise TypeMismatchError(
                f"close_with was given a {type(feedback_stream).__name__}, not a DataStream"
            )
        head = self._transformation
        if not _reads(feedback_stream, head):
            raise JobDefinitionError(
                "close_with was given a stream that is not made of the iteration's own",
                hint="Build the feedback from the stream that iterate() returned.",
            )
        tail = transform("Iteration Tail", IterationTailSpec(head.id), [feedback_stream])._transformation
        tail.be_as_parallel_as(head)
        tail.max_parallelism = head.max_parallelism
        tail.fixed_parallelism = head.fixed_parallelism = True
        return feedback_stream


def iterate(stream: DataStream[T]) -> IterativeStream[T]:
    """Return the head of a loop behind `stream`; it has the stream's parallelism."""
    result = transform("Iteration", IterationHeadSpec(), [stream], stream._type_info)
    head = result._transformation
    head.be_as_parallel_as(stream._ports[0].source)
    return IterativeStream(stream._environment, result._ports, stream._type_info)


def _reads(stream: DataStream, head: Any) -> bool:
    seen: set[int] = set()
    waiting = [port.source for port in stream._ports]
    while waiting:
        transformation = waiting.pop()
        if transformation is head:
            return True
        if transformation.id not in seen:
            seen.add(transformation.id)
            waiting.extend(edge.source for edge in transformation.inputs)
    return False

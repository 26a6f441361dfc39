"""Blocks: the elements that one subtask sends to another in one epoch, encoded.

A block between subtasks of the same slot stays a list of elements and is never encoded. Of a batch of Rows with
the same names, the names are encoded once, and the values as tuples; columns are what Arrow's stream format makes of
them. A payload is pickles one behind the other, each of some thousand records: what pickle remembers of the objects
that it has seen stays in the processor's cache, and a record costs a third of what it does in one pickle of 200,000.
"""

from __future__ import annotations

import pickle
from array import array
from collections.abc import Iterator
from dataclasses import dataclass
from io import BytesIO
from typing import Any

from millstream.base.errors import NotSerializableError, shorten
from millstream.base.pickling import dump_by_value
from millstream.spi.batch import (
    IDLE,
    Columns,
    Element,
    LatencyMarker,
    Marks,
    Rows,
    StreamStatus,
    Watermark,
    concat_columns,
)
from millstream.types.row import rows_of, unpack_rows

__all__ = ["Block", "decode_elements", "encode_elements", "join_columns"]

_PICKLED_TOGETHER = 2_048
_MOST_JOINED = 65_536
_MOST_JOINED_BYTES = 64 << 20


@dataclass(frozen=True, slots=True)
class Block:
    """What one channel carries in one epoch.

    Attributes:
        edge_id: The job edge.
        sender: Subtask index of the sender.
        target: Subtask index of the receiver, which is its slot as well.
        payload: Encoded elements, or the elements themselves within a slot.
    """

    edge_id: int
    sender: int
    target: int
    payload: bytes | list[Element]

    def elements(self) -> list[Element]:
        """Return the elements, decoded."""
        return self.payload if isinstance(self.payload, list) else decode_elements(self.payload)


def join_columns(elements: list[Element]) -> list[Element]:
    """Return elements with columns that follow each other as one, up to a size: few calls cost less than many.

    Columns that were dealt to many receivers are small, and an operator's call for few records costs about as much as
    one for thousands.
    """
    joined: list[Element] = []
    run: list[Columns] = []
    records = size = 0
    for element in elements:
        if not isinstance(element, Columns):
            joined += [*_as_one(run), element]
            run = []
            continue
        records, size = records + len(element), size + element.nbytes
        if not run or records > _MOST_JOINED or size > _MOST_JOINED_BYTES or not _alike(element, run[-1]):
            joined += _as_one(run)
            run, records, size = [], len(element), element.nbytes
        run.append(element)
    return joined + _as_one(run)


def _alike(one: Columns, other: Columns) -> bool:
    return (
        (one.timestamps is None) == (other.timestamps is None)
        and (one.kinds is None) == (other.kinds is None)
        and bool(one.data.schema.equals(other.data.schema, check_metadata=True))
    )


def _as_one(run: list[Columns]) -> list[Element]:
    return list(run) if len(run) < 2 else [concat_columns(run)]


def encode_elements(elements: list[Element]) -> bytes:
    """Encode elements with pickle protocol 5; cloudpickle where a class lives in the main module.

    Raises:
        NotSerializableError: If a record cannot be pickled; names it.
    """
    pieces = list(_pieces(elements))
    try:
        return b"".join([pickle.dumps(piece, protocol=5) for piece in pieces])
    except (pickle.PicklingError, AttributeError, TypeError):
        pass
    try:  # in one: a class of the main module comes with each pickle
        return dump_by_value([item for piece in pieces for item in piece])
    except Exception as error:
        raise _not_serializable(elements, error) from error


def decode_elements(payload: bytes) -> list[Element]:
    """Decode what `encode_elements` gave; large batches come in several."""
    elements: list[Element] = []
    stream = BytesIO(payload)
    while stream.tell() < len(payload):
        elements += map(_element, pickle.load(stream))
    return elements


def _pieces(elements: list[Element]) -> Iterator[list[Any]]:
    """Yield lists of what is pickled for elements, each for few records."""
    piece: list[Any] = []
    records = 0
    for element in elements:
        for item, count in _items(element):
            if records + count > _PICKLED_TOGETHER and piece:
                yield piece
                piece, records = [], 0
            piece.append(item)
            records += count
    yield piece


def _items(element: Element) -> Iterator[tuple[Any, int]]:
    """Yield what is pickled for an element, and how many records are in it."""
    if isinstance(element, Rows):
        for start in range(0, max(len(element.values), 1), _PICKLED_TOGETHER):
            yield _plain_rows(element, start, start + _PICKLED_TOGETHER)
    elif isinstance(element, Columns):
        yield element, 0  # Arrow's buffers, and few objects
    elif isinstance(element, Watermark):
        yield element.timestamp_ms, 0
    elif isinstance(element, LatencyMarker):
        yield element, 0
    else:
        yield element is IDLE, 0


def _plain_rows(batch: Rows, start: int, stop: int) -> tuple[Any, int]:
    """Return what is pickled for some records of a batch, and how many they are."""
    values, timestamps, marks = batch.values, batch.timestamps, batch.marks
    if start or stop < len(values):
        values = values[start:stop]
        timestamps = None if timestamps is None else timestamps[start:stop]
        marks = None if marks is None else marks.part(start, stop)
    stamps = None if timestamps is None else _column(timestamps)
    columns = None if marks is None else tuple(map(_column, marks))
    rows = unpack_rows(values)
    item = (values, stamps, columns) if rows is None else (rows, stamps, columns, True)
    return item, len(values)


def _column(numbers: list[int]) -> bytes:
    return array("q", numbers).tobytes()


def _numbers(column: bytes) -> list[int]:
    numbers = array("q")
    numbers.frombytes(column)
    return numbers.tolist()


def _element(item: Any) -> Element:
    if type(item) is tuple:
        values, stamps, marks = item[:3]
        return Rows(
            rows_of(*values) if len(item) == 4 else values,
            None if stamps is None else _numbers(stamps),
            None if marks is None else Marks(*map(_numbers, marks)),
        )
    if type(item) is Columns or type(item) is LatencyMarker:
        return item
    if type(item) is bool:
        return StreamStatus.IDLE if item else StreamStatus.ACTIVE
    return Watermark(item)


def _not_serializable(elements: list[Element], error: BaseException) -> NotSerializableError:
    for element in elements:
        for value in element.values if isinstance(element, Rows) else ():
            try:
                dump_by_value(value)
            except Exception as cause:  # noqa: BLE001 - any object may refuse to be pickled in any way
                return NotSerializableError(
                    f"record {shorten(value)} of type {type(value).__name__} cannot be pickled: {cause}",
                    detail="Records between operators that are not chained travel to other processes.",
                    hint="Emit plain data: numbers, strings, tuples, Rows, dataclasses.",
                )
    return NotSerializableError(f"a batch cannot be pickled: {error}")

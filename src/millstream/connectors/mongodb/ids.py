"""Ranges of `_id`s: how documents are cut into splits, and the queries that read them.

Documents of a split are read in the order of their `_id`, which tells all of them apart, and a position is the `_id` of
the last one read::

    _id    1 ........ 1000 | 1001 ........ 2000 | 2001 ... the last when the job began
    split 0: _id <= 1000      split 1: > 1000 and <= 2000      split 2: > 2000 and <= the last
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from millstream.base.errors import NotSupportedError
from millstream.connectors.mongodb.connection import load_pymongo

__all__ = ["IdRange", "Query", "cut_into_ranges"]


@dataclass(frozen=True, slots=True)
class IdRange:
    """The documents of a split.

    Attributes:
        number: Names it.
        after: The last `_id` before it; None if it is the first.
        up_to: Its last `_id`.
    """

    number: int
    after: Any
    up_to: Any


@dataclass(frozen=True)
class Query:
    """What is read of a collection.

    Attributes:
        condition: Which documents.
        fields: Which of their fields; None for all.
    """

    condition: dict[str, Any]
    fields: tuple[str, ...] | None = None

    def read(self, collection: Any, ids: IdRange, position: Any, count: int) -> list[dict[str, Any]]:
        """Return the next documents of a range, in the order of their ids; always with them.

        Args:
            collection: Pymongo's.
            ids: The range.
            position: The id of the last document that was read; None to begin.
            count: How many at most.
        """
        after = ids.after if position is None else position
        bounds = {"$lte": ids.up_to} if after is None else {"$gt": after, "$lte": ids.up_to}
        condition = {"$and": [{"_id": bounds}, self.condition]} if self.condition else {"_id": bounds}
        projection = None if self.fields is None else dict.fromkeys((*self.fields, "_id"), 1)
        return list(collection.find(condition, projection).sort("_id", 1).limit(count))

    def without_id(self, documents: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """Return documents with no more than was asked for."""
        if self.fields is None or "_id" in self.fields:
            return documents
        for document in documents:
            del document["_id"]
        return documents


def cut_into_ranges(collection: Any, size: int) -> tuple[IdRange, ...]:
    """Cut a collection into ranges of so many documents, as it is now; the last may be smaller.

    Looks at the index of `_id` once, and no documents.

    Raises:
        NotSupportedError: If `_id`s are of several types.
    """
    first, last = _end(collection, 1), _end(collection, -1)
    if first is None or last is None:
        return ()
    kinds = {_kind(first["_id"]), _kind(last["_id"])}
    if len(kinds) > 1:
        raise NotSupportedError(
            f"the _ids of {collection.full_name} are of several types, {' and '.join(sorted(kinds))}",
            detail="MongoDB compares values of one type, so such collections have no ranges.",
            hint="Read a view or a copy of the collection whose _ids are of one type.",
        )
    return tuple(_ranges(collection, last["_id"], size))


def _ranges(collection: Any, last: Any, size: int) -> Iterator[IdRange]:
    number, after = 0, None
    while True:
        above = {"_id": {"$lte": last} if after is None else {"$gt": after, "$lte": last}}
        bound = list(collection.find(above, {"_id": 1}).sort("_id", 1).skip(size - 1).limit(1))
        if not bound or bound[0]["_id"] == last:
            if bound or list(collection.find(above, {"_id": 1}).limit(1)):
                yield IdRange(number, after, last)
            return
        yield IdRange(number, after, bound[0]["_id"])
        number, after = number + 1, bound[0]["_id"]


def _end(collection: Any, direction: int) -> dict[str, Any] | None:
    found: dict[str, Any] | None = collection.find_one({}, {"_id": 1}, sort=[("_id", direction)])
    return found


def _kind(value: Any) -> str:
    """Return what an id is compared with."""
    if isinstance(value, bool):
        return "bool"
    decimal = load_pymongo("bson.decimal128").Decimal128
    return "number" if isinstance(value, (int, float, decimal)) else type(value).__name__

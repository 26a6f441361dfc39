"""Which changes came behind the rows that were read.

Rows of a table are read in several transactions (`Part`): one for each subtask, and more if connections were lost or
the job was restored. Changes follow from the first of these moments on. A change counts if it came behind the moment at
which the row's own part was read::

    part 0 (id <= 100)  read at  *
    part 1 (id >  100)  read at          *
    changes                        7 no: 150   ... of id 7 counts, of id 150 does not: it was read with it

An update may move a row from one part to another: then its row before and its row behind it are judged each by itself.
The server compares keys, for it alone knows how texts are ordered.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from millstream.connectors.key_ranges import Key
from millstream.connectors.mysql.address import (
    MySqlAddress,
    is_away,
    load_pymysql,
    query,
    said,
)
from millstream.connectors.mysql.binlog import Change, Image
from millstream.connectors.mysql.change_values import key_texts
from millstream.connectors.mysql.ddl import TableName
from millstream.connectors.mysql.enumerator import Part
from millstream.connectors.mysql.moments import order_of
from millstream.connectors.mysql.relation import KeyPart, Relation, quoted
from millstream.connectors.mysql.splits import compared
from millstream.connectors.reconnects import ConnectionLost
from millstream.types.row import RowKind

__all__ = ["PartFilter"]

_MOST_KEYS = 200


class PartFilter:
    """Leaves out what was read with the tables.

    Args:
        address: The server.
        relations: The tables.
        parts: When what of each was read, in the order of keys.
    """

    def __init__(
        self,
        address: MySqlAddress,
        relations: Mapping[TableName, Relation],
        parts: Mapping[TableName, Sequence[Part]],
    ) -> None:
        self._address = address
        self._relations = relations
        self._parts = parts
        self._connection: Any = None

    def apply(self, changes: Sequence[Change]) -> list[Change]:
        """Return the changes that came behind the rows; of an update perhaps only one of its sides.

        Raises:
            ConnectionLost: If the server went away.
        """
        found: list[Change] = []
        moments = {name: self._moments(name, changes) for name in {change.table for change in changes}}
        for change in changes:
            moment_of = moments[change.table]
            begin = order_of(change.begin)
            old = change.old if change.old is not None and begin >= moment_of[id(change.old)] else None
            new = change.new if change.new is not None and begin >= moment_of[id(change.new)] else None
            if old is None and new is None:
                continue
            kind = RowKind.DELETE if new is None else RowKind.INSERT if old is None else RowKind.UPDATE_AFTER
            found.append(Change(change.table, change.columns, kind, old, new, change.begin))
        return found

    def _moments(self, name: TableName, changes: Sequence[Change]) -> dict[int, tuple[int, int]]:
        """Return for each image of a table's rows when its part was read."""
        images = [
            image
            for change in changes
            if change.table == name
            for image in (change.old, change.new)
            if image is not None
        ]
        parts = self._parts[name]
        if len(parts) == 1:
            return dict.fromkeys(map(id, images), order_of(parts[0].moment))
        places = self._places(self._relations[name], parts, images)
        return {id(image): order_of(parts[place].moment) for image, place in zip(images, places, strict=True)}

    def _places(self, relation: Relation, parts: Sequence[Part], images: Sequence[Image]) -> list[int]:
        keys = [key_texts(relation, image) for image in images]
        bounds = [part.up_to for part in parts if part.up_to is not None]
        places: list[int] = []
        for first in range(0, len(keys), _MOST_KEYS):
            places += self._ask(relation.key, bounds, keys[first : first + _MOST_KEYS])
        return places

    def _ask(self, key: Sequence[KeyPart], bounds: Sequence[Key], keys: Sequence[Key]) -> list[int]:
        """Have the server say how many bounds each key is behind."""
        behind = " + ".join(f"({compared(key, '>', bound)})" for bound in bounds)
        rows = " UNION ALL ".join(
            f"SELECT {place} AS millstream_place, " + ", ".join(map(_column, key, values))
            for place, values in enumerate(keys)
        )
        errors = load_pymysql().err
        try:
            if self._connection is None:
                self._connection = self._address.connect()
            found = query(
                self._connection,
                f"SELECT {behind} FROM ({rows}) AS millstream_keys ORDER BY millstream_place",
            )
        except (errors.MySQLError, OSError) as error:
            self.close()
            if is_away(error):
                raise ConnectionLost(said(error)) from error
            raise
        return [int(place) for (place,) in found]

    def close(self) -> None:
        """Close the connection."""
        if self._connection is not None and self._connection.open:
            self._connection.close()
        self._connection = None


def _column(part: KeyPart, value: str) -> str:
    literal = part.literal(value)
    if part.charset:
        literal = f"CONVERT({literal} USING {part.charset}) COLLATE {part.collation}"
    return f"{literal} AS {quoted(part.column)}"

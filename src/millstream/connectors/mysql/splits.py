"""Ranges of keys: how rows are cut into splits, and the statements that read them.

Rows that something tells apart are read in the order of that key, and a position is the key of the last row read: what
changes elsewhere in the table does not move it. Rows that nothing tells apart (those of a query, of a view, of a table
without a key) are read in the order of a digest of their text, and a position is how many were read.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from millstream.connectors.key_ranges import Key, KeyRange, Position
from millstream.connectors.mysql.address import query
from millstream.connectors.mysql.column_types import ColumnType
from millstream.connectors.mysql.relation import KeyPart, Relation, quoted

__all__ = ["compared", "cut_into_ranges", "keys_within", "statement_of"]

_DENSE_ROWS = 1_000_000
"""Keys of tables with more rows are cut evenly if they are dense, for walking along them takes time."""
_ALL = 2**64 - 1


def cut_into_ranges(
    connection: Any, relation: Relation, rows: int | None, splits: int | None
) -> list[KeyRange]:
    """Cut the rows into ranges of nearly the same number of rows.

    Args:
        connection: A connection.
        relation: What is read.
        rows: How many rows a range has.
        splits: How many ranges there are at most; counts if `rows` is None.
    """
    bounds: list[Key] = []
    if by := relation.by:
        if rows is None:
            assert splits is not None, "neither size nor number of splits"
            ((count,),) = query(connection, f"SELECT COUNT(*) FROM {relation.sql}")
            rows = max(1, -(-int(count) // splits))
        bounds = _even_bounds(connection, relation, by, rows) or _walk(connection, relation, by, rows)
    ends = [None, *bounds, None]
    ranges = [KeyRange(number, after, up_to) for number, (after, up_to) in enumerate(pairwise(ends))]
    if relation.may_be_null:
        ranges.append(KeyRange(len(ranges), has_nulls=True))
    return ranges


def _even_bounds(connection: Any, relation: Relation, by: Sequence[KeyPart], rows: int) -> list[Key]:
    """Return bounds of a large table whose numbers have few gaps; none of others."""
    if relation.rows < _DENSE_ROWS or len(by) > 1 or not by[0].is_whole_number:
        return []
    name = by[0].expression
    ((least, most),) = query(connection, f"SELECT MIN({name}), MAX({name}) FROM {relation.sql}")
    if least is None or int(most) - int(least) > 2 * relation.rows:
        return []
    return [(str(bound),) for bound in range(int(least) + rows - 1, int(most), rows)]


def _walk(connection: Any, relation: Relation, by: Sequence[KeyPart], rows: int) -> list[Key]:
    """Return every so manieth key."""
    order = ", ".join(part.expression for part in by)
    listed = ", ".join(part.text for part in by)
    bounds: list[Key] = []
    while True:
        where = [f"{by[0].expression} IS NOT NULL"]
        if bounds:
            where.append(compared(by, ">", bounds[-1]))
        found = query(
            connection,
            f"SELECT {listed} FROM {relation.sql} WHERE {' AND '.join(where)} "
            f"ORDER BY {order} LIMIT 1 OFFSET {rows - 1}",
        )
        if not found:
            return bounds
        bounds.append(tuple(map(str, found[0])))


def statement_of(relation: Relation, key_range: KeyRange, position: Position | None) -> str:
    """Return the statement that reads the rows of a range from a position on: columns, and behind them the key."""
    key = keys_within(relation, key_range)
    where = _conditions(relation, key_range, key, position)
    columns = list(map(_selected, relation.columns, relation.kinds))
    listed = ", ".join([*columns, *(f"{part.text} AS `k{place}`" for place, part in enumerate(key))])
    condition = f" WHERE {' AND '.join(where)}" if where else ""
    order = [part.expression for part in key]
    limit = ""
    if not key:
        order = [part.expression for part in relation.by]
        texts = ", ".join(f"QUOTE({quoted(column)})" for column in relation.all_columns)
        order.append(f"SHA2(CONCAT_WS(',', {texts}), 256)")
        limit = f" LIMIT {_ALL} OFFSET {position}" if position else ""
    return f"SELECT {listed} FROM {relation.sql}{condition} ORDER BY {', '.join(order)}{limit}"


def _selected(column: str, kind: ColumnType) -> str:
    # The text of a float has six digits; that of a double has all.
    return f"({quoted(column)} + 0e0)" if kind.name == "float" else quoted(column)


def keys_within(relation: Relation, key_range: KeyRange) -> tuple[KeyPart, ...]:
    """Return what tells the rows of a range apart."""
    return relation.key[1:] if key_range.has_nulls else relation.key


def _conditions(
    relation: Relation, key_range: KeyRange, key: Sequence[KeyPart], position: Position | None
) -> list[str]:
    where: list[str] = []
    if key_range.has_nulls:
        assert relation.split_by is not None, "nulls of no column"
        where.append(f"{relation.split_by.expression} IS NULL")
    by = key or relation.by
    after = position if isinstance(position, tuple) else key_range.after
    if after is not None:
        where.append(compared(by, ">", after))
    if key_range.up_to is not None:
        where.append(compared(by, "<=", key_range.up_to))
    elif relation.may_be_null and not key_range.has_nulls:
        where.append(f"{by[0].expression} IS NOT NULL")
    return where


def compared(parts: Sequence[KeyPart], sign: str, values: Key) -> str:
    """Return the condition that a key is behind (`>`) another one, or not (`<=`).

    Written out column by column: no server looks into an index for (a, b) > (1, 2).
    """
    part, value = parts[0], parts[0].literal(values[0])
    if len(parts) == 1:
        return f"{part.expression} {sign} {value}"
    strict, wide = sign[0], sign[0] + "="
    rest = compared(parts[1:], sign, values[1:])
    return (
        f"({part.expression} {wide} {value} AND "
        f"({part.expression} {strict} {value} OR ({part.expression} = {value} AND {rest})))"
    )

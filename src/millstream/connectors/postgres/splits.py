"""Ranges of keys: how rows are cut into splits, and the statements that read them.

Rows that something tells apart are read in the order of that key, and a position is the key of the last row read:
what changes elsewhere in the table does not move it. So the rows of one split are those behind one key, up to another::

    keys   1 ........ 1000 | 1001 ........ 2000 | 2001 ...
    split 0: key <= 1000     split 1: key > 1000 and <= 2000     split 2: key > 2000

Rows that nothing tells apart (those of a query, of a view) are read in the order of their text, and a position is how
many were read.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from millstream.connectors.key_ranges import Key, KeyRange, Position
from millstream.connectors.postgres.relation import ROWS, Relation, literal, quoted

__all__ = ["cut_into_ranges", "keys_within", "statement_of"]

_SAMPLED_PAGES = 8_192
"""The bounds of larger tables are those of a sample of about so many pages."""
_PAGES_OF_A_SPLIT = 4_096


def cut_into_ranges(
    connection: Any, relation: Relation, rows: int | None, splits: int | None
) -> list[KeyRange]:
    """Cut the rows into ranges of nearly the same number of rows.

    Args:
        connection: A connection, in whose transaction the rows are looked at.
        relation: What is read.
        rows: How many rows a range has; of a large table that is an estimate.
        splits: How many ranges there are at most; counts if `rows` is None.
    """
    if relation.is_scanned:
        bounds = _page_bounds(relation.pages, splits)
    elif (by := _split_key(relation)) == ():
        bounds = []
    else:
        bounds = _key_bounds(connection, relation, by, rows, splits)
    ends = [None, *bounds, None]
    ranges = [KeyRange(number, after, up_to) for number, (after, up_to) in enumerate(pairwise(ends))]
    if relation.may_be_null:
        ranges.append(KeyRange(len(ranges), has_nulls=True))
    return ranges


def _split_key(relation: Relation) -> Key:
    """Return the expressions that ranges are cut by."""
    if relation.key:
        return relation.key
    return () if relation.split_column is None else (quoted(relation.split_column),)


def _page_bounds(pages: int, splits: int | None) -> list[Key]:
    count = -(-pages // _PAGES_OF_A_SPLIT) if splits is None else min(splits, max(pages, 1))
    return [(f"({pages * number // count},0)",) for number in range(1, count)]


def _key_bounds(
    connection: Any, relation: Relation, by: Key, rows: int | None, splits: int | None
) -> list[Key]:
    percent = 100.0
    source = relation.sql
    if relation.pages > _SAMPLED_PAGES:
        percent = 100.0 * _SAMPLED_PAGES / relation.pages
        source = f"{relation.sql} TABLESAMPLE SYSTEM ({percent:.6f})"
    names = [f"k{place}" for place in range(len(by))]
    listed = ", ".join(names)
    chosen = ", ".join(f"{expression} AS {name}" for expression, name in zip(by, names, strict=True))
    step = (
        f"greatest(1, ({rows} * {percent / 100!r})::int8)"
        if rows
        else f"greatest(1, (n + {splits} - 1) / {splits})"
    )
    cursor = connection.execute(
        f"SELECT DISTINCT {listed} FROM ("
        f"SELECT {listed}, row_number() OVER (ORDER BY {listed}) AS place, count(*) OVER () AS n "
        f"FROM (SELECT {chosen} FROM {source} WHERE {by[0]} IS NOT NULL) AS chosen"
        f") AS numbered WHERE place % {step} = 0 AND place < n ORDER BY {listed}"
    )
    return [tuple(values) for values in _as_text(cursor)]


def _as_text(cursor: Any) -> list[list[str]]:
    """Return the rows of a result as the server wrote them."""
    result = cursor.pgresult
    return [
        [result.get_value(row, column).decode() for column in range(result.nfields)]
        for row in range(result.ntuples)
    ]


def statement_of(relation: Relation, key_range: KeyRange, position: Position | None) -> str:
    """Return the statement that copies the rows of a range from a position on: columns, and behind them the key."""
    columns = [quoted(column) for column in relation.columns]
    key = keys_within(relation, key_range)
    where = _conditions(relation, key_range, key, position)
    order, offset = "", ""
    if not key:
        by = [] if relation.split_column is None else [quoted(relation.split_column)]
        order = f" ORDER BY {', '.join([*by, f'{ROWS}::text'])}"
        offset = f" OFFSET {position or 0}"
    elif not relation.is_scanned:
        order = f" ORDER BY {', '.join(key)}"
    listed = ", ".join([*columns, *(f"{expression} AS k{place}" for place, expression in enumerate(key))])
    condition = f" WHERE {' AND '.join(where)}" if where else ""
    select = f"SELECT {listed} FROM {relation.sql}{condition}{order}{offset}"
    return f"COPY ({select}) TO STDOUT (FORMAT csv, ENCODING 'UTF8')"


def keys_within(relation: Relation, key_range: KeyRange) -> Key:
    """Return what tells the rows of a range apart."""
    return relation.key[1:] if key_range.has_nulls else relation.key


def _conditions(relation: Relation, key_range: KeyRange, key: Key, position: Position | None) -> list[str]:
    where: list[str] = []
    if key_range.has_nulls:
        assert relation.split_column is not None, "nulls of no column"
        where.append(f"{quoted(relation.split_column)} IS NULL")
    by = key or _split_key(relation)
    after = position if isinstance(position, tuple) else key_range.after
    if after is not None:
        where.append(_compared(by, ">", after))
    if key_range.up_to is not None:
        where.append(_compared(by, "<=", key_range.up_to))
    elif relation.may_be_null and not key_range.has_nulls:
        where.append(f"{by[0]} IS NOT NULL")
    return where


def _compared(expressions: Sequence[str], sign: str, values: Key) -> str:
    if len(expressions) == 1:
        return f"{expressions[0]} {sign} {literal(values[0])}"
    return f"({', '.join(expressions)}) {sign} ({', '.join(map(literal, values))})"

"""Runs programs with their batches in one form or the other: as rows, as columns, or now this, now that.

In `with in_form("columns")` each operator of this process gives Arrow's columns wherever columns hold its records
exactly: values of one type in each field. The engine does the rest: it deals them to subtasks as columns, sends them
in Arrow's format, and makes rows of them on the edge to whoever needs those. A program gives the same in each form.

Columns give Rows for tuples, lists, dicts and rows without names, and functions see the difference. So these columns
say in their schema what their records were, and they are made that again behind the engine's own conversion.
"""

from __future__ import annotations

import datetime
import functools
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from random import Random
from typing import Any, TypeVar

import pytest

from millstream.operators import collect_columns
from millstream.runtime.task.outputs import ChainOutput
from millstream.spi.batch import Batch, Columns, Rows
from millstream.types import arrow_values
from millstream.types.row import Row

FORMS = ("rows", "columns", "mixed")

Test = TypeVar("Test", bound=Callable[..., Any])

_SHAPE = b"test.shape"
_RESHAPE: dict[bytes, Callable[[Row], Any]] = {
    b"tuple": tuple,
    b"list": list,
    b"dict": Row.as_dict,
    b"Row": lambda row: Row.of(None, row._values, row.get_row_kind()),
}


@contextmanager
def in_form(form: str) -> Iterator[Counter[str]]:
    """Have operators in this process give batches in a form.

    Args:
        form: One of `FORMS`; "mixed" chooses for each batch, by its first record and how many came before.

    Yields:
        How many batches were emitted as "rows" and as "columns".
    """
    emitted: Counter[str] = Counter()
    emit, emit_side, records_of = ChainOutput.emit, ChainOutput.emit_side, arrow_values.records_of

    def formed(batch: Batch) -> Batch:
        if type(batch) is Rows and form != "rows" and is_columnar(batch.values):
            chosen = Random(f"{emitted.total()} {batch.values[0]!r}").random() < 0.5
            batch = columns_of(batch) if form == "columns" or chosen else batch
        emitted["columns" if type(batch) is Columns else "rows"] += len(batch) > 0
        return batch

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ChainOutput, "emit", lambda self, batch: emit(self, formed(batch)))
        patch.setattr(ChainOutput, "emit_side", lambda self, tag, batch: emit_side(self, tag, formed(batch)))
        for module in (arrow_values, collect_columns):
            patch.setattr(module, "records_of", lambda data: _reshaped(data.schema, records_of(data)))
        yield emitted


def in_each_form(test: Test) -> Test:
    """Have a test run once in each form; what it raises tells in which."""

    @functools.wraps(test)
    def run(*args: Any, **kwargs: Any) -> None:
        for form in FORMS:
            try:
                with in_form(form):
                    test(*args, **kwargs)
            except Exception as error:
                error.add_note(f'Batches were in the form "{form}" (batch_forms.py).')
                raise

    return run  # type: ignore[return-value]


def columns_of(rows: Rows) -> Columns:
    """Return rows as columns that know what their records were."""
    made, first = Columns.from_rows(rows), rows.values[0]
    shape = type(first).__name__.encode()
    if shape in _RESHAPE and not (type(first) is Row and first._fields):
        made.data = made.data.replace_schema_metadata({_SHAPE: shape})
    return made


def _reshaped(schema: Any, records: list[Any]) -> list[Any]:
    shape = (schema.metadata or {}).get(_SHAPE)
    return records if shape is None else list(map(_RESHAPE[shape], records))


def is_columnar(records: list[Any]) -> bool:
    """Tell whether columns hold records exactly, by what is said of them: docs/columns.md."""
    shapes = set(map(type, records))
    if not shapes & {tuple, list, dict, Row}:
        return bool(shapes - {type(None)}) and _is_column(records)  # bare values
    if len(shapes) > 1:
        return False
    shape = shapes.pop()
    if shape is Row:
        fields = {each._fields or (None,) * len(each) for each in records}
        values = [each._values for each in records]
    elif shape is dict:
        fields = {tuple(each) for each in records}
        values = [tuple(each.values()) for each in records]
    else:
        fields = {(None,) * len(each) for each in records}
        values = records
    if len(fields) != 1 or not values[0] or not {str, type(None)}.issuperset(map(type, fields.pop())):
        return False
    return all(map(_is_column, zip(*values, strict=True))) and not _is_shared(values)


def _is_column(values: Any) -> bool:
    present = [value for value in values if value is not None]
    kinds = set(map(type, present))
    return not kinds or (len(kinds) == 1 and _FITS.get(kinds.pop(), _never)(present))


def _never(values: list[Any]) -> bool:
    return False


def _always(values: list[Any]) -> bool:
    return True


def _are_maps(values: list[dict[Any, Any]]) -> bool:
    keys = [key for value in values for key in value]
    items = [each for value in values for each in value.values()]
    return None not in keys and _is_column(keys) and _is_column(items)


_FITS: dict[type, Callable[[list[Any]], bool]] = {
    **dict.fromkeys((bool, float, str, bytes, datetime.date, datetime.time), _always),
    int: lambda values: all(-(1 << 63) <= value < 1 << 63 for value in values),
    datetime.datetime: lambda values: all(value.tzinfo is None for value in values),
    list: lambda values: _is_column([each for value in values for each in value]),
    dict: _are_maps,
    Row: lambda values: all(value._fields for value in values) and is_columnar(values),
}
"""By type of the values that are not null: whether one column holds all of them as they are."""


def _is_shared(values: Any) -> bool:
    """Tell whether a value that can be changed is in more than one place; columns hold one for each."""
    seen: set[int] = set()
    left = [each for record in values for each in record]
    while left:
        value = left.pop()
        if type(value) not in (list, dict, Row):
            continue
        if id(value) in seen:
            return True
        seen.add(id(value))
        left += value._values if type(value) is Row else value.values() if type(value) is dict else value
    return False

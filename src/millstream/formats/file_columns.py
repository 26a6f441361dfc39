"""Columns of files, in their own types, as columns of declared types."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from typing import Any

from millstream.base.errors import SourceError, shorten
from millstream.types.arrow_types import load_arrow
from millstream.types.arrow_values import values_of
from millstream.types.datatypes import RowType

__all__ = ["as_declared", "file_names"]


def file_names(present: Sequence[str], row_type: RowType, path: str, *, case_sensitive: bool) -> list[str]:
    """Return the names that the columns of a row type have in a file.

    Raises:
        SourceError: If one is missing.
    """
    by_name = {name if case_sensitive else name.lower(): name for name in present}
    wanted = row_type.field_names()
    keys = wanted if case_sensitive else [name.lower() for name in wanted]
    missing = [name for name, key in zip(wanted, keys, strict=True) if key not in by_name]
    if missing:
        raise SourceError(
            f"file {path!r} has no column {missing[0]!r}",
            detail=f"Its columns: {shorten(list(present), 1000)}.",
            hint="Name the file's columns in the row type.",
        )
    return [by_name[key] for key in keys]


def as_declared(column: Any, name: str, kind: Any, path: str, *, is_moment: bool, in_utc: bool) -> Any:
    """Return a column of a file in its declared type: an array, or a list of values.

    Args:
        column: As the file has it.
        name: Of the column.
        kind: The declared Arrow type.
        path: Of the file, for messages.
        is_moment: Whether it holds points in time, which come without zone.
        in_utc: Whether they are given in UTC; else in the machine's local zone.

    Raises:
        SourceError: If it does not fit.
    """
    pa = load_arrow("columns of files")
    try:
        if is_moment:
            moments = column.cast(pa.timestamp("us", column.type.tz), safe=False).view(pa.timestamp("us"))
            return moments if in_utc else [value and _local(value) for value in values_of(moments)]
        return column.cast(kind, safe=not pa.types.is_timestamp(column.type))  # nanoseconds are cut
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise SourceError(
            f"file {path!r}, column {name!r}: type {column.type} does not fit {kind}",
            detail=str(error),
            hint="Declare the file's type in the row type.",
        ) from error


def _local(in_utc: datetime.datetime) -> datetime.datetime:
    """Return a moment in the machine's zone; both without zone."""
    return in_utc.replace(tzinfo=datetime.UTC).astimezone().replace(tzinfo=None)

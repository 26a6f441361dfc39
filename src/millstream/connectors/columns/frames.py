"""What counts as a table - of pandas, polars, Arrow and whoever speaks Arrow - as Arrow's own."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from millstream.base.errors import ConfigurationError, TypeMismatchError
from millstream.types.arrow_typeinfo import plain_schema
from millstream.types.arrow_types import cast_plain, load_arrow

__all__ = ["arrow_table", "load_library", "pandas_table", "plain_table", "polars_table"]


def load_library(name: str, what: str) -> Any:
    """Return an optional library.

    Args:
        name: The library's; its extra has the same.
        what: Who needs it, for the message.

    Raises:
        ConfigurationError: If it is not installed.
    """
    try:
        return import_module(name)
    except ImportError as error:
        raise ConfigurationError(
            f"{what} needs the package {name}, which is not installed",
            hint=f'Install the extra: pip install "millstream[{name}]".',
        ) from error


def pandas_table(frame: Any) -> Any:
    """Return a pandas DataFrame as a table, without its index.

    NaN, NaT, NA and None are null: in most columns pandas has no other way to say that a value is missing.

    Raises:
        TypeMismatchError: If it is something else, or a column holds values of several types.
        ConfigurationError: If pandas or pyarrow is not installed.
    """
    pandas = load_library("pandas", "from_pandas")
    pa = load_arrow("frames of pandas")
    if not isinstance(frame, pandas.DataFrame):
        raise _mistaken("from_pandas", frame, "a pandas DataFrame")
    names = list(map(str, frame.columns))
    twice = next((name for place, name in enumerate(names) if name in names[:place]), None)
    if twice is not None:
        raise TypeMismatchError(
            f"the frame has two columns named {twice!r}", hint="Rename one: a record has one field of a name."
        )
    try:
        return pa.Table.from_pandas(frame, preserve_index=False).replace_schema_metadata()
    except (pa.ArrowException, ValueError, TypeError) as error:
        raise TypeMismatchError(
            f"the frame has a column that is of no one type: {error.args[-1]}",
            detail=str(error.args[0]),
            hint="Give the column a type with frame.astype(...), or leave it out.",
        ) from error


def polars_table(frame: Any) -> Any:
    """Return a polars DataFrame as a table.

    Raises:
        TypeMismatchError: If it is something else, or a column holds Python objects.
        ConfigurationError: If polars or pyarrow is not installed.
    """
    polars = load_library("polars", "from_polars")
    load_arrow("frames of polars")
    if not isinstance(frame, polars.DataFrame):
        hint = "Call collect() on it first." if isinstance(frame, polars.LazyFrame) else None
        raise _mistaken("from_polars", frame, "a polars DataFrame", hint)
    objects = [name for name, kind in frame.schema.items() if kind == polars.Object]
    if objects:
        raise TypeMismatchError(
            f"column {objects[0]!r} of the frame holds Python objects, which Arrow has no type for",
            hint="Cast the column, or leave it out.",
        )
    return frame.to_arrow()


def arrow_table(source: Any) -> Any:
    """Return a Table, RecordBatch, RecordBatchReader, or what exports an Arrow stream, as a table.

    Raises:
        TypeMismatchError: If it is something else.
        ConfigurationError: If pyarrow is not installed.
    """
    pa = load_arrow("Arrow tables")
    if isinstance(source, pa.Table):
        return source
    if isinstance(source, pa.RecordBatch):
        return pa.Table.from_batches([source])
    if isinstance(source, pa.RecordBatchReader):
        return source.read_all()
    if type(source).__module__.startswith("pyspark."):  # it would collect
        raise _mistaken("from_arrow", source, "an Arrow table", "Use from_spark(df).")
    if hasattr(source, "__arrow_c_stream__"):
        return pa.RecordBatchReader.from_stream(source).read_all()
    raise _mistaken("from_arrow", source, "a Table, a RecordBatch, a RecordBatchReader or an Arrow stream")


def plain_table(table: Any) -> Any:
    """Return a table cast to the types whose values records have.

    Raises:
        ConfigurationError: If no type of records stands for a column's type.
        TypeMismatchError: If a value is outside of what Python has.
    """
    pa = load_arrow("tables")
    schema = plain_schema(table.schema)
    columns = []
    for column, field in zip(table.columns, schema, strict=True):
        try:
            columns.append(cast_plain(column, field.type))
        except pa.ArrowException as error:
            raise TypeMismatchError(
                f"column {field.name!r} of type {column.type} cannot be read as {field.type}",
                detail=str(error),
            ) from error
    return pa.table(columns, schema=schema)


def _mistaken(method: str, given: object, wanted: str, hint: str | None = None) -> TypeMismatchError:
    kind = type(given)
    return TypeMismatchError(
        f"{method} was given a {kind.__module__.partition('.')[0]} {kind.__name__}, not {wanted}", hint=hint
    )

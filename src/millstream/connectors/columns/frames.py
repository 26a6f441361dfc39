"""What counts as a table - of pandas, polars, Arrow and whoever speaks Arrow - as Arrow's own."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from millstream.base.errors import ConfigurationError, TypeMismatchError
from millstream.operators.columnar.forms import check_names
from millstream.types.arrow_typeinfo import plain_schema
from millstream.types.arrow_types import cast_plain, load_arrow

__all__ = ["arrow_table", "check_columns", "load_library", "pandas_table", "plain_table", "polars_table"]


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
    check_names("the frame", list(map(str, frame.columns)))
    check_columns(len(frame), len(frame.columns))
    _check_periods(pandas, frame)
    try:
        return pa.Table.from_pandas(frame, preserve_index=False).replace_schema_metadata()
    except (pa.ArrowException, ValueError, TypeError) as error:
        raise TypeMismatchError(
            f"the frame has a column that Arrow has no one type for: {error.args[-1]}",
            detail=f"{error.args[0]}." if len(error.args) > 1 else None,
            hint="Give the column a type with frame.astype(...), or leave it out.",
        ) from error


def polars_table(frame: Any) -> Any:
    """Return a polars DataFrame as a table.

    Raises:
        TypeMismatchError: If it is something else, or a column holds Python objects.
        ConfigurationError: If polars or pyarrow is not installed.
    """
    polars = load_library("polars", "from_polars")
    pa = load_arrow("frames of polars")
    if not isinstance(frame, polars.DataFrame):
        hint = "Call collect() on it first." if isinstance(frame, polars.LazyFrame) else None
        raise _mistaken("from_polars", frame, "a polars DataFrame", hint)
    objects = [name for name, kind in frame.schema.items() if kind == polars.Object]
    if objects:
        raise TypeMismatchError(
            f"column {objects[0]!r} of the frame holds Python objects, which Arrow has no type for",
            hint="Cast the column, or leave it out.",
        )
    try:
        return frame.to_arrow()
    except pa.ArrowException as error:
        raise TypeMismatchError(
            f"the frame has a column that Arrow has no type for: {error}",
            detail=f"Columns: {', '.join(f'{name} ({kind})' for name, kind in frame.schema.items())}.",
            hint="Cast the column, or leave it out.",
        ) from error


def check_columns(rows: int, columns: int) -> None:
    """Check that a table has columns, if it has rows.

    Raises:
        TypeMismatchError: If it has none.
    """
    if rows and not columns:
        raise TypeMismatchError(
            f"the table has {rows} rows and no column",
            hint="Give it one; the index of a pandas frame is none before reset_index().",
        )


def _check_periods(pandas: Any, frame: Any) -> None:
    """Refuse periods: Arrow would take their numbers, months since 1970, for the values."""
    for name, kind in frame.dtypes.items():
        if isinstance(kind, pandas.PeriodDtype):
            raise TypeMismatchError(
                f"column {name!r} of the frame is of type {kind}, which no type of records stands for",
                hint=f"Make timestamps of it: frame[{name!r}].dt.to_timestamp().",
            )


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
    library = kind.__module__.partition(".")[0]
    what = f"a {kind.__name__}" if library == "builtins" else f"a {library} {kind.__name__}"
    return TypeMismatchError(f"{method} was given {what}, not {wanted}", hint=hint)

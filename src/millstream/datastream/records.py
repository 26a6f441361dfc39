"""What is taken for a collection of records, and what to call on that which is not."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from millstream.base.errors import TypeMismatchError

__all__ = ["records_of"]

# Frames are iterable: pandas' by the names of its columns, Arrow's by its columns. They are known by their names, so
# that none of these packages has to be there.
_FRAMES = {
    ("pandas", "DataFrame"): ("a pandas DataFrame", "df.itertuples(index=False, name=None)", "tuples"),
    ("pyarrow", "Table"): ("an Arrow Table", "table.to_pylist()", "dicts"),
    ("pyarrow", "RecordBatch"): ("an Arrow RecordBatch", "batch.to_pylist()", "dicts"),
    ("pyarrow", "RecordBatchReader"): (
        "an Arrow RecordBatchReader",
        "reader.read_all().to_pylist()",
        "dicts",
    ),
    ("pyarrow", "Array"): ("an Arrow Array", "array.to_pylist()", "values"),
    ("pyarrow", "ChunkedArray"): ("an Arrow ChunkedArray", "array.to_pylist()", "values"),
    ("pyspark", "DataFrame"): ("a Spark DataFrame", "[tuple(row) for row in df.collect()]", "tuples"),
    ("pyspark", "RDD"): ("a Spark RDD", "rdd.collect()", "values"),
    ("polars", "DataFrame"): ("a polars DataFrame", "df.rows()", "tuples"),
    ("polars", "LazyFrame"): ("a polars LazyFrame", "df.collect().rows()", "tuples"),
    ("duckdb", "DuckDBPyRelation"): ("a DuckDB relation", "relation.fetchall()", "tuples"),
}
_METHODS = {
    _FRAMES["pandas", "DataFrame"]: "Use from_pandas(df), which makes Rows of it. ",
    _FRAMES["pyarrow", "Table"]: "Use from_arrow(table), which makes Rows of it. ",
    _FRAMES["pyarrow", "RecordBatch"]: "Use from_arrow(batch), which makes Rows of it. ",
    _FRAMES["pyarrow", "RecordBatchReader"]: "Use from_arrow(reader), which makes Rows of it. ",
    _FRAMES["pyspark", "DataFrame"]: "Use from_spark(df), which makes Rows of it. ",
    _FRAMES["polars", "DataFrame"]: "Use from_polars(df), which makes Rows of it. ",
    _FRAMES["duckdb", "DuckDBPyRelation"]: "Use from_arrow(relation), which makes Rows of it. ",
}
_HINTS: dict[type, str] = {
    str: "Give it a list, [text] for one record, or list(text) for its characters.",
    bytes: "Give it a list: [data] for one record.",
    bytearray: "Give it a list: [data] for one record.",
    memoryview: "Give it a list: [data] for one record.",
    dict: "Give it a list: list(d.items()) for its entries, [d] for one record, list(d) for its keys.",
}


def records_of(collection: Iterable[Any]) -> list[Any]:
    """Return the records of a list, a generator or any other iterable of records.

    Raises:
        TypeMismatchError: If it is none: a single value, or a frame, which is iterated by columns; names the call that
            gives records.
    """
    for base in type(collection).__mro__:
        frame = _FRAMES.get((base.__module__.partition(".")[0], base.__name__))
        if frame is not None:
            what, call, records = frame
            raise TypeMismatchError(
                f"from_collection was given {what}, not a collection of records",
                hint=f"{_METHODS.get(frame, '')}Give it records: from_collection({call}) makes {records} of it.",
            )
        if base in _HINTS:
            raise _no_records(collection, _HINTS[base])
    if not isinstance(collection, Iterable):
        try:
            return list(collection)  # by __getitem__
        except TypeError as error:
            raise _no_records(collection, "Give it a list of records.") from error
    return list(collection)


def _no_records(given: object, hint: str) -> TypeMismatchError:
    return TypeMismatchError(f"from_collection was given a {type(given).__name__}", hint=hint)

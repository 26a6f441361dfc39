"""Records as Arrow's batches, and batches as bytes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import accumulate
from operator import itemgetter
from typing import Any

from millstream.base.errors import TypeMismatchError, shorten
from millstream.types.arrow_types import load_arrow
from millstream.types.arrow_values import bare_schema, is_bare
from millstream.types.row import Row, RowKind, unpack_rows

__all__ = [
    "batch_of",
    "concat_batches",
    "dump_batch",
    "int64_array",
    "int8_array",
    "kinds_of",
    "load_batch",
    "named_array",
    "offsets_of",
]


def int64_array(numbers: Any) -> Any:
    """Return numbers, a sequence or an array of numpy's, as an int64 array."""
    pa = load_arrow("columns")
    return pa.array(numbers, pa.int64())


def int8_array(numbers: Any) -> Any:
    """Return numbers, a sequence or an array of numpy's, as an int8 array: kinds of rows."""
    pa = load_arrow("columns")
    return pa.array(numbers, pa.int8())


def batch_of(records: Sequence[Any], schema: Any | None = None) -> Any:
    """Return records as a `pyarrow.RecordBatch`, the reverse of `records_of`.

    Rows in them become structs, dicts maps, lists and tuples lists.

    Args:
        records: Rows, named tuples or dicts of the same names, tuples or lists, or bare values.
        schema: Names and types; None takes the records' names (tuples and rows without any have f0, f1, ...) and what
            types their values have.

    Raises:
        ConfigurationError: If pyarrow is not installed.
        TypeMismatchError: If records do not fit the schema or each other; names the column.
    """
    pa = load_arrow("columns")
    if schema is None and not records:
        return pa.record_batch([], schema=pa.schema([]))
    if is_bare(schema) if schema is not None else not isinstance(records[0], (Row, Mapping, tuple, list)):
        kind = None if schema is None else schema.field(0).type
        array = named_array("value" if schema is None else schema.names[0], list(records), kind)
        return pa.record_batch([array], schema=schema or bare_schema("value", array.type))
    names = _names(records[0]) if schema is None else tuple(schema.names)
    rows = _tuples(records, names)
    arrays = [
        named_array(
            name, list(map(itemgetter(place), rows)), None if schema is None else schema.field(place).type
        )
        for place, name in enumerate(names)
    ]
    return pa.record_batch(arrays, schema=schema) if schema is not None else pa.record_batch(arrays, names)


def kinds_of(records: Sequence[Any]) -> Any:
    """Return the kinds of rows as an int8 array; None if there are no rows but inserted ones."""
    packed = unpack_rows(records)
    if packed is not None and packed[2] is RowKind.INSERT:
        return None
    if not any(type(each) is Row and each.get_row_kind() is not RowKind.INSERT for each in records):
        return None
    pa = load_arrow("columns")
    return pa.array([each.get_row_kind().value if type(each) is Row else 0 for each in records], pa.int8())


def dump_batch(data: Any, extra: Sequence[Any] = ()) -> Any:
    """Return a batch as Arrow's stream format has it, in a `pyarrow.Buffer`.

    Args:
        data: A `pyarrow.RecordBatch`.
        extra: Arrays as long as the batch, which come with it.
    """
    import pyarrow as pa  # optional: whoever has a batch has it

    if extra:
        schema = data.schema
        for array in extra:
            schema = schema.append(pa.field("", array.type))
        data = pa.record_batch([*data.columns, *extra], schema=schema)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, data.schema) as writer:
        writer.write_batch(data)
    return sink.getvalue()


def load_batch(dumped: Any, extra: int = 0) -> tuple[Any, list[Any]]:
    """Return a batch and the arrays that came with it, of what `dump_batch` gave.

    Args:
        dumped: The bytes, or a buffer of them; the batch refers to it.
        extra: How many arrays came with it.
    """
    import pyarrow as pa  # optional: whoever has been sent a batch has it

    with pa.ipc.open_stream(pa.py_buffer(dumped)) as reader:
        whole = reader.read_next_batch()
    if not extra:
        return whole, []
    columns, schema = whole.columns, whole.schema
    for _ in range(extra):
        schema = schema.remove(len(schema) - 1)
    return pa.record_batch(columns[:-extra], schema=schema), columns[-extra:]


def concat_batches(batches: Sequence[Any], extra: Sequence[Sequence[Any] | None]) -> list[Any]:
    """Return batches with the same schema as one, and behind it each of the lists of arrays as one, None as None."""
    import pyarrow as pa  # optional: whoever has a batch has it

    if not batches[0].num_columns:
        return [batches[0], *(None if arrays is None else pa.concat_arrays(arrays) for arrays in extra)]
    table = pa.Table.from_batches(batches).combine_chunks()
    whole = table.to_batches()
    assert len(whole) == 1
    return [whole[0], *(None if arrays is None else pa.concat_arrays(arrays) for arrays in extra)]


def _names(record: Any) -> tuple[str, ...]:
    if type(record) is Row:
        fields = record._fields
        if fields is not None:
            return tuple(fields)
    elif isinstance(record, Mapping):
        return tuple(map(str, record))
    named = getattr(record, "_fields", None)
    if isinstance(named, tuple) and type(record) is not Row:
        return named
    return tuple(f"f{place}" for place in range(len(record)))


def _tuples(records: Sequence[Any], names: tuple[str, ...]) -> Sequence[Sequence[Any]]:
    """Return the values of each record in the order of names; at once where all records are alike."""
    packed = unpack_rows(records)
    if packed is not None and (packed[0] is None or packed[0] == names):
        alike: Sequence[Sequence[Any]] = packed[1]
    elif set(map(type, records)) == {tuple}:
        alike = records
    else:
        return [_fields(record, names) for record in records]
    if set(map(len, alike)) == {len(names)}:
        return alike
    return [_fields(record, names) for record in records]


def _fields(record: Any, names: tuple[str, ...]) -> Sequence[Any]:
    """Return the values of a record in the order of names."""
    if type(record) is Row:
        fields = record._fields
        if fields is None or fields == names:
            values: Sequence[Any] = record._values
        elif set(fields) == set(names):
            values = [record[name] for name in names]
        else:
            values = ()
    elif isinstance(record, Mapping):
        values = [record[name] for name in names] if record.keys() == set(names) else ()
    elif isinstance(record, (tuple, list)):
        values = record
    else:
        values = ()
    if len(values) != len(names):
        raise TypeMismatchError(
            f"a record has not the columns of its batch: {shorten(record)}",
            detail=f"Columns: {', '.join(names)}.",
            hint="Columns hold records of the same fields: map the records before.",
        )
    return values


def named_array(name: str, values: list[Any], kind: Any = None) -> Any:
    """Return the values of a column as an array: Rows as structs, dicts as maps.

    Args:
        name: The column's, for messages.
        values: The values.
        kind: Their Arrow type; None takes the one that they have.

    Raises:
        TypeMismatchError: If they are not of one type, or of another.
    """
    import pyarrow as pa  # optional: whoever makes columns has asked for it

    try:
        return _array(values, kind)
    except (pa.ArrowException, AttributeError, OverflowError, TypeError, ValueError) as error:
        known = "" if kind is None else f" of type {kind}"
        raise TypeMismatchError(
            f"the values of column {name!r} make no column{known}: {shorten(values[:3])}", detail=str(error)
        ) from error


def _array(values: list[Any], kind: Any) -> Any:
    """Return values as an array of a type, or of the type that they have."""
    import pyarrow as pa  # optional: whoever makes columns has asked for it

    first = next((value for value in values if value is not None), None)
    if isinstance(first, Row) and (kind is None or pa.types.is_struct(kind)):
        return _structs(values, first, kind)
    if isinstance(first, Mapping) and (kind is None or pa.types.is_map(kind)):
        return _maps(values, kind)
    if isinstance(first, (list, tuple)) and (kind is None or pa.types.is_list(kind)):
        element = None if kind is None else kind.value_type
        flat = [each for value in values if value is not None for each in value]
        if element is None or pa.types.is_nested(element):
            inner = _array(flat, element)
            return pa.ListArray.from_arrays(offsets_of(values), inner, type=kind or pa.list_(inner.type))
    return pa.array(values, kind)


def _structs(rows: list[Any], first: Row, kind: Any) -> Any:
    import pyarrow as pa  # optional: whoever makes columns has asked for it

    names = _names(first) if kind is None else tuple(field.name for field in kind)
    nothing = (None,) * len(names)
    parts = [nothing if row is None else _fields(row, names) for row in rows]
    arrays = [
        _array([part[place] for part in parts], None if kind is None else kind.field(place).type)
        for place in range(len(names))
    ]
    fields = (
        [pa.field(name, array.type) for name, array in zip(names, arrays, strict=True)]
        if kind is None
        else list(kind)
    )
    missing = pa.array([row is None for row in rows], pa.bool_())
    return pa.StructArray.from_arrays(arrays, fields=fields, mask=missing)


def _maps(dicts: list[Any], kind: Any) -> Any:
    import pyarrow as pa  # optional: whoever makes columns has asked for it

    keys = _array([key for each in dicts if each for key in each], None if kind is None else kind.key_type)
    if pa.types.is_null(keys.type):  # none of them has one: maps without a type of keys there are not
        keys = keys.cast(pa.string())
    items = _array(
        [item for each in dicts if each for item in each.values()], None if kind is None else kind.item_type
    )
    return pa.MapArray.from_arrays(
        offsets_of(dicts), keys, items, type=kind or pa.map_(keys.type, items.type)
    )


def offsets_of(parts: list[Any]) -> Any:
    """Return where each part begins in all of them, None for one that is None, and where the last one ends."""
    import pyarrow as pa  # optional: whoever makes columns has asked for it

    ends = list(accumulate((0 if part is None else len(part) for part in parts), initial=0))
    begins = [None if part is None else end for part, end in zip(parts, ends[:-1], strict=True)]
    return pa.array([*begins, ends[-1]], pa.int32())

from __future__ import annotations

from decimal import Decimal

import pyarrow as pa
import pytest

from millstream.base.errors import TypeMismatchError
from millstream.formats.record_columns import RecordColumns, named
from millstream.types.arrow_values import bare_schema, records_of
from millstream.types.row import Row
from millstream.types.typeinfo import Types

PERSON = Types.ROW_NAMED(["name", "age"], [Types.STRING(), Types.INT()])


def test_rows_have_the_columns_of_their_type_in_its_order():
    columns = RecordColumns(PERSON)
    assert columns.schema == pa.schema([("name", pa.string()), ("age", pa.int32())])
    batch = columns.batch([Row(age=1, name="a"), Row("b", None), ("c", 3), {"age": 4, "name": "d"}])
    assert batch.to_pydict() == {"name": ["a", "b", "c", "d"], "age": [1, None, 3, 4]}
    assert batch.schema == columns.schema == columns.batch([]).schema


def test_tuples_have_numbered_columns_and_other_values_one():
    assert RecordColumns(Types.TUPLE([Types.LONG(), Types.BOOLEAN()])).batch([(1, True)]).to_pydict() == {
        "f0": [1],
        "f1": [True],
    }
    assert RecordColumns(Types.ROW([Types.LONG()])).batch([Row(1)]).to_pydict() == {"f0": [1]}
    assert RecordColumns(Types.LIST(Types.LONG())).batch([[1], []]).to_pydict() == {"value": [[1], []]}


@pytest.mark.parametrize("type_info", [None, Types.PICKLED_BYTE_ARRAY()])
def test_what_is_not_declared_is_as_the_first_records_are(type_info):
    columns = RecordColumns(type_info)
    assert columns.schema is None
    assert columns.batch([]).to_pydict() == {"value": []}
    assert columns.schema is None
    assert columns.batch([(1, "a"), (2, None)]).schema == pa.schema([("f0", pa.int64()), ("f1", pa.string())])
    with pytest.raises(
        TypeMismatchError, match="column 'f0': values of type str do not fit Arrow type int64"
    ):
        columns.batch([("x", "y")])
    with pytest.raises(TypeMismatchError, match="has 1 fields"):
        columns.batch([(1,)])


@pytest.mark.parametrize(
    ("records", "expected"),
    [
        ([Row(a=1, b=2), Row(a=3, b=None)], {"a": [1, 3], "b": [2, None]}),
        ([Row(1), Row(2)], {"f0": [1, 2]}),
        ([1, None], {"value": [1, None]}),
        ([{"a": 1}, {"b": 2}], {"value": [{"a": 1, "b": None}, {"a": None, "b": 2}]}),
        ([(1,), (1, 2)], {"value": [{"f0": 1, "f1": None}, {"f0": 1, "f1": 2}]}),
        ([Row(a=1), None], {"value": [{"a": 1}, None]}),
    ],
)
def test_columns_of_undeclared_records(records, expected):
    assert RecordColumns(None).batch(records).to_pydict() == expected


def test_a_field_that_is_not_declared_is_as_the_first_records_have_it():
    columns = RecordColumns(Types.ROW_NAMED(["a", "b"], [Types.INT(), Types.PICKLED_BYTE_ARRAY()]))
    assert columns.schema is None
    assert columns.batch([Row(1, [1.5])]).schema == pa.schema(
        [("a", pa.int32()), ("b", pa.list_(pa.float64()))]
    )


def test_what_is_columns_already_is_cast_and_gives_what_its_rows_would():
    kind = Types.ROW_NAMED(["d", "n", "at"], [Types.BIG_DEC(), Types.BIG_INT(), Types.INSTANT()])
    data = pa.record_batch(
        {
            "d": pa.array([Decimal("1.50"), None], pa.decimal128(10, 2)),
            "n": pa.array([2**64 - 1, 0], pa.uint64()),
            "at": pa.array([1, None], pa.int64()).view(pa.timestamp("ms", "Asia/Tokyo")),
        }
    )
    columns = RecordColumns(kind)
    assert columns.stored(data).equals(columns.batch(records_of(data)))
    finer = pa.record_batch({"d": pa.array([Decimal("0." + "5" * 20)], pa.decimal128(38, 20))})
    (rounded,) = RecordColumns(Types.ROW_NAMED(["d"], [Types.BIG_DEC()])).stored(finer)["d"].to_pylist()
    assert rounded == Decimal("0." + "5" * 17 + "6")
    turned = RecordColumns(Types.ROW_NAMED(["at", "n", "d"], [*reversed(kind.get_field_types())])).stored(
        data
    )
    assert turned.to_pylist() == [
        {name: record[name] for name in ("at", "n", "d")} for record in columns.stored(data).to_pylist()
    ]
    with pytest.raises(TypeMismatchError, match="column 'd'"):
        RecordColumns(Types.ROW_NAMED(["d"], [Types.INT()])).stored(pa.record_batch({"d": ["x"]}))


def test_bare_values_have_one_name_wherever_they_come_from():
    lines = pa.record_batch([pa.array(["a"])], schema=bare_schema("line", pa.string()))
    assert (
        named(lines).to_pydict()
        == RecordColumns(Types.STRING()).stored(lines).to_pydict()
        == {"value": ["a"]}
    )
    assert named(lines).schema.metadata is None


def test_rows_without_fields_are_counted():
    assert RecordColumns(Types.ROW([])).batch([Row.of((), ())] * 3).num_rows == 3


def test_values_of_two_types_are_named_with_their_column():
    with pytest.raises(TypeMismatchError) as error:
        RecordColumns(None).batch([Row(a=1), Row(a="x")])
    assert "column 'a': values of type int and str do not fit one Arrow type: (1, 'x')" in str(error.value)
    assert "Declare the type" in str(error.value)

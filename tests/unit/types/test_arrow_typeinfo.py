"""Types of records and Arrow's: what pyarrow makes of values, and what values become of what pyarrow has."""

from __future__ import annotations

import datetime
from decimal import Decimal

import pyarrow as pa
import pytest

from millstream.base.errors import ConfigurationError, TypeMismatchError
from millstream.base.time import Instant
from millstream.types.arrow_typeinfo import arrow_form, plain_schema, plain_value, row_type_of
from millstream.types.arrow_values import values_of
from millstream.types.row import Row
from millstream.types.typeinfo import ExternalTypeInfo, LocalTimeTypeInfo, Types

DAY = datetime.date(1900, 2, 28)
TIME = datetime.time(23, 59, 59, 999_999)
MOMENT = datetime.datetime(1969, 12, 31, 23, 59, 59, 1)
POINT = Types.ROW_NAMED(["x", "at"], [Types.INT(), Types.INSTANT()])

VALUES = [
    (Types.STRING(), pa.string(), ["", "é", None]),
    (Types.CHAR(), pa.string(), ["x"]),
    (Types.BYTE(), pa.int8(), [-128, 127, None]),
    (Types.SHORT(), pa.int16(), [-(2**15), 2**15 - 1]),
    (Types.INT(), pa.int32(), [-(2**31), 2**31 - 1]),
    (Types.LONG(), pa.int64(), [-(2**63), 2**63 - 1]),
    (Types.BIG_INT(), pa.decimal128(38, 0), [10**37, -1, None]),
    (Types.FLOAT(), pa.float32(), [0.5, float("inf"), None]),
    (Types.DOUBLE(), pa.float64(), [0.1, -0.0]),
    (Types.BOOLEAN(), pa.bool_(), [True, False, None]),
    (Types.BIG_DEC(), pa.decimal128(38, 18), [Decimal("1.50"), Decimal(10**19), None]),
    (Types.SQL_DATE(), pa.date32(), [DAY, None, datetime.date.max]),
    (LocalTimeTypeInfo(LocalTimeTypeInfo.TimeType.LOCAL_DATE), pa.date32(), [DAY]),
    (Types.SQL_TIME(), pa.time64("us"), [TIME, None]),
    (LocalTimeTypeInfo(LocalTimeTypeInfo.TimeType.LOCAL_TIME), pa.time64("us"), [TIME]),
    (Types.SQL_TIMESTAMP(), pa.timestamp("us"), [MOMENT, None]),
    (LocalTimeTypeInfo(LocalTimeTypeInfo.TimeType.LOCAL_DATE_TIME), pa.timestamp("us"), [MOMENT]),
    (Types.INSTANT(), pa.timestamp("us", "UTC"), [Instant(-1, 999_999_000), Instant(2**33, 0), None]),
    (Types.PRIMITIVE_ARRAY(Types.BYTE()), pa.binary(), [b"\x00\xff", b"", None]),
    (Types.PRIMITIVE_ARRAY(Types.INT()), pa.list_(pa.int32()), [[1, 2], [], None]),
    (Types.LIST(Types.INSTANT()), pa.list_(pa.timestamp("us", "UTC")), [[Instant(0, 1000)], []]),
    (Types.OBJECT_ARRAY(POINT), None, [[Row(x=1, at=None), None], None]),
    (Types.MAP(Types.STRING(), POINT), None, [{"a": Row(x=1, at=Instant(1, 0)), "b": None}, {}, None]),
    (POINT, None, [Row(x=None, at=Instant(5, 6000)), None]),
    (ExternalTypeInfo(Types.INT()), pa.int32(), [1]),
]


@pytest.mark.parametrize(("type_info", "kind", "values"), VALUES, ids=lambda each: str(each)[:30])
def test_values_come_back_as_they_were(type_info, kind, values):
    form = arrow_form(type_info)
    assert kind is None or form.kind == kind
    array = pa.array([form.encoded(value) for value in values], form.kind)
    assert values_of(array) == values


def test_tuples_and_rows_without_names_are_structs_of_numbered_fields():
    for type_info in (Types.TUPLE([Types.INT(), Types.STRING()]), Types.ROW([Types.INT(), Types.STRING()])):
        form = arrow_form(type_info)
        assert form.kind == pa.struct([("f0", pa.int32()), ("f1", pa.string())])
        assert pa.array([form.encode((1, "a"))], form.kind).to_pylist() == [{"f0": 1, "f1": "a"}]


def test_what_is_not_declared_has_no_type_nor_has_what_holds_it():
    anything = Types.PICKLED_BYTE_ARRAY()
    for type_info in (None, anything, Types.LIST(anything), Types.MAP(Types.STRING(), anything)):
        assert arrow_form(type_info).kind is None
    assert arrow_form(Types.ROW([Types.INT(), anything])).kind is None


def test_numbers_between_decimals_are_rounded_and_too_large_ones_refused():
    encode = arrow_form(Types.BIG_DEC()).encode
    assert encode(Decimal("0.1234567890123456785")) == Decimal("0.123456789012345679")
    with pytest.raises(TypeMismatchError):
        encode(Decimal(10**20))


def test_bytes_may_be_numbers():
    encode = arrow_form(Types.PRIMITIVE_ARRAY(Types.BYTE())).encode
    assert encode([1, -1]) == b"\x01\xff"


def test_undeclared_values_become_what_arrow_knows():
    value = Row(a=(1, [Row(2)]), b={"k": Instant(1, 2_000)})
    (made,) = pa.array([plain_value(value)]).to_pylist()
    moment = datetime.datetime(1970, 1, 1, 0, 0, 1, 2, tzinfo=datetime.UTC)
    assert made == {"a": {"f0": 1, "f1": [{"f0": 2}]}, "b": {"k": moment}}


READ = [
    (pa.int16(), Types.SHORT(), [1, None]),
    (pa.uint8(), Types.SHORT(), [255, None]),
    (pa.uint16(), Types.INT(), [2**16 - 1]),
    (pa.uint32(), Types.LONG(), [2**32 - 1]),
    (pa.uint64(), Types.BIG_INT(), [2**64 - 1]),
    (pa.float32(), Types.FLOAT(), [0.5]),
    (pa.large_string(), Types.STRING(), ["a", None]),
    (pa.string_view(), Types.STRING(), ["a", None]),
    (pa.dictionary(pa.int8(), pa.string()), Types.STRING(), ["a", None, "a"]),
    (pa.large_binary(), Types.PRIMITIVE_ARRAY(Types.BYTE()), [b"a", None]),
    (pa.binary(2), Types.PRIMITIVE_ARRAY(Types.BYTE()), [b"ab", None]),
    (pa.date64(), Types.SQL_DATE(), [DAY]),
    (pa.time32("ms"), Types.SQL_TIME(), [datetime.time(1, 2, 3, 4000)]),
    (pa.time64("ns"), Types.SQL_TIME(), [TIME]),
    (pa.timestamp("s"), Types.SQL_TIMESTAMP(), [datetime.datetime(1960, 1, 1)]),
    (pa.timestamp("ns"), Types.SQL_TIMESTAMP(), [MOMENT, None]),
    (pa.decimal256(50, 2), Types.BIG_DEC(), [Decimal("1.50")]),
    (pa.duration("ns"), Types.PICKLED_BYTE_ARRAY(), [datetime.timedelta(days=1), None]),
    (pa.null(), Types.PICKLED_BYTE_ARRAY(), [None]),
    (pa.large_list(pa.timestamp("ns")), Types.OBJECT_ARRAY(Types.SQL_TIMESTAMP()), [[MOMENT, None], None]),
    (pa.list_(pa.int8(), 2), Types.OBJECT_ARRAY(Types.BYTE()), [[1, None], None]),
    (pa.list_(pa.dictionary(pa.int8(), pa.string())), Types.OBJECT_ARRAY(Types.STRING()), [["a"], []]),
]


@pytest.mark.parametrize(("kind", "type_info", "values"), READ, ids=lambda each: str(each)[:30])
def test_columns_have_the_values_of_the_type_that_stands_for_them(kind, type_info, values):
    table = pa.table([pa.array(values, kind)], ["v"])
    schema = plain_schema(table.schema)
    read = row_type_of(schema)
    assert read == row_type_of(plain_schema(schema)) == Types.ROW_NAMED(["v"], [type_info])
    made = values_of(table["v"].chunk(0).cast(schema.field("v").type, safe=False))
    assert made == values
    assert type_info.find_mismatch(made, nullable=True) is None  # what is declared is what they are


def test_zoned_timestamps_are_instants_and_nested_names_are_kept():
    kind = pa.struct(
        [("at", pa.timestamp("ms", "Asia/Tokyo")), ("m", pa.map_(pa.large_string(), pa.uint8()))]
    )
    read = row_type_of(pa.schema([("s", kind)]))
    nested = Types.ROW_NAMED(["at", "m"], [Types.INSTANT(), Types.MAP(Types.STRING(), Types.SHORT())])
    assert read == Types.ROW_NAMED(["s"], [nested])


@pytest.mark.parametrize(
    "kind", [pa.month_day_nano_interval(), pa.sparse_union([pa.field("a", pa.int8())])], ids=str
)
def test_types_that_no_type_stands_for_are_named_with_their_place(kind):
    with pytest.raises(ConfigurationError, match=r"column 's\.x\.element' has the Arrow type"):
        plain_schema(pa.schema([("s", pa.struct([("x", pa.list_(kind))]))]))

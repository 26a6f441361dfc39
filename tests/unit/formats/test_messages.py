from __future__ import annotations

import csv
import datetime
import decimal
import io
import json
import pickle

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from millstream.base.errors import (
    ConfigurationError,
    MalformedRecordError,
    NotSupportedError,
    TypeMismatchError,
)
from millstream.common import (
    CsvRowDeserializationSchema,
    CsvRowSerializationSchema,
    Instant,
    JsonRowDeserializationSchema,
    JsonRowSerializationSchema,
    Row,
    Types,
)
from millstream.formats.json import messages as json_messages
from millstream.types.arrow_values import records_of

NESTED = Types.ROW_NAMED(
    ["id", "ok", "price", "when", "day", "tags", "by", "inner", "raw", "exact"],
    [
        Types.LONG(),
        Types.BOOLEAN(),
        Types.DOUBLE(),
        Types.SQL_TIMESTAMP(),
        Types.SQL_DATE(),
        Types.LIST(Types.STRING()),
        Types.MAP(Types.STRING(), Types.INT()),
        Types.ROW_NAMED(["x"], [Types.INT()]),
        Types.PRIMITIVE_ARRAY(Types.BYTE()),
        Types.INSTANT(),
    ],
)
VALUE = Row(
    id=1,
    ok=True,
    price=1.5,
    when=datetime.datetime(2024, 1, 31, 10, 0, 1),
    day=datetime.date(2024, 1, 31),
    tags=["a", "b"],
    by={"k": 7},
    inner=Row(x=3),
    raw=b"\x00\xff",
    exact=Instant(1_700_000_000, 5_000_000),
)


def reader(kind, **calls):
    builder = JsonRowDeserializationSchema.builder().type_info(kind)
    for call in calls:
        getattr(builder, call)()
    return builder.build()


def writer(kind):
    return JsonRowSerializationSchema.builder().with_type_info(kind).build()


def test_row_of_every_type_survives_json():
    message = writer(NESTED).serialize(VALUE)
    assert json.loads(message) == {
        "id": 1,
        "ok": True,
        "price": 1.5,
        "when": "2024-01-31T10:00:01Z",
        "day": "2024-01-31",
        "tags": ["a", "b"],
        "by": {"k": 7},
        "inner": {"x": 3},
        "raw": "AP8=",
        "exact": "2023-11-14T22:13:20.005000Z",
    }
    assert pickle.loads(pickle.dumps(reader(NESTED))).deserialize(message) == VALUE


def test_schemas_of_json_survive_pickling():
    assert pickle.loads(pickle.dumps(writer(NESTED))).serialize(VALUE) == writer(NESTED).serialize(VALUE)


KIND = Types.ROW_NAMED(["a", "b"], [Types.INT(), Types.STRING()])


@pytest.mark.parametrize(
    ("message", "row"),
    [
        (b'{"b": "x", "a": 1, "c": 2}', Row(a=1, b="x")),
        (b'{"a": null}', Row(a=None, b=None)),
        (b'{"a": "12", "b": 5}', Row(a=12, b="5")),
    ],
)
def test_fields_are_found_by_name_and_missing_ones_are_none(message, row):
    assert reader(KIND).deserialize(message) == row


@pytest.mark.parametrize("message", [b"{", b"[1]", b'{"a": "x"}', b'{"a": 1.5}', b'{"a": true}', b"\xff"])
def test_message_that_does_not_fit_fails_or_is_dropped(message):
    with pytest.raises(MalformedRecordError, match="does not fit"):
        reader(KIND).deserialize(message)
    assert reader(KIND, ignore_parse_errors=True).deserialize(message) is None


def test_missing_field_fails_if_asked_for():
    with pytest.raises(MalformedRecordError, match="'b' is missing"):
        reader(KIND, fail_on_missing_field=True).deserialize(b'{"a": 1}')
    with pytest.raises(ConfigurationError):
        reader(KIND, fail_on_missing_field=True, ignore_parse_errors=True)


def test_json_schema_gives_the_type():
    schema = {
        "type": "object",
        "properties": {
            "id": {"type": "integer"},
            "name": {"type": ["string", "null"]},
            "at": {"type": "string", "format": "date-time"},
            "list": {"type": "array", "items": {"type": "number"}},
        },
    }
    built = JsonRowDeserializationSchema.builder().json_schema(json.dumps(schema)).build()
    assert built.get_produced_type() == Types.ROW_NAMED(
        ["id", "name", "at", "list"],
        [Types.BIG_INT(), Types.STRING(), Types.SQL_TIMESTAMP(), Types.OBJECT_ARRAY(Types.BIG_DEC())],
    )
    assert built.deserialize(b'{"list": [1.25]}').list == [decimal.Decimal("1.25")]


@pytest.mark.parametrize(
    "schema", ["", "{", '{"type": "string"}', '{"type": "what"}', '{"type": ["string", "integer"]}']
)
def test_json_schema_that_is_not_understood_is_told(schema):
    with pytest.raises(ConfigurationError):
        JsonRowDeserializationSchema.builder().json_schema(schema)


def test_pickled_values_have_no_json_form():
    with pytest.raises(NotSupportedError, match="no JSON form"):
        writer(Types.PICKLED_BYTE_ARRAY())


def csv_reader(kind, **settings):
    builder = CsvRowDeserializationSchema.Builder(kind)
    for name, value in settings.items():
        getattr(builder, f"set_{name}")(value)
    return builder.build()


def csv_writer(kind, **settings):
    builder = CsvRowSerializationSchema.Builder(kind)
    for name, value in settings.items():
        getattr(builder, f"set_{name}")(value)
    return builder.build()


CSV = Types.ROW_NAMED(
    ["i", "s", "b", "l", "d"],
    [Types.INT(), Types.STRING(), Types.BOOLEAN(), Types.LIST(Types.INT()), Types.SQL_DATE()],
)
CSV_ROW = Row(i=1, s='a "b", c', b=False, l=[1, 2], d=datetime.date(2024, 1, 31))


@pytest.mark.parametrize(
    "settings",
    [{}, {"field_delimiter": "|"}, {"array_element_delimiter": ":"}, {"quote_character": "'"}],
)
def test_row_survives_csv_with_any_delimiters(settings):
    line = pickle.loads(pickle.dumps(csv_writer(CSV, **settings))).serialize(CSV_ROW)
    assert pickle.loads(pickle.dumps(csv_reader(CSV, **settings))).deserialize(line) == CSV_ROW


def test_csv_line_looks_as_flink_writes_it():
    assert csv_writer(CSV).serialize(CSV_ROW) == b'1,"a ""b"", c",false,1;2,2024-01-31\n'
    assert csv_writer(CSV, line_delimiter="").serialize(CSV_ROW)[-1:] == b"1"


def test_null_literal_stands_for_none_both_ways():
    row = Row(a=None, b=None)
    line = csv_writer(KIND, null_literal="n/a").serialize(row)
    assert line == b"n/a,n/a\n"
    assert csv_reader(KIND, null_literal="n/a").deserialize(line) == row


def test_empty_field_is_none_but_for_strings():
    assert csv_reader(KIND).deserialize(b",") == Row(a=None, b="")


@given(st.text(st.sampled_from("a,|\"'\\\r\né"), max_size=8))
def test_a_line_is_split_as_the_csv_module_splits_it(text):
    schema = csv_reader(KIND, field_delimiter="|", escape_character="\\")
    line = text.rstrip("\r\n")
    lines = io.StringIO(text, newline="") if "\n" in line else [line]
    reader = csv.reader(lines, delimiter="|", escapechar="\\", strict=True)
    try:
        expected = next(reader, [])
    except csv.Error:
        with pytest.raises(csv.Error):
            schema._split(text)
        return
    assert list(schema._split(text)) == expected


@pytest.mark.parametrize("line", [b"1", b"1,a,b", b"x,a", b'1,"a', b"\xff,a"])
def test_line_that_does_not_fit_fails_or_is_dropped(line):
    with pytest.raises(MalformedRecordError):
        csv_reader(KIND).deserialize(line)
    assert csv_reader(KIND, ignore_parse_errors=True).deserialize(line) is None


def test_comments_are_left_out_if_allowed():
    assert csv_reader(KIND, allow_comments=True).deserialize(b"#1,a") is None


def test_value_that_does_not_fit_is_not_written():
    with pytest.raises(TypeMismatchError):
        csv_writer(KIND).serialize(Row("x", "y"))


PLAIN = Types.ROW_NAMED(
    ["id", "name", "price", "ok", "day", "tags", "inner"],
    [
        Types.LONG(),
        Types.STRING(),
        Types.DOUBLE(),
        Types.BOOLEAN(),
        Types.SQL_DATE(),
        Types.LIST(Types.STRING()),
        Types.ROW_NAMED(["x", "y"], [Types.INT(), Types.FLOAT()]),
    ],
)
ORDINARY = {
    "id": 1,
    "name": "é",
    "price": 0.1,
    "ok": True,
    "day": "2024-01-31",
    "tags": ["a", None],
    "inner": {"x": 1, "y": 2.5},
}
ODD_VALUES = [None, 1, 1.5, "7", "x", True, [], {}, ["z"], {"x": 3}, {"y": "1"}, "2024-02-30", 1 << 40, 1e300]
ODD_MESSAGES = [
    b"{",
    b"[1]",
    b"\xff",
    b'{"id":\n2}',
    b'{"id":1}{"id":2}',
    b'\xef\xbb\xbf{"id":5}',
    b'{"id":Inf}',
]


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    changes=st.lists(
        st.dictionaries(
            st.sampled_from(sorted(ORDINARY)),
            st.sampled_from(ODD_VALUES),
            max_size=2,
        ),
        min_size=1,
        max_size=6,
    ),
    odd=st.none() | st.none() | st.sampled_from(ODD_MESSAGES),
    ignore=st.booleans(),
)
def test_many_messages_are_read_as_each_alone(monkeypatch, changes, odd, ignore):
    monkeypatch.setattr(json_messages, "SMALLEST_BLOCK_BYTES", 1)
    messages = [json.dumps(ORDINARY | change, ensure_ascii=False).encode() for change in changes]
    messages = [*messages, odd] if odd else messages
    calls = {"ignore_parse_errors": ()} if ignore else {}
    schema = reader(PLAIN, **calls)

    def outcome(read):
        try:
            return repr(read())
        except MalformedRecordError as error:
            return str(error)

    alone = outcome(lambda: [schema.deserialize(message) for message in messages])
    assert outcome(lambda: schema.deserialize_all(messages)) == alone
    columns = pickle.loads(pickle.dumps(schema)).columns_of(messages)
    assert columns is None or repr(records_of(columns)) == alone


def test_ordinary_messages_are_decoded_all_at_once():
    messages = [json.dumps(ORDINARY | {"id": n}).encode() for n in range(200)]
    columns = reader(PLAIN).columns_of(messages)
    assert [row.id for row in records_of(columns)] == list(range(200))
    assert reader(PLAIN).columns_of(messages[:3]) is None  # so few are sooner read one by one
    assert reader(PLAIN, fail_on_missing_field=()).columns_of(messages) is None
    assert reader(NESTED).columns_of(messages) is None

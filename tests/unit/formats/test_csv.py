from __future__ import annotations

import csv
import datetime
import io
from decimal import Decimal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from millstream.base.errors import (
    ConfigurationError,
    MalformedRecordError,
    NotSupportedError,
    TypeMismatchError,
)
from millstream.formats.csv.reader import CsvReaderFormat
from millstream.formats.csv.schema import CsvSchema
from millstream.formats.csv.writer import CsvBulkWriters
from millstream.table import DataTypes
from millstream.types.row import Row


def records(fmt, data, position=None):
    return fmt.open(io.BufferedReader(io.BytesIO(data)), "/data/x.csv", position)


def read_all(fmt, data):
    opened, rows = records(fmt, data), []
    while not opened.exhausted:
        rows += opened.read(1_000)
    return rows


def people(**settings_):
    builder = CsvSchema.builder().add_string_column("name").add_number_column("age", DataTypes.SMALLINT())
    for name, value in settings_.items():
        getattr(builder, f"set_{name}")(value)
    return CsvReaderFormat.for_schema(builder.build())


TEXT = st.text(st.sampled_from("ab,\"\n\r é'#"), max_size=6)


@settings(max_examples=60, deadline=None)
@given(
    table=st.lists(st.tuples(TEXT, TEXT, TEXT), max_size=12),
    pieces=st.lists(st.integers(1, 4), min_size=1, max_size=12),
    line_end=st.sampled_from(["\n", "\r\n"]),
    header=st.booleans(),
)
def test_reading_in_any_pieces_by_new_readers_equals_pythons_csv_module(table, pieces, line_end, header):
    text = io.StringIO(newline="")
    # A lone \r outside of quotes ends a row for Python's csv module only.
    quoting = csv.QUOTE_ALL if any("\r" in value for row in table for value in row) else csv.QUOTE_MINIMAL
    csv.writer(text, lineterminator=line_end, quoting=quoting).writerows([("a", "b", "c")] * header + table)
    data = text.getvalue().encode()
    expected = list(csv.reader(io.StringIO(text.getvalue(), newline="")))[header:]
    builder = CsvSchema.builder().add_string_column("a").add_string_column("b").add_string_column("c")
    fmt = CsvReaderFormat.for_schema(builder.set_use_header(header).build())
    assert [list(row) for row in read_all(fmt, data)] == expected
    rows, position = [], None
    for turn in range(100):
        opened = records(fmt, data, position)  # a new reader each time
        piece = opened.read(pieces[turn % len(pieces)])
        assert len(piece) <= pieces[turn % len(pieces)]
        rows += [list(row) for row in piece]
        position = opened.position
        if opened.exhausted:
            break
    assert rows == expected


def test_values_have_the_declared_types_and_rows_have_names():
    schema = (
        CsvSchema.builder()
        .add_string_column("s")
        .add_number_column("n")
        .add_number_column("d", DataTypes.DOUBLE())
        .add_number_column("m", DataTypes.DECIMAL(6, 2))
        .add_boolean_column("b")
        .add_array_column("l", "|", DataTypes.INT())
        .add_column("t", DataTypes.TIMESTAMP())
        .build()
    )
    (row, empty) = read_all(
        CsvReaderFormat.for_schema(schema), b"x,7,1.5,2.345,TRUE,1|2,2013-01-01 05:15:00\n,,,,,,\n"
    )
    at = datetime.datetime(2013, 1, 1, 5, 15)
    assert row == Row(s="x", n=7, d=1.5, m=Decimal("2.35"), b=True, l=[1, 2], t=at)
    assert empty == Row(s="", n=None, d=None, m=None, b=None, l=[], t=None)


def test_null_value_is_none_in_any_column():
    fmt = people(null_value="NA")
    assert read_all(fmt, b"NA,NA\nx,1\n") == [Row(name=None, age=None), Row(name="x", age=1)]


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"ann,1\nbob,two\n", r"line 2, column 2 \('age'\): 'two' is no SMALLINT"),
        (b"ann,1\nbob,99999\n", r"line 2, column 2 \('age'\): '99999' is no SMALLINT"),
        (b"ann,1\nbob,1_0\n", r"line 2, column 2 \('age'\): '1_0' is no SMALLINT"),
        (b"ann,1\n\nbob\n", "line 3: row has 1 values, the schema has 2 columns"),
        (b"ann,1\nbob,2,3\n", "line 2: row has 3 values"),
        (b'"a\nb",1\nbob,x\n', r"line 3, column 2 .*'x' is no SMALLINT"),
        (b'ann,1\n"bob,2\ncid,3\n', "line 2: CSV does not parse"),
        (b'ann,1\n"bob"y,2\n', r"line 2: CSV does not parse[^$]*Seen: '\"bob\"y,2'"),
        (b"ann,1\nb\xffb,2\n", "line 2, column 2: bytes are no UTF-8 text"),
    ],
)
def test_malformed_line_is_named_with_file_line_and_column(data, message):
    with pytest.raises(MalformedRecordError, match=r"file '/data/x.csv', " + message):
        read_all(people(), data)


def test_line_number_is_right_after_resuming_behind_quoted_newlines():
    data = b'"a\n\nb",1\nc,2\nd,x\n'
    first = records(people(), data)
    first.read(1)
    with pytest.raises(MalformedRecordError, match="line 5, column 2"):
        records(people(), data, first.position).read(10)


def test_rows_before_a_malformed_one_can_be_read_up_to_it():
    opened = records(people(), b"ann,1\nbob,two\n")
    assert opened.read(1) == [Row(name="ann", age=1)]
    with pytest.raises(MalformedRecordError, match="line 2"):
        opened.read(1)


def test_header_is_left_out_checked_or_used_to_find_columns():
    data = b"age,name\n1,ann\n"
    assert read_all(people(use_header=True), b"x,y\nann,1\n") == [Row(name="ann", age=1)]
    with pytest.raises(MalformedRecordError, match=r"line 1: header names the columns \['age', 'name'\]"):
        read_all(people(use_header=True, strict_headers=True), data)
    assert read_all(people(use_header=True, reorder_columns=True), data) == [Row(name="ann", age=1)]


def test_header_still_tells_the_order_after_resuming():
    fmt = people(use_header=True, reorder_columns=True)
    data = b"age,name\n1,ann\n2,bob\n"
    first = records(fmt, data)
    first.read(1)
    assert records(fmt, data, first.position).read(9) == [Row(name="bob", age=2)]


def test_columns_from_the_header_are_strings():
    assert read_all(CsvReaderFormat.for_header(";"), b"\xef\xbb\xbfa;b\n1;2\n") == [Row(a="1", b="2")]


def test_first_data_row_is_skipped_once():
    assert read_all(people(skip_first_data_row=True), b"what,ever\nann,1\n") == [Row(name="ann", age=1)]


def test_what_is_not_built_says_so():
    with pytest.raises(NotSupportedError, match="set_any_property_name"):
        CsvSchema.builder().set_any_property_name("rest")
    with pytest.raises(ConfigurationError, match="must be a single ASCII character"):
        CsvSchema.builder().set_column_separator("||")


def written(schema, *batches):
    file = io.BytesIO()
    writer = CsvBulkWriters.for_schema(schema).create(file)
    for batch in batches:
        writer.add_elements(batch)
    writer.finish()
    return file.getvalue()


def test_written_rows_are_read_back():
    builder = CsvSchema.builder().add_string_column("s").add_boolean_column("b").set_null_value("NULL")
    schema = (
        builder.add_array_column("l", ";", DataTypes.INT()).set_use_header().set_column_separator("|").build()
    )
    rows = [Row(s='a|"b"\nc', b=True, l=[1, 2]), Row(s=None, b=None, l=[])]
    data = written(schema, rows[:1], rows[1:])
    assert data.startswith(b'"s"|"b"|"l"\n"a|""b""\nc"|true|"1;2"\n')
    assert read_all(CsvReaderFormat.for_schema(schema), data) == rows


def test_value_of_another_type_is_not_written():
    schema = CsvSchema.builder().add_number_column("n").build()
    with pytest.raises(TypeMismatchError, match="column 'n': value 'x' of type str does not fit type BIGINT"):
        written(schema, [Row(n="x")])


@pytest.mark.parametrize("others", [0, 50])
@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (DataTypes.TINYINT(), 128),
        (DataTypes.TINYINT(), -129),
        (DataTypes.INT(), True),
        (DataTypes.BIGINT(), 1 << 63),
        (DataTypes.INT(nullable=False), None),
        (DataTypes.DOUBLE(), True),
        (DataTypes.DOUBLE(), "1"),
    ],
)
def test_one_value_among_many_that_does_not_fit_is_named(kind, value, others):
    schema = CsvSchema.builder().add_number_column("n", number_type=kind).build()
    with pytest.raises(TypeMismatchError, match=f"column 'n': value {value!r}"):
        written(schema, [(1,)] * others + [(value,)] + [(2,)] * others)


@pytest.mark.parametrize("more", [[], [None], [7]])
def test_numbers_and_texts_of_a_batch_are_written_as_each_alone(more):
    numbers = [0.0, -0.0, 1e7, 9999999.5, 1e-3, 9e-4, -1.5, -1e-9, float("nan"), float("-inf"), *more]
    texts = ["plain", "with blank", 'a "quote"', "", "x" * 24, "y" * 25, None, "line\nbreak"]
    builder = CsvSchema.builder().add_number_column("n", number_type=DataTypes.DOUBLE())
    schema = builder.add_string_column("s").build()
    rows = [(number, text) for text in texts for number in numbers]
    alone = b"".join(written(schema, [row]) for row in rows)
    assert written(schema, rows) == alone
    assert written(schema, [(number, "plain") for number in numbers]) == b"".join(
        written(schema, [(number, "plain")]) for number in numbers
    )
    assert written(schema, [(-1.5, "a"), (1e7, "b")]) == b"-1.5,a\n1.0E7,b\n"
    assert written(schema, []) == b""


def test_arrays_are_written_with_the_text_of_their_elements():
    builder = CsvSchema.builder().add_array_column("b", ":", DataTypes.BOOLEAN()).set_null_value("-")
    schema = builder.add_array_column("n", ":", DataTypes.DOUBLE()).build()
    data = written(schema, [Row(b=[True, False, None], n=[1.5, 2.0])])
    assert data == b"true:false:-,1.5:2.0\n"
    assert read_all(CsvReaderFormat.for_schema(schema), b"true:false,1.5\n") == [
        Row(b=[True, False], n=[1.5])
    ]


COMMENTED = b'# one\nann,1\n  # two\n"b\n#c",2\n#three\nd#,3\n# four\n'


@pytest.mark.parametrize("piece", [1, 2, 10])
@pytest.mark.parametrize("fresh", [True, False])
def test_comments_between_records_are_left_out(piece, fresh):
    fmt = people(allow_comments=True)
    opened, rows = records(fmt, COMMENTED), []
    while not opened.exhausted:
        rows += opened.read(piece)
        if fresh:
            opened = records(fmt, COMMENTED, opened.position)
    assert rows == [Row(name="ann", age=1), Row(name="b\n#c", age=2), Row(name="d#", age=3)]


def test_comments_count_as_lines_where_an_error_is_named():
    with pytest.raises(MalformedRecordError, match="line 4, column 2"):
        read_all(people(allow_comments=True), b"# one\nann,1\n#\nbob,x\n")


def test_without_leave_a_comment_is_a_row():
    fmt = CsvReaderFormat.for_schema(CsvSchema.builder().add_string_column("s").build())
    assert read_all(fmt, b"# one\n") == [Row(s="# one")]


@pytest.mark.parametrize(
    ("separator", "quote", "escape", "text", "line"),
    [  # as Flink 2.3 writes them
        (",", '"', None, "hello", "hello"),
        (",", '"', None, "hello world", '"hello world"'),
        (",", '"', None, "a,b", '"a,b"'),
        (",", '"', None, 'say "x"', '"say ""x"""'),
        (",", '"', None, "a-b", "a-b"),
        (",", '"', None, "it's", '"it\'s"'),
        (",", '"', None, "back\\slash", '"back\\slash"'),
        (",", '"', None, "", ""),
        (",", '"', None, "x" * 24, "x" * 24),
        (",", '"', None, "x" * 25, f'"{"x" * 25}"'),
        (",", '"', "\\", "back\\slash", '"back\\\\slash"'),
        (",", '"', "*", "back\\slash", "back\\slash"),
        (",", '"', "*", "star*", '"star**"'),
        ("|", '"', None, "string", '"string"'),
        ("|", "`", None, "string", "`string`"),
        (";", "'", "*", "123'4*", "'123''4**'"),
        (";", "'", "*", "null", "null"),
    ],
)
def test_text_is_enclosed_where_flink_encloses_it(separator, quote, escape, text, line):
    builder = CsvSchema.builder().add_string_column("s").set_column_separator(separator).set_quote_char(quote)
    schema = (builder if escape is None else builder.set_escape_char(escape)).build()
    data = written(schema, [Row(s=text)])
    assert data.decode() == f"{line}\n"
    if text:
        assert read_all(CsvReaderFormat.for_schema(schema), data) == [Row(s=text)]


def test_numbers_are_written_as_java_writes_them_and_decimals_are_rounded():
    schema = (
        CsvSchema.builder()
        .add_number_column("f", DataTypes.FLOAT())
        .add_number_column("d", DataTypes.DOUBLE())
        .add_number_column("x", DataTypes.DECIMAL(4, 1))
        .add_array_column("l", ";", DataTypes.DOUBLE())
        .add_array_column("b", ";", DataTypes.BOOLEAN())
        .build()
    )
    rows = [
        (3e38, 2e-308, Decimal("1.25"), [1e7, 0.5, None], [True, False]),
        (1, 10000000, Decimal(-3), [], None),
    ]
    assert written(schema, rows).decode() == ("3.0E38,2.0E-308,1.3,1.0E7;0.5;,true;false\n1.0,1.0E7,-3.0,,\n")
    with pytest.raises(TypeMismatchError, match="does not fit type DECIMAL"):
        written(schema, [(1.0, 1.0, Decimal(1000), [], [])])


def test_without_quotes_what_cannot_be_told_apart_is_refused_or_escaped():
    builder = CsvSchema.builder().add_string_column("s").disable_quote_char()
    with pytest.raises(TypeMismatchError, match="no quotation mark"):
        written(builder.build(), [Row(s="a,b")])
    escaped = builder.set_escape_char("*").build()
    data = written(escaped, [Row(s="a,b*")])
    assert data == b"a*,b**\n"
    assert read_all(CsvReaderFormat.for_schema(escaped), data) == [Row(s="a,b*")]

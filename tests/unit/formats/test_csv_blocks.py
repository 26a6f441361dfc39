"""Blocks parsed by pyarrow are what Python's csv module reads, record by record."""

from __future__ import annotations

import io
import sys
from decimal import Decimal

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from millstream.base.errors import MalformedRecordError
from millstream.formats import block_records
from millstream.formats.csv import reader as csv_reader
from millstream.formats.csv.columns import CsvBlocks
from millstream.formats.csv.reader import CsvReaderFormat
from millstream.formats.csv.rows import CsvRecords
from millstream.formats.csv.schema import CsvSchema
from millstream.table import DataTypes
from millstream.types.arrow_values import records_of
from millstream.types.row import Row

TYPES = {
    "s": DataTypes.STRING(),
    "v": DataTypes.VARCHAR(3),
    "i": DataTypes.INT(),
    "t": DataTypes.TINYINT(),
    "d": DataTypes.DOUBLE(),
    "f": DataTypes.FLOAT(),
    "b": DataTypes.BOOLEAN(),
    "m": DataTypes.DECIMAL(6, 2),
    "a": DataTypes.ARRAY(DataTypes.INT()),
    "day": DataTypes.DATE(),
    "at": DataTypes.TIMESTAMP(),
    "time": DataTypes.TIME(),
    "z": DataTypes.TIMESTAMP_LTZ(),
}
GOOD = {
    "s": [
        "x",
        "a b",
        "é",
        "\N{EURO SIGN}",
        "",
        "NA",
        "a,b",
        'say "hi"',
        "two\nlines",
        "c\r\nd",
        "#",
        "0x1",
        "\0",
    ],
    "v": ["abc", "é", "", "NA"],
    "i": ["1", "-7", "007", " 5", "6\t", "+1", "2147483647", "-0", "", "NA", "٣"],
    "t": ["127", "-128", "", "NA"],
    "d": ["1.5", "-.5", "2.", "1e3", "nan", "-inf", "Infinity", "+1", " 3 ", "1e999", "0.1", "", "NA"],
    "f": ["1.1", "16777217", ""],
    "b": ["true", "FALSE", "True", "tRuE", " true", "", "NA"],
    "m": ["1.005", "-3", "1e2", "", "NA"],
    "a": ["1;2", "", "7", "NA"],
    "day": ["2013-01-31", " 2013-01-31", "20130131", "0001-01-01", "9999-12-31", ""],
    "at": [
        "2013-01-01 05:15:00",
        "2013-01-01T05:15",
        "2013-01-01",
        "2013-01-01 05:15:00.123",
        "2013-01-01 05:15:00.1234567",
        "9999-12-31 23:59:59.999999",
        "0001-01-01",
        "2013-01-01 05",
        "",
        "NA",
    ],
    "time": ["05:15", "05:15:00.5", ""],
    "z": ["2013-01-01 05:15:00", "2013-01-01T05:15:00Z", ""],
}
BAD = {
    "v": ["abcd"],
    "i": ["x", "1_0", "2147483648", " ", "1.0", "0x1F", "0X1", "--1", "1e3", "true"],
    "t": ["128", "0x7"],
    "d": ["x", "1_0", "nan(1)", "0x1p3", "1,5", "1d5", " ", "1.5f"],
    "f": ["NaN(abc)", "."],
    "b": ["1", "0", "yes", "t"],
    "m": ["x", "1_0", "99999999"],
    "a": ["x", "1;;x"],
    "day": ["2013-02-30", "0000-01-01", "x", "2013-1-1", "10000-01-01"],
    "at": ["0000-01-01", "2013-01-01 05:15:00Z", "2013-01-01 05:15:00+01:00", "2013-01-01 25:00", "x", "1356998400",
           "2013-01-01 05:15:60", "2013-01-01 24:00:00"],
    "time": ["25:00", "05:15Z"],
    "z": ["x"],
}  # fmt: skip


@st.composite
def cells(draw, kind):
    text = draw(
        st.sampled_from(GOOD[kind]) if draw(st.integers(0, 60)) else st.sampled_from(BAD.get(kind, ["x"]))
    )
    how = draw(st.integers(0, 150))
    if how == 150:
        return draw(
            st.sampled_from(
                ['"', 'a"b', '"a"b', '"a"" b', 'a""', '""a', '"a', '" "', "a\rb", '"x"\r', "\\n", "#"]
            )
        )
    if how < 20 or any(mark in text for mark in '",\r\n'):
        return '"' + text.replace('"', '""') + '"'
    return text


@st.composite
def files(draw):
    kinds = draw(st.lists(st.sampled_from(sorted(TYPES)), min_size=1, max_size=4))
    end = draw(st.sampled_from(["\n", "\r\n"]))
    lines = []
    for _ in range(draw(st.integers(0, 25))):
        row = [draw(cells(kind)) for kind in kinds]
        shape = draw(st.integers(0, 120))
        if shape == 120:
            row = [*row, "1"] if draw(st.booleans()) else row[:-1]
        elif shape == 119:
            row = ["# a comment, perhaps"]
        line = ",".join(row)
        lines.append(line + (end if shape else end * 2) + ("\r" if shape == 118 else ""))
    data = "".join(lines).encode()
    if draw(st.integers(0, 9)) == 0:
        data = data.removesuffix(b"\n")
    if draw(st.integers(0, 30)) == 0:
        at = draw(st.integers(0, len(data)))
        data = data[:at] + draw(st.sampled_from([b"\xff", b'"', b"\xef\xbb\xbf", b"\n", b","])) + data[at:]
    return kinds, data


@st.composite
def settings_of_schema(draw):
    names = draw(
        st.sets(
            st.sampled_from(["set_null_value", "set_escape_char", "set_allow_comments", "disable_quote_char"])
        )
    )
    given = {"set_null_value": ("NA",), "set_escape_char": ("\\",)}
    return [(name, given.get(name, ())) for name in sorted(names)]


def format_of(kinds, chosen=()):
    builder = CsvSchema.builder()
    for number, kind in enumerate(kinds):
        builder.add_column(f"{kind}{number}", TYPES[kind])
    for name, arguments in chosen:
        getattr(builder, name)(*arguments)
    return CsvReaderFormat.for_schema(builder.build())


def outcome(fmt, data, pieces, *, fresh, columns=0):
    """Return all rows, and the error that ended it; `columns`: each so manieth time columns are asked for."""
    opened, rows = fmt.open(io.BufferedReader(io.BytesIO(data)), "x.csv", None), []
    turn = 0
    try:
        while not opened.exhausted:
            count = pieces[turn % len(pieces)]
            if columns and turn % columns == 0:
                rows += records_of(opened.read_columns(count))
            else:
                rows += opened.read(count)
            if fresh:
                opened = fmt.open(io.BufferedReader(io.BytesIO(data)), "x.csv", opened.position)
            turn += 1
    except MalformedRecordError as error:
        return list(map(repr, rows)), str(error)
    return list(map(repr, rows)), None


def compare(monkeypatch, fmt, data, block_bytes, pieces):
    with monkeypatch.context() as patch:
        patch.setattr(block_records, "SMALLEST_BLOCK_BYTES", 1 << 60)
        expected = outcome(fmt, data, [1], fresh=False)
    with monkeypatch.context() as patch:
        patch.setattr(block_records, "SMALLEST_BLOCK_BYTES", 1)
        patch.setattr(csv_reader, "_BLOCK_BYTES", block_bytes)
        assert outcome(fmt, data, [1], fresh=False) == expected
        assert outcome(fmt, data, [1], fresh=True) == expected
        assert outcome(fmt, data, [1], fresh=False, columns=1) == expected
        assert outcome(fmt, data, [1], fresh=False, columns=2) == expected
        rows, error = outcome(fmt, data, pieces, fresh=True)
        assert error == expected[1]
        assert rows == expected[0][: len(rows)]  # those before a malformed one may not be read with it
        assert error or len(rows) == len(expected[0])


@settings(max_examples=120, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    file=files(),
    chosen=settings_of_schema(),
    block_bytes=st.sampled_from([10, 40, 150, 4096]),
    pieces=st.lists(st.integers(1, 7), min_size=1, max_size=4),
)
@example(file=(["s"], b'""\n\n""\n'), chosen=[], block_bytes=10, pieces=[1])
@example(file=(["s"], b"\xef\xbb\xbf\xef\xbb\xbfa\n"), chosen=[], block_bytes=10, pieces=[1])
@example(file=(["s", "i"], b'a"b,1\n"c\nd",2\ne"f,3\n"g,\n",4\n'), chosen=[], block_bytes=12, pieces=[2])
def test_rows_errors_and_positions_are_those_of_reading_record_by_record(
    monkeypatch, file, chosen, block_bytes, pieces
):
    kinds, data = file
    compare(monkeypatch, format_of(kinds, chosen), data, block_bytes, pieces)


@pytest.mark.parametrize(
    ("chosen", "data"),
    [
        ([("set_escape_char", ("\\",))], b"a\\\\b,1\na\\,b,1\nc\\\nd,2\n"),
        ([("set_escape_char", ("\\",)), ("disable_quote_char", ())], b'a\\,"b,1\n"c",2\n'),
        ([("set_allow_comments", ())], b'#a,1\nb,2\n  #c,3\n"\n#d",4\ne#,5\n'),
        ([("disable_quote_char", ())], b'"a,1\nb"c,2\n'),
        ([("set_column_separator", ("\t",))], b'"a\t"\t 1\nb\t2\n'),
        ([("set_quote_char", ("'",))], b"'a'',\n',1\n\"b,2\n"),
    ],
)
@pytest.mark.parametrize("block_bytes", [5, 12, 4096])
def test_punctuation_means_what_it_means_record_by_record(monkeypatch, chosen, data, block_bytes):
    compare(monkeypatch, format_of("si", chosen), data, block_bytes, [2])


@pytest.mark.parametrize("kind", TYPES)
def test_every_form_of_a_value_reads_as_record_by_record(monkeypatch, kind):
    for text in GOOD[kind] + BAD.get(kind, []):
        enclosed = '"' + text.replace('"', '""') + '"'
        plain = [] if any(mark in text for mark in '",\r\n') else [text]
        for cell in [enclosed, *plain]:
            for null in ([], [("set_null_value", ("NA",))], [("set_null_value", ("",))]):
                for kinds, line in ([kind], cell), ([kind, "s"], f"{cell},x"):
                    compare(monkeypatch, format_of(kinds, null), f"{line}\n".encode(), 4096, [1])


def parsed(kinds, block, chosen=()):
    decoded = blocks_of(kinds, chosen).decode(block)
    return None if decoded is None else decoded.values


def blocks_of(kinds, chosen=()):
    schema = format_of(kinds, chosen)._schema
    return CsvBlocks(schema, schema.columns)


def test_blocks_are_used_where_they_can_be():
    assert parsed("sid", b'"a ""b"",",1,.5\r\n\r\nc,,\r\n') == [
        ['a "b",', "c"],
        [1, None],
        [0.5, None],
    ]
    assert parsed("ms", b"1.005,a\n") == [[Decimal("1.01")], ["a"]]
    assert parsed("i", b"+1\n") == [[1]]
    assert parsed("is", b"NA,NA\n1,\n", [("set_null_value", ("NA",))]) == [[None, 1], [None, ""]]


@pytest.mark.parametrize(
    "block", [b'a"b\n', b'"a"b\n', b'"a\n', b"a\rb\n", b"a,b\n", b"\xff\n", b"\xef\xbb\xbfa\n"]
)
def test_blocks_that_the_csv_module_reads_otherwise_are_refused(block):
    assert parsed("s", block) is None


def test_value_longer_than_the_csv_modules_limit_is_an_error_in_a_block_too(monkeypatch):
    compare(monkeypatch, format_of("s"), b"a\n" + b"x" * 140_000 + b"\n", 1 << 20, [5])


def test_a_block_ends_where_a_record_does():
    blocks = blocks_of("ss")
    assert blocks.whole_records(b'a,"b\n"\nc,"d\n') == 7
    assert blocks.whole_records(b'"a\n"') == 0
    assert blocks.whole_records(b'a,"b""\n",\n"') == 10


def test_without_pyarrow_records_are_read_one_by_one(monkeypatch):
    data = b"".join(b"%d,x\n" % number for number in range(9_000))
    fmt = format_of("is")
    expected = outcome(fmt, data, [1_000], fresh=False)
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    assert outcome(fmt, data, [1_000], fresh=False) == expected
    assert len(expected[0]) == 9_000


def test_a_position_of_a_reader_without_blocks_is_one_for_readers_with_them(monkeypatch):
    data = b"".join(b"%d,x\n" % number for number in range(9_000))
    fmt = format_of("is")
    with monkeypatch.context() as patch:
        patch.setitem(sys.modules, "pyarrow", None)
        old = fmt.open(io.BufferedReader(io.BytesIO(data)), "x.csv", None)
        old.read(1_234)
        assert old.position == (sum(len(str(number)) + 3 for number in range(1_234)), 1_234)
    rest = fmt.open(io.BufferedReader(io.BytesIO(data)), "x.csv", old.position)
    assert rest.read(1) == [Row(i0=1_234, s1="x")]
    assert len(rest.position) == 3
    with monkeypatch.context() as patch:
        patch.setitem(sys.modules, "pyarrow", None)
        again = fmt.open(io.BufferedReader(io.BytesIO(data)), "x.csv", rest.position)
        assert again.read(1) == [Row(i0=1_235, s1="x")]


def test_one_odd_line_has_few_lines_read_one_by_one(monkeypatch):
    lines = [b"%d,some text of a line\n" % number for number in range(40_000)]
    lines[20_000] = b'20000,5" of text\n'
    one_by_one = []
    read_columns = CsvRecords.read_columns

    def spy(records, max_records):
        columns = read_columns(records, max_records)
        one_by_one.append(len(columns[0]))
        return columns

    monkeypatch.setattr(CsvRecords, "read_columns", spy)
    rows, _ = outcome(format_of("is"), b"".join(lines), [20_000], fresh=False)
    assert len(rows) == 40_000
    assert rows[20_000] == """Row(i0=20000, s1='5" of text')"""
    assert one_by_one and sum(one_by_one) < 3_000, one_by_one

"""JSON lines: blocks parsed at once are what Python's json module reads, line by line."""

from __future__ import annotations

import datetime
import io
import json
import pickle
import sys
from decimal import Decimal

import duckdb
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from json_parsers import require_compiled
from millstream.base.errors import ConfigurationError, MalformedRecordError, TypeMismatchError
from millstream.formats import block_records
from millstream.formats.block import BlockLayout
from millstream.formats.json.blocks import JsonBlocks
from millstream.formats.json.compiled import CompiledLines
from millstream.formats.json.reader import JsonLinesFormat
from millstream.formats.json.rows import JsonRecords
from millstream.formats.json.writer import JsonLinesBulkWriters
from millstream.table import DataTypes
from millstream.types.arrow_values import records_of
from millstream.types.row import Row


@pytest.fixture(scope="module", params=["compiled", "msgspec"], autouse=True)
def first_parser(request):
    """The parser that is asked first."""
    with pytest.MonkeyPatch.context() as patch:
        if request.param == "compiled":
            require_compiled()
        else:
            patch.setattr(CompiledLines, "of", lambda layout: None)
        yield request.param


POINT = DataTypes.ROW([DataTypes.FIELD("x", DataTypes.INT()), DataTypes.FIELD("at", DataTypes.TIMESTAMP())])
TYPES = {
    "s": DataTypes.STRING(),
    "v": DataTypes.VARCHAR(3),
    "i": DataTypes.INT(),
    "t": DataTypes.TINYINT(),
    "d": DataTypes.DOUBLE(),
    "f": DataTypes.FLOAT(),
    "b": DataTypes.BOOLEAN(),
    "m": DataTypes.DECIMAL(6, 2),
    "y": DataTypes.BYTES(),
    "day": DataTypes.DATE(),
    "at": DataTypes.TIMESTAMP(),
    "time": DataTypes.TIME(),
    "z": DataTypes.TIMESTAMP_LTZ(),
    "n": DataTypes.INT(nullable=False),
    "a": DataTypes.ARRAY(DataTypes.INT()),
    "ad": DataTypes.ARRAY(DataTypes.DATE()),
    "av": DataTypes.ARRAY(DataTypes.VARCHAR(3)),
    "r": POINT,
    "ar": DataTypes.ARRAY(POINT),
    "k": DataTypes.MAP(DataTypes.STRING(), DataTypes.INT()),
}
DAY = datetime.date(2013, 1, 31)
AT = datetime.datetime(2013, 1, 1, 5, 15)
GOOD = {
    "s": [
        ('"x"', "x"),
        ('"\\u20ac\\n\\/"', "€\n/"),
        ('"é😀"', "é😀"),
        ('"\\ud83d\\ude00"', "😀"),
        ('""', ""),
        ("1", "1"),
        ("1.50", "1.5"),
        ("true", "true"),
        ('{"a": [1, null]}', '{"a":[1,null]}'),
        ('"\\u0000"', "\0"),
        ("1e10", "1.0E10"),
        ('"}\\n{"', "}\n{"),
        ('"Inf, no"', "Inf, no"),
        ("null", None),
        ('"Infinity"', "Infinity"),
    ],
    "v": [('"abc"', "abc"), ('"ééé"', "ééé"), ("12", "12")],
    "i": [
        ("1", 1),
        ("-7", -7),
        ("1.0", 1),
        ("1e2", 100),
        ('"12"', 12),
        ('" 5 "', 5),
        ("2147483647", 2147483647),
        ("-0", 0),
    ],
    "t": [("127", 127), ("-128", -128)],
    "d": [
        ("1", 1.0),
        ("1.5", 1.5),
        ("-0", -0.0),
        ("-0.0", -0.0),
        ("1e3", 1000.0),
        ("1E-2", 0.01),
        ("0.1", 0.1),
        ('"2.5"', 2.5),
        ("Infinity", float("inf")),
        ("1e999", float("inf")),
        ("123456789012345678901234567890", 1.2345678901234568e29),
        ("2.2250738585072011e-308", 2.225073858507201e-308),
        ('"-inf"', float("-inf")),
    ],
    "f": [("1.1", 1.1), ("16777217", 16777217.0)],
    "b": [("true", True), ("false", False), ('"TRUE"', True)],
    "m": [
        ("1.005", Decimal("1.01")),
        ("1.5", Decimal("1.50")),
        ('"3"', Decimal("3.00")),
        ("-0.001", Decimal("0.00")),
        ("1e2", Decimal("100.00")),
        ("7", Decimal("7.00")),
        ("-0.0", Decimal("0.00")),
    ],
    "y": [('"AP8="', b"\x00\xff"), ('""', b"")],
    "day": [
        ('"2013-01-31"', DAY),
        ('" 2013-01-31"', DAY),
        ('"20130131"', DAY),
        ('"0001-01-01"', datetime.date.min),
    ],
    "at": [
        ('"2013-01-01 05:15:00"', AT),
        ('"2013-01-01T05:15"', AT),
        ('"2013-01-01"', AT.replace(hour=0, minute=0)),
        ('"2013-01-01 05:15:00.123"', AT.replace(microsecond=123000)),
        ('"2013-01-01 05:15:00.1234567"', AT.replace(microsecond=123456)),
        ('"9999-12-31 23:59:59.999999"', datetime.datetime.max),
    ],
    "time": [('"05:15"', datetime.time(5, 15)), ('"05:15:00.5"', datetime.time(5, 15, 0, 500000))],
    "z": [('"2013-01-01 05:15:00"', AT)],
    "n": [("1", 1), ('"2"', 2)],
    "a": [("[]", []), ("[1, null]", [1, None]), ('["7"]', [7])],
    "ad": [('["2013-01-31", null]', [DAY, None]), ("[]", []), ('["20130131"]', [DAY])],
    "av": [('["abc"]', ["abc"])],
    "r": [
        ('{"x": 1, "z": [2]}', Row(x=1, at=None)),
        ('{"at": "2013-01-01T05:15"}', Row(x=None, at=AT)),
        ("{}", Row(x=None, at=None)),
        ('{"x": 1, "x": 2}', Row(x=2, at=None)),
    ],
    "ar": [
        ('[{"x": 1}, null]', [Row(x=1, at=None), None]),
        ('[{"at": "20130101"}]', [Row(x=None, at=datetime.datetime(2013, 1, 1))]),
    ],
    "k": [('{"a": 1, "b": null}', {"a": 1, "b": None}), ("{}", {})],
}
BAD = {
    "s": ['"\\ud800"', '"a\nb"', '"\x01"', '"\\x"', "tru", "'x'", '"', ".5", "01", "+1", "Inf"],
    "v": ['"abcd"', "12345"],
    "i": ['"x"', "1.5", "true", "2147483648", '"1_0"', "[]", "{}", '""', "NaN"],
    "t": ["128", '"-129"'],
    "d": ["true", '"x"', "[1]", "Inf", "-Inf", "nan", "1.", '"1_0"'],
    "f": ["{}"],
    "b": ["1", '"yes"', '""'],
    "m": ["99999999", "true", '"x"', '"nan"', "Infinity", "1e999999999"],
    "y": ['"x"', "1", '"AP8"'],
    "day": ['"2013-02-30"', '"0000-01-01"', "1", '""', '"2013-01-01 00:00:00"'],
    "at": [
        '"x"',
        "1356998400",
        '"2013-01-01 05:15:00Z"',
        '"2013-01-01 05:15:00+01:00"',
        '"2013-01-01 05:15:60"',
        '"0000-01-01"',
    ],
    "time": ['"25:00"', '"05:15Z"'],
    "z": ['"x"'],
    "n": ["null"],
    "a": ["1", '["x"]', "{}", "[1,]"],
    "ad": ['["x"]', '"2013-01-31"'],
    "av": ['["abcd"]'],
    "r": ["[]", '{"x": "y"}', "1"],
    "ar": ['[{"x": []}]', '[{"at": "x"}]'],
    "k": ["[]", '{"a": "x"}'],
}


def schema_of(kinds):
    return DataTypes.ROW(
        [DataTypes.FIELD(f"{kind}{number}", TYPES[kind]) for number, kind in enumerate(kinds)]
    )


def opened_at(fmt, data, position=None):
    return fmt.open(io.BufferedReader(io.BytesIO(data)), "x.json", position)


def read_all(kinds, data, path="x.json"):
    opened, rows = opened_at(JsonLinesFormat.for_schema(schema_of(kinds)), data), []
    while not opened.exhausted:
        rows += opened.read(1000)
    return rows


def outcome(fmt, data, pieces, *, fresh, columns=0):
    """Return all rows, and the error that ended it; `columns`: each so manieth time columns are asked for."""
    opened, rows, turn = opened_at(fmt, data), [], 0
    try:
        while not opened.exhausted:
            count = pieces[turn % len(pieces)]
            if columns and turn % columns == 0:
                rows += records_of(opened.read_columns(count))
            else:
                rows += opened.read(count)
            if fresh:
                opened = opened_at(fmt, data, pickle.loads(pickle.dumps(opened.position)))
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
        patch.setattr(JsonBlocks, "block_bytes", block_bytes)
        assert outcome(fmt, data, [1], fresh=False) == expected
        assert outcome(fmt, data, [1], fresh=True) == expected
        assert outcome(fmt, data, [1], fresh=False, columns=1) == expected
        assert outcome(fmt, data, [1], fresh=True, columns=2) == expected
        rows, error = outcome(fmt, data, pieces, fresh=True)
        assert error == expected[1]
        assert rows == expected[0][: len(rows)]  # those before a malformed one may not be read with it
        assert error or len(rows) == len(expected[0])


@st.composite
def objects(draw, kinds):
    parts = []
    for number, kind in enumerate(kinds):
        if kind != "n" and draw(st.integers(0, 15)) == 0:
            continue
        good = [text for text, _ in GOOD[kind]] + ["null"] * (kind != "n")
        text = draw(st.sampled_from(good) if draw(st.integers(0, 80)) else st.sampled_from(BAD[kind]))
        parts.append(f'"{kind}{number}":{draw(st.sampled_from(["", " ", "  "]))}{text}')
    if draw(st.integers(0, 9)) == 0:
        parts.append(
            draw(
                st.sampled_from(
                    ['"other":{"x":[1,{"y":"}\\n{"}]}', '"s0":"again"', '"n":Infinity', '"o":1,"o":2']
                )
            )
        )
    return "{" + draw(st.sampled_from([",", ", "])).join(draw(st.permutations(parts))) + "}"


@st.composite
def files(draw):
    kinds = draw(st.lists(st.sampled_from(sorted(TYPES)), min_size=1, max_size=4))
    lines = []
    for _ in range(draw(st.integers(0, 20))):
        line = draw(objects(kinds))
        shape = draw(st.integers(0, 150))
        odd = [" {}  ", "{}\n\n", "\t{}\r", "{}{}", "{} {}", "[{}]", "{},", "{}x", "\n  \n{}"]
        odd += ["{}\0", "{}\x0b", "null", "{}\n1", "\ufeff{}"]
        if shape < len(odd):
            line = odd[shape].replace("{}", line)
        elif shape == 50:
            line = line.replace(",", ",\n", 1)
        elif shape == 51:
            line = "{\n" + line[1:]
        lines.append(line + draw(st.sampled_from(["\n", "\n", "\r\n"])))
    data = "".join(lines).encode("utf-8", "surrogatepass")
    if draw(st.integers(0, 9)) == 0:
        data = data.removesuffix(b"\n")
    if draw(st.integers(0, 30)) == 0:
        at = draw(st.integers(0, len(data)))
        data = (
            data[:at] + draw(st.sampled_from([b"\xff", b'"', b"\xef\xbb\xbf", b"\n", b"{", b"}"])) + data[at:]
        )
    return kinds, data


@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    file=files(),
    block_bytes=st.sampled_from([10, 40, 150, 4096]),
    pieces=st.lists(st.integers(1, 7), min_size=1, max_size=4),
)
@example(file=(["i"], b'{"i0":1}{"i0":2}\n{"i0":\n3}\n'), block_bytes=4096, pieces=[1])
@example(file=(["i"], b'{"i0":1}{"i0":2}\n{"r":{}\n,"i0":3}\n'), block_bytes=4096, pieces=[1])
@example(file=(["i"], b'{"i0":1}\0\n{"i0":2}\n'), block_bytes=4096, pieces=[1])
@example(file=(["s"], b'{"s0":"a"}\n\xef\xbb\xbf{"s0":"b"}\n'), block_bytes=14, pieces=[1])
def test_rows_errors_and_positions_are_those_of_reading_line_by_line(monkeypatch, file, block_bytes, pieces):
    kinds, data = file
    compare(monkeypatch, JsonLinesFormat.for_schema(schema_of(kinds)), data, block_bytes, pieces)


@pytest.mark.parametrize("kind", TYPES)
def test_every_form_of_a_value_reads_as_told(monkeypatch, kind):
    fmt = JsonLinesFormat.for_schema(schema_of([kind]))
    for text, value in GOOD[kind]:
        data = f'{{"{kind}0": {text}}}\n'.encode()
        assert repr(opened_at(fmt, data).read(1)) == repr([Row.of((f"{kind}0",), [value])]), text
        compare(monkeypatch, fmt, data, 4096, [1])
    for text in BAD[kind]:
        data = f'{{"{kind}0": {text}}}\n'.encode("utf-8", "surrogatepass")
        with pytest.raises(MalformedRecordError, match="line 1"):
            opened_at(fmt, data).read(1)
        compare(monkeypatch, fmt, data, 4096, [1])


@pytest.mark.parametrize("kind", TYPES)
def test_ordinary_values_are_decoded_in_blocks(kind):
    """What takes the slow way always would read right, and slowly."""
    ordinary = {"s": '"x"', "at": '"2013-01-01 05:15:00"', "m": "1.5"}.get(kind, GOOD[kind][0][0])
    block = f'{{"{kind}0": {ordinary}, "more": "é"}}\n\n{{"{kind}0": {ordinary}}}\r\n'.encode()
    assert JsonBlocks(BlockLayout(schema_of([kind]))).decode(block) is not None


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b'{"i0":1}\n{"i0":"two"}\n', "line 2, field 'i0': invalid literal.*two"),
        (b'{"i0":1}\n{"i0":1,}\n', r"line 2, column 9: JSON does not parse: .*Seen: '\{\"i0\":1,\}'"),
        (b'{"i0":1}\n\n{"r1":{"at":5}}\n', "line 3, field 'r1.at': 5 is no TIMESTAMP"),
        (b'{"ar2":[{"x":1},{"x":"?"}]}\n', r"line 1, field 'ar2\[1\].x': invalid literal"),
        (b'{"i0":1}\n[1]\n', r"line 2: \[1\] is no JSON object"),
        (b'{"i0":1}\nb\xff\n', "line 2, column 2: bytes are no UTF-8 text"),
        (b'{"i0":' + b"[" * 100_000 + b"\n", "line 1: .*recursion"),
        (b'{"i0":' + b"1" * 5000 + b"}\n", "line 1: Exceeds the limit"),
    ],
)
def test_malformed_line_is_named_with_file_line_and_place(data, message):
    with pytest.raises(MalformedRecordError, match=r"(?s)file 'x.json', " + message):
        read_all(["i", "r", "ar"], data)


def test_lines_before_a_malformed_one_can_be_read_up_to_it():
    opened = opened_at(JsonLinesFormat.for_schema(schema_of("i")), b'{"i0":1}\n{"i0":true}\n')
    assert opened.read(1) == [Row(i0=1)]
    with pytest.raises(MalformedRecordError, match="line 2"):
        opened.read(1)


def test_byte_order_mark_and_a_missing_last_newline_do_not_matter():
    assert read_all("i", b'\xef\xbb\xbf{"i0":1}\r\n{"i0":2}') == [Row(i0=1), Row(i0=2)]
    assert read_all("i", b"") == []
    assert read_all("i", b"\n \n") == []


def test_lines_larger_than_a_block_are_read_whole(monkeypatch):
    monkeypatch.setattr(JsonBlocks, "block_bytes", 64 << 10)
    sizes = [10, 300_000, 20, 70_000, 65_536 - 9, 5]
    data = b"".join(b'{"s0":"%s"}\n' % (b"x" * size) for size in sizes)
    fmt = JsonLinesFormat.for_schema(schema_of("s"))
    opened, seen = opened_at(fmt, data), []
    while not opened.exhausted:
        seen += [len(row.s0) for row in opened.read(3)]
        opened = opened_at(fmt, data, opened.position)
    assert seen == sizes


def test_deeply_nested_values_that_nobody_asks_for_are_no_danger():
    deep = b"[" * 200_000 + b"]" * 200_000
    data = b"".join(b'{"i0":%d}\n' % i for i in range(2000)) + b'{"i0":7,"deep":' + deep + b"}\n"
    try:
        assert read_all("i", data)[-1] == Row(i0=7)  # pyarrow's parser needs no recursion
    except MalformedRecordError as error:
        assert "line 2001: maximum recursion depth" in str(error)


def test_ordinary_files_read_as_duckdb_reads_them(tmp_path):
    path = tmp_path / "x.json"
    lines = []
    for i in range(30_000):
        record = {
            "id": i,
            "name": f"n{i} é",
            "price": i / 7,
            "ok": i % 3 == 0,
            "tags": ["a"] * (i % 3),
            "extra": {"u": 1},
        }
        record["at"] = str(datetime.datetime(2013, 1, 1) + datetime.timedelta(seconds=i))
        record["inner"] = None if i % 10 == 0 else {"x": i, "at": record["at"]}
        if i % 17 == 0:
            del record["name"]
        lines.append(json.dumps(record, ensure_ascii=i % 2 == 0))
    path.write_text("\n".join(lines))
    fields = {
        "id": DataTypes.BIGINT(), "name": DataTypes.STRING(), "price": DataTypes.DOUBLE(), "ok": DataTypes.BOOLEAN(),
        "tags": DataTypes.ARRAY(DataTypes.STRING()), "at": DataTypes.TIMESTAMP(),
        "inner": DataTypes.ROW([DataTypes.FIELD("x", DataTypes.INT()), DataTypes.FIELD("at", DataTypes.TIMESTAMP())]),
    }  # fmt: skip
    fmt = JsonLinesFormat.for_schema(
        DataTypes.ROW([DataTypes.FIELD(name, kind) for name, kind in fields.items()])
    )
    opened, rows = fmt.open(path.open("rb"), str(path), None), []
    while not opened.exhausted:
        rows += opened.read(7_000)
    query = f"""select id, name, price, ok, tags, "at", "inner" from read_json('{path}', format='newline_delimited',
        columns={{'id': 'BIGINT', 'name': 'VARCHAR', 'price': 'DOUBLE', 'ok': 'BOOLEAN', 'tags': 'VARCHAR[]',
        'at': 'TIMESTAMP', 'inner': 'STRUCT(x INTEGER, "at" TIMESTAMP)'}}) order by id"""
    expected = duckdb.sql(query).fetchall()
    seen = [(*row[:-1], None if row.inner is None else row.inner.as_dict()) for row in rows]
    assert seen == expected


def test_one_odd_line_has_few_lines_read_one_by_one(monkeypatch):
    lines = [b'{"i0":%d,"s1":"some text of a line"}\n' % number for number in range(60_000)]
    lines[20_000] = b'{"i0":"20000","s1":1}\n'
    one_by_one = []
    right = JsonRecords.read_columns

    def spy(records, max_records):
        columns = right(records, max_records)
        one_by_one.append(len(columns[0]))
        return columns

    monkeypatch.setattr(JsonRecords, "read_columns", spy)
    rows, _ = outcome(JsonLinesFormat.for_schema(schema_of("is")), b"".join(lines), [20_000], fresh=False)
    assert len(rows) == 60_000
    assert rows[20_000] == "Row(i00=20000, s1='1')".replace("i00", "i0")
    assert one_by_one and sum(one_by_one) < 3_000, one_by_one


def test_without_pyarrow_and_numpy_lines_are_read_in_blocks(monkeypatch):
    data = b"".join(b'{"i0":%d,"day1":"2013-01-31"}\n' % number for number in range(9_000))
    fmt = JsonLinesFormat.for_schema(schema_of(["i", "day"]))
    expected = outcome(fmt, data, [1_000], fresh=False)
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    monkeypatch.setitem(sys.modules, "numpy", None)
    monkeypatch.setattr(JsonRecords, "read_columns", lambda *_: pytest.fail("read line by line"))
    assert outcome(fmt, data, [1_000], fresh=False) == expected
    assert len(expected[0]) == 9_000


def test_columns_are_read_of_many_blocks_at_once(monkeypatch):
    monkeypatch.setattr(JsonBlocks, "block_bytes", 16 << 10)
    data = b"".join(b'{"i0":%d,"s":"%s"}\n' % (number, b"x" * 1_000) for number in range(2_000))
    opened = opened_at(JsonLinesFormat.for_schema(schema_of("i")), data)
    assert [len(opened.read_columns(1_500)), len(opened.read_columns(1_500))] == [1_500, 500]
    assert opened.exhausted
    assert opened.position == (len(data), 2_000)


def test_a_malformed_line_behind_blocks_of_columns_is_an_error_of_its_own(monkeypatch):
    monkeypatch.setattr(JsonBlocks, "block_bytes", 16 << 10)
    lines = [b'{"i0":%d,"s":"%s"}\n' % (number, b"x" * 1_000) for number in range(100)]
    lines[70] = b'{"i0":true}\n'
    opened, rows = opened_at(JsonLinesFormat.for_schema(schema_of("i")), b"".join(lines)), 0
    with pytest.raises(MalformedRecordError, match="line 71, field 'i0'"):
        while True:
            rows += len(opened.read_columns(1 if rows > 60 else 1_000))
    assert rows == 70


def test_schema_has_to_be_one_of_rows_that_json_can_hold():
    with pytest.raises(ConfigurationError, match="has no fields"):
        JsonLinesFormat.for_schema(DataTypes.ROW([]))
    with pytest.raises(ConfigurationError, match="Use DataTypes.ROW"):
        JsonLinesFormat.for_schema(DataTypes.INT())
    keyed = DataTypes.ROW([DataTypes.FIELD("m", DataTypes.MAP(DataTypes.INT(), DataTypes.INT()))])
    with pytest.raises(ConfigurationError, match="Keys of a JSON object are text"):
        JsonLinesFormat.for_schema(keyed)


def test_messages_are_joined_to_a_block_if_each_is_one_line():
    blocks = JsonBlocks(BlockLayout(schema_of("i")))
    joined = blocks.join([b'{"i0":1}', b'{"i0":2}'])
    assert blocks.decode(joined).rows(0, 2) == [Row(i0=1), Row(i0=2)]
    assert blocks.join([b'{"i0":1}', b""]) is None
    assert blocks.join([b'{"i0":\n1}']) is None


# ---- writing ----


def written(schema, *batches):
    file = io.BytesIO()
    writer = JsonLinesBulkWriters.for_schema(schema).create(file)
    for batch in batches:
        writer.add_elements(batch)
    writer.finish()
    return file.getvalue()


@pytest.mark.parametrize("kind", TYPES)
def test_what_is_written_is_json_that_reads_back(kind):
    schema = schema_of([kind])
    values = [value for _, value in GOOD[kind]] + [None] * (kind != "n")
    lines = written(schema, [(value,) for value in values[:1]], [(value,) for value in values[1:]])
    if kind != "z":  # a moment is text in UTC
        for line in lines.splitlines() if kind != "s" else lines.split(b"\n")[:-1]:
            json.loads(line, parse_constant=lambda name: pytest.fail(f"{name} is no JSON"))
    opened, rows = opened_at(JsonLinesFormat.for_schema(schema), lines), []
    while not opened.exhausted:
        rows += opened.read(3)
    single = {16777217.0: 16777216.0}  # 32 bits
    assert repr([row[0] for row in rows]) == repr([single.get(v, v) if kind == "f" else v for v in values])


def test_lines_are_what_they_are_said_to_be():
    schema = schema_of(["s", "i", "d", "f", "at", "r", "k", "m", "y", "b", "a"])
    row = ('a"é\n', 1, 1e10, 0.1, AT, (1, None), {"x": 2}, Decimal("1.005"), b"\x00\xff", True, [1, None])
    assert written(schema, [row]).decode() == (
        '{"s0":"a\\"é\\n","i1":1,"d2":1.0E10,"f3":0.1,"at4":"2013-01-01 05:15:00","r5":{"x":1,"at":null},"k6":{"x":2},'
        '"m7":1.01,"y8":"AP8=","b9":true,"a10":[1,null]}\n'
    )
    odd = DataTypes.ROW([DataTypes.FIELD('100% "x"', DataTypes.DOUBLE())])
    assert written(odd, [(float("nan"),), (-float("inf"),), (None,)]) == (
        b'{"100% \\"x\\"":"NaN"}\n{"100% \\"x\\"":"-Infinity"}\n{"100% \\"x\\"":null}\n'
    )


def test_a_value_that_does_not_fit_is_named_with_its_column():
    with pytest.raises(TypeMismatchError, match="column 't0': value 300 .* does not fit type TINYINT"):
        written(schema_of("t"), [(1,), (300,)])
    with pytest.raises(TypeMismatchError, match="column 'n0': value None does not fit"):
        written(schema_of("n"), [(None,)])
    with pytest.raises(TypeMismatchError, match="half a surrogate pair"):
        written(schema_of("s"), [("\ud800",)])
    with pytest.raises(ConfigurationError, match="Keys of a JSON object are text"):
        keyed = DataTypes.ROW([DataTypes.FIELD("m", DataTypes.MAP(DataTypes.INT(), DataTypes.INT()))])
        JsonLinesBulkWriters.for_schema(keyed)

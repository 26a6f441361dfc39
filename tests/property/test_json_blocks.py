"""Blocks of JSON lines decoded at once hold what Python's json module reads, line by line, or are refused."""

from __future__ import annotations

import json
import sys
from decimal import Decimal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from json_parsers import PARSERS, require_compiled
from millstream.formats.block import BlockLayout
from millstream.formats.json import compiled
from millstream.table import DataTypes
from millstream.types.arrow_values import records_of
from millstream.types.row import Row

INNER = DataTypes.ROW([DataTypes.FIELD("x", DataTypes.BIGINT()), DataTypes.FIELD("y", DataTypes.DOUBLE())])
FIELDS = {
    "name": (DataTypes.STRING(), lambda value: isinstance(value, str)),
    "n": (DataTypes.BIGINT(), lambda value: type(value) is int and -(2**63) <= value < 2**63),
    "small": (DataTypes.SMALLINT(), lambda value: type(value) is int and -(2**15) <= value < 2**15),
    "d": (DataTypes.DOUBLE(), lambda value: type(value) in (int, float)),
    "ok": (DataTypes.BOOLEAN(), lambda value: isinstance(value, bool)),
    "list": (DataTypes.ARRAY(DataTypes.DOUBLE()), lambda value: isinstance(value, list)),
    "inner": (INNER, lambda value: isinstance(value, dict)),
    "map": (DataTypes.MAP(DataTypes.STRING(), DataTypes.BIGINT()), lambda value: isinstance(value, dict)),
}
FIELDS_OF = {
    "msgspec": FIELDS,
    "compiled": {name: FIELDS[name] for name in ("name", "n", "small", "d", "ok")},
}


@pytest.fixture(autouse=True)
def asked_always(monkeypatch):
    """Have the compiled parser asked for each block, however many it has refused."""
    monkeypatch.setattr(compiled, "_MOST_REFUSED", sys.maxsize)


def layout_of(parser):
    if parser == "compiled":
        require_compiled()
    fields = FIELDS_OF[parser].items()
    return BlockLayout(DataTypes.ROW([DataTypes.FIELD(name, kind) for name, (kind, _) in fields]))


numbers = st.one_of(
    st.integers(-(2**64), 2**64).map(str),
    st.floats(allow_nan=False, allow_infinity=False).map(repr),
    st.from_regex(r"-?(0|[1-9][0-9]{0,25})([.][0-9]{1,25})?([eE][+-]?[0-9]{1,3})?", fullmatch=True),
    st.sampled_from(["-0", "-0.0", "01", "1.", ".5", "+1", "1e400", "NaN", "-Infinity", "Inf", "0x1", "1_0"]),
)
texts = st.one_of(
    st.text(st.characters(exclude_categories=["Cs"]), max_size=8).map(json.dumps),
    st.text(st.characters(exclude_categories=["Cs", "Cc"], exclude_characters='"\\'), max_size=8).map(
        lambda text: f'"{text}"'
    ),
    st.sampled_from(
        [
            '"\\ud800"',
            '"\\udc00\\ud800"',
            '"\\ud83d\\ude00"',
            '"\\uD83"',
            '"\t"',
            '"\x00"',
            '"\\x"',
            '"\\/"',
            '"\\u0000"',
            '"-0}"',
            '"}\\n{"',
            '"\x7f"',
        ]
    ),
)
values = st.recursive(
    st.one_of(numbers, texts, st.sampled_from(["true", "false", "null", "tru", "None", ""])),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3).map(lambda parts: "[" + ",".join(parts) + "]"),
        st.lists(st.tuples(st.sampled_from(["x", "y", "z", "\\u0078", "é"]), inner), max_size=3).map(
            lambda pairs: "{" + ",".join(f'"{name}":{value}' for name, value in pairs) + "}"
        ),
    ),
    max_leaves=5,
)
doubles = st.floats(allow_nan=False, allow_infinity=False)
plain = {
    "name": st.text(st.characters(exclude_categories=["Cs"]), max_size=5),
    "n": st.integers(-(2**63), 2**63 - 1),
    "small": st.integers(-(2**15), 2**15 - 1),
    "d": doubles,
    "ok": st.booleans(),
    "list": st.lists(st.none() | doubles, max_size=3),
    "inner": st.fixed_dictionaries({}, optional={"x": st.none() | st.integers(-9, 9), "y": doubles}),
    "map": st.dictionaries(st.text("ab"), st.none() | st.integers(-9, 9), max_size=3),
}
keys = st.sampled_from([*FIELDS, "other", "Name", "\\u006eame"])


@st.composite
def lines(draw):
    """Most values fit their fields; others are of any kind, and may be no JSON."""
    parts = []
    for name in draw(st.lists(keys, max_size=6)):
        fitting = name in plain and draw(st.integers(0, 9))
        value = json.dumps(draw(plain[name]), ensure_ascii=draw(st.booleans())) if fitting else draw(values)
        blank = draw(st.sampled_from(["", "", " ", "\t", "\r"]))
        parts.append(f'{blank}"{name}"{blank}:{blank}{value}')
    return "{" + ",".join(parts) + "}"


@st.composite
def blocks(draw):
    line_break = st.sampled_from(["\n", "\n", "\n", "\r\n", " \n", "\n\n", "", "\x0b\n", ",\n"])
    text = "".join(draw(lines()) + draw(line_break) for _ in range(draw(st.integers(1, 4))))
    data = bytearray(text.encode("utf-8", "surrogatepass"))
    if draw(st.integers(0, 4)) == 0:
        data.insert(draw(st.integers(0, len(data))), draw(st.sampled_from(b'\xff\x80"{}[],:\n0-\\ ')))
    return bytes(data)


def read(line):
    """Return what Python's json module makes of a line; integers as they are, but for -0."""
    return json.loads(line.decode(), parse_int=lambda text: -0.0 if text == "-0" else int(text))


def expected(value, kind, fits):
    """Return a value as a row holds it; it has to fit."""
    if value is None:
        return None
    if kind in (DataTypes.BIGINT(), DataTypes.SMALLINT()) and repr(value) == "-0.0":
        value = 0
    assert fits(value), f"{value!r} was taken for {kind}"
    if kind == DataTypes.DOUBLE():
        return float(value)
    if isinstance(value, list):
        return [expected(each, DataTypes.DOUBLE(), FIELDS["d"][1]) for each in value]
    if kind == INNER:
        x = expected(value.get("x"), DataTypes.BIGINT(), FIELDS["n"][1])
        return Row(x=x, y=expected(value.get("y"), DataTypes.DOUBLE(), FIELDS["d"][1]))
    if isinstance(value, dict):
        return {name: expected(each, DataTypes.BIGINT(), FIELDS["n"][1]) for name, each in value.items()}
    return value


@pytest.mark.parametrize("parser", PARSERS)
def test_what_is_decoded_is_what_json_reads(parser):
    layout, fields = layout_of(parser), FIELDS_OF[parser]
    kept = PARSERS[parser](layout)  # for it keeps what it learned of earlier lines

    @settings(max_examples=400, deadline=None)
    @given(blocks())
    def check(block):
        for decoder in (kept, PARSERS[parser](layout)):
            decoded = decoder.decode(block)
            if decoded is None:
                continue
            found = decoded.rows(0, len(decoded))
            records = [read(line) for line in block.split(b"\n") if line.strip(b" \t\r")]
            assert all(isinstance(record, dict) for record in records)
            wanted = [
                Row.of(tuple(fields), [expected(record.get(name), *fields[name]) for name in fields])
                for record in records
            ]
            assert repr(found) == repr(wanted)
            assert decoded.lines in (None, block.count(b"\n"))
            columns = decoded.batch(0, len(decoded))
            columns.validate(full=True)
            assert repr(records_of(columns)) == repr(found)

    check()


@pytest.mark.parametrize("parser", PARSERS)
def test_plain_objects_are_not_refused(parser):
    layout = layout_of(parser)
    exact = {"compiled": st.integers(-(10**18) + 1, 10**18 - 1), "msgspec": plain["n"]}[parser]
    fitting = {**plain, "n": exact}

    @settings(max_examples=150, deadline=None)
    @given(st.lists(st.fixed_dictionaries({}, optional=fitting), min_size=1, max_size=5), st.booleans())
    def check(records, ascii_only):
        block = "\n".join(json.dumps(record, ensure_ascii=ascii_only) for record in records).encode()
        decoded = PARSERS[parser](layout).decode(block)
        assert decoded is not None
        assert len(decoded) == len(records)

    check()


def test_bytes_of_any_kind_are_taken_or_refused_by_the_compiled_parser():
    decoder = PARSERS["compiled"](layout_of("compiled"))
    pieces = [
        b"{",
        b"}",
        b"[",
        b"]",
        b'"',
        b"\\",
        b"\\u",
        b":",
        b",",
        b"\n",
        b" ",
        b"-",
        b"0",
        b"9" * 20,
        b"1e",
        b".5",
    ]
    words = [
        b'"n":',
        b'"name":',
        b'"d":',
        b'"ok":',
        b"true",
        b"null",
        b"\xc3",
        b"\xf0\x9f\x98\x80",
        b"x" * 15,
    ]

    @settings(max_examples=1_000, deadline=None)
    @given(st.lists(st.sampled_from([*pieces, *words]) | st.binary(max_size=20), max_size=30).map(b"".join))
    def check(block):
        for each in (block, b"{" + block + b"}"):
            decoded = decoder.decode(each)
            if decoded is not None:
                records = [json.loads(line.decode()) for line in each.removesuffix(b"\n").split(b"\n")]
                assert [row.n for row in decoded.rows(0, len(decoded))] == [each.get("n") for each in records]

    check()


def test_all_of_a_compiled_columns_kinds_are_as_the_other_parser_has_them():
    require_compiled()
    kinds = {
        "v": DataTypes.VARCHAR(3),
        "t": DataTypes.TINYINT(),
        "i": DataTypes.INT(),
        "f": DataTypes.FLOAT(),
        "m": DataTypes.DECIMAL(12, 3),
        "day": DataTypes.DATE(),
        "at": DataTypes.TIMESTAMP(3),
        "b": DataTypes.BOOLEAN(),
    }
    given_values = {
        "v": st.text(st.characters(exclude_categories=["Cs"]), max_size=3),
        "t": st.integers(-128, 127),
        "i": st.integers(-(2**31), 2**31 - 1),
        "f": doubles,
        "m": st.decimals(-(10**8), 10**8, places=3),
        "day": st.dates().map(str),
        "at": st.datetimes().map(str),
        "b": st.booleans(),
    }
    layout = BlockLayout(DataTypes.ROW([DataTypes.FIELD(name, kind) for name, kind in kinds.items()]))
    nullable = {name: st.none() | values for name, values in given_values.items()}

    def written(record):
        parts = [
            f'"{name}":{value if isinstance(value, Decimal) else json.dumps(value)}'
            for name, value in record.items()
        ]
        return "{" + ",".join(parts) + "}"

    @settings(max_examples=150, deadline=None)
    @given(st.lists(st.fixed_dictionaries({}, optional=nullable), min_size=1, max_size=20))
    def check(records):
        block = "\n".join(map(written, records)).encode()
        ours, theirs = (PARSERS[parser](layout).decode(block) for parser in ("compiled", "msgspec"))
        assert ours is not None
        assert repr(ours.rows(0, len(ours))) == repr(theirs.rows(0, len(theirs)))
        assert ours.batch(0, len(ours)).equals(theirs.batch(0, len(theirs)))

    check()

"""Blocks of JSON lines decoded at once hold what Python's json module reads, line by line, or are refused."""

from __future__ import annotations

import json

from hypothesis import given, settings
from hypothesis import strategies as st

from millstream.formats.block import BlockLayout
from millstream.formats.json.columns import JsonBlocks
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
ROW_TYPE = DataTypes.ROW([DataTypes.FIELD(name, kind) for name, (kind, _) in FIELDS.items()])

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


@settings(max_examples=400, deadline=None)
@given(blocks())
def test_what_is_decoded_is_what_json_reads(block):
    decoded = JsonBlocks(BlockLayout(ROW_TYPE)).decode(block)
    if decoded is None:
        return
    found = decoded.rows(0, len(decoded))
    records = [read(line) for line in block.split(b"\n") if line.strip(b" \t\r")]
    assert all(isinstance(record, dict) for record in records)
    wanted = [
        Row.of(tuple(FIELDS), [expected(record.get(name), *FIELDS[name]) for name in FIELDS])
        for record in records
    ]
    assert repr(found) == repr(wanted)
    assert decoded.lines in (None, block.count(b"\n"))
    columns = decoded.batch(0, len(decoded))
    assert repr(records_of(columns)) == repr(found)


@settings(max_examples=150, deadline=None)
@given(st.lists(st.fixed_dictionaries({}, optional=plain), min_size=1, max_size=5), st.booleans())
def test_plain_objects_are_not_refused(records, ascii_only):
    block = "\n".join(json.dumps(record, ensure_ascii=ascii_only) for record in records).encode()
    decoded = JsonBlocks(BlockLayout(ROW_TYPE)).decode(block)
    assert decoded is not None
    assert len(decoded) == len(records)

"""The compiled parser of JSON lines: what it leaves to others, and what it must take for its speed to be of use."""

from __future__ import annotations

import json
import threading

import pytest

from json_parsers import require_compiled
from millstream.formats.block import BlockLayout
from millstream.formats.json import compiled
from millstream.formats.json.blocks import JsonBlocks
from millstream.formats.json.compiled import CompiledLines
from millstream.table import DataTypes
from millstream.types.row import Row

KINDS = {
    "text": DataTypes.STRING(),
    "short": DataTypes.VARCHAR(2),
    "n": DataTypes.BIGINT(),
    "tiny": DataTypes.TINYINT(),
    "d": DataTypes.DOUBLE(),
    "flag": DataTypes.BOOLEAN(),
}


def layout_of(kinds=KINDS):
    return BlockLayout(DataTypes.ROW([DataTypes.FIELD(name, kind) for name, kind in kinds.items()]))


@pytest.fixture
def lines():
    require_compiled()
    return CompiledLines.of(layout_of())


BAD_UTF8 = [
    b"\x80",
    b"\xc0\x80",
    b"\xc1\xbf",
    b"\xc3",
    b"\xc3(",
    b"\xe0\x80\x80",
    b"\xe2\x82",
    b"\xe2(\xa1",
    b"\xed\xa0\x80",
    b"\xf0\x80\x80\x80",
    b"\xf0\x9f\x98",
    b"\xf4\x90\x80\x80",
    b"\xf5\x80\x80\x80",
    b"\xff",
]


@pytest.mark.parametrize("field", ["text", "other"])
@pytest.mark.parametrize("data", BAD_UTF8, ids=repr)
def test_text_that_is_not_utf8_is_refused_whether_it_is_wanted_or_not(lines, field, data):
    for before in (b"", b"a" * 15, b"a" * 16):
        assert lines.decode(b'{"%s":"%s%s"}' % (field.encode(), before, data)) is None
        assert lines.decode(b'{"%s":"%s%s and more, up to a group"}' % (field.encode(), before, data)) is None
        assert lines.decode(b'{"%s%s":1}' % (before, data)) is None


@pytest.mark.parametrize("field", ["text", "other"])
def test_control_characters_and_unknown_escapes_are_refused(lines, field):
    for code in range(0x20):
        assert lines.decode(b'{"%s":"0123456789%c0123456789"}' % (field.encode(), code)) is None
    for escape in (b"\\x", b"\\u12", b"\\u12g4", b"\\", b"\\'"):
        assert lines.decode(b'{"%s":"%s"}' % (field.encode(), escape)) is None


NO_NUMBERS = [
    "01",
    "1.",
    ".5",
    "+1",
    "1e",
    "1e+",
    "-",
    "NaN",
    "Infinity",
    "-Infinity",
    "0x1",
    "1_0",
    "tru",
    "nul",
]
NO_VALUES = [
    "",
    ",",
    "[",
    "[1",
    "[1,]",
    "[,1]",
    "[1}",
    "{",
    '{"a"}',
    '{"a":}',
    '{"a":1,}',
    '{"a" 1}',
    "{1:2}",
    '{"a":1]',
]


@pytest.mark.parametrize("value", [*NO_NUMBERS, *NO_VALUES])
def test_what_is_no_json_is_refused_whether_it_is_wanted_or_not(lines, value):
    with pytest.raises(ValueError):
        json.loads(f'{{"n":{value}}}', parse_constant=lambda name: float("no " + name))
    for field in ("n", "d", "text", "flag", "other"):
        assert lines.decode(f'{{"{field}":{value}}}'.encode()) is None
        assert lines.decode(f'{{"other":[{{"a":{value}}}]}}'.encode()) is None


@pytest.mark.parametrize(
    "line",
    [
        "",
        " ",
        "[1]",
        "1",
        '{"n":1}{"n":2}',
        '{"n":1},',
        '{"n":1',
        '\ufeff{"n":1}',
        '{"\\u006e":1}',
        '{"n":1.0}',
        '{"n":"1"}',
        '{"n":1e3}',
        '{"n":1000000000000000000}',
        '{"tiny":128}',
        '{"tiny":-129}',
        '{"d":-0}',
        '{"d":1e999}',
        '{"d":"1"}',
        '{"text":1}',
        '{"text":["a"]}',
        '{"text":"\\ud800"}',
        '{"text":"\\udc00\\ud800"}',
        '{"text":"\\ud800\\u0041"}',
        '{"text":"\\ud800x"}',
        '{"short":"abc"}',
        '{"short":"éüö"}',
        '{"flag":1}',
        '{"flag":"true"}',
        '{"other":' + "[" * 1_000 + "]" * 1_000 + "}",
        '{"other":' + '{"a":' * 1_000 + "1" + "}" * 1_000 + "}",
        '{"other":' + "1" * 5_000 + "}",
    ],
)
def test_a_line_that_others_have_to_look_at_is_refused_with_its_block(lines, line):
    good = '{"n":1}'
    for block in (line or "\n", f"{good}\n{line}\n{good}", f"{good}\n{line}\n"):
        assert lines.decode(block.encode()) is None
    assert lines.decode(good.encode()).rows(0, 1) == [Row.of(tuple(KINDS), [None, None, 1, None, None, None])]


def test_a_block_without_lines_or_of_empty_ones_is_left_to_others(lines):
    for block in (b"", b"\n", b"\n" * 100_000, b"{}\n" + b"\n" * 100):
        assert lines.decode(block) is None


def test_what_is_common_is_taken(lines):
    block = (
        '{"n":-999999999999999999,"tiny":-128,"d":-0.0,"flag":true,"text":"","short":"éü"}\r\n'
        ' { "text" : "a\\u00e9\\n\\ud83d\\ude00" , "d" : 1e-7 , "n" : 0 , "tiny":127, "flag":false}\t\n'
        '{"n":1,"n":2,"d":123456789012345678901234567890,"text":null,"more":{"n":[{},[],{"n":"}"}],"d":null}}\n'
        "{}"
    )
    found = lines.decode(block.encode())
    assert repr(found.rows(0, 4)) == repr(
        [
            Row.of(tuple(KINDS), ["", "éü", -999_999_999_999_999_999, -128, -0.0, True]),
            Row.of(tuple(KINDS), ["aé\n😀", None, 0, 127, 1e-7, False]),
            Row.of(tuple(KINDS), [None, None, 2, None, 123456789012345678901234567890.0, None]),
            Row.of(tuple(KINDS), [None] * 6),
        ]
    )
    assert found.lines == 3
    assert lines.decode(block.encode() + b"\n").lines == 4


def test_a_field_that_must_have_a_value_refuses_lines_without():
    require_compiled()
    lines = CompiledLines.of(layout_of({"n": DataTypes.INT(nullable=False)}))
    assert lines.decode(b'{"n":1}').rows(0, 1) == [Row(n=1)]
    assert lines.decode(b'{"n":null}') is None
    assert lines.decode(b'{"m":1}') is None


def test_lines_with_other_keys_in_another_order_are_taken(lines):
    """It expects the keys of the line before."""
    records = [
        {"n": number, **{f"k{number % 7}{place}": place for place in range(300)}} for number in range(20)
    ]
    records += [dict(reversed(record.items())) for record in records] + [{"k" * 1_000: 1, "n": 4}] * 2
    block = "\n".join(map(json.dumps, records)).encode()
    assert [row.n for row in lines.decode(block).rows(0, len(records))] == [each["n"] for each in records]


def test_rows_lists_and_maps_are_left_to_others():
    require_compiled()
    point = DataTypes.ROW([DataTypes.FIELD("x", DataTypes.INT())])
    for kind in (point, DataTypes.ARRAY(DataTypes.INT()), DataTypes.MAP(DataTypes.STRING(), DataTypes.INT())):
        assert CompiledLines.of(layout_of({"n": DataTypes.INT(), "more": kind})) is None


def test_a_file_of_odd_lines_is_asked_for_from_time_to_time_only(lines, monkeypatch):
    asked = []
    monkeypatch.setattr(lines, "_columns", lambda block: asked.append(block))
    for _ in range(3 * compiled._PAUSE):
        assert lines.decode(b"{}") is None
    assert compiled._MOST_REFUSED < len(asked) < 4 * compiled._MOST_REFUSED


def test_without_it_lines_are_decoded_all_the_same(monkeypatch):
    monkeypatch.setattr(compiled, "_NEW_PARSER", None)
    blocks = JsonBlocks(layout_of())
    assert blocks.decode(b'{"n":1}').rows(0, 1)[0].n == 1
    require_compiled()
    monkeypatch.undo()
    assert JsonBlocks(layout_of()).block_bytes > blocks.block_bytes


def test_two_threads_may_decode_with_one_decoder(lines):
    """They take turns: one learns the keys of the other's lines meanwhile."""
    found, errors = [], []

    def decode(name):
        block = b"\n".join(b'{"%s%d":0,"n":%d}' % (name, number, number) for number in range(2_000))
        try:
            for _ in range(50):
                decoded = lines.decode(block)
                found.append([row.n for row in decoded.rows(0, len(decoded))])
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=decode, args=(name,)) for name in (b"a", b"b")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    assert found == [list(range(2_000))] * 100


def test_values_of_a_kind_that_is_not_there_are_an_error():
    require_compiled()
    with pytest.raises(ValueError, match='field "n": there is no kind "i128"'):
        compiled._NEW_PARSER([("n", "i128", True, 0)])

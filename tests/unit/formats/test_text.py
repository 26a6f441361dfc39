from __future__ import annotations

import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millstream.base.errors import ConfigurationError, MalformedRecordError, NotSupportedError
from millstream.formats.text.lines import StreamFormat
from millstream.types.arrow_values import records_of


def records(data, charset="UTF-8", position=None):
    fmt = StreamFormat.text_line_format(charset)
    return fmt.open(io.BufferedReader(io.BytesIO(data)), "x.txt", position)


@given(
    lines=st.lists(st.text(st.sampled_from("ab é\u2028\x0b\x85"), max_size=4), max_size=9),
    size=st.integers(1, 4),
    last_newline=st.booleans(),
)
def test_lines_in_any_pieces_by_new_readers_are_all_lines(lines, size, last_newline):
    data = "\n".join(lines).encode() + b"\n" * (last_newline and bool(lines))
    expected = lines if last_newline or not lines or lines[-1] else lines[:-1]
    read, position, done = [], None, False
    while not done:
        opened = records(data, position=position)
        read += opened.read(size) if len(read) % 2 else records_of(opened.read_columns(size))
        position, done = opened.position, opened.exhausted
    assert read == expected


def test_carriage_returns_before_newlines_belong_to_the_line_end():
    assert records(b"a\r\nb\n\r\nc").read(9) == ["a", "b", "", "c"]


def test_charset_is_used():
    assert records("ä\n".encode("latin-1"), "ISO-8859-1").read(9) == ["ä"]


def test_bytes_that_do_not_decode_are_named_with_line_and_column():
    opened = records(b"a\nb\nc\xffd\n")
    opened.read(1)
    with pytest.raises(
        MalformedRecordError, match=r"file 'x\.txt', line 3, column 2: bytes are no utf-8 text"
    ):
        opened.read(9)


def test_charset_must_exist_and_have_a_one_byte_newline():
    with pytest.raises(ConfigurationError, match="charset 'klingon' does not exist"):
        records(b"", "klingon")
    with pytest.raises(NotSupportedError):
        records(b"", "UTF-16")

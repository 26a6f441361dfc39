"""Cuts a SQL text into tokens, by the rules of Flink's lexer (names in backquotes, strings in quotes, no escapes)."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum

from millstream.table.sql.ast import Position
from millstream.table.sql.errors import SqlParseError

__all__ = ["Token", "TokenKind", "tokenize"]


class TokenKind(Enum):
    """Kinds of tokens."""

    WORD = "word"
    QUOTED = "quoted name"
    STRING = "string"
    BINARY = "binary string"
    NUMBER = "number"
    SYMBOL = "symbol"
    HINT = "hint"
    END = "end"


@dataclass(frozen=True, slots=True)
class Token:
    """A token.

    Attributes:
        kind: Its kind.
        text: As written.
        value: What it says: a word in upper case, a string without quotes, a symbol.
        start: Place of its first character in the text, from 0.
        line: From 1.
        column: From 1.
    """

    kind: TokenKind
    text: str
    value: str
    start: int
    line: int
    column: int

    @property
    def end(self) -> int:
        """The place behind its last character."""
        return self.start + len(self.text)

    @property
    def position(self) -> Position:
        """Where it stands."""
        return Position(self.line, self.column, max(1, len(self.text)))


_PATTERN = re.compile(
    r"""
    (?P<space>\s+|--[^\n]*|//[^\n]*)
  | (?P<hint>/\*\+)
  | (?P<comment>/\*.*?\*/)
  | (?P<binary>[xX]'(?:[^']|'')*')
  | (?P<unicode>[uU]&'(?:[^']|'')*')
  | (?P<charset>_[A-Za-z0-9-]+'(?:[^']|'')*'|[nN]'(?:[^']|'')*')
  | (?P<string>'(?:[^']|'')*')
  | (?P<quoted>`(?:[^`]|``)+`)
  | (?P<number>(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?)
  | (?P<word>[^\W\d][\w$]*)
  | (?P<symbol><>|!=|<=|>=|=>|\|\||\*/|[-+*/%=<>(),.;\[\]{}?:|^$@!])
    """,
    re.VERBOSE | re.DOTALL,
)
_UNICODE_ESCAPE = re.compile(r"\\(\\|[0-9a-fA-F]{4})")
_UNCLOSED = {
    "'": ("a string is not closed", "Close it with a quote ('); a quote inside a string is written twice."),
    "`": ("a name in backquotes is not closed", "Close it with a backquote (`)."),
    "/": ("a comment is not closed", "Close it with */."),
    '"': (
        "a double quote does not quote anything in Flink's SQL",
        "Write strings in single quotes ('text') and names in backquotes (`name`).",
    ),
}


def tokenize(text: str) -> list[Token]:
    """Return the tokens of a text; the last one is of kind END.

    Raises:
        SqlParseError: If a character or an unclosed string, name or comment cannot be read.
    """
    tokens: list[Token] = []
    place, line, line_start, size = 0, 1, 0, len(text)
    while place < size:
        match = _PATTERN.match(text, place)
        if match is None or (match.lastgroup == "symbol" and text.startswith("/*", place)):
            raise _unreadable(text, Position(line, place - line_start + 1), place)
        raw = match.group()
        kind = match.lastgroup or ""
        if kind not in ("space", "comment"):
            tokens.append(_token(text, kind, raw, place, line, place - line_start + 1))
        breaks = raw.count("\n")
        if breaks:
            line += breaks
            line_start = place + raw.rindex("\n") + 1
        place += len(raw)
    tokens.append(Token(TokenKind.END, "", "", size, line, size - line_start + 1))
    return tokens


def _token(text: str, kind: str, raw: str, place: int, line: int, column: int) -> Token:
    if kind == "word":
        return Token(TokenKind.WORD, raw, raw.upper(), place, line, column)
    if kind == "quoted":
        return Token(TokenKind.QUOTED, raw, raw[1:-1].replace("``", "`"), place, line, column)
    if kind == "string":
        return Token(TokenKind.STRING, raw, raw[1:-1].replace("''", "'"), place, line, column)
    if kind in ("unicode", "charset"):
        value = raw[raw.index("'") + 1 : -1].replace("''", "'")
        value = _decoded(value) if kind == "unicode" else value
        return Token(TokenKind.STRING, raw, value, place, line, column)
    if kind == "binary":
        digits = raw[2:-1]
        if len(digits) % 2 or re.search("[^0-9a-fA-F]", digits):
            raise SqlParseError(
                f"{raw} is not a binary string",
                at=Position(line, column, len(raw)),
                text=text,
                hint="Write pairs of hexadecimal digits, such as x'0AFF'.",
            )
        return Token(TokenKind.BINARY, raw, digits, place, line, column)
    if kind == "number":
        return Token(TokenKind.NUMBER, raw, raw, place, line, column)
    if kind == "hint":
        return Token(TokenKind.HINT, raw, raw, place, line, column)
    return Token(TokenKind.SYMBOL, raw, "<>" if raw == "!=" else raw, place, line, column)


def _decoded(value: str) -> str:
    def one(match: re.Match[str]) -> str:
        digits = match.group(1)
        return "\\" if digits == "\\" else chr(int(digits, 16))

    return _UNICODE_ESCAPE.sub(one, value)


def _unreadable(text: str, at: Position, place: int) -> SqlParseError:
    character = text[place]
    if text.startswith(("x'", "X'", "n'", "N'"), place):
        character = "'"
    message, hint = _UNCLOSED.get(character, (f"the character {character!r} has no meaning in SQL", None))
    return SqlParseError(message, at=at, text=text, hint=hint, at_end=character in "'`/")

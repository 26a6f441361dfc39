"""Reads tokens one after the other, and says what was expected where they end or go wrong."""

from __future__ import annotations

import re
from typing import NoReturn

from millstream.table.sql.ast import Position
from millstream.table.sql.errors import SqlParseError, closest
from millstream.table.sql.lexer import Token, TokenKind, tokenize
from millstream.table.sql.reserved import RESERVED

__all__ = ["MAX_DEPTH", "Cursor"]

MAX_DEPTH = 60
"""How deep parentheses, calls and subqueries may be nested."""

_SYMBOL_NAMES = {"(": '"("', ")": '")"', ",": '","', ";": '";"'}


class Cursor:
    """A place in the tokens of a text; remembers what was asked for at the current place."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.tokens = tokenize(text)
        self.index = 0
        self.depth = 0
        self._asked: dict[str, None] = {}

    # --- looking

    @property
    def current(self) -> Token:
        """The token to be read next."""
        return self.tokens[self.index]

    def ahead(self, count: int = 1) -> Token:
        """Return a later token; the last one if there are not as many."""
        return self.tokens[min(self.index + count, len(self.tokens) - 1)]

    @property
    def at_end(self) -> bool:
        """Whether the statement is over."""
        token = self.current
        return token.kind is TokenKind.END or (token.kind is TokenKind.SYMBOL and token.value == ";")

    @property
    def at_text_end(self) -> bool:
        """Whether the text is over."""
        return self.current.kind is TokenKind.END

    @property
    def is_string(self) -> bool:
        """Whether a string stands here."""
        return self.current.kind is TokenKind.STRING

    def is_word(self, *words: str) -> bool:
        """Whether these words stand here, one after the other."""
        self._asked[" ".join(words)] = None
        tokens, start = self.tokens, self.index
        if start + len(words) > len(tokens):
            return False
        return all(
            tokens[start + step].kind is TokenKind.WORD and tokens[start + step].value == word
            for step, word in enumerate(words)
        )

    def is_one_of(self, *words: str) -> bool:
        """Whether one of these words stands here."""
        self._asked.update(dict.fromkeys(words))
        return self.current.kind is TokenKind.WORD and self.current.value in words

    def is_symbol(self, symbol: str) -> bool:
        """Whether a symbol stands here."""
        self._asked[_SYMBOL_NAMES.get(symbol, f'"{symbol}"')] = None
        return self.current.kind is TokenKind.SYMBOL and self.current.value == symbol

    def ahead_is(self, count: int, value: str) -> bool:
        """Whether a later token is a word or symbol."""
        token = self.ahead(count)
        return token.kind in (TokenKind.WORD, TokenKind.SYMBOL) and token.value == value

    @property
    def is_name(self) -> bool:
        """Whether a name stands here: quoted, or a word that is not reserved."""
        token = self.current
        return token.kind is TokenKind.QUOTED or (
            token.kind is TokenKind.WORD and token.value not in RESERVED
        )

    # --- taking

    def advance(self) -> Token:
        """Take the current token."""
        token = self.tokens[self.index]
        if token.kind is not TokenKind.END:
            self.index += 1
        self._asked.clear()
        return token

    def take(self, *words: str) -> bool:
        """Take these words if they stand here."""
        if not self.is_word(*words):
            return False
        self.index += len(words)
        self._asked.clear()
        return True

    def take_one_of(self, *words: str) -> str:
        """Take one of these words; "" if none stands here."""
        return self.advance().value if self.is_one_of(*words) else ""

    def take_symbol(self, symbol: str) -> bool:
        """Take a symbol if it stands here."""
        if not self.is_symbol(symbol):
            return False
        self.advance()
        return True

    def expect(self, *words: str) -> Token:
        """Take words that have to stand here; returns the first."""
        token = self.current
        for word in words:
            if not self.take(word):
                self.fail()
        return token

    def expect_one_of(self, *words: str) -> str:
        """Take one of some words."""
        return self.take_one_of(*words) or self.fail()

    def expect_symbol(self, symbol: str) -> Token:
        """Take a symbol that has to stand here."""
        token = self.current
        if not self.take_symbol(symbol):
            self.fail()
        return token

    def name(self, what: str = "a name") -> str:
        """Take a name."""
        token = self.current
        if token.kind is TokenKind.QUOTED:
            return self.advance().value
        if token.kind is TokenKind.WORD and token.value not in RESERVED:
            return self.advance().text
        self.fail(what)

    def any_name(self, what: str = "a name") -> str:
        """Take a name that may be a reserved word."""
        token = self.current
        if token.kind is TokenKind.QUOTED:
            return self.advance().value
        if token.kind is TokenKind.WORD:
            return self.advance().text
        self.fail(what)

    def dotted_name(self, what: str = "a name") -> tuple[str, ...]:
        """Take names with dots between."""
        parts = [self.name(what)]
        while self.take_symbol("."):
            parts.append(self.name("a name behind the dot"))
        return tuple(parts)

    def names_in_parentheses(self, what: str = "a name") -> tuple[str, ...]:
        """Take `(a, b)`."""
        self.expect_symbol("(")
        names = [self.name(what)]
        while self.take_symbol(","):
            names.append(self.name(what))
        self.expect_symbol(")")
        return tuple(names)

    def string(self, what: str = "a string in quotes") -> str:
        """Take a string; strings that follow one another on lines of their own are one."""
        if self.current.kind is not TokenKind.STRING:
            self.fail(what)
        value = self.advance().value
        while self.current.kind is TokenKind.STRING:
            value += self.advance().value
        return value

    def integer(self, what: str = "a whole number") -> int:
        """Take a whole number."""
        token = self.current
        if token.kind is not TokenKind.NUMBER or not token.value.isdigit():
            self.fail(what)
        self.advance()
        return int(token.value)

    def enter(self) -> None:
        """Go one level of nesting down.

        Raises:
            SqlParseError: If the text is nested deeper than `MAX_DEPTH`.
        """
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise self.error(
                f"the statement is nested deeper than {MAX_DEPTH} levels",
                hint="Give inner parts names: CREATE TEMPORARY VIEW, or WITH name AS (...).",
            )

    def leave(self) -> None:
        """Go up again."""
        self.depth -= 1

    # --- positions and errors

    def since(self, token: Token) -> Position:
        """Return where everything from a token to the last one taken stands; its length on the first line."""
        last = self.tokens[max(self.index - 1, 0)]
        length = last.end - token.start if last.line == token.line else len(token.text)
        return Position(token.line, token.column, max(1, length))

    def text_since(self, token: Token) -> str:
        """Return the text from a token to the last one taken."""
        return self.text[token.start : self.tokens[max(self.index - 1, 0)].end]

    def error(
        self, message: str, *, token: Token | None = None, at: Position | None = None, hint: str | None = None
    ) -> SqlParseError:
        """Make an error at a token, the current one by default."""
        where = at or (token or self.current).position
        return SqlParseError(message, at=where, text=self.text, hint=hint)

    def fail(self, *expected: str) -> NoReturn:
        """Refuse the current token.

        Args:
            expected: What should stand here, beside the words that were asked for.

        Raises:
            SqlParseError: Always.
        """
        token = self.current
        wanted = tuple(expected) or tuple(self._asked)
        ended = token.kind is TokenKind.END
        seen = "the end of the text" if ended else f'"{token.text}"'
        message = f"{seen} was not expected here"
        detail = f"Expected: {_listed(wanted)}." if wanted else None
        raise SqlParseError(
            message,
            at=token.position,
            text=self.text,
            detail=detail,
            hint=self._hint(token, wanted),
            expected=wanted,
            at_end=ended,
        )

    def _hint(self, token: Token, wanted: tuple[str, ...]) -> str | None:
        if token.kind is not TokenKind.WORD:
            return None
        asked = {*wanted, *self._asked}
        words = {word.split(" ")[0] for word in asked if re.fullmatch("[A-Z_ ]+", word)}
        near = closest(token.value, words, 0.7)
        if near and near != token.value:
            return f'Did you mean "{near}"?'
        previous = self.tokens[self.index - 1] if self.index else None
        partly = next((each for each in asked if each.startswith(f"{token.value} ")), None)
        if partly is not None:
            return f'"{token.text}" is followed by {partly[len(token.value) + 1 :]} here.'
        if previous is not None and previous.value == "," and token.value in _CLAUSES:
            return "Remove the comma before it, or write what is missing behind the comma."
        if token.value in RESERVED and any(each.startswith(("a ", "an ")) for each in wanted):
            return (
                f'"{token.text}" is a reserved word: as a name it is written in backquotes, `{token.text}`.'
            )
        if previous is not None and previous.kind is TokenKind.WORD and previous.value not in RESERVED:
            near = closest(previous.value, _STARTS, 0.75)
            if near and near != previous.value:
                return f'Did you mean "{near}" instead of "{previous.text}"?'
        return None


_CLAUSES = ("FROM", "WHERE", "GROUP", "HAVING", "ORDER", "LIMIT", "UNION", "INTO", "SELECT", "WITH", "AS")
_STARTS = (
    "SELECT",
    "FROM",
    "WHERE",
    "GROUP",
    "ORDER",
    "HAVING",
    "INSERT",
    "CREATE",
    "TABLE",
    "LIMIT",
    "VALUES",
    "JOIN",
)


def _listed(words: tuple[str, ...], limit: int = 20) -> str:
    shown = list(words[:limit]) + (["more"] if len(words) > limit else [])
    return shown[0] if len(shown) == 1 else f"{', '.join(shown[:-1])} or {shown[-1]}"

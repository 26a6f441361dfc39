"""JSON texts: reading and writing them as Jackson does, and paths into them.

Paths are those of Jayway's JsonPath: `$`, `.name`, `['name']`, `[n]`, `[n, m]`, `[a:b]`, `[*]`, `.*`, `..name`,
`[?(@.x == 1)]`, after `lax` or `strict` (the default).
"""

from __future__ import annotations

import decimal
import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

__all__ = ["JsonPath", "PathError", "dump_json", "parse_json", "parse_path"]


class PathError(ValueError):
    """A path leads nowhere, is no path, or the text is no JSON."""


class _NotJson(ValueError):
    """A constant that JSON has not."""


def _refuse(name: str) -> Any:
    raise _NotJson(name)


def parse_json(text: str) -> Any:
    """Return a JSON text's value; numbers with a point are decimals, which keep their digits.

    Raises:
        ValueError: If it is none.
    """
    return json.loads(text, parse_float=decimal.Decimal, parse_constant=_refuse)


_ESCAPES = {'"': '\\"', "\\": "\\\\", "\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t"}
_ESCAPED = re.compile(r'["\\\x00-\x1f]')


def dump_json(value: Any) -> str:
    """Return a value as a JSON text without blanks."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        escaped = _ESCAPED.sub(lambda found: _ESCAPES.get(found[0]) or f"\\u{ord(found[0]):04X}", value)
        return f'"{escaped}"'
    if isinstance(value, dict):
        return "{" + ",".join(f"{dump_json(str(key))}:{dump_json(part)}" for key, part in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ",".join(map(dump_json, value)) + "]"
    return str(value)


Step = Callable[[Any], Iterator[Any]]


@dataclass(frozen=True)
class JsonPath:
    """A path.

    Attributes:
        lax: Whether what is missing is empty, not an error.
        steps: What leads on from values.
        definite: Whether it leads to one value at most.
    """

    lax: bool
    steps: tuple[Step, ...]
    definite: bool

    def find(self, value: Any) -> Any:
        """Return what the path leads to; a list of all, if it is not definite.

        Raises:
            PathError: If a definite path leads nowhere.
        """
        found = [value]
        for step in self.steps:
            found = [part for each in found for part in step(each)]
        if not self.definite:
            return found
        if not found:
            raise PathError("nothing is there")
        return found[0]


_TOKEN = re.compile(
    r"""\.\.(?P<deep>\*|[\w$-]+)|\.\.(?P<open>(?=\[))|\.(?P<name>\*|[^.\[\]()\s]+)
    |\[\s*(?P<quoted>'(?:[^'\\]|\\.)*'(?:\s*,\s*'(?:[^'\\]|\\.)*')*|"(?:[^"\\]|\\.)*")\s*\]
    |\[\s*(?P<star>\*)\s*\]|\[\s*(?P<places>-?\d+(?:\s*,\s*-?\d+)*)\s*\]
    |\[\s*(?P<slice>-?\d*:-?\d*)\s*\]|\[\?\((?P<filter>.+?)\)\]""",
    re.VERBOSE,
)


@lru_cache(maxsize=1024)
def parse_path(text: str) -> JsonPath:
    """Read a path.

    Raises:
        PathError: If it is none.
    """
    mode = re.match(r"\s*(lax|strict)\s+", text, re.IGNORECASE)
    rest = text[mode.end() :] if mode else text
    rest = rest.strip()
    if not rest.startswith("$"):
        raise PathError(f"path {text!r} does not begin with $")
    steps: list[Step] = []
    definite, place = True, 1
    while place < len(rest):
        found = _TOKEN.match(rest, place)
        if found is None:
            raise PathError(f"path {text!r} cannot be read from {rest[place:]!r} on")
        step, one = _step(found)
        steps.append(step)
        definite &= one
        place = found.end()
    return JsonPath(bool(mode) and mode[1].lower() == "lax" if mode else False, tuple(steps), definite)


def _step(found: re.Match[str]) -> tuple[Step, bool]:
    kind, text = found.lastgroup, found[found.lastgroup or 0]
    if kind == "name":
        return (_children, False) if text == "*" else (_named((text,)), True)
    if kind == "quoted":
        names = tuple(_unquoted(part) for part in re.findall(r"'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"", text))
        return _named(names), len(names) == 1
    if kind == "star":
        return _children, False
    if kind == "places":
        places = tuple(int(part) for part in text.split(","))
        return _at(places), len(places) == 1
    if kind == "slice":
        start, end = (int(part) if part else None for part in text.split(":"))
        return (lambda value: iter(value[start:end] if isinstance(value, list) else ())), False
    if kind == "filter":
        return _filter(text), False
    if kind == "open":
        return _descendants, False
    return _deep(text), False


def _unquoted(text: str) -> str:
    return re.sub(r"\\(.)", r"\1", text[1:-1])


def _named(names: tuple[str, ...]) -> Step:
    def step(value: Any) -> Iterator[Any]:
        if isinstance(value, dict):
            for name in names:
                if name in value:
                    yield value[name]

    return step


def _at(places: tuple[int, ...]) -> Step:
    def step(value: Any) -> Iterator[Any]:
        if isinstance(value, list):
            for place in places:
                if -len(value) <= place < len(value):
                    yield value[place]

    return step


def _children(value: Any) -> Iterator[Any]:
    if isinstance(value, dict):
        yield from value.values()
    elif isinstance(value, list):
        yield from value


def _descendants(value: Any) -> Iterator[Any]:
    yield value
    for part in _children(value):
        yield from _descendants(part)


def _deep(name: str) -> Step:
    def step(value: Any) -> Iterator[Any]:
        for each in _descendants(value):
            if name == "*":
                yield from _children(each)
            elif isinstance(each, dict) and name in each:
                yield each[name]

    return step


_TEST = re.compile(r"\s*@((?:\.[\w$-]+|\['[^']*'\])*)\s*(?:(==|!=|<=|>=|<|>)\s*(.+?))?\s*")


def _filter(text: str) -> Step:
    found = _TEST.fullmatch(text)
    if found is None:
        raise PathError(f"filter {text!r} cannot be read")
    names = [name or quoted for name, quoted in re.findall(r"\.([\w$-]+)|\['([^']*)'\]", found[1])]
    test = _comparison(found[2], found[3])

    def step(value: Any) -> Iterator[Any]:
        for each in _children(value):
            there, part = _reach(each, names)
            if there and test(part):
                yield each

    return step


def _reach(value: Any, names: list[str]) -> tuple[bool, Any]:
    for name in names:
        if not isinstance(value, dict) or name not in value:
            return False, None
        value = value[name]
    return True, value


_COMPARISONS: dict[str, Callable[[Any, Any], bool]] = {
    "==": lambda a, b: a == b,
    "!=": lambda a, b: a != b,
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b,
}


def _comparison(name: str | None, text: str | None) -> Callable[[Any], bool]:
    if name is None or text is None:
        return lambda value: True
    other = _unquoted(text) if text[0] in "'\"" else parse_json(text)
    compare = _COMPARISONS[name]

    def test(value: Any) -> bool:
        try:
            return compare(value, other)
        except TypeError:
            return False

    return test

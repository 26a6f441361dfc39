"""Parameters of paths and queries: how they are read, checked, and described in the OpenAPI document."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from millstream.base.errors import shorten

__all__ = [
    "Parameter",
    "boolean",
    "choice",
    "choices",
    "hex_id",
    "integer",
    "names",
    "subtask_ranges",
    "text",
]

_HEX_ID = re.compile(r"[0-9a-f]{32}")
_RANGE = re.compile(r"([0-9]{1,9})(?:-([0-9]{1,9}))?")
_LONGEST = 4_000
_MOST = 1_000
"""Of a list, and subtasks of a range."""


@dataclass(frozen=True, slots=True)
class Parameter:
    """One parameter.

    Attributes:
        name: In the path (`:name`) or query.
        description: One sentence, for the OpenAPI document.
        schema: JSON schema of its value.
        parse: Makes a value of its text; raises ValueError with what would be right.
        default: The value if a query has none.
        example: A text that is right.
    """

    name: str
    description: str
    schema: Mapping[str, Any]
    parse: Callable[[str], Any]
    default: Any = None
    example: str | None = field(default=None)

    def read(self, value: str) -> Any:
        """Return the value of a text.

        Raises:
            ValueError: If it does not fit, with a message for a person.
        """
        if len(value) > _LONGEST:
            raise ValueError(f'parameter "{self.name}" has {len(value)} characters, more than {_LONGEST}')
        try:
            return self.parse(value)
        except ValueError as error:
            raise ValueError(f'parameter "{self.name}" is {shorten(value)}: {error}') from error


def hex_id(name: str, description: str) -> Parameter:
    """Return an id of 32 hexadecimal digits.

    >>> hex_id("jobid", "The job.").read("x")
    Traceback (most recent call last):
    ValueError: parameter "jobid" is 'x': an id has 32 hexadecimal digits
    """

    def parse(value: str) -> str:
        lower = value.lower()
        if _HEX_ID.fullmatch(lower) is None:
            raise ValueError("an id has 32 hexadecimal digits")
        return lower

    return Parameter(name, description, {"type": "string", "pattern": "^[0-9a-fA-F]{32}$"}, parse)


def integer(
    name: str, description: str, *, minimum: int = 0, maximum: int = 2**63 - 1, default: int | None = None
) -> Parameter:
    """Return a whole number."""

    def parse(value: str) -> int:
        if re.fullmatch(r"-?[0-9]{1,20}", value) is None or not minimum <= int(value) <= maximum:
            raise ValueError(f"a whole number from {minimum} to {maximum} is needed")
        return int(value)

    schema: dict[str, Any] = {"type": "integer", "minimum": minimum, "maximum": maximum}
    if default is not None:
        schema["default"] = default
    return Parameter(name, description, schema, parse, default)


def boolean(name: str, description: str, *, default: bool = False) -> Parameter:
    """Return true or false."""

    def parse(value: str) -> bool:
        if value.lower() not in ("true", "false"):
            raise ValueError("true or false is needed")
        return value.lower() == "true"

    return Parameter(name, description, {"type": "boolean", "default": default}, parse, default)


def choice(name: str, description: str, values: Sequence[str], *, default: str | None = None) -> Parameter:
    """Return one of a few words."""

    def parse(value: str) -> str:
        if value.lower() not in values:
            raise ValueError(f"one of {', '.join(values)} is needed")
        return value.lower()

    schema: dict[str, Any] = {"type": "string", "enum": list(values)}
    if default is not None:
        schema["default"] = default
    return Parameter(name, description, schema, parse, default)


def _split(value: str) -> list[str]:
    parts = value.split(",") if value else []
    if len(parts) > _MOST:
        raise ValueError(f"it has {len(parts)} entries, more than {_MOST}")
    return parts


def _list_of(items: Mapping[str, Any]) -> dict[str, Any]:
    return {"type": "array", "items": items, "maxItems": _MOST}


def choices(name: str, description: str, values: Sequence[str]) -> Parameter:
    """Return some of a few words, with commas between them."""

    def parse(value: str) -> list[str]:
        parts = [part.lower() for part in _split(value)]
        if not set(parts) <= set(values):
            raise ValueError(f"words of {', '.join(values)} are needed, with commas between them")
        return parts

    return Parameter(name, description, _list_of({"type": "string", "enum": list(values)}), parse, ())


def names(name: str, description: str) -> Parameter:
    """Return any names, with commas between them; None if the query has none."""
    return Parameter(name, description, _list_of({"type": "string"}), _split)


def subtask_ranges(name: str, description: str) -> Parameter:
    """Return indexes of subtasks, such as `1,3,5-9`, as in Flink; None if the query has none.

    >>> subtask_ranges("subtasks", "Which.").read("1,3,5-7")
    [1, 3, 5, 6, 7]
    """

    def parse(value: str) -> list[int]:
        found: list[int] = []
        for part in _split(value):
            match = _RANGE.fullmatch(part.strip())
            if match is None:
                raise ValueError('indexes and ranges such as "1,3,5-9" are needed')
            first, last = int(match[1]), int(match[2] or match[1])
            if last < first or last - first >= _MOST:
                raise ValueError(f"a range goes up, over {_MOST} subtasks at most")
            found.extend(range(first, last + 1))
        return found

    schema = _list_of({"type": "string", "pattern": "^[0-9]{1,9}(-[0-9]{1,9})?$"})
    return Parameter(name, description, schema, parse, example="0-3")


def text(name: str, description: str, *, default: str | None = None) -> Parameter:
    """Return any text."""
    return Parameter(name, description, {"type": "string"}, str, default)

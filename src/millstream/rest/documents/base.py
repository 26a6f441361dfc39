"""What all documents are: typed, frozen, written as JSON by msgspec, and described in the OpenAPI document."""

from __future__ import annotations

from msgspec import Struct

__all__ = ["CamelDocument", "Document", "KebabDocument", "SnakeDocument", "or_unknown", "or_zero"]

UNKNOWN = -1
"""Where Flink's documents have a number that is not known."""


class Document(Struct, frozen=True, kw_only=True):
    """A JSON object whose fields have the names of the attributes."""


class CamelDocument(Document, frozen=True, kw_only=True, rename="camel"):
    """A JSON object whose fields are `likeThis`."""


class KebabDocument(Document, frozen=True, kw_only=True, rename="kebab"):
    """A JSON object whose fields are `like-this`."""


class SnakeDocument(Document, frozen=True, kw_only=True):
    """A JSON object whose fields are `like_this`, as Flink's of checkpoints."""


def or_zero(value: int | None) -> int:
    """Return a number, 0 for one that is not known.

    >>> or_zero(None), or_zero(7)
    (0, 7)
    """
    return 0 if value is None else value


def or_unknown(value: int | None) -> int:
    """Return a number, -1 for one that is not known, or not yet.

    >>> or_unknown(None), or_unknown(7)
    (-1, 7)
    """
    return UNKNOWN if value is None else value

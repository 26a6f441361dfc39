"""What a user reads who asks an object for a method that it does not have: what it is called, what comes before it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from difflib import SequenceMatcher
from typing import Any

from millstream.base.errors import MillstreamError

__all__ = ["NoSuchMethodError", "explain_missing"]


class NoSuchMethodError(MillstreamError, AttributeError):
    """An object has no such method; `hasattr` tells so too."""

    code = "NO_SUCH_METHOD"
    domain = "user"


def explain_missing(
    owner: object,
    name: str,
    *,
    what: str,
    hints: Mapping[str, str],
    elsewhere: Iterable[tuple[type, str]] = (),
) -> Any:
    """Raise the error for a method that is not there; for `__getattr__`, which is asked for nothing else.

    A property of a user's subclass that itself raises an AttributeError comes here too: it is asked once more, so that
    its own error is what is seen.

    Args:
        owner: What was asked.
        name: What for.
        what: How messages call the owner.
        hints: What to do instead, by name in lower case without underscores.
        elsewhere: Classes that may have the method, each with what leads there; `{name}` stands for the method.

    Raises:
        AttributeError: Always; one of ours that says what to do, if the name is a public one.
    """
    kind = type(owner)
    if any(name in vars(base) for base in kind.__mro__):
        return object.__getattribute__(owner, name)
    if name.startswith("_"):
        raise AttributeError(f"{kind.__name__!r} object has no attribute {name!r}")
    raise NoSuchMethodError(f'{what} has no method "{name}"', hint=_hint(kind, name, hints, elsewhere))


def _hint(
    kind: type, name: str, hints: Mapping[str, str], elsewhere: Iterable[tuple[type, str]]
) -> str | None:
    plain = _plain(name)
    if plain in hints:
        return hints[plain]
    ways: list[tuple[type, str | None]] = [(kind, None), *elsewhere]
    for other, way in ways:
        if way is not None and name in dir(other):
            return way.format(name=name)
    candidates = {
        (_plain(each), place): each
        for place, (other, _) in enumerate(ways)
        for each in dir(other)
        if not each.startswith("_")
    }
    likeness, place, meant = max(
        (SequenceMatcher(None, plain, known).ratio(), -place, each)
        for (known, place), each in candidates.items()
    )
    if likeness < 0.75:
        return None
    leading = ways[-place][1]
    return f'Did you mean "{meant}"?' + ("" if leading is None else f" {leading.format(name=meant)}")


def _plain(name: str) -> str:
    return name.replace("_", "").lower()

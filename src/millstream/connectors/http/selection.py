"""Which part of an answer is meant: a path into JSON, or a function."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from millstream.base.errors import ConfigurationError, MalformedRecordError, shorten
from millstream.connectors.http.responses import HttpResponse

__all__ = ["Selection", "at_path", "check_path", "records_of"]

Selection = str | Callable[[HttpResponse], Any]

_PATH = re.compile(r"\$?(?:\.?(?:[^.\[\]$*]+|\[\d+\]))*(?:\[\*\])?")
_STEP = re.compile(r"\[(\d+)\]|([^.\[\]$*]+)")


def check_path(path: Any) -> None:
    """Check that a path can be followed: `$`, `data.items`, `$.pages[0].rows[*]`.

    Raises:
        ConfigurationError: If it cannot.
    """
    if not isinstance(path, str) or not path or not _PATH.fullmatch(path):
        raise ConfigurationError(
            f"{path!r} is no path into JSON",
            detail="It has names and indexes: $ for all of it, data.items, data.pages[0].rows.",
            hint="A function of the response can take whatever it likes.",
        )


def at_path(value: Any, path: str) -> Any:
    """Return what stands at a path; None if there is nothing.

    >>> at_path({"data": [{"rows": [1, 2]}]}, "$.data[0].rows[*]")
    [1, 2]
    """
    for index, name in _STEP.findall(path.removesuffix("[*]")):
        if index:
            value = value[int(index)] if isinstance(value, list) and int(index) < len(value) else None
        else:
            value = value.get(name) if isinstance(value, dict) else None
    return value


def records_of(response: HttpResponse, selection: Selection) -> list[Any]:
    """Return the records of an answer.

    Raises:
        MalformedRecordError: If there are none where the path leads.
    """
    if callable(selection):
        return list(selection(response))
    found = at_path(response.json(), selection)
    if not isinstance(found, list):
        raise MalformedRecordError(
            f"the answer of {response.address} has no list at {selection}: {shorten(response.body)}",
            hint="set_records(...) takes a path to a list, or a function that returns one.",
        )
    return found

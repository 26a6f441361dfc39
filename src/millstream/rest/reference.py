"""The table of paths in docs/rest.md, made of the table of routes.

`python -m millstream.rest.reference docs/rest.md` makes it anew.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any, get_args, get_origin

from msgspec.structs import fields

from millstream.rest.routes import Route
from millstream.rest.table import ROUTES

__all__ = ["render_paths", "with_paths"]

_BEGIN = "<!-- paths: made by `make docs` -->"
_END = "<!-- end of paths -->"


def render_paths(routes: Iterable[Route]) -> str:
    """Return a Markdown table of routes."""
    lines = ["| method | path | query or body | answer |", "|---|---|---|---|"]
    for route in routes:
        given = [f"`{each.name}`" for each in route.query]
        if route.body is not None:
            given += _fields_of(route.body)
        lines.append(f"| {route.method} | `{route.path}` | {', '.join(given)} | {route.summary} |")
    return "\n".join(lines) + "\n"


def _fields_of(body: Any) -> list[str]:
    """Return the names of a body's fields; of an object with any names, those of its values."""
    if get_origin(body) is dict:
        return [f"`{{…: {{{field.encode_name}}}}}`" for field in fields(get_args(body)[1])]
    return [f"`{field.encode_name}`" for field in fields(body)]


def with_paths(page: str) -> str:
    """Return a page with the table between its marks made anew."""
    before, _, rest = page.partition(_BEGIN)
    _, _, after = rest.partition(_END)
    return f"{before}{_BEGIN}\n{render_paths(ROUTES)}{_END}{after}"


if __name__ == "__main__":
    path = Path(sys.argv[1])
    path.write_text(with_paths(path.read_text(encoding="utf-8")), encoding="utf-8")

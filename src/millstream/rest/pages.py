"""The dashboard's files: read once, answered as they are. They load nothing from elsewhere, and ask the REST API."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources import files
from importlib.resources.abc import Traversable

__all__ = ["Page", "read_pages"]

_TYPES = {
    ".html": b"text/html; charset=UTF-8",
    ".js": b"text/javascript; charset=UTF-8",
    ".css": b"text/css; charset=UTF-8",
    ".svg": b"image/svg+xml",
}


@dataclass(frozen=True, slots=True)
class Page:
    """A file to be answered.

    Attributes:
        content: Its bytes.
        headers: What tells browsers of it.
    """

    content: bytes
    headers: tuple[tuple[bytes, bytes], ...]


def read_pages() -> Mapping[bytes, Page]:
    """Return the dashboard's files by path: `/`, and those below `/web/`."""
    root = files("millstream.rest") / "web"
    pages = {f"/web/{name}".encode(): page for name, page in _read(root, "").items()}
    return {**pages, b"/": pages[b"/web/index.html"]}


def _read(directory: Traversable, above: str) -> dict[str, Page]:
    found: dict[str, Page] = {}
    for entry in directory.iterdir():
        name = f"{above}{entry.name}"
        kind = _TYPES.get(f".{entry.name.rpartition('.')[2]}")
        if entry.is_dir():
            found |= _read(entry, f"{name}/")
        elif kind is not None:
            found[name] = Page(entry.read_bytes(), _headers(kind))
    return found


def _headers(kind: bytes) -> tuple[tuple[bytes, bytes], ...]:
    return (
        (b"content-type", kind),
        (b"cache-control", b"no-cache"),
        (b"x-content-type-options", b"nosniff"),
        (b"x-frame-options", b"DENY"),
        # Nothing from elsewhere, no scripts or styles within the page: a name that is markup stays a text.
        (b"content-security-policy", b"default-src 'self'; base-uri 'none'; frame-ancestors 'none'"),
        (b"referrer-policy", b"no-referrer"),
    )

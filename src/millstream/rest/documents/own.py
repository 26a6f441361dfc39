"""Documents of millstream's own."""

from __future__ import annotations

from millstream.rest.documents.base import CamelDocument
from millstream.version import __version__

__all__ = ["Health", "describe_health"]


class Health(CamelDocument, frozen=True, kw_only=True):
    """`/millstream/health`."""

    status: str
    version: str
    uptime_ms: int


def describe_health(uptime_ms: int) -> Health:
    """Return that a server answers."""
    return Health(status="ok", version=__version__, uptime_ms=uptime_ms)

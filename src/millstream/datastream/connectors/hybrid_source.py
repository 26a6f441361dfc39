"""Sources read one after the other: declared, not yet built (`pyflink.datastream.connectors.hybrid_source`)."""

from __future__ import annotations

from millstream.base.not_yet import NotYet

__all__ = [
    "HybridSource",
    "HybridSourceBuilder",
]


class _Hybrid(NotYet):
    _reason = "Hybrid sources come with a later release."
    _hint = "Until then read the sources by themselves and union the streams."


class HybridSource(_Hybrid):
    """Reads one source after the other."""


class HybridSourceBuilder(_Hybrid):
    """Makes a HybridSource."""

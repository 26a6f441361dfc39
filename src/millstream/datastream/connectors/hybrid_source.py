"""Sources read one after the other (`pyflink.datastream.connectors.hybrid_source`)."""

from __future__ import annotations

from millstream.connectors.hybrid import HybridSource, HybridSourceBuilder

__all__ = ["HybridSource", "HybridSourceBuilder"]

"""ORC files (PyFlink's `pyflink.datastream.formats.orc`); declared, not yet built."""

from __future__ import annotations

from millstream.base.not_yet import NotYet

__all__ = ["OrcBulkWriters"]


class OrcBulkWriters(NotYet):
    """Writes ORC files."""

    _reason = "ORC comes with a later release."
    _hint = "Until then use ParquetBulkWriters."

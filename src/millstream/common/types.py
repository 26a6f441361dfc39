"""Rows, under PyFlink's name (`pyflink.common.types`)."""

from millstream.types.row import Row, RowKind

__all__ = ["Row", "RowKind"]

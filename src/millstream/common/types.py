"""Rows, under PyFlink's name (`pyflink.common.types`)."""

from millstream.types.row import Row, RowKind
from millstream.types.row import _row as _row  # older pickles of rows name it

__all__ = ["Row", "RowKind"]

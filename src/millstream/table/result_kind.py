"""What a result holds, under PyFlink's name (`pyflink.table.result_kind`)."""

from millstream.table.result import ResultKind

__all__ = ["ResultKind"]

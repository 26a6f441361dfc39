"""What executing a statement gives, under PyFlink's name (`pyflink.table.table_result`)."""

from millstream.table.result import CloseableIterator, TableResult

__all__ = ["CloseableIterator", "TableResult"]

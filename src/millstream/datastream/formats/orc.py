"""ORC files (PyFlink's `pyflink.datastream.formats.orc`), and a format to read them of millstream's own."""

from millstream.formats.orc.reader import OrcColumnarRowInputFormat
from millstream.formats.orc.writer import OrcBulkWriters

__all__ = ["OrcBulkWriters", "OrcColumnarRowInputFormat"]

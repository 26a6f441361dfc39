"""ORC files read as rows; needs pyarrow (the extra `parquet`), loaded when it is used.

Stripes are read one by one: a position is a stripe's number, and how many of its rows were given. Where a stripe begins
in the file pyarrow does not tell: parts of a file take as large a share of its stripes as they have of its bytes.
"""

from __future__ import annotations

from typing import Any, BinaryIO

from millstream.base.errors import ConfigurationError, SourceError, shorten
from millstream.formats.block import BlockLayout, ColumnBlock
from millstream.formats.file_columns import as_declared, file_names
from millstream.spi.formats import BulkFormat, FileRecords
from millstream.types.arrow_types import Form, load_arrow
from millstream.types.basic import TypeInformation
from millstream.types.datatypes import RowType
from millstream.types.sql_types import row_type_info

__all__ = ["OrcColumnarRowInputFormat", "load_orc"]


def load_orc() -> Any:
    """Return `pyarrow.orc`.

    Raises:
        ConfigurationError: If pyarrow is not installed, or has no ORC.
    """
    load_arrow("ORC files")
    try:
        import pyarrow.orc
    except ImportError as error:
        raise ConfigurationError(
            "pyarrow is installed without ORC", hint="Use a wheel of pyarrow from the package index."
        ) from error
    return pyarrow.orc


class OrcColumnarRowInputFormat(BulkFormat):
    """Rows of ORC files, the columns of a row type by name (millstream's own; Flink has it in the Table API only).

    Timestamps come as naive datetimes, those with local time zone in UTC. Only the columns of the row type are read. A
    stripe is in memory while its rows are given.

    Args:
        row_type: Names and types.
        is_case_sensitive: Whether names have to be written as in the file.

    Raises:
        ConfigurationError: If it is no row type, or pyarrow is not installed.

    Example:
        >>> from millstream.table import DataTypes
        >>> from millstream.datastream.connectors.file_system import FileSource
        >>> from millstream.datastream.formats.orc import OrcColumnarRowInputFormat
        >>> city = DataTypes.ROW([DataTypes.FIELD("city", DataTypes.STRING())])
        >>> source = FileSource.for_bulk_file_format(OrcColumnarRowInputFormat(city), "data/cities").build()
    """

    def __init__(self, row_type: RowType, is_case_sensitive: bool = True) -> None:
        if not isinstance(row_type, RowType):
            raise ConfigurationError(
                f"ORC files were given the row type {shorten(row_type)}",
                hint="Use DataTypes.ROW([DataTypes.FIELD(...)]).",
            )
        load_orc()
        self._row_type = row_type
        self._case_sensitive = is_case_sensitive

    def get_produced_type(self) -> TypeInformation | None:
        """Return the type of the rows."""
        return row_type_info(self._row_type)

    @property
    def is_splittable(self) -> bool:
        """Stripes are."""
        return True

    def open(self, file: BinaryIO, path: str, position: Any) -> FileRecords:
        """Read rows from a position on.

        Raises:
            SourceError: If it is no ORC file, or a column is missing.
        """
        return self._open(file, path, position, None)

    def open_part(self, file: BinaryIO, path: str, position: Any, part: tuple[int, int]) -> FileRecords:
        """Read the rows of a part's share of the stripes."""
        return self._open(file, path, position, part)

    def _open(
        self, file: BinaryIO, path: str, position: tuple[int, int] | None, part: tuple[int, int] | None
    ) -> FileRecords:
        pa = load_arrow("ORC files")
        try:
            orc = load_orc().ORCFile(file)
        except (pa.ArrowException, OSError) as error:
            raise SourceError(f"file {path!r} is no ORC file", detail=str(error)) from error
        names = file_names(orc.schema.names, self._row_type, path, case_sensitive=self._case_sensitive)
        return _OrcRecords(orc, file, path, names, self._row_type, position, _stripes_of(orc, part))


def _stripes_of(orc: Any, part: tuple[int, int] | None) -> range:
    """Return the numbers of the stripes of a part: each stripe belongs to one of a file's parts."""
    count, size = orc.nstripes, orc.file_length
    if part is None:
        return range(count)
    mine = [index for index in range(count) if part[0] <= index * size // count < part[1]]
    return range(mine[0], mine[-1] + 1) if mine else range(0)


class _OrcRecords(FileRecords):
    def __init__(
        self,
        orc: Any,
        file: BinaryIO,
        path: str,
        names: list[str],
        row_type: RowType,
        position: tuple[int, int] | None,
        stripes: range,
    ) -> None:
        self._orc = orc
        self._file = file
        self._path = path
        self._names = names
        self._layout = BlockLayout(row_type, Form.READ)
        self._stripe, self._given = (stripes.start, 0) if position is None else position
        self._end = stripes.stop
        self._block: ColumnBlock | None = None

    def read(self, max_records: int) -> list[Any]:
        rows: list[Any] = []
        while len(rows) < max_records and not self.exhausted:
            rows += self._open_stripe().rows(*self._take(max_records - len(rows)))
            self._leave_if_given()
        return rows

    def read_columns(self, max_records: int) -> Any:
        if self.exhausted:
            return ColumnBlock(self._layout, [[] for _ in self._names]).batch(0, 0)
        batch = self._open_stripe().batch(*self._take(max_records))
        self._leave_if_given()
        return batch

    @property
    def position(self) -> tuple[int, int]:
        return self._stripe, self._given

    @property
    def exhausted(self) -> bool:
        return self._stripe >= self._end

    def close(self) -> None:
        self._file.close()

    def _take(self, max_records: int) -> tuple[int, int]:
        first = self._given
        self._given = min(first + max_records, len(self._open_stripe()))
        return first, self._given

    def _leave_if_given(self) -> None:
        if self._given == len(self._open_stripe()):
            self._stripe, self._given, self._block = self._stripe + 1, 0, None

    def _open_stripe(self) -> ColumnBlock:
        if self._block is None:
            self._block = self._decode()
        return self._block

    def _decode(self) -> ColumnBlock:
        pa = load_arrow("ORC files")
        try:
            batch = self._orc.read_stripe(self._stripe, columns=self._names)
        except (pa.ArrowException, OSError) as error:
            raise SourceError(f"file {self._path!r} does not read as ORC", detail=str(error)) from error
        columns = []
        for name, field in zip(self._names, self._layout.columns.schema, strict=True):
            column = batch.column(batch.schema.get_field_index(name))
            is_moment = pa.types.is_timestamp(column.type) and column.type.tz is not None
            columns.append(
                as_declared(column, name, field.type, self._path, is_moment=is_moment, in_utc=True)
            )
        return ColumnBlock(self._layout, columns)

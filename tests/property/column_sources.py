"""A source of rows that emits them as rows, as columns, or now this, now that."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

from millstream.connectors.index_splits import IndexEnumerator, cut
from millstream.spi.batch import Columns, Rows
from millstream.spi.source import Boundedness, RangeEnd, Source, SourceReader
from millstream.types.row import rows_of

FORMS = ("rows", "columns", "mixed")


@dataclass(frozen=True)
class RowsSource(Source):
    """Rows of tuples, in batches of `batch` records."""

    names: tuple
    records: tuple
    form: str
    batch: int = 7
    schema: object = None

    def get_boundedness(self):
        return Boundedness.BOUNDED

    def build_enumerator(self, parallelism, restored):
        return IndexEnumerator(cut(0, len(self.records), parallelism), parallelism, restored)

    def build_reader(self, subtask_index, parallelism):
        return _Reader(self)


class _Reader(SourceReader):
    def __init__(self, source):
        self.source = source

    def read(self, split_range, emit):
        indices, position, stop = split_range.split, split_range.start, split_range.stop
        while position < stop:
            first, position = position, min(position + self.source.batch, stop)
            records = self.source.records
            part = Rows(rows_of(self.source.names, [records[index] for index in indices[first:position]]))
            columns = self.source.form == "columns"
            if self.source.form == "mixed":
                columns = Random(f"{split_range.split_id} {first}").random() < 0.5
            if not emit(Columns.from_rows(part, self.source.schema) if columns else part):
                break
        return RangeEnd(
            split_range.split_id, position, position >= len(indices), position - split_range.start
        )

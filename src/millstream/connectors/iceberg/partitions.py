"""How rows go to the partitions of an Iceberg table: by the transforms of its partition spec.

The transforms are pyiceberg's (`identity`, `bucket[n]`, `truncate[w]`, `year`, `month`, `day`, `hour`, `void`), of
whole columns. Columns stay in the files, unlike in Delta's.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from millstream.base.errors import NotSupportedError
from millstream.base.optional import load_package
from millstream.connectors.iceberg.library import load_pyiceberg
from millstream.types.arrow_types import load_arrow

__all__ = ["Partitioning"]

_ROW = "row"


class Partitioning:
    """The partition spec of a table.

    Args:
        spec: pyiceberg's.
        schema: The table's.

    Attributes:
        names: What each of its fields does, which tells specs apart: `day(3)`.

    Raises:
        NotSupportedError: If it has a transform that is not known.
        ConfigurationError: If a package for its transforms is not installed.
    """

    def __init__(self, spec: Any, schema: Any) -> None:
        self._spec = spec
        self._schema = schema
        self.names = tuple(f"{field.name}:{field.transform}({field.source_id})" for field in spec.fields)
        simple = (load_pyiceberg("transforms").IdentityTransform, load_pyiceberg("transforms").VoidTransform)
        unknown = load_pyiceberg("transforms").UnknownTransform
        for field in spec.fields:
            if isinstance(field.transform, unknown):
                raise NotSupportedError(
                    f"an Iceberg table is partitioned by {field.transform} of {field.name!r}, which is not written"
                )
            if not isinstance(field.transform, simple):
                load_package("pyiceberg_core", extra="iceberg", what="Partitions of Iceberg tables")

    def __bool__(self) -> bool:
        return bool(self.names)

    def cut(self, batch: Any) -> Iterator[tuple[tuple[Any, ...], Any]]:
        """Yield the values of each partition that rows of a batch belong to, and these rows, in order.

        Args:
            batch: A record batch, in the types that are stored.
        """
        pa = load_arrow("Iceberg tables")
        if not self.names:
            yield (), batch
            return
        columns = [self._transformed(field, batch) for field in self._spec.fields]
        keys = [str(place) for place in range(len(columns))]
        table = pa.table([*columns, pa.array(range(batch.num_rows))], names=[*keys, _ROW])
        groups = table.group_by(keys, use_threads=False).aggregate([(_ROW, "list")])
        rows = groups.column(f"{_ROW}_list").combine_chunks()
        for place, key in enumerate(groups.select(keys).to_pylist()):
            values = tuple(map(self._stored, self._spec.fields, key.values()))
            yield values, batch if groups.num_rows == 1 else batch.take(rows[place].values)

    def path(self, values: Sequence[Any]) -> str:
        """Return the directory of a partition, below the data directory."""
        if not self.names:
            return ""
        record = load_pyiceberg("typedef").Record(*values)
        found: str = self._spec.partition_to_path(record, self._schema)
        return found

    def _transformed(self, field: Any, batch: Any) -> Any:
        """Return the values of a field of the spec for each row."""
        pa = load_arrow("Iceberg tables")
        import pyarrow.compute as pc  # optional: whoever has a batch has it

        source = self._schema.find_field(field.source_id)
        kind = load_pyiceberg("io.pyarrow").schema_to_pyarrow(source.field_type)
        first, *inner = self._schema.find_column_name(field.source_id).split(".")
        place = batch.schema.get_field_index(first)
        if place < 0:  # it is null in all rows
            column = pa.nulls(batch.num_rows, kind)
        else:
            column = batch.column(place)
            for name in inner:
                column = pc.struct_field(column, name)
            column = column.cast(kind)
        found = field.transform.pyarrow_transform(source.field_type)(column)
        return found.combine_chunks() if isinstance(found, pa.ChunkedArray) else found

    def _stored(self, field: Any, value: Any) -> Any:
        """Return a value as manifests have it: dates are days."""
        if not isinstance(field.transform, load_pyiceberg("transforms").IdentityTransform):
            return value
        return load_pyiceberg("partitioning").partition_record_value(field, value, self._schema)

"""What is executed for a record: a statement of the program's, or those of a table, made of its columns."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from millstream.base.errors import ConfigurationError, SinkError, TypeMismatchError, shorten
from millstream.connectors.cassandra.client import CassandraClient
from millstream.connectors.cassandra.cluster import load_driver
from millstream.connectors.cassandra.options import MapperOptions, WriteSettings
from millstream.connectors.cassandra.queries import quote
from millstream.connectors.cassandra.rows import ByName, ByPosition, convert
from millstream.connectors.cassandra.schema import Column, read_columns
from millstream.types.basic import BasicTypeInfo, TypeInformation
from millstream.types.composite import RowTypeInfo
from millstream.types.row import Row, RowKind

__all__ = ["Binder", "Query", "Table", "Target"]


class Binder(ABC):
    """Makes statements with values; knows what the cluster knows of them."""

    def __init__(self, settings: WriteSettings) -> None:
        self._unset = load_driver("cassandra.query").UNSET_VALUE if settings.ignores_nulls else None
        level = settings.options._consistency_level
        self._level = None if level is None else level.value

    @abstractmethod
    def bind(self, record: Any) -> Any | None:
        """Return the statement of a record, None if there is nothing to do for it.

        Raises:
            TypeMismatchError: If its fields do not fit.
            SinkError: If such a record cannot be written.
        """

    def _bound(self, prepared: Any, values: Sequence[Any], record: Any) -> Any:
        unset = self._unset
        if unset is None:
            values = [convert(value) for value in values]
        else:
            values = [unset if value is None else convert(value) for value in values]
        try:
            bound = prepared.bind(values)
        except Exception as error:
            raise TypeMismatchError(
                f"a value of {shorten(record)} does not fit its column",
                detail=" ".join(str(error).split())[:400],
                hint="Convert the values with map(...) before the sink: docs/connectors/cassandra.md has the types.",
            ) from error
        if self._level is not None:
            bound.consistency_level = self._level
        return bound


class Target(ABC):
    """What a program wants executed; small, picklable."""

    @abstractmethod
    def prepare(self, client: CassandraClient, settings: WriteSettings) -> Binder:
        """Have the cluster look at it.

        Raises:
            SinkError: If it refuses it, or what is named is not there.
        """


@dataclass(frozen=True)
class Query(Target):
    """A statement for each record, of whatever kind, as in Flink.

    Attributes:
        cql: With `?` for the fields.
        type_info: What the records are declared as, None if it is not known.
    """

    cql: str
    type_info: TypeInformation | None = None

    def prepare(self, client: CassandraClient, settings: WriteSettings) -> Binder:
        """Prepare the statement."""
        prepared = client.prepare(self.cql)
        names = [column.name for column in prepared.column_metadata or ()]
        if isinstance(self.type_info, RowTypeInfo):
            count = len(self.type_info.get_field_types())
            if count != len(names):
                raise SinkError(
                    f"the statement has {len(names)} parameters, and the records {count} fields: {self.cql}",
                    detail=f"These are {self.type_info.describe()}.",
                    hint="Each ? stands for a field, in their order.",
                )
        return _QueryBinder(settings, prepared, names)


class _QueryBinder(Binder):
    def __init__(self, settings: WriteSettings, prepared: Any, names: Sequence[str]) -> None:
        super().__init__(settings)
        self._prepared = prepared
        self._reader = ByPosition(names)

    def bind(self, record: Any) -> Any:
        return self._bound(self._prepared, self._reader.values(record), record)


@dataclass(frozen=True)
class Table(Target):
    """A table, whose rows are overwritten by key, and deleted by rows of the kind DELETE.

    Attributes:
        keyspace: Where it is, as the cluster writes it.
        name: Its name, likewise.
        fields: The columns that are written.
        type_info: What the records are declared as, None if it is not known.
    """

    keyspace: str
    name: str
    fields: tuple[str, ...]
    type_info: RowTypeInfo | None = None

    @staticmethod
    def of(table: str, fields: Sequence[str], type_info: TypeInformation | None) -> Table:
        """Check what a program says of a table.

        Raises:
            ConfigurationError: If there is no keyspace, or columns are not named.
        """
        keyspace, _, name = table.partition(".") if isinstance(table, str) else ("", "", "")
        if not keyspace or not name:
            raise ConfigurationError(
                f"the table of a Cassandra sink is {table!r}",
                detail="It is keyspace.table, such as shop.orders.",
            )
        declared = type_info if isinstance(type_info, RowTypeInfo) else None
        names = tuple(declared.get_field_names()) if declared is not None else ()
        fields = tuple(fields) or names
        if not fields:
            raise ConfigurationError(
                f"the columns of table {table!r} that are written are not named",
                hint="Call set_columns('id', 'name'), or set_type_info(Types.ROW_NAMED([...], [...])).",
            )
        if unknown := [each for each in fields if names and each not in names]:
            raise ConfigurationError(
                f"columns {', '.join(unknown)} of table {table!r} are no fields of the records",
                detail=f"These are {', '.join(names)}.",
            )
        return Table(keyspace, name, fields, declared)

    def prepare(self, client: CassandraClient, settings: WriteSettings) -> Binder:
        """Look at the columns, and prepare the statements."""
        columns = read_columns(client, self.keyspace, self.name)
        where = f"table {self.keyspace}.{self.name}"
        if not columns:
            raise SinkError(
                f"{where} is not there",
                hint="Create it, or correct its name: as the cluster writes it, unquoted.",
            )
        self._check(columns, where)
        keys = [name for name, column in columns.items() if column.is_key]
        names = ", ".join(map(quote, self.fields))
        marks = ", ".join("?" for _ in self.fields)
        into = f"{quote(self.keyspace)}.{quote(self.name)}"
        insert = f"INSERT INTO {into} ({names}) VALUES ({marks}){_suffix(settings.options)}"
        wheres = " AND ".join(f"{quote(key)} = ?" for key in keys)
        delete = f"DELETE FROM {into} WHERE {wheres}"
        deletes = None if settings.options._if_not_exists else client.prepare(delete)
        positions = [self.fields.index(key) for key in keys]
        return _TableBinder(settings, where, self.fields, client.prepare(insert), deletes, positions)

    def _check(self, columns: dict[str, Column], where: str) -> None:
        if missing := [name for name in self.fields if name not in columns]:
            raise SinkError(
                f"{where} has no column {', '.join(missing)}",
                detail=f"Its columns are {', '.join(columns)}.",
                hint="Fields have the names of columns, as the cluster writes them: add columns, or rename fields.",
            )
        if empty := [name for name, column in columns.items() if column.is_key and name not in self.fields]:
            raise SinkError(
                f"{where} has {', '.join(empty)} in its primary key, which is not written",
                hint="Write all columns of the primary key.",
            )
        if counters := [name for name in self.fields if columns[name].type == "counter"]:
            raise SinkError(
                f"column {', '.join(counters)} of {where} is a counter, which is not overwritten",
                hint='Use a statement: set_query("UPDATE ... SET n = n + ? WHERE ...").',
            )
        wrong = []
        for name, declared in self._declared():
            wanted = _FAMILIES.get(columns[name].type)
            given = _OF_DECLARED.get(declared.name) if isinstance(declared, BasicTypeInfo) else None
            if wanted and given and wanted != given:
                wrong.append(f"{name} is {declared.describe()}, the column is {columns[name].type}")
        if wrong:
            raise SinkError(
                f"{where} has columns of other types: {'; '.join(wrong)}",
                hint="Declare the field as what the column holds, and convert the values before the sink.",
            )

    def _declared(self) -> list[tuple[str, TypeInformation]]:
        info = self.type_info
        if info is None:
            return []
        pairs = zip(info.get_field_names(), info.get_field_types(), strict=True)
        return [(name, kind) for name, kind in pairs if name in self.fields]


class _TableBinder(Binder):
    def __init__(
        self,
        settings: WriteSettings,
        where: str,
        fields: tuple[str, ...],
        insert: Any,
        delete: Any | None,
        key_positions: list[int],
    ) -> None:
        super().__init__(settings)
        self._where = where
        self._reader = ByName(fields)
        self._insert = insert
        self._delete = delete
        self._key_positions = key_positions

    def bind(self, record: Any) -> Any | None:
        kind = record._schema.kind if isinstance(record, Row) else RowKind.INSERT
        if kind is RowKind.UPDATE_BEFORE:  # its key is overwritten
            return None
        values = self._reader.values(record)
        if kind is not RowKind.DELETE:
            return self._bound(self._insert, values, record)
        if self._delete is None:
            raise SinkError(
                f"a sink that only adds rows to {self._where} (if_not_exists) was given one to delete: "
                f"{shorten(record)}",
                hint="Filter such rows, or leave if_not_exists out.",
            )
        return self._bound(self._delete, [values[position] for position in self._key_positions], record)


_NUMBERS = ("tinyint", "smallint", "int", "bigint", "varint", "float", "double", "decimal")
_FAMILIES = {
    **dict.fromkeys(_NUMBERS, "number"),
    **dict.fromkeys(("text", "ascii", "varchar"), "text"),
    "boolean": "truth value",
    "timestamp": "moment",
    "uuid": "uuid",
    "timeuuid": "uuid",
    "blob": "bytes",
    "date": "date",
}
_OF_DECLARED = {
    **dict.fromkeys(("STRING", "CHAR"), "text"),
    **dict.fromkeys(("BYTE", "SHORT", "INT", "LONG", "FLOAT", "DOUBLE", "BIG_INT", "BIG_DEC"), "number"),
    "BOOLEAN": "truth value",
    "INSTANT": "moment",
}


def _suffix(options: MapperOptions) -> str:
    using = [
        f"{word} {value:d}"
        for word, value in (("TTL", options._ttl), ("TIMESTAMP", options._timestamp))
        if value is not None
    ]
    return (" IF NOT EXISTS" if options._if_not_exists else "") + (
        f" USING {' AND '.join(using)}" if using else ""
    )

"""What a cluster says of the columns of a table."""

from __future__ import annotations

from dataclasses import dataclass

from millstream.connectors.cassandra.client import CassandraClient

__all__ = ["Column", "read_columns"]

_RANKS = {"partition_key": 0, "clustering": 1}


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table.

    Attributes:
        type: Its type, as CQL has it.
        kind: `partition_key`, `clustering`, `static` or `regular`.
    """

    type: str
    kind: str

    @property
    def is_key(self) -> bool:
        """Whether it is of the primary key."""
        return self.kind in _RANKS


def read_columns(client: CassandraClient, keyspace: str, table: str) -> dict[str, Column]:
    """Return the columns of a table or view, those of its primary key first, in order; none if it is not there.

    Raises:
        MillstreamError: If the cluster is away or refuses us.
    """
    rows = client.execute(
        "SELECT column_name, kind, position, type FROM system_schema.columns "
        "WHERE keyspace_name = %s AND table_name = %s",
        (keyspace, table),
        what=f"looking at table {keyspace}.{table}",
    )
    ordered = sorted(rows, key=lambda row: (_RANKS.get(row.kind, 2), row.position, row.column_name))
    return {row.column_name: Column(row.type, row.kind) for row in ordered}

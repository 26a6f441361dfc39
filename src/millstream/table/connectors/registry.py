"""Finds a table's connector by name: built-in ones, and others' by the entry point `millstream.table_connectors`."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from importlib.metadata import entry_points
from typing import TYPE_CHECKING

from millstream.base.errors import ConfigurationError, NotSupportedError
from millstream.table.connectors.base import TableConnector
from millstream.table.errors import did_you_mean

if TYPE_CHECKING:
    from millstream.table.catalog.resolved import ResolvedTable

__all__ = ["connector_names", "find_connector"]

_HERE = "millstream.table.connectors"
_BUILT_IN = {
    "blackhole": "print_sinks:BlackholeConnector",
    "collect": "collect:CollectConnector",
    "datagen": "datagen:DatagenConnector",
    "filesystem": "filesystem:FilesystemConnector",
    "jdbc": "jdbc:JdbcConnector",
    "kafka": "kafka:KafkaConnector",
    "print": "print_sinks:PrintConnector",
    "spark": "spark_tables:SparkConnector",
    "upsert-kafka": "upsert_kafka:UpsertKafkaConnector",
}
_ELSEWHERE = (
    "elasticsearch-7",
    "hbase-2.2",
    "hive",
    "kinesis",
    "mongodb",
    "dynamodb",
    "firehose",
    "opensearch",
    "opensearch-2",
    "pulsar",
    "socket",
)


@cache
def _installed() -> dict[str, str]:
    found = entry_points(group="millstream.table_connectors")
    return {point.name: point.value for point in found}


def connector_names() -> list[str]:
    """Return the names of all connectors."""
    return sorted({*_BUILT_IN, *_installed()})


def find_connector(table: ResolvedTable) -> TableConnector:
    """Return a table's connector, made for it.

    Raises:
        ConfigurationError: If it names none, or one that is not there.
        NotSupportedError: If Flink has it and millstream does not.
    """
    name = table.connector
    if name is None:
        raise ConfigurationError(
            f'table "{table.full_name}" has no connector',
            detail=f"There are: {', '.join(connector_names())}.",
            hint="Add 'connector' = '...' to WITH (...).",
        )
    place = f"{_HERE}.{_BUILT_IN[name]}" if name in _BUILT_IN else _installed().get(name)
    if place is None:
        if name in _ELSEWHERE:
            raise NotSupportedError(
                f'table "{table.full_name}" has the connector "{name}", which tables do not have yet',
                detail=f"There are: {', '.join(connector_names())}.",
                hint="Use the DataStream API's connector and from_data_stream(...).",
            )
        raise ConfigurationError(
            f'table "{table.full_name}" has the connector "{name}", which was not found',
            detail=f"There are: {', '.join(connector_names())}.",
            hint=did_you_mean(name, connector_names()),
        )
    module, _, attribute = place.partition(":")
    made: TableConnector = getattr(import_module(module), attribute)(table)
    return made

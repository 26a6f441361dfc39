"""The connector `upsert-kafka`: a topic as a table with a primary key; a record replaces, a tombstone deletes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from millstream.base.errors import ConfigurationError
from millstream.connectors.kafka.offsets import KafkaOffsetsInitializer
from millstream.table.connectors.base import SinkRequest
from millstream.table.connectors.kafka import KafkaConnector
from millstream.table.connectors.message_formats import check_format, format_mode
from millstream.table.plan.changes import INSERT_ONLY, UPSERT, ChangelogMode

__all__ = ["UpsertKafkaConnector"]


class UpsertKafkaConnector(KafkaConnector):
    """Reads and writes a topic by key; `key.format` and `value.format` have to be set, the key is the primary key."""

    name = "upsert-kafka"

    def check(self) -> None:
        """Check the options, and that there is a primary key."""
        if not self.table.primary_key:
            raise ConfigurationError(
                f'table "{self.table.full_name}" with the connector "{self.name}" has no primary key',
                hint="Add PRIMARY KEY (...) NOT ENFORCED: it is the key of the records.",
            )
        for key in ("key.format", "value.format"):
            if format_mode(check_format(self.options.required(key, "json"))) != INSERT_ONLY:
                raise self.options.error(key, self.options.required(key), "A format of changes has no keys.")
        for key in ("sink.buffer-flush.max-rows", "sink.buffer-flush.interval"):
            self.options.text(key)
        super().check()

    def _key_fields(self) -> tuple[str, ...]:
        self.options.text("key.format")
        return self.table.primary_key

    def _startup(self) -> KafkaOffsetsInitializer:
        return KafkaOffsetsInitializer.earliest()

    def scan_mode(self) -> ChangelogMode:
        """Return updates by key, and deletions."""
        return UPSERT

    def scan(self, environment: Any, columns: Sequence[int]) -> Any:
        """Return the rows of the topic's records."""
        self.check()
        records, types = self._record_schema(columns)
        return self._stream(environment, replace(records, upsert=True), types)

    def accepts(self, mode: ChangelogMode) -> ChangelogMode:
        """Take updates by key, and deletions."""
        return INSERT_ONLY if mode.insert_only else replace(mode, before=False)

    def sink(self, stream: Any, request: SinkRequest) -> Any:
        """Write records with keys; a deletion is a tombstone."""
        self.check()
        return self._written(stream, self._serializer(upsert=True))

"""The slot's side of a Kafka source: reads ranges of offsets, and makes values of what it finds."""

from __future__ import annotations

from typing import Any

from millstream.base.clock import Clock, SystemClock
from millstream.connectors.kafka.clients import Cluster
from millstream.connectors.kafka.fetcher import Buffer, Fetcher, OffsetGoneError
from millstream.connectors.kafka.losses import Losses, LostRecords
from millstream.connectors.kafka.offsets import OffsetLookup
from millstream.connectors.kafka.positions import KafkaSplit
from millstream.connectors.kafka.records import (
    AsMessages,
    ConsumerRecords,
    KafkaRecordDeserializationSchema,
    ValueOnly,
)
from millstream.connectors.kafka.settings import SourceSettings
from millstream.connectors.messages import MalformedPolicy, MessageDecoder
from millstream.spi.batch import Batch
from millstream.spi.source import EmitBatch, RangeEnd, SourceReader, SplitRange

__all__ = ["KafkaReader"]

_BATCH_RECORDS = 10_000


class KafkaReader(SourceReader):
    """Reads the partitions of one subtask.

    Args:
        settings: What is read.
        schema: What records become.
        malformed: What becomes of records that do not parse.
        subtask_index: Which subtask.
        clock: What time it is.
        name: What is read, for messages.
    """

    def __init__(
        self,
        settings: SourceSettings,
        schema: KafkaRecordDeserializationSchema,
        malformed: MalformedPolicy,
        subtask_index: int,
        clock: Clock | None = None,
        name: str = "Kafka",
    ) -> None:
        self._name = name
        self._settings = settings
        self._schema = schema
        self._malformed = malformed
        self._subtask_index = subtask_index
        self._clock = clock or SystemClock()
        self._cluster: Cluster | None = None
        self._fetcher: Fetcher | None = None

    def open(self) -> None:
        """Make ready to decode; brokers are asked when there is something to read."""
        schema = self._schema
        self._decoder = MessageDecoder(
            schema.schema if isinstance(schema, ValueOnly) else AsMessages(schema),
            self._malformed,
            self.context,
            source=self._name,
            columns=self.wants_columns,
        )

    def read(self, split_range: SplitRange, emit: EmitBatch) -> RangeEnd:
        """Read up to the range's end or budget; less, if the brokers are silent: the rest is planned again."""
        split: KafkaSplit = split_range.split
        position, stop = split_range.start, split_range.stop
        left, emitted = split_range.max_records, 0
        if position < stop:
            fetcher = self._open_fetcher()
            buffer = fetcher.buffer(split.partition, position)
        goes_on = True
        while goes_on and left and position < stop:
            messages = buffer.take(stop, min(left, _BATCH_RECORDS))
            if messages:
                left -= len(messages)
                position = messages[-1].offset() + 1
                batch = self._decode(ConsumerRecords(split.partition, messages))
                emitted += len(batch)
                goes_on = emit(batch)
            elif buffer.covered >= stop:
                position = stop
                buffer.skip_to(stop)
            else:
                try:
                    goes_on = fetcher.fetch(buffer)
                except OffsetGoneError:
                    position = self._go_on_behind(buffer, split, stop)
                    buffer = fetcher.buffer(split.partition, position)
        finished = split.end is not None and position >= split.end
        if finished and self._fetcher is not None:
            self._fetcher.finish(split.partition)
        return RangeEnd(split_range.split_id, position, finished, emitted)

    def close(self) -> None:
        """Leave the brokers."""
        if self._fetcher is not None:
            self._fetcher.close()
            self._fetcher = None
        if self._cluster is not None:
            self._cluster.close()

    def _open_fetcher(self) -> Fetcher:
        """Return the consumer; a subtask that has nothing to read has none."""
        if self._fetcher is None:
            self._cluster = self._settings.open_cluster(str(self._subtask_index))
            self._fetcher = Fetcher(self._cluster, self._clock, _consumer_settings(self._settings))
        return self._fetcher

    def _go_on_behind(self, buffer: Buffer, split: KafkaSplit, stop: int) -> int:
        assert self._cluster is not None
        lookup = OffsetLookup(self._cluster, self._settings.group, self._settings.isolation)
        partition = split.partition
        first, end = lookup.earliest([partition])[partition], lookup.latest([partition])[partition]
        losses = Losses(self._settings.reset)
        return losses.go_on_behind(LostRecords(partition, buffer.covered, first, end))

    def _decode(self, records: ConsumerRecords) -> Batch:
        messages: Any = records.values if isinstance(self._schema, ValueOnly) else records
        return self._decoder.decode(messages, records.place, records.timestamps)


def _consumer_settings(settings: SourceSettings) -> dict[str, Any]:
    """Return what a reader's consumer has to have, whatever the program says."""
    return {
        "group_id": settings.group or "millstream",  # the client insists on one; it joins none
        "enable_auto_commit": False,
        "enable_auto_offset_store": False,
        "enable_partition_eof": True,
        "auto_offset_reset": "error",
        "isolation_level": settings.isolation,
    }

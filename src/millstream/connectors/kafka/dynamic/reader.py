"""The slot's side of a source of streams: a reader of each cluster, opened with its first range."""

from __future__ import annotations

from dataclasses import replace

from millstream.connectors.kafka.dynamic.splits import ClusterVersion, DynamicSplit
from millstream.connectors.kafka.reader import KafkaReader
from millstream.connectors.kafka.records import KafkaRecordDeserializationSchema
from millstream.connectors.kafka.settings import SourceSettings
from millstream.connectors.messages import MalformedPolicy
from millstream.spi.source import EmitBatch, RangeEnd, SourceReader, SplitRange

__all__ = ["DynamicKafkaReader"]


class DynamicKafkaReader(SourceReader):
    """Reads the partitions of one subtask, in whichever clusters they are.

    Args:
        schema: What records become.
        malformed: What becomes of records that do not parse.
        subtask_index: Which subtask.
    """

    def __init__(
        self, schema: KafkaRecordDeserializationSchema, malformed: MalformedPolicy, subtask_index: int
    ) -> None:
        self._schema = schema
        self._malformed = malformed
        self._subtask_index = subtask_index
        self._readers: dict[ClusterVersion, KafkaReader] = {}

    def read(self, split_range: SplitRange, emit: EmitBatch) -> RangeEnd:
        """Have the reader of the cluster read it."""
        split: DynamicSplit = split_range.split
        for former in self._readers.keys() - split.current:
            self._readers.pop(former).close()
        if split.settings is None:
            return RangeEnd(split_range.split_id, split_range.start, True, 0)
        reader = self._reader(split.cluster, split.settings)
        return reader.read(replace(split_range, split=split.split), emit)

    def _reader(self, cluster: ClusterVersion, settings: SourceSettings) -> KafkaReader:
        reader = self._readers.get(cluster)
        if reader is None:
            name = f"Kafka cluster {cluster.cluster_id}"
            reader = KafkaReader(settings, self._schema, self._malformed, self._subtask_index, name=name)
            reader.context = self.context
            reader.wants_columns = self.wants_columns
            reader.open()
            self._readers[cluster] = reader
        return reader

    def close(self) -> None:
        """Leave all clusters."""
        readers, self._readers = self._readers, {}
        for reader in readers.values():
            reader.close()

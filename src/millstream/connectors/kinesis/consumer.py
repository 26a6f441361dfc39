"""The older source of Kinesis' streams (PyFlink's `FlinkKinesisConsumer`): the same, described in another way."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

from millstream.base.errors import ConfigurationError, NotSupportedError, TypeMismatchError
from millstream.base.time import Duration
from millstream.common.watermark_strategy import HasWatermarkStrategy, WatermarkStrategy
from millstream.connectors.kinesis.records import KinesisDeserializationSchema
from millstream.connectors.kinesis.shards import KinesisShard, KinesisShardAssigner, assigner_of
from millstream.connectors.kinesis.source import KinesisStreamsSource
from millstream.connectors.shards.enumerator import StreamsSnapshot
from millstream.connectors.shards.options import number
from millstream.spi.serialization import DeserializationSchema
from millstream.spi.source import Boundedness, Source, SourceReader, SplitEnumerator
from millstream.types.basic import TypeInformation

__all__ = ["FlinkKinesisConsumer", "WatermarkTracker"]

_IDLE = "flink.shard.idle.interval"
_LOOKAHEAD = "flink.watermark.lookahead.millis"


@dataclass(frozen=True, slots=True)
class _Tracked:
    """What is tracked together: sources with this name."""

    name: str


class WatermarkTracker:
    """Keeps shards from running ahead of others in event time; made by `job_manager_watermark_tracker`.

    Example:
        >>> from millstream.datastream.connectors.kinesis import WatermarkTracker
        >>> # consumer.set_watermark_tracker(tracker)
        >>> tracker = WatermarkTracker.job_manager_watermark_tracker("orders")
    """

    def __init__(self, j_watermark_tracker: Any) -> None:
        if not isinstance(j_watermark_tracker, _Tracked):
            raise NotSupportedError(
                "a WatermarkTracker was given an object of a JVM",
                hint="WatermarkTracker.job_manager_watermark_tracker(name).",
            )
        self.aggregate_name = j_watermark_tracker.name

    @staticmethod
    def job_manager_watermark_tracker(
        aggregate_name: str, log_accumulator_interval_millis: int = -1
    ) -> WatermarkTracker:
        """Return the tracker of all sources of a job that have one of this name.

        Args:
            aggregate_name: The name.
            log_accumulator_interval_millis: Taken for the sake of programs: metrics and `millstream explain-watermark`
                tell where watermarks are.
        """
        return WatermarkTracker(_Tracked(aggregate_name))


class FlinkKinesisConsumer(Source, HasWatermarkStrategy):
    """Reads streams without end; give it to `add_source`. Each method changes it and returns it.

    New code takes `KinesisStreamsSource` and `from_source`.

    Args:
        streams: A stream, or several.
        deserializer: Makes records.
        config_props: Flink's properties: region, credentials, where to begin, how shards are read.

    Raises:
        ConfigurationError: If an argument or a property does not fit.
        NotSupportedError: If a property asks for what is not there.

    Example:
        >>> from millstream.common import SimpleStringSchema
        >>> from millstream.datastream.connectors.kinesis import FlinkKinesisConsumer
        >>> properties = {"aws.region": "eu-west-1", "flink.stream.initpos": "LATEST"}
        >>> source = FlinkKinesisConsumer("orders", SimpleStringSchema(), properties)  # env.add_source(source)
    """

    def __init__(
        self,
        streams: str | Sequence[str],
        deserializer: DeserializationSchema | KinesisDeserializationSchema,
        config_props: Mapping[str, Any],
    ) -> None:
        names = (streams,) if isinstance(streams, str) else tuple(streams)
        self._builder = (
            KinesisStreamsSource.builder()
            .set_stream_names(*names)
            .set_deserialization_schema(deserializer)
            .set_source_config(config_props)
            .set_kinesis_shard_assigner(KinesisShardAssigner.default_shard_assigner())
        )
        self._builder.build()
        self._idle_ms = number(self._builder._properties, _IDLE, -1, least=-1)
        self._lookahead_ms = number(self._builder._properties, _LOOKAHEAD, 0)
        self._watermarks = WatermarkStrategy.no_watermarks()
        self._tracker: WatermarkTracker | None = None

    def set_shard_assigner(
        self, shard_assigner: KinesisShardAssigner | Callable[[KinesisShard, int], int]
    ) -> Self:
        """Choose which subtask reads a shard; by default shards in turn.

        Raises:
            ConfigurationError: If it is no assigner, and no function.
        """
        self._builder.set_kinesis_shard_assigner(assigner_of(shard_assigner))
        return self

    def set_periodic_watermark_assigner(self, periodic_watermark_assigner: WatermarkStrategy) -> Self:
        """Choose how records get timestamps, and each shard watermarks; PyFlink's argument wraps an object of a JVM.

        Raises:
            TypeMismatchError: If it is no WatermarkStrategy.
        """
        if not isinstance(periodic_watermark_assigner, WatermarkStrategy):
            raise TypeMismatchError(
                f"the watermark assigner is a {type(periodic_watermark_assigner).__name__}",
                hint="Give a WatermarkStrategy, such as WatermarkStrategy.for_monotonous_timestamps().",
            )
        self._watermarks = periodic_watermark_assigner
        return self

    def set_watermark_tracker(self, watermark_tracker: WatermarkTracker) -> Self:
        """Have shards not run ahead by more than `flink.watermark.lookahead.millis` of the lowest watermark.

        Raises:
            ConfigurationError: If it is no WatermarkTracker.
        """
        if not isinstance(watermark_tracker, WatermarkTracker):
            raise ConfigurationError(f"{type(watermark_tracker).__name__} is no WatermarkTracker")
        self._tracker = watermark_tracker
        return self

    def watermark_strategy(self) -> WatermarkStrategy:
        """Return how watermarks are made, for `add_source`."""
        strategy = self._watermarks
        if self._idle_ms > 0:
            strategy = strategy.with_idleness(Duration.of_millis(self._idle_ms))
        if self._tracker is not None and self._lookahead_ms > 0:
            lookahead = Duration.of_millis(self._lookahead_ms)
            strategy = strategy.with_watermark_alignment(self._tracker.aggregate_name, lookahead)
        return strategy

    def get_boundedness(self) -> Boundedness:
        """Return that it does not end."""
        return Boundedness.CONTINUOUS_UNBOUNDED

    def get_produced_type(self) -> TypeInformation | None:
        """Return the type that of the records, as far as the schema tells it."""
        return self._builder.build().get_produced_type()

    def build_enumerator(self, parallelism: int, restored: StreamsSnapshot | None) -> SplitEnumerator:
        """List the shards.

        Raises:
            SourceError: If Kinesis does not answer, or has no such stream.
        """
        return self._builder.build().build_enumerator(parallelism, restored)

    def build_reader(self, subtask_index: int, parallelism: int) -> SourceReader:
        """Make the reader of one subtask."""
        return self._builder.build().build_reader(subtask_index, parallelism)

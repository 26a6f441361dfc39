"""Records that are gone before they were read: an error, unless the program says where to go on."""

from __future__ import annotations

import logging
from dataclasses import dataclass

from millstream.base.errors import SourceError
from millstream.connectors.kafka.offsets import KafkaOffsetResetStrategy
from millstream.connectors.kafka.partitions import KafkaTopicPartition

__all__ = ["Losses", "LostRecords"]

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class LostRecords:
    """What is known of records that are gone.

    Attributes:
        partition: Where.
        position: The next offset that was to be read.
        first: The first offset that is there.
        end: The offset behind the last record.
        topic_is_new: Whether the topic was deleted and made anew.
    """

    partition: KafkaTopicPartition
    position: int
    first: int
    end: int
    topic_is_new: bool = False

    def __str__(self) -> str:
        where = f"partition {self.partition.partition} of topic {self.partition.topic!r}"
        if self.topic_is_new:
            made_anew = f"topic {self.partition.topic!r} was deleted and made anew"
            return f"{made_anew}; {where} was to be read from offset {self.position}"
        return f"{where} was to be read from offset {self.position}, which is not there"


@dataclass(frozen=True)
class Losses:
    """Says where reading goes on behind records that are gone.

    Attributes:
        reset: Where; NONE fails the job.
    """

    reset: KafkaOffsetResetStrategy

    def go_on_behind(self, lost: LostRecords) -> int:
        """Return the offset to go on from.

        Raises:
            SourceError: If the program does not say where.
        """
        there = f"It has the offsets [{lost.first}, {lost.end})."
        if self.reset is KafkaOffsetResetStrategy.NONE:
            why = (
                "The offset is behind the end: the topic was made anew, or brokers lost records."
                if lost.position > lost.end
                else "Records were deleted before they were read, by retention or on purpose."
            )
            raise SourceError(
                f"records are lost: {lost}",
                detail=there if lost.topic_is_new else f"{there} {why}",
                hint="Raise the topic's retention. To go on without them, set the source's property "
                "auto.offset.reset to earliest or latest, or start the job without its checkpoint.",
            )
        offset = lost.first if self.reset is KafkaOffsetResetStrategy.EARLIEST else lost.end
        log.error("records are lost: %s; %s Reading goes on at offset %d", lost, there, offset)
        return offset

"""The options that the job master obeys, read once."""

from __future__ import annotations

from dataclasses import dataclass

from millstream.config import options
from millstream.config.configuration import Configuration
from millstream.config.options_operating import LATENCY_GRANULARITY, LATENCY_HISTORY_SIZE, LATENCY_INTERVAL
from millstream.operators.latency import LatencyGranularity, LatencySettings

__all__ = ["JobSettings", "latency_settings"]


@dataclass(frozen=True, slots=True)
class JobSettings:
    """Options of one job.

    Attributes:
        epoch_target_ms: How long an epoch shall take under backlog.
        epoch_min_records: Smallest budget of a source subtask.
        epoch_max_records: Largest budget of a source subtask.
        epoch_fixed_records: The budget exactly, if set.
        max_epochs: End well after so many epochs, if set.
        stop_when_idle_ms: End well when sources gave nothing for so long, if set.
        checkpoint_interval_ms: Time between checkpoints, if set.
        slot_lease_ms: A slot ends itself when nobody asks for so long.
        wait_when_behind_ms: A job waits for its sinks' commit once it has been behind its sources for so long.
        slot_timeout_ms: How long a slot of a job that is cancelled may take to end.
        epoch_max_bytes: Estimated size of what a subtask sends in an epoch before it holds the rest.
        collect_max_bytes: Estimated size of the results that wait to be taken before nothing more is read; None: any.
        epoch_hold_after: Records that a subtask begins in an epoch at most, if set.
        watermark_stall_ms: Warn when input came for so long without progress of the watermark; 0 never.
    """

    epoch_target_ms: int
    epoch_min_records: int
    epoch_max_records: int
    epoch_fixed_records: int | None
    max_epochs: int | None
    stop_when_idle_ms: int | None
    checkpoint_interval_ms: int | None
    slot_lease_ms: int
    slot_timeout_ms: int = 60_000
    wait_when_behind_ms: int = 10_000
    watermark_stall_ms: int = 10_000
    epoch_max_bytes: int | None = None
    epoch_hold_after: int | None = None
    collect_max_bytes: int | None = None

    @staticmethod
    def of(configuration: Configuration) -> JobSettings:
        """Read the options."""
        get = configuration.get
        return JobSettings(
            epoch_target_ms=get(options.EPOCH_TARGET_DURATION),
            epoch_min_records=get(options.EPOCH_MIN_RECORDS),
            epoch_max_records=get(options.EPOCH_MAX_RECORDS),
            epoch_fixed_records=get(options.EPOCH_FIXED_RECORDS),
            max_epochs=get(options.MAX_EPOCHS),
            stop_when_idle_ms=get(options.STOP_WHEN_IDLE),
            checkpoint_interval_ms=get(options.CHECKPOINT_INTERVAL),
            slot_lease_ms=get(options.SLOT_LEASE),
            slot_timeout_ms=get(options.SLOT_TIMEOUT),
            wait_when_behind_ms=get(options.COMMIT_WAIT_WHEN_BEHIND),
            watermark_stall_ms=get(options.WATERMARK_STALL_WARNING),
            epoch_max_bytes=get(options.EPOCH_MAX_BYTES),
            epoch_hold_after=get(options.EPOCH_HOLD_AFTER),
            collect_max_bytes=get(options.COLLECT_MAX_BYTES),
        )


def latency_settings(configuration: Configuration) -> LatencySettings | None:
    """Return how latency is measured; None if it is not, as by default."""
    interval_ms = configuration.get(LATENCY_INTERVAL)
    if interval_ms <= 0:
        return None
    granularity = LatencyGranularity(configuration.get(LATENCY_GRANULARITY))
    return LatencySettings(interval_ms, granularity, configuration.get(LATENCY_HISTORY_SIZE))

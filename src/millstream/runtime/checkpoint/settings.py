"""What a job's options say of its checkpoints."""

from __future__ import annotations

import logging
from dataclasses import dataclass

from millstream.base.errors import ConfigurationError
from millstream.config import options
from millstream.config import options_checkpointing as keys
from millstream.config.configuration import Configuration

__all__ = ["CheckpointSettings"]

log = logging.getLogger(__name__)

_WITHOUT_EFFECT = {
    keys.MAX_CONCURRENT_CHECKPOINTS: "a checkpoint is the end of an epoch, and epochs do not overlap",
    keys.CONSISTENCY_MODE: "epochs are aligned, so it is exactly once anyway",
    keys.UNALIGNED: "epochs are aligned without waiting, and nothing is in flight between them",
    keys.FORCE_UNALIGNED: "epochs are aligned without waiting, and nothing is in flight between them",
    keys.ALIGNED_TIMEOUT: "epochs are aligned without waiting",
    keys.CHANGELOG_ENABLED: "checkpoints are made of what changed anyway",
}


@dataclass(frozen=True, slots=True)
class CheckpointSettings:
    """Options of a job's checkpoints.

    Attributes:
        interval_ms: Time between two; None makes none but those that are asked for.
        min_pause_ms: Shortest time between the end of one and the begin of the next.
        tolerable_failures: How many may fail one after the other before the job does.
        retained: How many completed ones are kept.
        directory: Where they are kept; None for a temporary directory that is removed with the job.
        savepoint_directory: Where savepoints go that are asked for without a directory.
        keep_on_cancel: Whether they stay when the job is cancelled.
        keep_on_failure: Whether they stay when the job fails.
        timeout_ms: A checkpoint that takes longer is given up.
        compact_from_bytes: Size from which on a slot's chain of files is compacted in the background.
        compact_after: How many files with changes such a chain gets before.
    """

    interval_ms: int | None
    min_pause_ms: int = 0
    tolerable_failures: int = 0
    retained: int = 1
    directory: str | None = None
    savepoint_directory: str | None = None
    keep_on_cancel: bool = False
    keep_on_failure: bool = False
    timeout_ms: int = 600_000
    compact_from_bytes: int = 1 << 20
    compact_after: int = 10

    @staticmethod
    def of(configuration: Configuration) -> CheckpointSettings:
        """Read the options, and say which of them can have no effect.

        Raises:
            ConfigurationError: If checkpoints are to be kept in files and no directory is named.
        """
        get = configuration.get
        for option, reason in _WITHOUT_EFFECT.items():
            if (
                str(get(option)).upper() != str(option.default).upper()
            ):  # as Flink, whose choices have any case
                log.warning("%s is %s and has no effect: %s", option.key, get(option), reason)
        directory = get(keys.CHECKPOINT_DIRECTORY) or get(keys.HA_DIRECTORY)
        if (get(keys.CHECKPOINT_STORAGE) or "").lower() == "filesystem" and directory is None:
            raise ConfigurationError(
                f"{keys.CHECKPOINT_STORAGE.key} is filesystem, and no directory is named",
                hint=f"Set {keys.CHECKPOINT_DIRECTORY.key} to one that all hosts share.",
            )
        return CheckpointSettings(
            interval_ms=get(options.CHECKPOINT_INTERVAL),
            min_pause_ms=get(keys.MIN_PAUSE),
            tolerable_failures=get(keys.TOLERABLE_FAILURES),
            retained=get(keys.RETAINED_CHECKPOINTS),
            directory=directory,
            savepoint_directory=get(keys.SAVEPOINT_DIRECTORY),
            keep_on_cancel=get(keys.EXTERNALIZED_RETENTION).upper() == "RETAIN_ON_CANCELLATION",
            keep_on_failure=get(keys.EXTERNALIZED_RETENTION).upper() != "NO_EXTERNALIZED_CHECKPOINTS",
            timeout_ms=get(keys.CHECKPOINT_TIMEOUT),
            compact_from_bytes=get(keys.COMPACT_FROM_BYTES),
            compact_after=get(keys.COMPACT_AFTER),
        )

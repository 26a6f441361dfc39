"""Settings of checkpoints (PyFlink's `pyflink.datastream.checkpoint_config`)."""

from __future__ import annotations

from millstream.base.errors import ConfigurationError
from millstream.base.time import Duration
from millstream.config import options_checkpointing as options
from millstream.config.configuration import Configuration
from millstream.config.options import ConfigOption
from millstream.datastream.checkpointing_mode import CheckpointingMode
from millstream.datastream.externalized_checkpoint_retention import ExternalizedCheckpointRetention

__all__ = ["CheckpointConfig"]


class CheckpointConfig:
    """A view of an environment's configuration: what is set here is set there, under Flink's option keys.

    Settings that speak of barriers waiting for one another (unaligned checkpoints, alignment timeouts) are kept
    and given back: every epoch boundary is an aligned barrier, and nothing is in flight between two epochs.

    Example:
        >>> from millstream.datastream import StreamExecutionEnvironment
        >>> env = StreamExecutionEnvironment.get_execution_environment()
        >>> config = env.enable_checkpointing(10_000).get_checkpoint_config()
        >>> config.set_min_pause_between_checkpoints(2_000).get_checkpoint_interval()
        10000
    """

    DEFAULT_MODE = CheckpointingMode.EXACTLY_ONCE
    DEFAULT_TIMEOUT = 10 * 60 * 1000
    DEFAULT_MIN_PAUSE_BETWEEN_CHECKPOINTS = 0
    DEFAULT_MAX_CONCURRENT_CHECKPOINTS = 1

    def __init__(self, configuration: Configuration | None = None) -> None:
        self._configuration = Configuration() if configuration is None else configuration

    def is_checkpointing_enabled(self) -> bool:
        """Return whether there is an interval."""
        return self.get_checkpoint_interval() > 0

    def get_checkpointing_mode(self) -> CheckpointingMode:
        """Return the mode."""
        return CheckpointingMode[str(self._configuration.get(options.CONSISTENCY_MODE)).upper()]

    def set_checkpointing_mode(self, checkpointing_mode: CheckpointingMode) -> CheckpointConfig:
        """Set the mode; state is exactly once in either, as every epoch boundary is an aligned barrier.

        Raises:
            ConfigurationError: If it is not one.
        """
        return self._set(options.CONSISTENCY_MODE, checkpointing_mode)

    def get_checkpoint_interval(self) -> int:
        """Return the time between checkpoints in milliseconds, -1 if there are none."""
        interval_ms: int = self._configuration.get(options.CHECKPOINT_INTERVAL, -1)
        return interval_ms

    def set_checkpoint_interval(self, checkpoint_interval: int) -> CheckpointConfig:
        """Set the time between checkpoints in milliseconds.

        Raises:
            ConfigurationError: If it is not positive.
        """
        return self._set(options.CHECKPOINT_INTERVAL, checkpoint_interval, least=1)

    def get_checkpoint_timeout(self) -> int:
        """Return the time after which a checkpoint is given up, in milliseconds."""
        timeout_ms: int = self._configuration.get(options.CHECKPOINT_TIMEOUT)
        return timeout_ms

    def set_checkpoint_timeout(self, checkpoint_timeout: int) -> CheckpointConfig:
        """Set the time in milliseconds after which a checkpoint is given up, and counts as failed.

        It is the time that each slot has for its files, and the driver for its own.

        Raises:
            ConfigurationError: If it is less than 10, as in Flink.
        """
        return self._set(options.CHECKPOINT_TIMEOUT, checkpoint_timeout, least=10)

    def get_min_pause_between_checkpoints(self) -> int:
        """Return the shortest pause between two checkpoints in milliseconds."""
        pause_ms: int = self._configuration.get(options.MIN_PAUSE)
        return pause_ms

    def set_min_pause_between_checkpoints(self, min_pause_between_checkpoints: int) -> CheckpointConfig:
        """Set the shortest pause between two checkpoints in milliseconds.

        Raises:
            ConfigurationError: If it is negative.
        """
        return self._set(options.MIN_PAUSE, min_pause_between_checkpoints, least=0)

    def get_max_concurrent_checkpoints(self) -> int:
        """Return the number that was kept."""
        number: int = self._configuration.get(options.MAX_CONCURRENT_CHECKPOINTS)
        return number

    def set_max_concurrent_checkpoints(self, max_concurrent_checkpoints: int) -> CheckpointConfig:
        """Keep a number, for programs that ask for it; without effect: one checkpoint is under way at most.

        Raises:
            ConfigurationError: If it is not positive.
        """
        return self._set(options.MAX_CONCURRENT_CHECKPOINTS, max_concurrent_checkpoints)

    def is_fail_on_checkpointing_errors(self) -> bool:
        """Return whether the first failed checkpoint fails the job."""
        return self.get_tolerable_checkpoint_failure_number() == 0

    def set_fail_on_checkpointing_errors(self, fail_on_checkpointing_errors: bool) -> CheckpointConfig:
        """Set whether the first failed checkpoint fails the job; else no number of them does."""
        return self.set_tolerable_checkpoint_failure_number(0 if fail_on_checkpointing_errors else 2**31 - 1)

    def get_tolerable_checkpoint_failure_number(self) -> int:
        """Return how many checkpoints may fail in a row."""
        number: int = self._configuration.get(options.TOLERABLE_FAILURES)
        return number

    def set_tolerable_checkpoint_failure_number(
        self, tolerable_checkpoint_failure_number: int
    ) -> CheckpointConfig:
        """Set how many checkpoints may fail in a row before the job does.

        Raises:
            ConfigurationError: If it is negative.
        """
        return self._set(options.TOLERABLE_FAILURES, tolerable_checkpoint_failure_number, least=0)

    def set_externalized_checkpoint_retention(
        self, retention_mode: ExternalizedCheckpointRetention
    ) -> CheckpointConfig:
        """Set what becomes of the last checkpoint when the job is cancelled or fails.

        It goes when the job ends well.
        """
        return self._set(options.EXTERNALIZED_RETENTION, retention_mode)

    def is_externalized_checkpoints_enabled(self) -> bool:
        """Return whether the last checkpoint may stay."""
        none = ExternalizedCheckpointRetention.NO_EXTERNALIZED_CHECKPOINTS
        return self.get_externalized_checkpoint_retention() is not none

    def get_externalized_checkpoint_retention(self) -> ExternalizedCheckpointRetention | None:
        """Return what becomes of the last checkpoint."""
        return ExternalizedCheckpointRetention[
            str(self._configuration.get(options.EXTERNALIZED_RETENTION)).upper()
        ]

    def is_unaligned_checkpoints_enabled(self) -> bool:
        """Return the switch that was kept."""
        return bool(self._configuration.get(options.UNALIGNED))

    def enable_unaligned_checkpoints(self, enabled: bool = True) -> CheckpointConfig:
        """Keep a switch; without effect."""
        return self._set(options.UNALIGNED, enabled)

    def disable_unaligned_checkpoints(self) -> CheckpointConfig:
        """Keep a switch; without effect."""
        return self.enable_unaligned_checkpoints(False)

    def set_aligned_checkpoint_timeout(self, alignment_timeout: Duration) -> CheckpointConfig:
        """Keep a timeout; without effect."""
        return self._set(options.ALIGNED_TIMEOUT, alignment_timeout)

    def get_aligned_checkpoint_timeout(self) -> Duration:
        """Return the timeout that was kept."""
        return Duration.of_millis(self._configuration.get(options.ALIGNED_TIMEOUT))

    def set_alignment_timeout(self, alignment_timeout: Duration) -> CheckpointConfig:
        """Older name of `set_aligned_checkpoint_timeout`."""
        return self.set_aligned_checkpoint_timeout(alignment_timeout)

    def get_alignment_timeout(self) -> Duration:
        """Older name of `get_aligned_checkpoint_timeout`."""
        return self.get_aligned_checkpoint_timeout()

    def set_force_unaligned_checkpoints(self, force_unaligned_checkpoints: bool = True) -> CheckpointConfig:
        """Keep a switch; without effect."""
        return self._set(options.FORCE_UNALIGNED, force_unaligned_checkpoints)

    def is_force_unaligned_checkpoints(self) -> bool:
        """Return the switch that was kept."""
        return bool(self._configuration.get(options.FORCE_UNALIGNED))

    def _set(self, option: ConfigOption, value: object, *, least: int | None = None) -> CheckpointConfig:
        converted = option.convert(value)
        if least is not None and converted < least:
            raise ConfigurationError(
                f'option "{option.key}" was given {value!r}', detail=f"It must be at least {least}."
            )
        self._configuration.set(option, value)
        return self

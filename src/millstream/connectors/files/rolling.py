"""When a file sink's part file is finished, and how it is named."""

from __future__ import annotations

from dataclasses import dataclass

from millstream.base.errors import ConfigurationError

__all__ = [
    "DefaultRollingPolicy",
    "OnCheckpointRollingPolicy",
    "OutputFileConfig",
    "RollingPolicy",
]


class RollingPolicy:
    """Decides when a part file is finished; subclass it for a policy of your own.

    Files of bulk formats, and those on file systems where a file is durable only as a whole (object stores), are
    finished at every checkpoint, whatever the policy says.

    Example:
        >>> from millstream.datastream.connectors.file_system import RollingPolicy
        >>> class EveryMegabyte(RollingPolicy):
        ...     def is_full(self, size_bytes):
        ...         return size_bytes >= 1_000_000
        >>> EveryMegabyte().is_full(1_000_000), EveryMegabyte().rolls_at_checkpoint(1_000_000)
        (True, False)
    """

    @staticmethod
    def default_rolling_policy(
        part_size: int = 128 * 1024 * 1024, rollover_interval: int = 60_000, inactivity_interval: int = 60_000
    ) -> DefaultRollingPolicy:
        """Finish a file by its size or age.

        Args:
            part_size: Bytes.
            rollover_interval: Milliseconds since the file was begun.
            inactivity_interval: Milliseconds since it was last written to.

        Raises:
            ConfigurationError: If one of them is not positive.
        """
        if min(part_size, rollover_interval, inactivity_interval) <= 0:
            raise ConfigurationError(
                "rolling policy has a limit that is not positive: "
                f"{part_size} bytes, {rollover_interval} ms, {inactivity_interval} ms"
            )
        return DefaultRollingPolicy(part_size, rollover_interval, inactivity_interval)

    @staticmethod
    def on_checkpoint_rolling_policy() -> OnCheckpointRollingPolicy:
        """Finish files at checkpoints only."""
        return OnCheckpointRollingPolicy()

    def is_full(self, size_bytes: int) -> bool:
        """Return whether a file of this size is finished."""
        return False

    def is_old(self, *, age_ms: int, idle_ms: int) -> bool:
        """Return whether a file of this age, not written to for so long, is finished."""
        return False

    def rolls_at_checkpoint(self, size_bytes: int) -> bool:
        """Return whether a checkpoint finishes a file of this size; else it goes on beyond the checkpoint."""
        return False


@dataclass(frozen=True)
class DefaultRollingPolicy(RollingPolicy):
    """By size or age; made by `RollingPolicy.default_rolling_policy`.

    Example:
        >>> from millstream.datastream.connectors.file_system import RollingPolicy
        >>> policy = RollingPolicy.default_rolling_policy(part_size=1_000_000, rollover_interval=60_000)
        >>> policy.is_full(999_999), policy.is_full(1_000_000), policy.is_old(age_ms=60_000, idle_ms=0)
        (False, True, True)
    """

    part_size_bytes: int
    rollover_interval_ms: int
    inactivity_interval_ms: int

    def is_full(self, size_bytes: int) -> bool:
        """Return whether a file of this size is finished."""
        return size_bytes >= self.part_size_bytes

    def is_old(self, *, age_ms: int, idle_ms: int) -> bool:
        """Return whether a file of this age, not written to for so long, is finished."""
        return age_ms >= self.rollover_interval_ms or idle_ms >= self.inactivity_interval_ms


@dataclass(frozen=True)
class OnCheckpointRollingPolicy(RollingPolicy):
    """At checkpoints only; made by `RollingPolicy.on_checkpoint_rolling_policy`.

    Example:
        >>> from millstream.datastream.connectors.file_system import RollingPolicy
        >>> policy = RollingPolicy.on_checkpoint_rolling_policy()
        >>> policy.rolls_at_checkpoint(size_bytes=10), policy.is_full(10**9)
        (True, False)
    """

    def rolls_at_checkpoint(self, size_bytes: int) -> bool:
        """Return True."""
        return True


@dataclass(frozen=True)
class OutputFileConfig:
    """How part files are named: `<prefix>-<uid>-<counter><suffix>`.

    Attributes:
        part_prefix: What names begin with; readers leave out names that begin with `.` or `_`.
        part_suffix: What they end with, such as `.csv`.

    Example:
        >>> from millstream.datastream.connectors.file_system import OutputFileConfig
        >>> config = OutputFileConfig.builder().with_part_prefix("orders").with_part_suffix(".csv").build()
        >>> config.get_part_prefix(), config.get_part_suffix()
        ('orders', '.csv')
    """

    part_prefix: str = "part"
    part_suffix: str = ""

    def __post_init__(self) -> None:
        if "/" in self.part_prefix + self.part_suffix or "\0" in self.part_prefix + self.part_suffix:
            raise ConfigurationError(
                f"prefix {self.part_prefix!r} or suffix {self.part_suffix!r} of part files holds a slash",
                hint="Use a bucket assigner to make directories.",
            )

    class OutputFileConfigBuilder:
        """Builds an `OutputFileConfig`; each method returns the builder."""

        def __init__(self) -> None:
            self._prefix = "part"
            self._suffix = ""

        def with_part_prefix(self, prefix: str) -> OutputFileConfig.OutputFileConfigBuilder:
            """Set what names begin with."""
            self._prefix = prefix
            return self

        def with_part_suffix(self, suffix: str) -> OutputFileConfig.OutputFileConfigBuilder:
            """Set what names end with."""
            self._suffix = suffix
            return self

        def build(self) -> OutputFileConfig:
            """Return the config.

            Raises:
                ConfigurationError: If the prefix or suffix holds a slash.
            """
            return OutputFileConfig(self._prefix, self._suffix)

    @staticmethod
    def builder() -> OutputFileConfig.OutputFileConfigBuilder:
        """Begin with the defaults."""
        return OutputFileConfig.OutputFileConfigBuilder()

    def get_part_prefix(self) -> str:
        """Return the prefix."""
        return self.part_prefix

    def get_part_suffix(self) -> str:
        """Return the suffix."""
        return self.part_suffix

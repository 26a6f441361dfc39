"""Which keyed backend a job has, as it travels to the slots."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from millstream.config import options, options_checkpointing, options_state
from millstream.config.configuration import Configuration
from millstream.files.scratch import scratch_directory
from millstream.state.heap import HeapKeyedStateBackend
from millstream.state.keyed import KeyedStateBackend
from millstream.state.ttl import ProcessingTime

__all__ = ["KeyedStateSettings"]


@dataclass(frozen=True, slots=True)
class KeyedStateSettings:
    """Where keyed state lives.

    Attributes:
        on_disk: On disk rather than as objects in memory.
        local_directory: Where on disk; None for the system's directory of temporary files.
        cache_bytes: Memory for the values used lately, for each operator in each slot, about.
        tracking: Whether it is tracked what changes between two checkpoints.
    """

    on_disk: bool = False
    local_directory: str | None = None
    cache_bytes: int = options_state.STATE_CACHE_BYTES.default
    tracking: bool = False

    @staticmethod
    def of(configuration: Configuration) -> KeyedStateSettings:
        """Read the options."""
        return KeyedStateSettings(
            configuration.get(options_state.STATE_BACKEND).lower() == "rocksdb",
            configuration.get(options_state.STATE_LOCAL_DIRECTORY),
            configuration.get(options_state.STATE_CACHE_BYTES),
            tracking=configuration.get(options.CHECKPOINT_INTERVAL) is not None
            and configuration.get(options_checkpointing.INCREMENTAL),
        )

    def build(
        self, *, operator: str, operator_id: str, subtask: int, time: ProcessingTime, max_parallelism: int
    ) -> KeyedStateBackend:
        """Make the backend of one operator in one subtask.

        Raises:
            NotPrivateError: If this user's directory there is not for this user only.
            OSError: If the directory on disk cannot be made.
        """
        if not self.on_disk:
            return HeapKeyedStateBackend(
                operator=operator, time=time, max_parallelism=max_parallelism, tracking=self.tracking
            )
        # Imported here: jobs with state in memory do not need the engine loaded.
        from millstream.state.disk import DiskKeyedStateBackend

        if self.local_directory is not None:
            Path(self.local_directory).mkdir(parents=True, exist_ok=True)
        directory = scratch_directory(f"state-{operator_id[:12]}-{subtask}", self.local_directory)
        return DiskKeyedStateBackend(
            directory,
            cache_bytes=self.cache_bytes,
            operator=operator,
            time=time,
            max_parallelism=max_parallelism,
            tracking=self.tracking,
        )

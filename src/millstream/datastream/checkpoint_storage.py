"""Where checkpoints are kept (PyFlink's `pyflink.datastream.checkpoint_storage`).

As in Flink 2.3, an environment takes no storage object: `configuration()` gives its settings under Flink's option
keys, for `env.configure(...)`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, NoReturn

from millstream.base.errors import ConfigurationError, NotSupportedError
from millstream.config import options_checkpointing as options
from millstream.config.configuration import Configuration
from millstream.files.flink_path import flink_path

__all__ = [
    "CheckpointStorage",
    "CustomCheckpointStorage",
    "FileSystemCheckpointStorage",
    "JobManagerCheckpointStorage",
]


class CheckpointStorage(ABC):
    """Where checkpoints are kept.

    Example:
        >>> from millstream.datastream import CheckpointStorage
        >>> from millstream.datastream import FileSystemCheckpointStorage
        >>> storage: CheckpointStorage = FileSystemCheckpointStorage("s3://bucket/checkpoints")
        >>> storage.configuration().get("execution.checkpointing.dir")
        's3://bucket/checkpoints'
    """

    @abstractmethod
    def configuration(self) -> Configuration:
        """Return it as options."""


class JobManagerCheckpointStorage(CheckpointStorage):
    """Checkpoints in the memory of the driver: for tests, lost with it.

    Args:
        checkpoint_path: Directory of checkpoints' metadata; None for the configured one.
        max_state_size: Largest state of one subtask in bytes.

    Example:
        >>> from millstream.datastream import JobManagerCheckpointStorage
        >>> JobManagerCheckpointStorage(max_state_size=1_000_000).get_max_state_size()
        1000000
    """

    DEFAULT_MAX_STATE_SIZE = 5 * 1024 * 1024

    def __init__(self, checkpoint_path: str | None = None, max_state_size: int | None = None) -> None:
        size = self.DEFAULT_MAX_STATE_SIZE if max_state_size is None else max_state_size
        if size <= 0:
            raise ConfigurationError(f"the largest state size is {size}", detail="It must be positive.")
        self._checkpoint_path = checkpoint_path
        self._max_state_size = size

    def get_checkpoint_path(self) -> str | None:
        """Return the directory of checkpoints' metadata, as Flink writes paths."""
        return None if self._checkpoint_path is None else flink_path(self._checkpoint_path)

    def get_max_state_size(self) -> int:
        """Return the largest state of one subtask in bytes."""
        return self._max_state_size

    def get_savepoint_path(self) -> str | None:
        """Return None: savepoints have an option of their own."""
        return None

    def configuration(self) -> Configuration:
        """Return it as options."""
        configuration = Configuration().set(options.CHECKPOINT_STORAGE, "jobmanager")
        if self._checkpoint_path is not None:
            configuration.set(options.CHECKPOINT_DIRECTORY, self._checkpoint_path)
        return configuration

    def __str__(self) -> str:
        return (
            f"JobManagerCheckpointStorage(checkpoints: {self._checkpoint_path}, "
            f"at most {self._max_state_size} bytes)"
        )


class FileSystemCheckpointStorage(CheckpointStorage):
    """Checkpoints as files.

    Args:
        checkpoint_path: Directory of checkpoints; every host must reach it.
        file_state_size_threshold: State below so many bytes lies with the metadata; at most 1 MiB.
        write_buffer_size: Of a file, in bytes; -1 for the default.

    Raises:
        ConfigurationError: If there is no path, or the threshold is out of bounds.

    Example:
        >>> from millstream.datastream import FileSystemCheckpointStorage, StreamExecutionEnvironment
        >>> storage = FileSystemCheckpointStorage("hdfs://namenode/checkpoints")
        >>> storage.get_checkpoint_path()
        'hdfs://namenode/checkpoints'
        >>> env = StreamExecutionEnvironment.get_execution_environment()
        >>> env.configure(storage.configuration())
    """

    MAX_FILE_STATE_THRESHOLD = 1024 * 1024

    def __init__(
        self,
        checkpoint_path: str | None = None,
        file_state_size_threshold: int | None = None,
        write_buffer_size: int = -1,
    ) -> None:
        if not checkpoint_path:
            raise ConfigurationError("a FileSystemCheckpointStorage was given no checkpoint path")
        threshold = -1 if file_state_size_threshold is None else file_state_size_threshold
        if not -1 <= threshold <= self.MAX_FILE_STATE_THRESHOLD:
            raise ConfigurationError(
                f"the threshold of state in files is {threshold}",
                detail=f"It must be within 0 and {self.MAX_FILE_STATE_THRESHOLD}.",
            )
        self._checkpoint_path = checkpoint_path
        self._threshold = 20_480 if threshold < 0 else threshold
        self._write_buffer_size = max(4096 if write_buffer_size < 0 else write_buffer_size, self._threshold)

    def get_checkpoint_path(self) -> str:
        """Return the directory of checkpoints, as Flink writes paths."""
        return flink_path(self._checkpoint_path)

    def get_savepoint_path(self) -> str | None:
        """Return None: savepoints have an option of their own."""
        return None

    def get_min_file_size_threshold(self) -> int:
        """Return below how many bytes state lies with the metadata."""
        return self._threshold

    def get_write_buffer_size(self) -> int:
        """Return the size of a file's buffer in bytes."""
        return self._write_buffer_size

    def configuration(self) -> Configuration:
        """Return it as options."""
        return (
            Configuration()
            .set(options.CHECKPOINT_STORAGE, "filesystem")
            .set(options.CHECKPOINT_DIRECTORY, self._checkpoint_path)
        )

    def __str__(self) -> str:
        return f"FileSystemCheckpointStorage(checkpoints: {self._checkpoint_path})"


class CustomCheckpointStorage(CheckpointStorage):
    """A storage written in Java: there is none here.

    Raises:
        NotSupportedError: Always.

    Example:
        >>> from millstream.datastream import CustomCheckpointStorage
        >>> CustomCheckpointStorage("org.example.Storage")
        Traceback (most recent call last):
            ...
        millstream.base.errors.NotSupportedError: [NOT_SUPPORTED] a checkpoint storage written in Java was given
        Hint: Use FileSystemCheckpointStorage(path).
    """

    def __new__(cls, j_custom_checkpoint_storage: Any) -> NoReturn:
        """Refuse it."""
        raise NotSupportedError(
            "a checkpoint storage written in Java was given", hint="Use FileSystemCheckpointStorage(path)."
        )

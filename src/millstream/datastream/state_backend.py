"""Where keyed state lives (PyFlink's `pyflink.datastream.state_backend`).

As in Flink 2.3, an environment takes no backend object: `configuration()` gives its settings under Flink's option
keys, for `env.configure(...)`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from enum import Enum
from typing import Any, NoReturn

from millstream.base.errors import ConfigurationError, NotSupportedError, TypeMismatchError
from millstream.config import options_checkpointing as options
from millstream.config.configuration import Configuration
from millstream.files.flink_path import local_path

__all__ = [
    "CustomStateBackend",
    "EmbeddedRocksDBStateBackend",
    "HashMapStateBackend",
    "PredefinedOptions",
    "StateBackend",
]

BACKEND_TYPE = "state.backend.type"
LOCAL_DIRECTORY = "state.backend.rocksdb.localdir"


class StateBackend(ABC):
    """Where keyed state lives.

    Example:
        >>> from millstream.datastream import StateBackend
        >>> from millstream.datastream import EmbeddedRocksDBStateBackend
        >>> backend: StateBackend = EmbeddedRocksDBStateBackend()
        >>> backend.configuration().get("state.backend.type")
        'rocksdb'
    """

    @abstractmethod
    def configuration(self) -> Configuration:
        """Return it as options."""


class HashMapStateBackend(StateBackend):
    """State as objects in the memory of its slot.

    Example:
        >>> from millstream.datastream import HashMapStateBackend, StreamExecutionEnvironment
        >>> env = StreamExecutionEnvironment.get_execution_environment()
        >>> backend = HashMapStateBackend()
        >>> env.configure(backend.configuration())
        >>> backend.configuration().to_dict()
        {'state.backend.type': 'hashmap'}
    """

    def __init__(self) -> None:
        pass

    def configuration(self) -> Configuration:
        """Return it as options."""
        return Configuration().set(BACKEND_TYPE, "hashmap")

    def __str__(self) -> str:
        return "HashMapStateBackend"


class PredefinedOptions(Enum):
    """Settings of RocksDB; kept only, the backend on disk has another engine.

    Example:
        >>> from millstream.datastream import EmbeddedRocksDBStateBackend, PredefinedOptions
        >>> backend = EmbeddedRocksDBStateBackend()
        >>> backend.set_predefined_options(PredefinedOptions.FLASH_SSD_OPTIMIZED)
        >>> backend.get_predefined_options().name
        'FLASH_SSD_OPTIMIZED'
    """

    DEFAULT = 0
    SPINNING_DISK_OPTIMIZED = 1
    SPINNING_DISK_OPTIMIZED_HIGH_MEM = 2
    FLASH_SSD_OPTIMIZED = 3


class EmbeddedRocksDBStateBackend(StateBackend):
    """State of any size on the disk of its slot's host; the name is Flink's, the engine is not RocksDB.

    Args:
        enable_incremental_checkpointing: Whether checkpoints hold only what changed; None for the configured.

    Raises:
        TypeMismatchError: If that is neither None nor a bool.

    Example:
        >>> from millstream.datastream import EmbeddedRocksDBStateBackend, StreamExecutionEnvironment
        >>> backend = EmbeddedRocksDBStateBackend(enable_incremental_checkpointing=True)
        >>> backend.set_db_storage_paths("/fast-disk/state")
        >>> env = StreamExecutionEnvironment.get_execution_environment()
        >>> env.configure(backend.configuration())
        >>> backend.get_db_storage_paths()
        ['/fast-disk/state']
    """

    def __init__(self, enable_incremental_checkpointing: bool | None = None) -> None:
        if enable_incremental_checkpointing not in (None, True, False):
            raise TypeMismatchError(
                f"enable_incremental_checkpointing is {enable_incremental_checkpointing!r}",
                detail="It is None, True or False.",
            )
        self._incremental = enable_incremental_checkpointing
        self._paths: list[str] = []
        self._predefined = PredefinedOptions.DEFAULT
        self._options_factory: str | None = None
        self._transfer_threads = 4

    def set_db_storage_paths(self, *paths: str) -> None:
        """Set the directories of state, on every host; none for those of the system.

        Raises:
            ConfigurationError: If one is no path of a local file system.
        """
        self._paths = [local_path(path) for path in paths if path is not None]

    def get_db_storage_paths(self) -> list[str]:
        """Return the directories of state."""
        return list(self._paths)

    def is_incremental_checkpoints_enabled(self) -> bool:
        """Return whether checkpoints hold only what changed."""
        return bool(self._incremental)

    def set_predefined_options(self, options: PredefinedOptions) -> None:
        """Keep settings of RocksDB; without effect."""
        self._predefined = options

    def get_predefined_options(self) -> PredefinedOptions:
        """Return the settings that were kept."""
        return self._predefined

    def set_options(self, options_factory_class_name: str) -> None:
        """Keep the name of a Java class that makes RocksDB's options; without effect: there is no RocksDB here."""
        self._options_factory = options_factory_class_name

    def get_options(self) -> str | None:
        """Return the name that was kept."""
        return self._options_factory

    def get_number_of_transfer_threads(self) -> int:
        """Return the number that was kept."""
        return self._transfer_threads

    def set_number_of_transfer_threads(self, number_of_transfering_threads: int) -> None:
        """Keep a number of threads; without effect.

        Raises:
            ConfigurationError: If it is not positive.
        """
        if number_of_transfering_threads < 1:
            raise ConfigurationError(
                f"the number of transfer threads is {number_of_transfering_threads}",
                detail="It must be positive.",
            )
        self._transfer_threads = number_of_transfering_threads

    def configuration(self) -> Configuration:
        """Return it as options."""
        configuration = Configuration().set(BACKEND_TYPE, "rocksdb")
        if self._incremental is not None:
            configuration.set(options.INCREMENTAL, self._incremental)
        if self._paths:
            configuration.set(LOCAL_DIRECTORY, ",".join(self._paths))
        return configuration

    def __str__(self) -> str:
        return f"EmbeddedRocksDBStateBackend(paths: {self._paths})"


class CustomStateBackend(StateBackend):
    """A backend written in Java: there is none here.

    Raises:
        NotSupportedError: Always.

    Example:
        >>> from millstream.datastream import CustomStateBackend
        >>> CustomStateBackend("org.example.Backend")
        Traceback (most recent call last):
            ...
        millstream.base.errors.NotSupportedError: [NOT_SUPPORTED] a state backend written in Java was given
        Hint: Use HashMapStateBackend() or EmbeddedRocksDBStateBackend().
    """

    def __new__(cls, j_custom_state_backend: Any) -> NoReturn:
        """Refuse it."""
        raise NotSupportedError(
            "a state backend written in Java was given",
            hint="Use HashMapStateBackend() or EmbeddedRocksDBStateBackend().",
        )

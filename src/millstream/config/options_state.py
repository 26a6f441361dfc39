"""Options of state: where it lives and how much memory it may take."""

from __future__ import annotations

from typing import Final

from millstream.config.option_types import ConfigOption, OptionType

__all__ = ["STATE_OPTIONS"]

STATE_BACKEND: Final = ConfigOption(
    "state.backend.type",
    OptionType.STRING,
    "hashmap",
    "Where keyed state lives: hashmap, live objects in the slot's memory; rocksdb, on the slot's disk, larger "
    "than memory if need be (the name is Flink's, the engine is LMDB).",
    choices=("hashmap", "rocksdb"),
    fallback_keys=("state.backend",),
)
STATE_LOCAL_DIRECTORY: Final = ConfigOption(
    "state.backend.rocksdb.localdir",
    OptionType.STRING,
    None,
    "Directory on every host for state on disk; without it, the system's directory of temporary files. It is "
    "scratch space: state is removed when the job ends, checkpoints keep it.",
)
STATE_CACHE_BYTES: Final = ConfigOption(
    "millstream.state.cache-bytes",
    OptionType.POSITIVE_INTEGER,
    128 * 1024 * 1024,
    "With state on disk: memory for the values used lately, about so many bytes for each operator in each "
    "slot.",
)

STATE_OPTIONS: Final = (STATE_BACKEND, STATE_LOCAL_DIRECTORY, STATE_CACHE_BYTES)

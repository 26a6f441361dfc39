"""Time to live of state (PyFlink's `StateTtlConfig`).

An entry's last access is renewed by writes, or by reads and writes; it is expired when the time to live has
passed since, in processing time. Entries of lists and maps expire one by one.
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, Any, TypeAlias

from millstream.base.errors import ConfigurationError, shorten
from millstream.base.time import Duration, Time, to_milliseconds

if TYPE_CHECKING:
    from datetime import timedelta

__all__ = ["CleanupStrategies", "StateTtlConfig", "StateVisibility", "TtlTimeCharacteristic", "UpdateType"]

_DEFAULT_COMPACTION_DAYS = 30


class UpdateType(Enum):
    """What renews the time of last access."""

    Disabled = 0
    """State does not expire."""
    OnCreateAndWrite = 1
    """Every write."""
    OnReadAndWrite = 2
    """Every write and every read."""


class StateVisibility(Enum):
    """Whether expired state that is still there is shown."""

    ReturnExpiredIfNotCleanedUp = 0
    """It is shown until it is cleaned up, which the showing does."""
    NeverReturnExpired = 1
    """It is never shown."""


class TtlTimeCharacteristic(Enum):
    """The clock of the time to live."""

    ProcessingTime = 0


class CleanupStrategies:
    """When expired state is removed, beyond the access that finds it expired.

    Args:
        strategies: What was configured.
        is_cleanup_in_background: Whether the defaults apply where nothing was configured.
    """

    class Strategies(Enum):
        """Kinds of clean-up."""

        FULL_STATE_SCAN_SNAPSHOT = 0
        INCREMENTAL_CLEANUP = 1
        ROCKSDB_COMPACTION_FILTER = 2

    class CleanupStrategy:
        """How one kind of clean-up is done."""

    class EmptyCleanupStrategy(CleanupStrategy):
        """A clean-up that has no settings."""

    class IncrementalCleanupStrategy(CleanupStrategy):
        """Look at a few entries with each access.

        Args:
            cleanup_size: Number of entries.
            run_cleanup_for_every_record: Whether each record counts as an access; here an access is one of
                the state itself.
        """

        def __init__(self, cleanup_size: int, run_cleanup_for_every_record: bool) -> None:
            if cleanup_size < 0:
                raise ConfigurationError(f"the clean-up size of a time to live is {cleanup_size}")
            self._cleanup_size = cleanup_size
            self._run_cleanup_for_every_record = run_cleanup_for_every_record

        def get_cleanup_size(self) -> int:
            """Return the number of entries looked at with each access."""
            return self._cleanup_size

        def run_cleanup_for_every_record(self) -> bool:
            """Return whether each record counts as an access."""
            return self._run_cleanup_for_every_record

    class RocksdbCompactFilterCleanupStrategy(CleanupStrategy):
        """Remove expired entries while the disk backend tidies up.

        Args:
            query_time_after_num_entries: Kept for compatibility: here the clock is fixed within an epoch.
            periodic_compaction_time: Kept for compatibility; 30 days if it is not given.
        """

        def __init__(
            self, query_time_after_num_entries: int, periodic_compaction_time: Duration | None = None
        ) -> None:
            self._query_time_after_num_entries = query_time_after_num_entries
            self._periodic_compaction_time = periodic_compaction_time or Duration.of_days(
                _DEFAULT_COMPACTION_DAYS
            )

        def get_query_time_after_num_entries(self) -> int:
            """Return after how many entries Flink would read the clock again."""
            return self._query_time_after_num_entries

        def get_periodic_compaction_time(self) -> Duration:
            """Return after how long Flink would compact a file again."""
            return self._periodic_compaction_time

    EMPTY_STRATEGY = EmptyCleanupStrategy()

    def __init__(
        self, strategies: dict[CleanupStrategies.Strategies, Any], is_cleanup_in_background: bool
    ) -> None:
        self._strategies = strategies
        self._is_cleanup_in_background = is_cleanup_in_background

    def is_cleanup_in_background(self) -> bool:
        """Return whether the defaults apply where nothing was configured."""
        return self._is_cleanup_in_background

    def in_full_snapshot(self) -> bool:
        """Return whether snapshots leave out what is expired."""
        return CleanupStrategies.Strategies.FULL_STATE_SCAN_SNAPSHOT in self._strategies

    def get_incremental_cleanup_strategy(self) -> CleanupStrategies.IncrementalCleanupStrategy | None:
        """Return how entries are looked at with each access; by default five, None for not at all."""
        default = (
            CleanupStrategies.IncrementalCleanupStrategy(5, False) if self._is_cleanup_in_background else None
        )
        return self._strategies.get(CleanupStrategies.Strategies.INCREMENTAL_CLEANUP, default)

    def get_rocksdb_compact_filter_cleanup_strategy(
        self,
    ) -> CleanupStrategies.RocksdbCompactFilterCleanupStrategy | None:
        """Return how the disk backend tidies up; None for not at all."""
        default = (
            CleanupStrategies.RocksdbCompactFilterCleanupStrategy(1000)
            if self._is_cleanup_in_background
            else None
        )
        return self._strategies.get(CleanupStrategies.Strategies.ROCKSDB_COMPACTION_FILTER, default)


# Within the class these names are its attributes, as PyFlink has them, and so no types for annotations.
_Update: TypeAlias = UpdateType
_Visibility: TypeAlias = StateVisibility
_Characteristic: TypeAlias = TtlTimeCharacteristic
_Cleanup: TypeAlias = CleanupStrategies


class StateTtlConfig:
    """How long state lives; see `new_builder`.

    >>> from millstream.common import Time
    >>> from millstream.datastream.state import StateTtlConfig
    >>> config = StateTtlConfig.new_builder(Time.hours(1)).update_ttl_on_read_and_write().build()
    >>> config.get_update_type().name, config.get_ttl()
    ('OnReadAndWrite', Time(3600000 ms))
    """

    UpdateType = UpdateType
    StateVisibility = StateVisibility
    TtlTimeCharacteristic = TtlTimeCharacteristic
    CleanupStrategies = CleanupStrategies

    def __init__(
        self,
        update_type: _Update,
        state_visibility: _Visibility,
        ttl_time_characteristic: _Characteristic,
        ttl: Time | Duration | timedelta,
        cleanup_strategies: _Cleanup,
    ) -> None:
        if to_milliseconds(ttl) <= 0:
            raise ConfigurationError(f"a time to live of {shorten(ttl)} is not positive")
        self._update_type = update_type
        self._state_visibility = state_visibility
        self._ttl_time_characteristic = ttl_time_characteristic
        self._ttl = ttl
        self._cleanup_strategies = cleanup_strategies

    @staticmethod
    def new_builder(ttl: Time | Duration | timedelta) -> StateTtlConfig.Builder:
        """Begin a configuration: entries live for `ttl` after their last write."""
        return StateTtlConfig.Builder(ttl)

    def get_update_type(self) -> _Update:
        """Return what renews the time of last access."""
        return self._update_type

    def get_state_visibility(self) -> _Visibility:
        """Return whether expired state is shown."""
        return self._state_visibility

    def get_ttl(self) -> Time | Duration | timedelta:
        """Return how long entries live."""
        return self._ttl

    def get_ttl_time_characteristic(self) -> _Characteristic:
        """Return the clock."""
        return self._ttl_time_characteristic

    def is_enabled(self) -> bool:
        """Return whether state expires at all."""
        return self._update_type is not UpdateType.Disabled

    def get_cleanup_strategies(self) -> _Cleanup:
        """Return when expired state is removed."""
        return self._cleanup_strategies

    def __repr__(self) -> str:
        return (
            f"StateTtlConfig({self._ttl!r}, {self._update_type.name}, {self._state_visibility.name}, "
            f"{self._ttl_time_characteristic.name})"
        )

    class Builder:
        """Builds a `StateTtlConfig`; methods return the builder."""

        def __init__(self, ttl: Time | Duration | timedelta) -> None:
            self._ttl = ttl
            self._update_type = UpdateType.OnCreateAndWrite
            self._state_visibility = StateVisibility.NeverReturnExpired
            self._ttl_time_characteristic = TtlTimeCharacteristic.ProcessingTime
            self._is_cleanup_in_background = True
            self._strategies: dict[_Cleanup.Strategies, Any] = {}

        def set_update_type(self, update_type: _Update) -> StateTtlConfig.Builder:
            """Choose what renews the time of last access."""
            self._update_type = update_type
            return self

        def update_ttl_on_create_and_write(self) -> StateTtlConfig.Builder:
            """Have writes renew it."""
            return self.set_update_type(UpdateType.OnCreateAndWrite)

        def update_ttl_on_read_and_write(self) -> StateTtlConfig.Builder:
            """Have reads and writes renew it."""
            return self.set_update_type(UpdateType.OnReadAndWrite)

        def set_state_visibility(self, state_visibility: _Visibility) -> StateTtlConfig.Builder:
            """Choose whether expired state is shown."""
            self._state_visibility = state_visibility
            return self

        def return_expired_if_not_cleaned_up(self) -> StateTtlConfig.Builder:
            """Show expired state until it is cleaned up."""
            return self.set_state_visibility(StateVisibility.ReturnExpiredIfNotCleanedUp)

        def never_return_expired(self) -> StateTtlConfig.Builder:
            """Never show expired state."""
            return self.set_state_visibility(StateVisibility.NeverReturnExpired)

        def set_ttl_time_characteristic(
            self, ttl_time_characteristic: _Characteristic
        ) -> StateTtlConfig.Builder:
            """Choose the clock."""
            self._ttl_time_characteristic = ttl_time_characteristic
            return self

        def use_processing_time(self) -> StateTtlConfig.Builder:
            """Go by processing time."""
            return self.set_ttl_time_characteristic(TtlTimeCharacteristic.ProcessingTime)

        def cleanup_full_snapshot(self) -> StateTtlConfig.Builder:
            """Leave expired entries out of snapshots."""
            kinds = CleanupStrategies.Strategies
            self._strategies[kinds.FULL_STATE_SCAN_SNAPSHOT] = CleanupStrategies.EMPTY_STRATEGY
            return self

        def cleanup_incrementally(
            self, cleanup_size: int, run_cleanup_for_every_record: bool
        ) -> StateTtlConfig.Builder:
            """Look at `cleanup_size` entries with each access."""
            self._strategies[CleanupStrategies.Strategies.INCREMENTAL_CLEANUP] = (
                CleanupStrategies.IncrementalCleanupStrategy(cleanup_size, run_cleanup_for_every_record)
            )
            return self

        def cleanup_in_rocksdb_compact_filter(
            self, query_time_after_num_entries: int, periodic_compaction_time: Duration | None = None
        ) -> StateTtlConfig.Builder:
            """Remove expired entries while the disk backend tidies up."""
            self._strategies[CleanupStrategies.Strategies.ROCKSDB_COMPACTION_FILTER] = (
                CleanupStrategies.RocksdbCompactFilterCleanupStrategy(
                    query_time_after_num_entries, periodic_compaction_time
                )
            )
            return self

        def disable_cleanup_in_background(self) -> StateTtlConfig.Builder:
            """Switch off the clean-ups that were not configured."""
            self._is_cleanup_in_background = False
            return self

        def set_ttl(self, ttl: Time | Duration | timedelta) -> StateTtlConfig.Builder:
            """Choose how long entries live."""
            self._ttl = ttl
            return self

        def build(self) -> StateTtlConfig:
            """Return the configuration.

            Raises:
                ConfigurationError: If the time to live is not positive.
            """
            return StateTtlConfig(
                self._update_type,
                self._state_visibility,
                self._ttl_time_characteristic,
                self._ttl,
                CleanupStrategies(self._strategies, self._is_cleanup_in_background),
            )

"""The window operator for any assigner, trigger and evictor: Flink's rules, record by record.

For each window of a record that is not late yet::

    add the record ─► trigger.on_element ─► fire? emit the contents ─► purge? drop them ─► set the clean-up timer

A timer asks the trigger likewise. At its clean-up time, `max_timestamp() + allowed lateness` (by the clock:
`max_timestamp()`), a window loses its contents, the trigger's state and timers and the function's state; so a
trigger's timer after that time never fires. Windows without end (global and count windows) are not cleaned up.

Timers fire by time, then in order of registration. Timers by the clock fire once it shows more than their time,
as in Flink.

The operators for windows by time with their default triggers (`panes`, `slices`, `sessions`) and for counting
(`counts`) give the same results, some ten times faster.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import groupby, repeat
from operator import itemgetter
from typing import Any

from millstream.base.errors import JobDefinitionError, TypeMismatchError, shorten
from millstream.base.time import MAX_TIMESTAMP, MIN_TIMESTAMP
from millstream.operators.base import OperatorContext, Output, OwnEntries, RestoreScope
from millstream.operators.calls import emit_results
from millstream.operators.own_entries import add_changed, touched_keys
from millstream.operators.runtime_context import OperatorRuntimeContext
from millstream.operators.user_code import attach_element
from millstream.operators.values import ATOMIC, copies, copy_of
from millstream.operators.windowing.assigner import MergingWindowAssigner, WindowAssigner
from millstream.operators.windowing.base import WindowOperator
from millstream.operators.windowing.contexts import AssignerContext, EvictingContext, WindowTriggerContext
from millstream.operators.windowing.evictors import Evictor, TimestampedValue
from millstream.operators.windowing.folds import Fold, ListFold
from millstream.operators.windowing.merging import WindowSet, add_window
from millstream.operators.windowing.trigger import Trigger, TriggerResult
from millstream.spi.batch import Rows
from millstream.state.keyed import NO_KEY
from millstream.state.snapshots import Entries, StateChanges
from millstream.state.timers import TimerQueue
from millstream.state.touched import TouchedKeys

__all__ = ["CONTENTS", "MERGED", "GeneralWindowOperator"]

CONTENTS = "contents"
"""Entries: key -> {state window: accumulator}."""
MERGED = "merged"
"""Entries: key -> {window: state window}."""

_CONTINUE = TriggerResult.CONTINUE
_MISSING: Any = object()

OnTime = Callable[[int, Any, Trigger.TriggerContext], TriggerResult]


class GeneralWindowOperator(WindowOperator):
    """Contents by key and window, `{key: {window: accumulator}}`; timers and trigger state in the keyed backend.

    Args:
        assigner: Says which windows a record belongs to.
        trigger: Says when they fire.
        evictor: Takes records out of windows that fire; None for none.
        shared: For `WindowOperator`.
    """

    def __init__(
        self, *, assigner: WindowAssigner, trigger: Trigger, evictor: Evictor | None, **shared: Any
    ) -> None:
        super().__init__(**shared)
        self._assigner = assigner
        self._merger = assigner if isinstance(assigner, MergingWindowAssigner) else None
        self.merging = self._merger is not None
        self._trigger = trigger
        self._evictor = evictor
        self._kept: Fold = self._fold if evictor is None else ListFold()
        self._contents: dict[Any, dict[Any, Any]] = {}
        self._sets: dict[Any, WindowSet] = {}
        self._touched: TouchedKeys | None = None
        self._stamp: int | None = None
        self._restored = False

    def setup(self, context: OperatorContext, output: Output) -> None:
        """Be told where it runs and where results go."""
        super().setup(context, output)
        self._touched = touched_keys(context)

    def open(self) -> None:
        """Open the functions."""
        keyed_state = self.context.keyed_state
        assert keyed_state is not None, "a window operator without keyed state"
        self._state = keyed_state
        self._state.timer_key = itemgetter(0)
        runtime_context = OperatorRuntimeContext(self.context)
        self._assigner_context = AssignerContext(self, runtime_context)
        self._trigger_context = WindowTriggerContext(self, runtime_context, keyed_state)
        self._evictor_context = EvictingContext(self, runtime_context)
        super().open()

    def snapshot_state(self) -> int:
        """Return the watermark."""
        return self.watermark_ms

    def restore_state(self, snapshot: int, scope: RestoreScope) -> None:
        """Take over the watermark; timers and trigger state are the keyed backend's."""
        self.watermark_ms = min(self.watermark_ms, snapshot) if self._restored else snapshot
        self._restored = True

    def snapshot_entries(self) -> Iterator[OwnEntries]:
        """Return contents by key, and by key which windows have merged."""
        yield CONTENTS, None, self._contents.items()
        yield MERGED, None, self._sets.items()

    def changed_entries(self, changes: StateChanges) -> bool:
        """Add contents of keys that had records or timers."""
        touched = self._touched
        whole = not add_changed(changes, CONTENTS, self._contents, touched)
        if whole or not self.merging:
            return not whole
        return add_changed(changes, MERGED, self._sets, touched)

    def forget_changes(self) -> None:
        """Take the contents as they are as known."""
        if self._touched is not None:
            self._touched.forget()

    def restore_entries(self, name: str, entries: Entries) -> None:
        """Take over contents, or which windows have merged."""
        mine = self._contents if name == CONTENTS else self._sets
        mine.update((key, windows) for _, key, windows in entries)

    # Records

    def process(self, batch: Rows) -> None:
        """Add a batch to its windows, record by record."""
        values, timestamps = batch.values, batch.timestamps
        if not values:
            return
        staggered = getattr(self._assigner, "staggered", None)
        if staggered is not None:
            self._assigner = staggered(self.context.time.now_ms)
        add = self._add_merging if self.merging else self._add
        state, keys = self._state, self._keys(values)
        if self._touched is not None:
            self._touched.note(keys, len(self._contents))
        value = None
        try:
            for state.current_key, value, stamp in zip(
                keys, values, timestamps or repeat(None), strict=False
            ):
                self._stamp = stamp
                add(state.current_key, value, MIN_TIMESTAMP if stamp is None else stamp)
        except BaseException as error:
            attach_element(error, value)
            raise
        state.current_key = NO_KEY
        self._flush()

    def _add(self, key: Any, value: Any, timestamp: int) -> None:
        taken = False
        trigger, context = self._trigger, self._trigger_context
        for window in self._assigner.assign_windows(value, timestamp, self._assigner_context):
            clean_up_ms = self._clean_up_time(window)
            if self._event_time and clean_up_ms <= self.watermark_ms:
                continue
            taken = True
            # Each window has a record of its own, if functions can change it.
            self._keep(key, window, value if type(value) in ATOMIC else copy_of(value))
            context.window = window
            result = trigger.on_element(value, timestamp, window, context)
            if result is not _CONTINUE:
                self._act(result, key, window, window)
            self._register_clean_up(key, window, clean_up_ms)
        if not taken:
            self._pass_late(value, timestamp)

    def _add_merging(self, key: Any, value: Any, timestamp: int) -> None:
        taken = False
        assert self._merger is not None
        windows = self._sets.setdefault(key, {})
        for new in self._assigner.assign_windows(value, timestamp, self._assigner_context):
            window = add_window(self._merger, windows, new, self._merge)
            clean_up_ms = self._clean_up_time(window)
            if self._event_time and clean_up_ms <= self.watermark_ms:
                del windows[window]
                continue
            taken = True
            state_window = windows[window]
            self._keep(key, state_window, value if type(value) in ATOMIC else copy_of(value))
            self._trigger_context.window = window
            result = self._trigger.on_element(value, timestamp, window, self._trigger_context)
            if result is not _CONTINUE:
                self._act(result, key, window, state_window)
            self._register_clean_up(key, window, clean_up_ms)
        if not windows:
            del self._sets[key]
        if not taken:
            self._pass_late(value, timestamp)

    def _keep(self, key: Any, state_window: Any, value: Any) -> None:
        panes = self._contents.get(key)
        if panes is None:
            panes = self._contents[key] = {}
        if self._evictor is not None:
            value = TimestampedValue(value, self._stamp)
        accumulator = panes.get(state_window, _MISSING)
        if accumulator is _MISSING:
            panes[state_window] = self._kept.first(value)
        else:
            panes[state_window] = self._kept.add(value, accumulator)

    def _pass_late(self, value: Any, timestamp: int) -> None:
        """Take a record that no window took; one that has no window by design is not late."""
        if self._event_time and timestamp + self._lateness_ms <= self.watermark_ms:
            self._add_late(value, timestamp)

    def _merge(self, result: Any, merged: list[Any], state_window: Any, state_windows: list[Any]) -> None:
        """Merge windows of the current key into one: the trigger's state, then the contents."""
        key, context = self._state.current_key, self._trigger_context
        self._check_merger(result)
        context.window, context.merged = result, merged
        self._trigger.on_merge(result, context)
        context.merged = []
        for window in merged:
            if window == result:
                continue
            context.window = window
            self._trigger.clear(window, context)
            self._delete_clean_up(key, window)
            context.forget(window)
        panes = self._contents.get(key, {})
        parts = [panes.pop(each) for each in (state_window, *state_windows) if each in panes]
        if parts:
            accumulator = parts[0]
            for part in parts[1:]:
                accumulator = self._kept.merge(accumulator, part)
            panes[state_window] = accumulator

    def _check_merger(self, window: Any) -> None:
        passed_ms = self.watermark_ms if self._event_time else self.context.time.now_ms - 1
        if self._clean_up_time(window) <= passed_ms:
            raise JobDefinitionError(
                f"windows merged into one that is over: {window!r}",
                detail=f"The {'watermark' if self._event_time else 'clock'} is at {passed_ms}.",
            )

    # Timers

    def process_watermark(self, timestamp_ms: int) -> None:
        """Fire the event-time timers that are due, hand on the results, then the watermark."""
        if timestamp_ms > self.watermark_ms:
            self.watermark_ms = timestamp_ms
            on_time = self._trigger.on_event_time
            self._fire_timers(self._state.event_timers, timestamp_ms, on_time, cleans=self._event_time)
        self.output.emit_watermark(timestamp_ms)

    def advance_watermark(self, timestamp_ms: int) -> bool:
        """Fire as many of the timers that are due as the epoch has room for; if that is all, hand the watermark on."""
        if timestamp_ms > self.watermark_ms:
            before_ms, self.watermark_ms = self.watermark_ms, timestamp_ms
            timers, on_time = self._state.event_timers, self._trigger.on_event_time
            grant = self.context.budget.take_timers
            if not self._fire_timers(timers, timestamp_ms, on_time, cleans=self._event_time, grant=grant):
                self.watermark_ms = before_ms
                return False
        self.output.emit_watermark(timestamp_ms)
        return True

    def on_processing_time(self) -> None:
        """Fire the processing-time timers that are due, as many as the epoch has room for."""
        on_time = self._trigger.on_processing_time
        now_ms = self.context.time.now_ms
        grant = None if self.context.batch else self.context.budget.take_timers
        timers = self._state.processing_timers
        self._fire_timers(timers, now_ms - 1, on_time, cleans=not self._event_time, grant=grant)

    def next_processing_time(self) -> int | None:
        """Return when the next processing-time timer is due."""
        next_ms = self._state.processing_timers.next_timestamp()
        return None if next_ms is None else next_ms + 1

    def _fire_timers(
        self,
        timers: TimerQueue,
        time_ms: int,
        on_time: OnTime,
        *,
        cleans: bool,
        grant: Callable[[], int] | None = None,
    ) -> bool:
        """Fire what is due, as much as is granted; return whether that is all of it."""
        next_ms = timers.next_timestamp()
        if next_ms is None or next_ms > time_ms:
            return True

        def fire(timestamp_ms: int, timer: tuple[Any, Any]) -> None:
            self._fire_timer(timestamp_ms, timer[0], timer[1], on_time, cleans=cleans)

        try:
            fired = timers.fire_until(time_ms, fire, grant)
        except BaseException as error:
            window = shorten(self._trigger_context.window)
            attach_element(error, f"timer of key {self._state.current_key!r}, window {window}")
            raise
        self._state.current_key = NO_KEY
        self._flush()
        return fired

    def _fire_timer(self, timestamp_ms: int, key: Any, window: Any, on_time: OnTime, *, cleans: bool) -> None:
        state_window = window
        if self._touched is not None:
            self._touched.add(key)
        if self.merging:
            state_window = self._sets.get(key, {}).get(window, _MISSING)
            if state_window is _MISSING:
                return  # the window has merged, and its trigger had left a timer behind
        self._state.current_key = key
        self._stamp = timestamp_ms
        self._trigger_context.window = window
        result = on_time(timestamp_ms, window, self._trigger_context)
        if result is not _CONTINUE:
            self._act(result, key, window, state_window)
        if cleans and timestamp_ms == self._clean_up_time(window):
            self._clean_up(key, window, state_window)

    def _clean_up_time(self, window: Any) -> int:
        last_ms: int = window.max_timestamp()
        return min(last_ms + self._lateness_ms, MAX_TIMESTAMP) if self._event_time else last_ms

    def _register_clean_up(self, key: Any, window: Any, clean_up_ms: int) -> None:
        if clean_up_ms < MAX_TIMESTAMP:
            timers = self._state.event_timers if self._event_time else self._state.processing_timers
            timers.register(clean_up_ms, (key, window))

    def _delete_clean_up(self, key: Any, window: Any) -> None:
        timers = self._state.event_timers if self._event_time else self._state.processing_timers
        timers.delete(self._clean_up_time(window), (key, window))

    def _clean_up(self, key: Any, window: Any, state_window: Any) -> None:
        self._drop(key, state_window)
        self._trigger_context.window = window
        self._trigger.clear(window, self._trigger_context)
        if self._firing.clears:
            self._firing.clear(window, [key])
            self._state.current_key = key
        self._trigger_context.forget(window)
        if self.merging:
            windows = self._sets[key]
            del windows[window]
            if not windows:
                del self._sets[key]

    def _drop(self, key: Any, state_window: Any) -> None:
        panes = self._contents.get(key)
        if panes is not None and panes.pop(state_window, _MISSING) is not _MISSING and not panes:
            del self._contents[key]

    # Firing

    def _act(self, result: TriggerResult, key: Any, window: Any, state_window: Any) -> None:
        """Do what a trigger says."""
        if not isinstance(result, TriggerResult):
            raise TypeMismatchError(
                f"{type(self._trigger).__name__} returned {shorten(result)}, not a TriggerResult",
                hint="Return TriggerResult.CONTINUE, FIRE, PURGE or FIRE_AND_PURGE from every method on_….",
            )
        if result.is_fire():
            accumulator = self._contents.get(key, {}).get(state_window, _MISSING)
            if accumulator is not _MISSING:
                self._fire_pane(key, window, state_window, accumulator, purge=result.is_purge())
        if result.is_purge():
            self._drop(key, state_window)

    def _fire_pane(self, key: Any, window: Any, state_window: Any, accumulator: Any, *, purge: bool) -> None:
        if self._evictor is None:
            fold = self._fold
            content = fold.result(accumulator) if purge else fold.copy_result(accumulator)
            self._firing.fire(window, [(key, content)], self._results)
        else:
            self._fire_evicting(key, window, state_window, accumulator)
        self._stamp_results(window)

    def _stamp_of(self, window: Any) -> Any:
        last_ms: int = window.max_timestamp()
        # A window without end gives its results the time of what made it fire.
        return last_ms if last_ms < MAX_TIMESTAMP else self._stamp

    def _fire_evicting(
        self, key: Any, window: Any, state_window: Any, elements: list[TimestampedValue]
    ) -> None:
        assert self._evictor is not None
        self._evictor.evict_before(elements, len(elements), window, self._evictor_context)
        contents = self._fold.of_all(copies([element.value for element in elements]))
        self._firing.fire(window, [(key, content) for content in contents], self._results)
        self._evictor.evict_after(elements, len(elements), window, self._evictor_context)
        if not elements:
            self._drop(key, state_window)

    def _flush(self) -> None:
        if None not in self._result_timestamps:
            super()._flush()
            return
        pairs = list(zip(self._results, self._result_timestamps, strict=True))
        self._results, self._result_timestamps = [], []
        super()._flush()
        for unstamped, group in groupby(pairs, key=lambda pair: pair[1] is None):
            run = list(group)
            stamps = None if unstamped else [stamp for _, stamp in run]
            emit_results(self, [value for value, _ in run], stamps, self._output_type)

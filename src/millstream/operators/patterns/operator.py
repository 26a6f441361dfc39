"""The operator that runs a pattern over a keyed stream.

::

    event ──► waiting, by time ──watermark──► automaton of its key ──► matches ──► the user's function
                                                 │        ▲
                                     keyed state (Held)   timer: time completes a match, or ends a partial one

In event time events wait until the watermark has passed them, and are taken in order of time; so what comes out does
not depend on the order in which they arrived. A key has one timer, at the time at which something of it is due next. In
processing time events are taken as they come. A key that has no partial match costs one call of the condition that a
match begins with.

Patterns may come as a stream of their own: each replaces the one before, in event time from its own time on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, MutableMapping, Sequence
from dataclasses import dataclass
from itertools import compress, repeat
from typing import Any

from millstream.base.errors import JobDefinitionError, TypeMismatchError, shorten
from millstream.base.time import MIN_TIMESTAMP
from millstream.operators.base import (
    BatchHandler,
    Operator,
    OperatorReport,
    OperatorSpec,
    OwnEntries,
    RestoreScope,
)
from millstream.operators.functions_adapter import open_function
from millstream.operators.inlined.expressions import map_loop
from millstream.operators.keys import key_list
from millstream.operators.own_entries import touched_keys
from millstream.operators.patterns.automaton import Found, PatternAutomaton
from millstream.operators.patterns.codes import UNTOLD, Codes
from millstream.operators.patterns.handover import Handover
from millstream.operators.patterns.held import Held
from millstream.operators.patterns.linear import Line, LinearAutomaton, is_linear
from millstream.operators.patterns.parts import PatternSpec
from millstream.operators.patterns.replacing import Replacements
from millstream.operators.patterns.table import PatternTable
from millstream.operators.patterns.waiting import Events, WaitingEvents, sort_ties
from millstream.operators.runtime_context import OperatorRuntimeContext
from millstream.operators.timer_service import KeyedContext, KeyedTimers
from millstream.operators.user_code import attach_element
from millstream.spi.batch import Rows
from millstream.state.keys import canonical_keys
from millstream.state.snapshots import Entries, StateChanges
from millstream.state.touched import pays
from millstream.types.typeinfo import TypeInformation

__all__ = ["PatternMatchSpec"]

_STATE = "partial-matches"
_WAITING = "waiting-events"
_Entry = tuple[int, Any, Any, int]
"""Time, key and number of an event, and the event itself before the number."""

_LATE_RECORDS_DROPPED = "numLateRecordsDropped"


@dataclass(frozen=True)
class PatternMatchSpec(OperatorSpec):
    """Declares a search for a pattern in a keyed stream.

    Attributes:
        function: Has `process_match(match, context)`, and `process_timed_out_match` if it reports partial matches.
        pattern: The pattern; None if patterns come as a stream and there is none to begin with.
        key_selector: Gives a record's key.
        event_time: Whether events are taken in order of their timestamps; else as they come.
        compare: Orders events of the same time; None for the order in which they came.
        late_tag_id: Side output of late events; None drops and counts them.
        reports_partial: Whether the function is given partial matches whose time is up.
        is_replaced: Whether input 0 is a stream of patterns, each of which replaces the one before.
        output_type: Type to check results against; None leaves them unchecked.
    """

    function: Any
    pattern: PatternSpec | None
    key_selector: Callable[[Any], Any]
    event_time: bool = True
    compare: Callable[[Any, Any], int] | None = None
    late_tag_id: str | None = None
    reports_partial: bool = False
    is_replaced: bool = False
    output_type: TypeInformation | None = None
    is_keyed = True

    @property
    def state_form(self) -> str:
        """The pattern: partial matches of one are none of another."""
        time = "event time" if self.event_time else "processing time"
        if self.is_replaced or self.pattern is None:
            return f"patterns of a stream in {time}"
        return f'the pattern "{self.pattern.describe()}" in {time}'

    @property
    def waits_ms(self) -> int | None:
        """Events wait until the watermark has passed them."""
        return 0 if self.event_time else None

    def build(self) -> Operator:
        """Make the running half."""
        return PatternMatchOperator(self)


class PatternMatchOperator(Operator):
    """Runs a pattern, see the module's picture."""

    def __init__(self, spec: PatternMatchSpec) -> None:
        self._spec = spec
        self._event_time = spec.event_time
        self._waiting = WaitingEvents()
        self._in_epoch = Events([], [], [])
        self._replacements = Replacements(spec.pattern)
        self._automaton: PatternAutomaton | None = None
        self._linear: LinearAutomaton | None = None
        self._key_loop = map_loop(spec.key_selector)
        self._late_dropped = 0

    # Life

    def open(self) -> None:
        """Open the function and the pattern's conditions."""
        state = self.context.keyed_state
        assert state is not None, "a keyed operator without keyed state"
        self._state = state
        self._touched = touched_keys(self.context)
        self._waiting.tracks = self._touched is not None
        self._held: MutableMapping[Any, Any] = state.table(_STATE)
        self._timers = state.event_timers if self._event_time else state.processing_timers
        self._function_context = KeyedContext(KeyedTimers(self, state), state)
        self._runtime_context = OperatorRuntimeContext(self.context)
        open_function(self._spec.function, self._runtime_context)
        self._follow(self._replacements.current)

    def close(self) -> None:
        """Close the function and the conditions."""
        self._close_conditions()
        self._spec.function.close()

    def _follow(self, pattern: PatternSpec | None) -> None:
        """Go on with a pattern."""
        self._close_conditions()
        self._automaton = None
        if pattern is None:
            return
        table = PatternTable(pattern)
        for condition in table.positions.conditions:
            for each in condition.opened:
                each.open(self._runtime_context)
        time = self.context.time
        self._automaton = PatternAutomaton(
            table, lambda: time.now_ms, reports_partial=self._spec.reports_partial
        )
        if is_linear(table) and not self._spec.is_replaced:
            self._linear = LinearAutomaton(table, reports_partial=self._spec.reports_partial)
        self._codes = Codes([table.tests[number] for number in table.simple])
        self._passes_misfits = table.passes_misfits()
        # A timer that there is comes first, but for bounds between two events, and patterns that are replaced.
        self._timer_stays = not self._automaton.has_gaps and not self._spec.is_replaced

    def _close_conditions(self) -> None:
        if self._automaton is not None:
            for condition in self._automaton.table.positions.conditions:
                for each in condition.opened:
                    each.close()

    # Input

    def batch_handlers(self) -> list[BatchHandler]:
        """Return the handlers: of the patterns first, if they are a stream."""
        return [self.process_pattern, self.process] if self._spec.is_replaced else [self.process]

    def process(self, batch: Rows) -> None:
        """Take in events.

        Raises:
            JobDefinitionError: If events have no timestamps, which event time needs.
        """
        values, stamps = batch.values, batch.timestamps
        if not values:
            return
        if self._event_time:
            stamps = self._check_stamps(values, stamps)
            if min(stamps) <= self.watermark_ms:
                values, stamps = self._take_out_late(values, stamps)
            if values:
                self._waiting.add(stamps, self._keys(values), values)
            return
        events = Events([self.context.time.now_ms] * len(values), self._keys(values), values)
        if self._spec.compare is None:
            self._run(events)
        else:
            for held, new in zip(self._in_epoch, events, strict=True):
                held += new

    def _keys(self, values: list[Any]) -> list[Any]:
        if self._key_loop is not None:
            try:
                return canonical_keys(self._key_loop(values))
            except Exception:  # noqa: BLE001 - it only computes, and calling it tells which value it is
                pass
        return key_list(self._spec.key_selector, values)

    def process_pattern(self, batch: Rows) -> None:
        """Take in patterns, each of which replaces the one before.

        Raises:
            TypeMismatchError: If a record is no pattern.
        """
        stamps: Iterable[int] = batch.timestamps or repeat(MIN_TIMESTAMP)
        for pattern, stamp in zip(batch.values, stamps, strict=False):
            if not isinstance(pattern, PatternSpec):
                raise TypeMismatchError(
                    f"a stream of patterns has {shorten(pattern)} of type {type(pattern).__name__}",
                    hint="Give dynamic_patterns(...) a control stream of Patterns.",
                )
            if not self._event_time or stamp <= self.watermark_ms:
                self._replace(pattern, self.watermark_ms)
            else:
                self._replacements.add(stamp, pattern)

    def _check_stamps(self, values: list[Any], stamps: list[int] | None) -> list[int]:
        if stamps is None:
            raise JobDefinitionError(
                f"a record has no timestamp: {shorten(values[0])}",
                detail="Patterns in event time take events in order of their timestamps.",
                hint="Call assign_timestamps_and_watermarks(...), with a TimestampAssigner, before CEP.pattern(...), "
                "or in_processing_time() on its result.",
            )
        return stamps

    def _take_out_late(self, values: list[Any], stamps: list[int]) -> tuple[list[Any], list[int]]:
        watermark_ms, tag_id = self.watermark_ms, self._spec.late_tag_id
        late = [place for place, stamp in enumerate(stamps) if stamp <= watermark_ms]
        if tag_id is None:
            self._late_dropped += len(late)
        else:
            rows = Rows([values[place] for place in late], [stamps[place] for place in late])
            self.output.emit_side(tag_id, rows)
        on_time = [place for place, stamp in enumerate(stamps) if stamp > watermark_ms]
        return [values[place] for place in on_time], [stamps[place] for place in on_time]

    def _touch(self, keys: Iterable[Any]) -> None:
        if self._touched is not None:
            self._touched.note(keys, len(self._held))

    # Time

    def process_watermark(self, timestamp_ms: int) -> None:
        """Take the events that the watermark has passed, and end what time ends; then hand it on."""
        if self._event_time:
            self._reach(timestamp_ms, None)
        self.watermark_ms = timestamp_ms
        self.output.emit_watermark(timestamp_ms)

    def advance_watermark(self, timestamp_ms: int) -> bool:
        """Do so as far as the epoch has room; if that is all, hand the watermark on."""
        if self._event_time and not self._reach(timestamp_ms, self.context.budget.take):
            return False
        self.watermark_ms = timestamp_ms
        self.output.emit_watermark(timestamp_ms)
        return True

    def _reach(self, time_ms: int, take: Callable[..., int] | None) -> bool:
        """Take events and fire timers up to a time, with patterns that are replaced in between."""
        while (due := self._replacements.next_due(time_ms)) is not None:
            stamp, pattern = due
            if not self._take_until(stamp - 1, take) or not self._fire(stamp, take):
                return False
            self._replace(pattern, stamp)
            self._replacements.pop()
        return self._take_until(time_ms, take) and self._fire(time_ms, take)

    def _take_until(self, time_ms: int, take: Callable[..., int] | None) -> bool:
        waiting = self._waiting
        while wanted := waiting.count_until(time_ms):
            granted = wanted if take is None else take(wanted, "waiting")
            if not granted:
                return False
            self._run(waiting.take(self._whole_ties(granted, wanted)))
        return True

    def _whole_ties(self, granted: int, wanted: int) -> int:
        """Return how many events to take so that those of the same time are sorted together."""
        return wanted if self._spec.compare is not None and granted < wanted else granted

    def on_processing_time(self) -> None:
        """Fire processing-time timers that are due."""
        if not self._event_time:
            take = None if self.context.batch else self.context.budget.take
            self._fire(self.context.time.now_ms, take)

    def next_processing_time(self) -> int | None:
        """Return when the next processing-time timer is due."""
        return self._state.processing_timers.next_timestamp()

    def _fire(self, time_ms: int, take: Callable[..., int] | None) -> bool:
        due_ms = self._timers.next_timestamp()
        if due_ms is None or due_ms > time_ms:
            return True
        handover = self._handover()
        found: list[Found] = []

        def fire(timestamp_ms: int, key: Any) -> None:
            held = self._held.get(key)
            if held is None or self._automaton is None:
                return
            self._touch((key,))
            if self._linear is not None:
                self._linear.fire(key, timestamp_ms, self._held, self._timers.register, found)
            else:
                held.timer_ms = None
                self._automaton.expire(held, timestamp_ms, found)
                self._keep(key, held)
            if found:
                handover.give(key, found, f"timer of key {key!r} at {timestamp_ms}")

        grant = None if take is None else self.context.budget.take_timers
        done = self._timers.fire_until(time_ms, fire, grant)
        handover.emit()
        return done

    def end_epoch(self, report: OperatorReport, *, checkpoint: bool) -> None:
        """Take what was to be sorted within the epoch; report how many late events were dropped."""
        if self._in_epoch.stamps:
            events, self._in_epoch = self._in_epoch, Events([], [], [])
            self._run(events)
        if self._late_dropped:
            counters = report.counters
            counters[_LATE_RECORDS_DROPPED] = counters.get(_LATE_RECORDS_DROPPED, 0) + self._late_dropped
            self._late_dropped = 0

    # Matching

    def _run(self, events: Events) -> None:
        """Take events in order."""
        automaton = self._automaton
        if automaton is None:
            return
        if self._spec.compare is not None:
            events = sort_ties(events, self._spec.compare)
        codes = self._codes.of(events.values)
        handover = self._handover()
        used: list[Any] | None = None if self._touched is None else []
        entries = self._numbered(events, codes)
        if self._linear is None or codes[0] == UNTOLD:
            self._run_general(automaton, entries, handover, used)
        else:
            self._run_linear(self._linear, entries, handover, used)
        if used:
            self._touch(used)
        handover.emit()

    def _numbered(self, events: Events, codes: Sequence[int]) -> Iterable[_Entry]:
        """Return events with their numbers, without those that fit nowhere if these change nothing."""
        entries = zip(*events, codes, strict=True)
        return compress(entries, codes) if self._passes_misfits else entries

    def _run_linear(
        self, linear: LinearAutomaton, entries: Iterable[_Entry], handover: Handover, used: list[Any] | None
    ) -> None:
        for key, value, found in linear.run(entries, self._held, self._timers.register, used):
            handover.give(key, found, value)

    def _run_general(
        self,
        automaton: PatternAutomaton,
        entries: Iterable[_Entry],
        handover: Handover,
        used: list[Any] | None,
    ) -> None:
        advance, is_due, starts = automaton.advance, automaton.is_due, automaton.starts
        find, keep = self._held.get, self._keep
        found: list[Found] = []
        value = None
        try:
            for stamp, key, value, code in entries:
                held = find(key)
                if held is None:
                    if starts[code] is None:
                        continue
                    held = Held()
                else:
                    if type(held) is Line:
                        held = held.general()
                    if held.timer_ms is not None and held.timer_ms <= stamp and is_due(held, stamp):
                        automaton.expire(held, stamp, found)
                if used is not None:
                    used.append(key)
                if advance(held, stamp, value, found, code) or found:
                    keep(key, held)
                    if found:
                        handover.give(key, found, value)
        except BaseException as error:
            attach_element(error, value)
            raise

    def _keep(self, key: Any, held: Held) -> None:
        """Keep what a key has now, and see to its timer.

        A timer that is too early is left: when it fires it is put off. So keys whose matches come and go have one all
        the time, and what a key has goes when it fires and there is nothing.
        """
        timer_ms = held.timer_ms
        if timer_ms is not None and self._timer_stays:
            self._held[key] = held
            return
        if timer_ms is None and not held.runs and not held.complete:
            self._held.pop(key, None)
            return
        assert self._automaton is not None
        due_ms = self._automaton.next_deadline(held)
        if due_ms is not None and (timer_ms is None or due_ms < timer_ms):
            if timer_ms is not None:
                self._timers.delete(timer_ms, key)
            self._timers.register(due_ms, key)
            held.timer_ms = due_ms
        self._held[key] = held

    def _handover(self) -> Handover:
        return Handover(self, self._spec, self._function_context, self._state)

    # Patterns that are replaced

    def _replace(self, pattern: PatternSpec, time_ms: int) -> None:
        """Go on with another pattern: partial matches end, matches that had to wait for them are handed over."""
        handover = self._handover()
        if self._automaton is not None:
            for key, held in list(self._held.items()):
                found: list[Found] = []
                self._touch((key,))
                self._automaton.release_all(held, time_ms, found)
                self._keep(key, held)
                if found:
                    handover.give(key, found, pattern)
        handover.emit()
        self._replacements.take_over(pattern)
        self._follow(pattern)

    # Snapshots

    def snapshot_state(self) -> Any:
        """Return the pattern, where it is replaced, and those that are to come."""
        return self._replacements.snapshot() if self._spec.is_replaced else None

    def restore_state(self, snapshot: Any, scope: RestoreScope) -> None:
        """Take over the pattern."""
        self._replacements.restore(snapshot)

    def snapshot_entries(self) -> Iterator[OwnEntries]:
        """Return the events that wait, by key."""
        yield _WAITING, None, self._waiting.by_key().items()

    def changed_entries(self, changes: StateChanges) -> bool:
        """Add the waiting events of keys that have others."""
        if not self._waiting.tracks:
            return False
        waiting, changed = self._waiting.by_key(), self._waiting.changed_keys()
        if not pays(len(changed), len(waiting)):
            return False
        for key in changed:
            if key in waiting:
                changes.put(_WAITING, None, key, waiting[key])
            else:
                changes.remove(_WAITING, None, key)
        return True

    def forget_changes(self) -> None:
        """Take the events that wait as what is known."""
        self._waiting.forget_changes()

    def restore_entries(self, name: str, entries: Entries) -> None:
        """Take over waiting events."""
        for _, key, held in entries:
            self._waiting.add([each[0] for each in held], [key] * len(held), [each[1] for each in held])

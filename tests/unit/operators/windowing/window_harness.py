"""Runs one window operator by hand: records in, elements out."""

from __future__ import annotations

import pickle
from itertools import repeat

from millstream.common.functions import AggregateFunction, ProcessWindowFunction, WindowFunction
from millstream.common.windows import TimeWindow
from millstream.operators.base import EpochTime, OperatorContext, OperatorReport, Output, RestoreScope
from millstream.operators.windowing.spec import WindowSpec
from millstream.spi.batch import Rows
from millstream.state.heap import HeapKeyedStateBackend
from millstream.state.key_groups import key_group

KEYS = ("a", "b", "k")


class RecordingOutput(Output):
    """Keeps `(value, timestamp)`, `("side", tag, value, timestamp)` and `("watermark", time)`, in order."""

    def __init__(self):
        self.elements = []

    def emit(self, batch):
        values, timestamps = batch.values, batch.timestamps
        self.elements.extend(zip(values, timestamps or repeat(None), strict=timestamps is not None))

    def emit_side(self, tag_id, batch):
        values, timestamps = batch.values, batch.timestamps
        self.elements.extend(("side", tag_id, *pair) for pair in zip(values, timestamps, strict=True))

    def emit_watermark(self, timestamp_ms):
        self.elements.append(("watermark", timestamp_ms))

    def emit_status(self, status):
        self.elements.append(status)

    def take(self):
        taken, self.elements = self.elements, []
        return taken


class Harness:
    """A window operator with its surroundings; records are `(key, number, timestamp)`."""

    def __init__(
        self,
        assigner,
        function,
        *,
        restore=None,
        side_outputs=(),
        wrap=lambda *pair: pair,
        now_ms=0,
        owns=lambda key: True,
        **options,
    ):
        self.output = RecordingOutput()
        self.time = EpochTime(now_ms)
        self.keyed_state = HeapKeyedStateBackend()
        self.operator = WindowSpec(first_field, assigner, function, **options).build()
        self._wrap = wrap
        context = OperatorContext(
            "job",
            "windows",
            "windows",
            0,
            1,
            128,
            0,
            self.time,
            self.keyed_state,
            {},
            frozenset(side_outputs),
        )
        self.operator.setup(context, self.output)
        for snapshot, entries, keyed_snapshot in restore or ():
            if snapshot is not None:
                self.operator.restore_state(snapshot, RestoreScope(0, 0, 1, owns))
            for name, held in entries.items():
                self.operator.restore_entries(name, [entry for entry in held if owns(entry[1])])
            for key in filter(owns, KEYS):
                group = key_group(key, 128)
                self.keyed_state.restore(keyed_snapshot, range(group, group + 1))
        self.operator.open()

    def add(self, *records):
        """Process one batch; return what came out."""
        values = [self._wrap(key, number) for key, number, _ in records]
        timestamps = [timestamp for *_, timestamp in records]
        self.operator.process(Rows(values, None if None in timestamps else timestamps))
        return self.output.take()

    def clock(self, now_ms):
        """Begin an epoch at a processing time; return what came out."""
        self.time.now_ms = now_ms
        self.operator.on_processing_time()
        return self.output.take()

    def snapshot(self):
        """Return what a checkpoint holds, pickled."""
        return pickle.dumps([(self.operator.snapshot_state(), self.entries(), self.keyed_state.snapshot())])

    def entries(self):
        """Return what the operator keeps by key: name -> [(namespace, key, entry)]."""
        entries = {}
        for name, namespace, held in self.operator.snapshot_entries():
            entries.setdefault(name, []).extend((namespace, key, entry) for key, entry in held)
        return entries

    def checkpoint(self):
        """Return it as a `restore` argument."""
        return pickle.loads(self.snapshot())

    def is_empty(self):
        """Return whether nothing is kept: no contents, no state, no timers."""
        keyed = self.keyed_state
        queues = (keyed.event_timers, keyed.processing_timers)
        timers = [queue.next_timestamp() for queue in queues]
        return not any(self.entries().values()) and not keyed.snapshot().groups and timers == [None, None]

    def watermark(self, timestamp_ms):
        """Advance event time; return what came out."""
        self.operator.process_watermark(timestamp_ms)
        return self.output.take()

    def counters(self):
        """End an epoch; return its counters."""
        report = OperatorReport()
        self.operator.end_epoch(report, checkpoint=False)
        return report.counters


def first_field(record):
    return record[0]


def by_first(left, right):
    """Reduce pairs of key and number to key and sum."""
    return left[0], left[1] + right[1]


class Sum(AggregateFunction):
    """Gives (key, sum)."""

    def create_accumulator(self):
        return (None, 0)

    def add(self, value, accumulator):
        return value[0], accumulator[1] + value[1]

    def get_result(self, accumulator):
        return accumulator

    def merge(self, acc_a, acc_b):
        return acc_a[0] or acc_b[0], acc_a[1] + acc_b[1]


class Unmergeable(Sum):
    """The same as programs write it that do not need merging."""

    def merge(self, acc_a, acc_b):
        raise NotImplementedError


class Collect(AggregateFunction):
    """Gives the list of numbers: the very object that is its accumulator."""

    def create_accumulator(self):
        return []

    def add(self, value, accumulator):
        accumulator.append(value[1])
        return accumulator

    def get_result(self, accumulator):
        return accumulator

    def merge(self, acc_a, acc_b):
        acc_a.extend(acc_b)
        return acc_a


class Listing(WindowFunction):
    """Gives (key, start, end, numbers in order of arrival)."""

    def __init__(self, unwrap=True):
        self.unwrap = unwrap

    def apply(self, key, window, inputs):
        elements = [value[1] for value in inputs] if self.unwrap else list(inputs)
        where = (window.start, window.end) if isinstance(window, TimeWindow) else (repr(window), None)
        return [(key, *where, elements)]


class Totals(ProcessWindowFunction):
    """Gives (key, window, elements in order of arrival)."""

    def process(self, key, context, elements):
        yield key, repr(context.window()), list(elements)

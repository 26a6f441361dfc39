"""Window operators in the public harness: records are `(key, number, timestamp)`, elements are plain tuples."""

from __future__ import annotations

from millstream.common.functions import AggregateFunction, ProcessWindowFunction, WindowFunction
from millstream.common.windows import TimeWindow
from millstream.datastream.streams.data_stream import transform
from millstream.operators.base import OperatorReport
from millstream.operators.windowing.spec import WindowSpec
from millstream.testing import OperatorHarness, OperatorSnapshot, SideRecord, Watermark


def by_key(spec):
    """Return the program of an operator whose inputs are dealt by the records' first field."""
    return lambda *streams: transform("windows", spec, [stream.key_by(first_field) for stream in streams])


def plain(element):
    """Return `(value, timestamp)`, `("side", tag, value, timestamp)`, `("watermark", time)`, or a status."""
    if isinstance(element, SideRecord):
        return ("side", *element)
    return ("watermark", element.timestamp_ms) if isinstance(element, Watermark) else element


class Harness:
    """A window operator; with one subtask it has the very function that it is given."""

    def __init__(
        self, assigner, function, *, restore=(), wrap=lambda *pair: pair, now_ms=0, parallelism=1, **options
    ):
        spec = WindowSpec(first_field, assigner, function, **options)
        self._wrap = wrap
        self.harness = OperatorHarness(
            spec if parallelism == 1 else by_key(spec),
            processing_time=now_ms,
            parallelism=parallelism,
            restore=joined(restore) if restore else None,
        )
        self.operator = self.harness.operators[0]
        self.keyed_state = self.operator.context.keyed_state

    def take(self):
        """Return what came out, in order."""
        return [plain(element) for element in self.harness.take_elements()]

    def add(self, *records):
        """Process one batch; return what came out."""
        timestamps = [timestamp for *_, timestamp in records]
        values = [self._wrap(key, number) for key, number, _ in records]
        self.harness.push_batch(values, None if None in timestamps else timestamps)
        return self.take()

    def clock(self, now_ms):
        """Begin an epoch at a processing time; return what came out."""
        self.harness.set_processing_time(now_ms)
        return self.take()

    def watermark(self, timestamp_ms):
        """Advance event time; return what came out."""
        self.harness.push_watermark(timestamp_ms)
        return self.take()

    def checkpoint(self):
        """Return what a checkpoint holds, for `restore`."""
        return [self.harness.snapshot()]

    def is_empty(self):
        """Return whether nothing is kept: no contents, no state, no timers."""
        harness = self.harness
        timers = harness.event_time_timers() + harness.processing_time_timers()
        return not timers and not harness.keyed_state_entries()

    def counters(self):
        """End an epoch; return its counters."""
        report = OperatorReport()
        self.operator.end_epoch(report, checkpoint=False)
        return report.counters


def joined(snapshots):
    """Return the snapshots of several harnesses as one, of as many subtasks."""
    files = tuple(chain for snapshot in snapshots for chain in snapshot.files)
    return OperatorSnapshot(1, files, snapshots[0].max_parallelism)


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

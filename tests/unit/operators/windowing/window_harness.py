"""Runs one window operator by hand: records in, elements out."""

from __future__ import annotations

from millstream.common.functions import AggregateFunction, WindowFunction
from millstream.operators.base import EpochTime, OperatorContext, OperatorReport, Output
from millstream.operators.windowing.spec import WindowSpec
from millstream.state.keyed import HeapKeyedStateBackend


class RecordingOutput(Output):
    """Keeps `(value, timestamp)`, `("side", tag, value, timestamp)` and `("watermark", time)`, in order."""

    def __init__(self):
        self.elements = []

    def emit(self, values, timestamps):
        self.elements.extend(zip(values, timestamps, strict=True))

    def emit_side(self, tag_id, values, timestamps):
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
        self, assigner, function, *, restore=None, side_outputs=(), wrap=lambda *pair: pair, **options
    ):
        self.output = RecordingOutput()
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
            EpochTime(),
            self.keyed_state,
            {},
            frozenset(side_outputs),
        )
        self.operator.setup(context, self.output)
        if restore is not None:
            self.operator.restore_state(restore)
        self.operator.open()

    def add(self, *records):
        """Process one batch; return what came out."""
        values = [self._wrap(key, number) for key, number, _ in records]
        self.operator.process_batch(values, [timestamp for *_, timestamp in records])
        return self.output.take()

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
        return [(key, window.start, window.end, elements)]

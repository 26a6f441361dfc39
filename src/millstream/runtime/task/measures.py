"""What one operator in one subtask reports of itself: standard metrics, the user's metrics, accumulators.

Counting costs one addition for each batch; nothing is reported that has not changed.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Mapping
from typing import Any

from millstream.base.errors import NotSerializableError
from millstream.base.pickling import dump_by_value
from millstream.base.time import MIN_TIMESTAMP
from millstream.common.accumulators import Accumulator
from millstream.metrics.groups import MetricKind, MetricName, MetricValue
from millstream.operators.base import BatchHandler, Operator, OperatorReport
from millstream.spi.batch import Batch, Columns

__all__ = [
    "CURRENT_INPUT_WATERMARK",
    "RECORDS_IN",
    "RECORDS_OUT",
    "InputWatermarks",
    "MarkedHandler",
    "OperatorMeasures",
    "counted",
    "counted_marked",
]

RECORDS_IN = MetricName(("numRecordsIn",))
RECORDS_OUT = MetricName(("numRecordsOut",))
CURRENT_INPUT_WATERMARK = MetricName(("currentInputWatermark",))

MarkedHandler = Callable[[Batch, Callable[[int], bool]], "int | None"]
"""An operator's `process_marked`."""

_LARGE_BYTES = 65_536
_LARGE_INTERVAL_MS = 1_000


def counted(operator: Operator, handler: BatchHandler, *, takes_columns: bool) -> BatchHandler:
    """Return `handler` with its records counted as the operator's input; columns are made rows for who needs them."""

    def count(batch: Batch) -> None:
        if type(batch) is Columns and not takes_columns:
            batch = batch.to_rows()
        operator.records_in += len(batch)
        handler(batch)

    return count


def counted_marked(operator: Operator, *, takes_columns: bool) -> MarkedHandler:
    """Return an operator's `process_marked`, as `counted` does; counted are the records that it processed."""

    def count(batch: Batch, reach: Callable[[int], bool]) -> int | None:
        if type(batch) is Columns and not takes_columns:
            batch = batch.to_rows()
        total, marks = len(batch), batch.marks
        stopped_at = operator.process_marked(batch, reach)
        if stopped_at is not None:
            assert marks is not None
            total = marks.positions[stopped_at]
        operator.records_in += total
        return stopped_at

    return count


class OperatorMeasures:
    """Puts what has changed since the last epoch into an operator's report.

    Args:
        operator: The operator, set up.
    """

    def __init__(self, operator: Operator) -> None:
        self._operator = operator
        self._records_in = self._records_out = 0
        self._watermark_ms = MIN_TIMESTAMP
        self._accumulators: dict[str, bytes] = {}
        self._accumulated_ms = 0

    def fill(self, report: OperatorReport, *, checkpoint: bool) -> None:
        """Fill in metrics and accumulators; called after the operator has ended the epoch.

        Large accumulators are reported once a second and with checkpoints, others with each epoch that changed
        them.

        Raises:
            NotSerializableError: If an accumulator cannot be pickled.
        """
        operator = self._operator
        if operator.records_in != self._records_in:
            self._records_in = operator.records_in
            report.metrics[RECORDS_IN] = MetricValue(MetricKind.COUNTER, self._records_in)
        if operator.output.records_out != self._records_out:
            self._records_out = operator.output.records_out
            report.metrics[RECORDS_OUT] = MetricValue(MetricKind.COUNTER, self._records_out)
        if operator.watermark_ms != self._watermark_ms:
            self._watermark_ms = operator.watermark_ms
            report.metrics[CURRENT_INPUT_WATERMARK] = MetricValue(MetricKind.GAUGE, self._watermark_ms)
        report.metrics.update(operator.context.metrics.collect_changes())
        if operator.context.latency is not None:
            report.latency = operator.context.latency.collect_changes()
        accumulators = operator.context.accumulators.all()
        if accumulators:
            self._fill_accumulators(report, checkpoint=checkpoint)

    def _fill_accumulators(self, report: OperatorReport, *, checkpoint: bool) -> None:
        context = self._operator.context
        now_ms = context.time.now_ms
        large_due = checkpoint or now_ms - self._accumulated_ms >= _LARGE_INTERVAL_MS
        for name, accumulator in context.accumulators.all().items():
            before = self._accumulators.get(name, b"")
            if len(before) >= _LARGE_BYTES and not large_due:
                continue
            pickled = _pickle(name, accumulator)
            if pickled != before:
                self._accumulators[name] = pickled
                report.accumulators[name] = (type(accumulator).__qualname__, pickled)
        if large_due:
            self._accumulated_ms = now_ms


class InputWatermarks:
    """Puts the watermarks of several inputs into the report of the operator that has them, as far as they changed."""

    def __init__(self) -> None:
        self._told: dict[int, int] = {}

    def fill(self, report: OperatorReport, watermarks: Mapping[int, int]) -> None:
        """Fill in `currentInput1Watermark`, `currentInput2Watermark`, …; nothing for a single input."""
        if len(watermarks) < 2:
            return
        for index, watermark_ms in watermarks.items():
            if self._told.get(index, MIN_TIMESTAMP) != watermark_ms:
                self._told[index] = watermark_ms
                name = MetricName((f"currentInput{index + 1}Watermark",))
                report.metrics[name] = MetricValue(MetricKind.GAUGE, watermark_ms)


def _pickle(name: str, accumulator: Accumulator[Any, Any]) -> bytes:
    try:
        return pickle.dumps(accumulator, protocol=5)
    except (pickle.PicklingError, AttributeError, TypeError):
        pass
    try:
        return dump_by_value(accumulator)
    except Exception as error:
        raise NotSerializableError(
            f'accumulator "{name}" of type {type(accumulator).__name__} cannot be pickled: {error}',
            detail="Accumulators travel to the process that merges them.",
        ) from error

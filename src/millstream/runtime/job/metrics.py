"""The metrics of a running job, as the subtasks reported them last; for reporters and the REST API.

Identifiers have Flink's form, `<job>.<operator>.<subtask>.<group>.….<name>`; of operators with the same name all
but the first have `#2`, `#3`, … behind it.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple

from millstream.base.clock import Clock
from millstream.base.time import MIN_TIMESTAMP
from millstream.graph.stream_graph import StreamNode
from millstream.metrics.groups import MetricKind, MetricName, MetricValue, RateWindow
from millstream.operators.base import OperatorReport
from millstream.runtime.task.measures import CURRENT_INPUT_WATERMARK, RECORDS_IN, RECORDS_OUT

__all__ = ["JobMetrics", "ReportedMetric"]

_FLINK_NAMES = {"late_records_dropped": "numLateRecordsDropped"}


@dataclass(frozen=True, slots=True)
class ReportedMetric:
    """One metric of one subtask.

    Attributes:
        operator: The operator's name, unique within the job.
        operator_id: Its stable id.
        subtask: The subtask's index.
        name: The metric's name within the operator.
        kind: Of what.
        value: A count or value; a meter's `{"count", "rate"}`, a distribution's `{"sum", "count", "min", "max",
            "mean"}`, a histogram's `{"count", "min", …, "p999"}`.
    """

    operator: str
    operator_id: str
    subtask: int
    name: MetricName
    kind: MetricKind
    value: Any


class _Key(NamedTuple):
    node_id: int
    subtask: int
    name: MetricName


class JobMetrics:
    """Gathers reports on the job master's thread; may be read on any.

    Args:
        job_name: First part of identifiers.
        nodes: The job's operators.
        clock: Time, for rates.
    """

    def __init__(self, job_name: str, nodes: Iterable[StreamNode], clock: Clock) -> None:
        self._job_name = job_name
        self._clock = clock
        self._lock = threading.Lock()
        self._operators: dict[int, tuple[str, str]] = {}
        self._values: dict[_Key, MetricValue] = {}
        self._rates: dict[_Key, RateWindow] = {}
        seen: dict[str, int] = {}
        for node in nodes:
            seen[node.name] = count = seen.get(node.name, 0) + 1
            name = node.name if count == 1 else f"{node.name}#{count}"
            self._operators[node.id] = (name, node.operator_id)
            for subtask in range(node.parallelism):
                self._start(node.id, subtask)

    def _start(self, node_id: int, subtask: int) -> None:
        for name in (RECORDS_IN, RECORDS_OUT):
            self._values[_Key(node_id, subtask, name)] = MetricValue(MetricKind.COUNTER, 0)
        watermark = MetricValue(MetricKind.GAUGE, MIN_TIMESTAMP)
        self._values[_Key(node_id, subtask, CURRENT_INPUT_WATERMARK)] = watermark

    def record(self, node_id: int, subtask: int, report: OperatorReport) -> None:
        """Take in what an operator reported at the end of an epoch."""
        if not report.metrics and not report.counters:
            return
        with self._lock:
            for name, value in report.metrics.items():
                key = _Key(node_id, subtask, name)
                self._values[key] = value
                if value.kind is MetricKind.METER:
                    count, span_s = value.value
                    window = self._rates.setdefault(key, RateWindow(span_s))
                    window.record(self._clock.now_ms(), count)
            for counter, count in report.counters.items():
                key = _Key(node_id, subtask, MetricName((_FLINK_NAMES.get(counter, counter),)))
                before = self._values.get(key)
                total = count + (0 if before is None else before.value)
                self._values[key] = MetricValue(MetricKind.COUNTER, total)

    def metrics(self) -> list[ReportedMetric]:
        """Return every metric, by operator, subtask and name."""
        now_ms = self._clock.now_ms()
        with self._lock:
            found = sorted(self._values.items(), key=lambda item: item[0])
            return [
                ReportedMetric(
                    *self._operators[key.node_id],
                    key.subtask,
                    key.name,
                    value.kind,
                    self._shown(key, value, now_ms),
                )
                for key, value in found
            ]

    def snapshot(self) -> dict[str, Any]:
        """Return plain values by identifier.

        A meter is shown by its rate; distributions and histograms by one entry for each figure, such as
        `….latency_p99`.
        """
        shown: dict[str, Any] = {}
        for metric in self.metrics():
            identifier = ".".join((self._job_name, metric.operator, str(metric.subtask), *metric.name.path))
            if metric.kind is MetricKind.METER:
                shown[identifier] = metric.value["rate"]
                shown[f"{identifier}_count"] = metric.value["count"]
            elif isinstance(metric.value, dict):
                shown.update((f"{identifier}_{figure}", number) for figure, number in metric.value.items())
            else:
                shown[identifier] = metric.value
        return shown

    def _shown(self, key: _Key, reported: MetricValue, now_ms: int) -> Any:
        kind, value = reported
        if kind is MetricKind.METER:
            return {"count": value[0], "rate": self._rates[key].rate(now_ms)}
        if kind is MetricKind.DISTRIBUTION:
            total, count, least, greatest = value
            mean = total / count if count else None
            return {"sum": total, "count": count, "min": least, "max": greatest, "mean": mean}
        if kind is MetricKind.HISTOGRAM:
            count, figures = value
            return {"count": count, **figures}
        return value

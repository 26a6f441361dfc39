"""The metrics of a job's operators, as the subtasks reported them last, over all attempts of the job.

A subtask counts from the begin of its attempt. What the attempts before have counted is kept beside that::

    shown = what ended attempts counted + what this one has reported      counters, meters, sums of distributions
            what this one has reported                                    gauges

Identifiers have Flink's form, `<job>.<operator>.<subtask>.<group>.….<name>`; of operators with the same name all
but the first have `#2`, `#3`, … behind it.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from millstream.base.clock import Clock
from millstream.base.time import MIN_TIMESTAMP
from millstream.metrics.groups import MetricKind, MetricName, MetricValue, RateWindow
from millstream.operators.base import OperatorReport
from millstream.runtime.control.views import MetricView, OperatorView, PlanView, VertexPlan
from millstream.runtime.task.load import (
    BACK_PRESSURED,
    BACK_PRESSURED_MS,
    BACK_PRESSURED_TIME,
    BUSY_MS,
    BUSY_TIME,
    BYTES_IN,
    BYTES_OUT,
    HELD_RECORDS,
    IDLE_MS,
    IDLE_TIME,
)
from millstream.runtime.task.measures import CURRENT_INPUT_WATERMARK, RECORDS_IN, RECORDS_OUT

__all__ = ["JobMetrics", "SubtaskFigures"]

_FLINK_NAMES = {"late_records_dropped": "numLateRecordsDropped"}
_OF_TASKS = frozenset(
    {BUSY_TIME, BACK_PRESSURED_TIME, IDLE_TIME, BUSY_MS, BACK_PRESSURED_MS, IDLE_MS, BACK_PRESSURED}
    | {HELD_RECORDS, BYTES_IN, BYTES_OUT}
)
"""What a subtask tells of itself as a whole comes with the report of its first operator."""
_WITH_RATES = (RECORDS_IN, RECORDS_OUT, BYTES_IN, BYTES_OUT)
_CURRENT_OUTPUT_WATERMARK = MetricName(("currentOutputWatermark",))
"""Of operators that make watermarks: others pass on what comes in."""
_RECORDS_SEND = MetricName(("numRecordsSend",))
_RATE_SPAN_S = 60
_MOST_INTEGER = 2**63


@dataclass(slots=True)
class SubtaskFigures:
    """What a subtask has done, as `SubtaskView` tells it."""

    records_in: int = 0
    records_out: int = 0
    bytes_in: int | None = None
    bytes_out: int | None = None
    busy: int | None = None
    idle: int | None = None
    back_pressured: int | None = None
    held: int = 0
    watermark_ms: int | None = None


class _Key(NamedTuple):
    node_id: int
    subtask: int
    name: MetricName


class JobMetrics:
    """Gathers reports on the job master's thread; may be read on any.

    Args:
        job_name: First part of identifiers.
        plan: The job's operators.
        clock: Time, for rates.
    """

    def __init__(self, job_name: str, plan: PlanView, clock: Clock) -> None:
        self._job_name = job_name
        self._clock = clock
        self._lock = threading.Lock()
        self._lay_out(plan)
        self._values: dict[_Key, MetricValue] = {}
        self._before: dict[_Key, MetricValue] = {}
        self._rates: dict[_Key, RateWindow] = {}
        self._latency: dict[_Key, MetricValue] = {}
        self._start()

    def _lay_out(self, plan: PlanView) -> None:
        self._plan = plan
        self._places = {
            operator.node_id: (vertex, operator) for vertex in plan.vertices for operator in vertex.operators
        }
        self._sending = {edge.source_node for edge in plan.edges}

    def use(self, plan: PlanView) -> None:
        """Learn that the job is rescaled; what subtasks have counted that are no more counts for those that are."""
        with self._lock:
            self._end_attempt()
            self._lay_out(plan)
            before, self._before = self._before, {}
            for key, value in before.items():
                parallelism = self._places[key.node_id][0].parallelism
                kept = key._replace(subtask=key.subtask % parallelism)
                self._before[kept] = _sum(self._before.get(kept), value)
            self._rates = {}
            self._values = {key: _nothing(value) for key, value in self._before.items()}
            self._start()

    def _end_attempt(self) -> None:
        for key, value in self._values.items():
            if value.kind is not MetricKind.GAUGE:
                self._before[key] = _sum(self._before.get(key), value)

    def _start(self) -> None:
        """Have what every operator tells be there from the beginning."""
        for node_id, (vertex, _) in self._places.items():
            for subtask in range(vertex.parallelism):
                for name in (RECORDS_IN, RECORDS_OUT):
                    self._values[_Key(node_id, subtask, name)] = MetricValue(MetricKind.COUNTER, 0)
                watermark = MetricValue(MetricKind.GAUGE, MIN_TIMESTAMP)
                self._values[_Key(node_id, subtask, CURRENT_INPUT_WATERMARK)] = watermark

    def begin_attempt(self) -> None:
        """Learn that the subtasks begin to count anew; gauges of functions that have ended are gone."""
        with self._lock:
            self._end_attempt()
            self._values = {key: _nothing(value) for key, value in self._before.items()}
            self._latency = {}
            self._start()

    def record(self, node_id: int, subtask: int, report: OperatorReport) -> None:
        """Take in what an operator reported at the end of an epoch."""
        made_ms = report.made_watermark_ms
        if not report.metrics and not report.counters and made_ms is None and not report.latency:
            return
        with self._lock:
            for name, value in report.latency.items():
                self._latency[_Key(node_id, subtask, name)] = value
            if made_ms is not None:
                key = _Key(node_id, subtask, _CURRENT_OUTPUT_WATERMARK)
                self._values[key] = MetricValue(MetricKind.GAUGE, made_ms)
            for name, value in report.metrics.items():
                key = _Key(node_id, subtask, name)
                self._values[key] = value
                if value.kind is MetricKind.METER:
                    self._sample(key, value.value[1], self._clock.now_ms())
            for counter, count in report.counters.items():
                key = _Key(node_id, subtask, MetricName((_FLINK_NAMES.get(counter, counter),)))
                before = self._values.get(key)
                total = count + (0 if before is None else before.value)
                self._values[key] = MetricValue(MetricKind.COUNTER, total)

    def tick(self) -> None:
        """Note how much there is by now, for rates; called about once a second."""
        now_ms = self._clock.now_ms()
        with self._lock:
            for key in self._values:
                if key.name in _WITH_RATES:
                    self._sample(key, _RATE_SPAN_S, now_ms)

    def views(self) -> list[MetricView]:
        """Return every metric: of tasks, then by operator, subtask and name."""
        now_ms = self._clock.now_ms()
        with self._lock:
            found = [
                view
                for vertex in self._plan.vertices
                for subtask in range(vertex.parallelism)
                for view in self._task_views(vertex, subtask, now_ms)
            ]
            found += [view for key in sorted(self._values) for view in self._views_of(key, now_ms)]
            found += [
                _latency_view(key.subtask, key.name, self._latency[key]) for key in sorted(self._latency)
            ]
            return found

    def snapshot(self) -> dict[str, Any]:
        """Return plain values by identifier.

        A meter is shown by its rate; distributions and histograms by one entry for each figure, such as
        `….latency_p99`.
        """
        shown: dict[str, Any] = {}
        with self._lock:
            found = {key: self._shown(key, self._clock.now_ms()) for key in sorted(self._values)}
        for key, value in found.items():
            operator = self._places[key.node_id][1].name
            identifier = ".".join((self._job_name, operator, str(key.subtask), *key.name.path))
            if self._values[key].kind is MetricKind.METER:
                shown[identifier] = value["rate"]
                shown[f"{identifier}_count"] = value["count"]
            elif isinstance(value, dict):
                shown.update((f"{identifier}_{figure}", number) for figure, number in value.items())
            else:
                shown[identifier] = value
        for key, latency in self._latency_now():
            identifier = ".".join((self._job_name, *key.name.path))
            shown.update((f"{identifier}_{figure}", number) for figure, number in latency.items())
        return shown

    def _latency_now(self) -> list[tuple[_Key, dict[str, Any]]]:
        with self._lock:
            return [(key, _histogram(self._latency[key].value)) for key in sorted(self._latency)]

    def by_subtask(self) -> dict[tuple[str, int], SubtaskFigures]:
        """Return what each subtask has done, by vertex id and subtask."""
        with self._lock:
            return {
                (vertex.vertex_id, subtask): self._figures(vertex, subtask)
                for vertex in self._plan.vertices
                for subtask in range(vertex.parallelism)
            }

    def _figures(self, vertex: VertexPlan, subtask: int) -> SubtaskFigures:
        head = vertex.operators[0]

        def told(name: MetricName) -> Any:
            key = _Key(head.node_id, subtask, name)
            return self._shown(key, 0) if key in self._values else None

        senders = [each.node_id for each in vertex.operators if each.node_id in self._sending]
        watermark_ms = told(CURRENT_INPUT_WATERMARK)
        return SubtaskFigures(
            records_in=0 if head.is_source else told(RECORDS_IN),
            records_out=sum(self._shown(_Key(node_id, subtask, RECORDS_OUT), 0) for node_id in senders),
            bytes_in=told(BYTES_IN),
            bytes_out=told(BYTES_OUT),
            busy=told(BUSY_TIME),
            idle=told(IDLE_TIME),
            back_pressured=told(BACK_PRESSURED_TIME),
            held=told(HELD_RECORDS) or 0,
            watermark_ms=None if watermark_ms == MIN_TIMESTAMP else watermark_ms,
        )

    def _views_of(self, key: _Key, now_ms: int) -> Iterator[MetricView]:
        vertex, operator = self._places[key.node_id]
        owner = None if key.name in _OF_TASKS else operator
        shown = _plain(self._shown(key, now_ms))
        yield _view(vertex, owner, key.subtask, key.name, self._values[key].kind.value, shown)
        if key.name in _WITH_RATES:
            yield self._rate_view(vertex, owner, key.subtask, key.name, (key,), now_ms)
        if key.name == RECORDS_IN and operator.is_sink:  # a writer sends what it is given
            counter = MetricKind.COUNTER.value
            yield _view(vertex, operator, key.subtask, _RECORDS_SEND, counter, shown)
            yield self._rate_view(vertex, operator, key.subtask, _RECORDS_SEND, (key,), now_ms)

    def _task_views(self, vertex: VertexPlan, subtask: int, now_ms: int) -> Iterator[MetricView]:
        """Yield what comes into a subtask, and what goes out of it."""
        head = vertex.operators[0]
        incoming = () if head.is_source else (_Key(head.node_id, subtask, RECORDS_IN),)
        senders = [each.node_id for each in vertex.operators if each.node_id in self._sending]
        outgoing = tuple(_Key(node_id, subtask, RECORDS_OUT) for node_id in senders)
        for name, keys in ((RECORDS_IN, incoming), (RECORDS_OUT, outgoing)):
            total = sum(self._shown(key, now_ms) for key in keys)
            yield _view(vertex, None, subtask, name, MetricKind.COUNTER.value, total)
            yield self._rate_view(vertex, None, subtask, name, keys, now_ms)

    def _rate_view(
        self,
        vertex: VertexPlan,
        operator: OperatorView | None,
        subtask: int,
        name: MetricName,
        keys: Sequence[_Key],
        now_ms: int,
    ) -> MetricView:
        for key in keys:
            self._sample(key, _RATE_SPAN_S, now_ms)
        count = sum(self._shown(key, now_ms) for key in keys)
        rate = sum(self._rates[key].rate(now_ms) for key in keys)
        per_second = MetricName((f"{name.path[0]}PerSecond",))
        shown = {"count": count, "rate": rate}
        return _view(vertex, operator, subtask, per_second, MetricKind.METER.value, shown)

    def _sample(self, key: _Key, span_s: int, now_ms: int) -> None:
        window = self._rates.get(key)
        if window is None:
            window = self._rates[key] = RateWindow(span_s)
        value = _sum(self._before.get(key), self._values[key]).value
        window.record(now_ms, value[0] if isinstance(value, tuple) else value)

    def _shown(self, key: _Key, now_ms: int) -> Any:
        kind, value = _sum(self._before.get(key), self._values[key])
        if kind is MetricKind.METER:
            window = self._rates.get(key)
            return {"count": value[0], "rate": 0.0 if window is None else window.rate(now_ms)}
        if kind is MetricKind.DISTRIBUTION:
            total, count, least, greatest = value
            mean = total / count if count else None
            return {"sum": total, "count": count, "min": least, "max": greatest, "mean": mean}
        if kind is MetricKind.HISTOGRAM:
            return _histogram(value)
        return value


def _histogram(value: Any) -> dict[str, Any]:
    count, figures = value
    return {"count": count, **figures}


def _latency_view(subtask: int, name: MetricName, value: MetricValue) -> MetricView:
    """Return a histogram of latency: as in Flink one of the job's, told by where the subtask runs."""
    return MetricView(
        scope="job",
        name=".".join(name.path),
        kind=value.kind.value,
        value=_histogram(value.value),
        subtask=subtask,
        variables=dict(name.variables),
        logical_name=".".join(_without_values(name)),
    )


def _view(
    vertex: VertexPlan,
    operator: OperatorView | None,
    subtask: int,
    name: MetricName,
    kind: str,
    value: Any,
) -> MetricView:
    return MetricView(
        scope="task" if operator is None else "operator",
        name=".".join(name.path),
        kind=kind,
        value=value,
        vertex_id=vertex.vertex_id,
        vertex_name=vertex.name,
        operator_id=None if operator is None else operator.operator_id,
        operator=None if operator is None else operator.name,
        subtask=subtask,
        variables=dict(name.variables),
        logical_name=".".join(_without_values(name)) if name.variables else None,
    )


def _without_values(name: MetricName) -> list[str]:
    """Return a metric's path without the values of its key-value groups.

    >>> _without_values(MetricName(("parser", "format", "v2", "lines"), (("format", "v2"),)))
    ['parser', 'format', 'lines']
    """
    pairs, path, kept = list(name.variables), list(name.path), []
    while path:
        kept.append(path.pop(0))
        if pairs and kept[-1] == pairs[0][0] and path[:1] == [pairs[0][1]]:
            path.pop(0)
            pairs.pop(0)
    return kept


def _sum(before: MetricValue | None, now: MetricValue) -> MetricValue:
    """Return what ended attempts and this one have counted together; a gauge is this one's alone."""
    if before is None or before.kind is not now.kind:
        return now
    was, value = before.value, now.value
    match now.kind:
        case MetricKind.COUNTER:
            return MetricValue(now.kind, was + value)
        case MetricKind.METER:
            return MetricValue(now.kind, (was[0] + value[0], value[1]))
        case MetricKind.DISTRIBUTION:
            extremes = (_extreme(min, was[2], value[2]), _extreme(max, was[3], value[3]))
            return MetricValue(now.kind, (was[0] + value[0], was[1] + value[1], *extremes))
        case MetricKind.HISTOGRAM:
            return MetricValue(now.kind, (was[0] + value[0], value[1] or was[1]))
    return now


def _extreme(choose: Any, was: Any, now: Any) -> Any:
    found = [each for each in (was, now) if each is not None]
    return choose(found) if found else None


def _nothing(value: MetricValue) -> MetricValue:
    """Return what a metric of that kind is at the begin of an attempt."""
    nothing: dict[MetricKind, Any] = {
        MetricKind.COUNTER: 0,
        MetricKind.METER: (0, value.value[1] if value.kind is MetricKind.METER else 1),
        MetricKind.DISTRIBUTION: (0, 0, None, None),
        MetricKind.HISTOGRAM: (0, {}),
    }
    return MetricValue(value.kind, nothing[value.kind])


def _plain(value: Any) -> Any:
    """Return a value that JSON has: integers beyond 64 bits as floats."""
    if isinstance(value, dict):
        return {name: _plain(each) for name, each in value.items()}
    if type(value) is int and not -_MOST_INTEGER <= value < _MOST_INTEGER:
        return float(value) if abs(value) < 10**300 else str(value)
    return value

"""Metrics of user functions (PyFlink's `pyflink.metrics`).

A function makes its metrics in `open`, under the group that its runtime context gives, and changes them as it
runs, on the subtask's thread or any other; at the end of each epoch what has changed travels to the job master.
A metric that nobody makes costs nothing.
"""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from math import ceil, sqrt
from numbers import Integral, Real
from typing import Any, NamedTuple, TypeVar

from millstream.base.errors import ConfigurationError, shorten

__all__ = [
    "Counter",
    "Distribution",
    "Gauge",
    "Histogram",
    "HistogramStatistics",
    "Meter",
    "Metric",
    "MetricGroup",
    "MetricKind",
    "MetricName",
    "MetricValue",
    "RateWindow",
]

_LOG = logging.getLogger("millstream.metrics")


M = TypeVar("M", bound="Metric")


class MetricKind(Enum):
    """What a reported value is of."""

    COUNTER = "counter"
    GAUGE = "gauge"
    METER = "meter"
    DISTRIBUTION = "distribution"
    HISTOGRAM = "histogram"


class MetricName(NamedTuple):
    """A metric's name within its operator.

    Attributes:
        path: Names of the groups, then of the metric; a key-value group counts as two.
        variables: Key and value of the key-value groups: labels for reporters that know such.
    """

    path: tuple[str, ...]
    variables: tuple[tuple[str, str], ...] = ()


class MetricValue(NamedTuple):
    """A metric's value at the end of an epoch.

    Attributes:
        kind: What it is of.
        value: A counter's count, a gauge's value, a meter's (count, span in seconds), a distribution's
            (sum, count, min, max), a histogram's (count, figures by name).
    """

    kind: MetricKind
    value: Any


class Metric(ABC):
    """Base of all metrics."""

    @abstractmethod
    def sample(self) -> MetricValue:
        """Return the present value; called at the end of each epoch."""


class Counter(Metric):
    """A count that goes up and down.

    >>> counter = Counter(); counter.inc(); counter.inc(5); counter.dec(2); counter.get_count()
    4
    """

    __slots__ = ("_count",)

    def __init__(self) -> None:
        self._count = 0

    def inc(self, n: int = 1) -> None:
        """Add `n`."""
        self._count += n

    def dec(self, n: int = 1) -> None:
        """Take away `n`."""
        self._count -= n

    def get_count(self) -> int:
        """Return the count."""
        return self._count

    def sample(self) -> MetricValue:
        """Return the count."""
        return MetricValue(MetricKind.COUNTER, self._count)


class RateWindow:
    """How fast a count has grown within a span of time.

    As in Flink the growth is divided by the whole span, also while less of it has gone by.

    >>> window = RateWindow(span_s=10)
    >>> window.record(now_ms=0, count=0); window.record(now_ms=5_000, count=40); window.rate(now_ms=5_000)
    4.0
    >>> window.rate(now_ms=15_000)
    0.0
    """

    __slots__ = ("_samples", "_span_ms")

    def __init__(self, span_s: int) -> None:
        self._span_ms = span_s * 1000
        self._samples: deque[tuple[int, int]] = deque([(-(2**63), 0)])

    def record(self, now_ms: int, count: int) -> None:
        """Note the count at a time; the samples of a hundredth of the span are kept as one."""
        samples = self._samples
        if len(samples) > 1 and now_ms - samples[-2][0] < self._span_ms // 100:
            samples.pop()
        samples.append((now_ms, count))
        self._forget(now_ms)

    def rate(self, now_ms: int) -> float:
        """Return the growth for each second of the span that ends now."""
        self._forget(now_ms)
        return (self._samples[-1][1] - self._samples[0][1]) * 1000 / self._span_ms

    def _forget(self, now_ms: int) -> None:
        samples, begin_ms = self._samples, now_ms - self._span_ms
        while len(samples) > 1 and samples[1][0] <= begin_ms:
            samples.popleft()


class Meter(Metric):
    """Counts events and measures how many come in a second.

    Args:
        time_span_in_seconds: The rate is that of the last so many seconds.
        now_ms: Gives the time; an operator's time stands still within an epoch.
    """

    def __init__(self, time_span_in_seconds: int, now_ms: Callable[[], int]) -> None:
        self._span_s = time_span_in_seconds
        self._now_ms = now_ms
        self._count = 0
        self._window = RateWindow(time_span_in_seconds)

    def mark_event(self, value: int = 1) -> None:
        """Count `value` events."""
        self._count += value

    def get_count(self) -> int:
        """Return how many events there were."""
        return self._count

    def get_rate(self) -> float:
        """Return events per second, over the time span."""
        now_ms = self._now_ms()
        self._window.record(now_ms, self._count)
        return self._window.rate(now_ms)

    def sample(self) -> MetricValue:
        """Return count and span; the rate is made of them where time goes on without epochs."""
        self._window.record(self._now_ms(), self._count)
        return MetricValue(MetricKind.METER, (self._count, self._span_s))


class Distribution(Metric):
    """Sum, count, least and greatest of values."""

    __slots__ = ("_count", "_max", "_min", "_sum")

    def __init__(self) -> None:
        self._sum: float = 0
        self._count = 0
        self._min: float | None = None
        self._max: float | None = None

    def update(self, value: float) -> None:
        """Take a value in."""
        self._sum += value
        self._count += 1
        self._min = value if self._min is None or value < self._min else self._min
        self._max = value if self._max is None or value > self._max else self._max

    def sample(self) -> MetricValue:
        """Return sum, count, least and greatest value; the last two are None before the first."""
        extremes = (_plain(self._min), _plain(self._max))
        return MetricValue(MetricKind.DISTRIBUTION, (_plain(self._sum), self._count, *extremes))


@dataclass(frozen=True, slots=True)
class HistogramStatistics:
    """Statistics of the values that a histogram holds.

    Attributes:
        values: In ascending order.
    """

    values: tuple[float, ...]

    def size(self) -> int:
        """Return how many values there are."""
        return len(self.values)

    def get_quantile(self, quantile: float) -> float:
        """Return the value that this part of the values does not exceed; NaN if there are none.

        >>> HistogramStatistics((1, 2, 3, 4)).get_quantile(0.5)
        2
        """
        if not self.values:
            return float("nan")
        return self.values[min(max(ceil(quantile * len(self.values)) - 1, 0), len(self.values) - 1)]

    def get_min(self) -> float:
        """Return the least value; NaN if there are none."""
        return self.values[0] if self.values else float("nan")

    def get_max(self) -> float:
        """Return the greatest value; NaN if there are none."""
        return self.values[-1] if self.values else float("nan")

    def get_mean(self) -> float:
        """Return the mean; NaN if there are no values."""
        return sum(self.values) / len(self.values) if self.values else float("nan")

    def get_std_dev(self) -> float:
        """Return the standard deviation of a sample; 0 for fewer than two values."""
        if len(self.values) < 2:
            return 0.0
        mean = self.get_mean()
        return sqrt(sum((value - mean) ** 2 for value in self.values) / (len(self.values) - 1))


_QUANTILES = (("median", 0.5), ("p75", 0.75), ("p95", 0.95), ("p98", 0.98), ("p99", 0.99), ("p999", 0.999))


class Histogram(Metric):
    """Quantiles of the last values.

    Args:
        window_size: How many values it holds.
    """

    __slots__ = ("_count", "_sample", "_values")

    def __init__(self, window_size: int) -> None:
        self._values: deque[float] = deque(maxlen=window_size)
        self._count = 0
        self._sample = MetricValue(MetricKind.HISTOGRAM, (0, {}))

    def update(self, value: float) -> None:
        """Take a value in; the oldest one makes room."""
        self._values.append(value)
        self._count += 1

    def get_count(self) -> int:
        """Return how many values there were."""
        return self._count

    def get_statistics(self) -> HistogramStatistics:
        """Return statistics of the values it holds."""
        return HistogramStatistics(tuple(sorted(self._values)))

    def sample(self) -> MetricValue:
        """Return the count, and by name the figures that Flink's reporters show; none before the first value."""
        if self._sample.value[0] == self._count:
            return self._sample
        count, statistics = self._count, self.get_statistics()
        figures = {
            "min": statistics.get_min(),
            "max": statistics.get_max(),
            "mean": statistics.get_mean(),
            "stddev": statistics.get_std_dev(),
            **{name: statistics.get_quantile(quantile) for name, quantile in _QUANTILES},
        }
        shown = {name: _plain(figure) for name, figure in figures.items()}
        self._sample = MetricValue(MetricKind.HISTOGRAM, (count, shown))
        return self._sample


class Gauge(Metric):
    """A value that is asked for when it is reported."""

    __slots__ = ("ask",)

    def __init__(self, ask: Callable[[], Any]) -> None:
        self.ask = ask

    def get_value(self) -> Any:
        """Return the present value; raises what the user's callable raises."""
        return self.ask()

    def sample(self) -> MetricValue:
        """Return the present value as plain data: a number, a string, or how it prints."""
        return MetricValue(MetricKind.GAUGE, _plain(self.ask()))


def _plain(value: Any) -> Any:
    if value is None or type(value) in (bool, int, float, str):
        return value
    if isinstance(value, Integral):
        return int(value)
    return float(value) if isinstance(value, Real) else shorten(value)


class MetricGroup:
    """A named container for metrics and further groups.

    Args:
        now_ms: Gives the time, for meters.
    """

    def __init__(self, now_ms: Callable[[], int]) -> None:
        self._now_ms = now_ms
        self._name = MetricName(())
        self._metrics: dict[MetricName, Metric] = {}
        self._reported: dict[MetricName, MetricValue] = {}
        self._broken: set[MetricName] = set()

    def add_group(self, name: str, extra: str | None = None) -> MetricGroup:
        """Return the group of that name within this one.

        Args:
            name: Of the group.
            extra: Makes it a key-value group: `name` is the key, and reporters show the pair as a label.
        """
        path, variables = self._name
        group = MetricGroup(self._now_ms)
        if extra is None:
            group._name = MetricName((*path, str(name)), variables)
        else:
            pair = (str(name), str(extra))
            group._name = MetricName((*path, *pair), (*variables, pair))
        group._metrics = self._metrics
        return group

    def get_scope_components(self) -> tuple[str, ...]:
        """Return the names of the groups from the operator's own down to this one."""
        return self._name.path

    def counter(self, name: str) -> Counter:
        """Return the counter of that name; made by the first call.

        Raises:
            ConfigurationError: If there is another kind of metric of that name.
        """
        return self._register(name, Counter, Counter)

    def gauge(self, name: str, obj: Callable[[], Any]) -> None:
        """Have a value reported that `obj` returns when asked.

        A callable that raises is logged; it neither fails the job nor other metrics.

        Raises:
            ConfigurationError: If there is another kind of metric of that name, or `obj` is not callable.
        """
        if not callable(obj):
            raise ConfigurationError(
                f'gauge "{name}" was given {shorten(obj)}', hint="Give it a callable that returns the value."
            )
        self._register(name, Gauge, lambda: Gauge(obj)).ask = obj

    def meter(self, name: str, time_span_in_seconds: int = 60) -> Meter:
        """Return the meter of that name; made by the first call.

        Raises:
            ConfigurationError: If there is another kind of metric of that name, or the span is not positive.
        """
        _check_positive(name, "time span", time_span_in_seconds)
        return self._register(name, Meter, lambda: Meter(time_span_in_seconds, self._now_ms))

    def distribution(self, name: str) -> Distribution:
        """Return the distribution of that name; made by the first call.

        Raises:
            ConfigurationError: If there is another kind of metric of that name.
        """
        return self._register(name, Distribution, Distribution)

    def histogram(self, name: str, window_size: int = 1000) -> Histogram:
        """Return the histogram of that name; made by the first call. Java Flink's, which PyFlink lacks.

        Raises:
            ConfigurationError: If there is another kind of metric of that name, or the size is not positive.
        """
        _check_positive(name, "window size", window_size)
        return self._register(name, Histogram, lambda: Histogram(window_size))

    def collect_changes(self) -> Mapping[MetricName, MetricValue]:
        """Return the metrics of this group and those below that have changed since the last call."""
        changes: dict[MetricName, MetricValue] = {}
        for name, metric in self._metrics.items():
            value = self._sample(name, metric)
            if value is not None and self._reported.get(name) != value:
                self._reported[name] = changes[name] = value
        return changes

    def _sample(self, name: MetricName, metric: Metric) -> MetricValue | None:
        try:
            value = metric.sample()
        except Exception:  # noqa: BLE001 - whatever a user's callable raises, it is told and the job goes on
            if name not in self._broken:
                self._broken.add(name)
                _LOG.exception('metric "%s" could not be read', ".".join(name.path))
            return None
        self._broken.discard(name)
        return value

    def _key(self, name: str) -> MetricName:
        return MetricName((*self._name.path, str(name)), self._name.variables)

    def _register(self, name: str, kind: type[M], make: Callable[[], M]) -> M:
        key = self._key(name)
        metric = self._metrics.get(key)
        if metric is None:
            metric = self._metrics[key] = make()
        if not isinstance(metric, kind):
            raise ConfigurationError(
                f'metric "{".".join(key.path)}" was asked for as a {kind.__name__}',
                detail=f"It is a {type(metric).__name__} already.",
            )
        return metric


def _check_positive(name: str, what: str, number: object) -> None:
    if not isinstance(number, int) or number < 1:
        raise ConfigurationError(f'{what} of metric "{name}" is {number!r}', detail="It must be at least 1.")

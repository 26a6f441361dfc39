"""Metrics under PyFlink's names (`pyflink.metrics.metricbase`)."""

from millstream.metrics.groups import (
    Counter,
    Distribution,
    Gauge,
    Histogram,
    HistogramStatistics,
    Meter,
    Metric,
    MetricGroup,
)

__all__ = [
    "Counter",
    "Distribution",
    "Gauge",
    "Histogram",
    "HistogramStatistics",
    "Meter",
    "Metric",
    "MetricGroup",
]

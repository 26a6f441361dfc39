"""Metrics under PyFlink's names (`pyflink.metrics`)."""

from millstream.metrics.metricbase import (
    Counter,
    Distribution,
    Gauge,
    Histogram,
    Meter,
    Metric,
    MetricGroup,
)

__all__ = ["Counter", "Distribution", "Gauge", "Histogram", "Meter", "Metric", "MetricGroup"]

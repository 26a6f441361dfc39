"""Writes metrics to the log, as text or as JSON."""

from __future__ import annotations

import logging
from collections.abc import Mapping

import msgspec

from millstream.base.errors import ConfigurationError
from millstream.metrics.reported import MetricsView, MetricView
from millstream.spi.reporter import AskMetrics, MetricReporter

__all__ = ["LogReporter"]

_LOG = logging.getLogger("millstream.metrics")
_FORMS = ("text", "json")


class LogReporter(MetricReporter):
    """Logs all metrics of each job at INFO, logger `millstream.metrics`; a job that ends once more.

    Settings: `format`, "text" (the default), a line for each metric in one entry, or "json", one line for each job.
    """

    default_interval_ms = 10_000

    def __init__(self) -> None:
        self._jobs: dict[str, AskMetrics] = {}
        self._as_json = False

    def open(self, settings: Mapping[str, str]) -> None:
        """Read the settings.

        Raises:
            ConfigurationError: If there is no such format.
        """
        form = settings.get("format", "text")
        if form not in _FORMS:
            raise ConfigurationError(
                f'metrics cannot be logged as "{form}"', detail=f"Formats: {', '.join(_FORMS)}."
            )
        self._as_json = form == "json"

    def add(self, job_id: str, ask: AskMetrics) -> None:
        """Log a job's metrics too."""
        self._jobs[job_id] = ask

    def remove(self, job_id: str) -> None:
        """Log a job's metrics for the last time."""
        ask = self._jobs.pop(job_id, None)
        if ask is not None:
            self._write(ask())

    def report(self) -> None:
        """Log the metrics of all jobs."""
        for ask in list(self._jobs.values()):
            self._write(ask())

    def close(self) -> None:
        """Nothing to do."""

    def _write(self, job: MetricsView) -> None:
        if self._as_json:
            _LOG.info("%s", msgspec.json.encode(job).decode())
            return
        lines = [f'metrics of job {job.job_id} "{job.job_name}"', *map(_line, job.metrics)]
        _LOG.info("%s", "\n".join(lines))


def _line(metric: MetricView) -> str:
    place = [each for each in (metric.operator or metric.vertex_name, metric.subtask) if each is not None]
    return f"  {'.'.join(map(str, [metric.scope, *place, metric.name]))}: {metric.value}"

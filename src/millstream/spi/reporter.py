"""The contract of what takes metrics out of a job: found by entry point, group `millstream.reporters`.

A reporter lives in the process that drives jobs, once for all of them that name it with the same settings::

    open(settings) ─► add(job) … report() each interval … remove(job) ─► close()
                        └─ asks the job for its metrics when it likes: that never makes the job wait
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping

from millstream.metrics.reported import MetricsView

__all__ = ["AskMetrics", "MetricReporter"]

AskMetrics = Callable[[], MetricsView]
"""Gives the metrics of one job as they are now; any thread may call it."""


class MetricReporter(ABC):
    """Shows or sends metrics; all methods are called by one thread at a time.

    Attributes:
        default_interval_ms: How often `report` is called unless the settings say otherwise; None for never.
    """

    default_interval_ms: int | None = None

    @abstractmethod
    def open(self, settings: Mapping[str, str]) -> None:
        """Begin; called once, first.

        Args:
            settings: What `metrics.reporter.<name>.` is followed by, and its value.

        Raises:
            ConfigurationError: If a setting does not fit.
            OSError: If what it needs is not there, such as a free port.
        """

    @abstractmethod
    def add(self, job_id: str, ask: AskMetrics) -> None:
        """Learn of a job that runs from now on."""

    @abstractmethod
    def remove(self, job_id: str) -> None:
        """Learn that a job has ended; it can still be asked, for the last time."""

    def report(self) -> None:
        """Report; called each interval. Raises what goes wrong: it is logged, and tried again at the next."""

    @abstractmethod
    def close(self) -> None:
        """End; called once, last."""

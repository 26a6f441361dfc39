"""Latency markers: how long records take from a source to each operator, as Flink measures it.

A source puts a marker between its records once in an interval; it waits wherever records wait, in exchanges and in what
an epoch has held back, but does not go through functions. Each operator notes how old it is and hands it on. An
exchange sends it to one receiver, one after the other, and markers are left out of checkpoints::

    source  r r M r r ──► map ──► exchange [r r M r] ──► window: now - M.marked_ms

As in Flink the clocks of all hosts are taken to agree, and records that wait within an operator (in a window, for an
answer of another system) are overtaken.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum

from millstream.metrics.groups import Histogram, MetricGroup, MetricName, MetricValue
from millstream.spi.batch import LatencyMarker

__all__ = ["LatencyGranularity", "LatencySettings", "LatencyTracker"]


class LatencyGranularity(Enum):
    """What a histogram is of."""

    SINGLE = "single"
    """All sources together."""
    OPERATOR = "operator"
    """Each source."""
    SUBTASK = "subtask"
    """Each subtask of each source."""


@dataclass(frozen=True, slots=True)
class LatencySettings:
    """How latency is measured.

    Attributes:
        interval_ms: Between two markers of a source's subtask.
        granularity: What a histogram is of.
        history_size: Of how many markers quantiles are.
    """

    interval_ms: int
    granularity: LatencyGranularity = LatencyGranularity.OPERATOR
    history_size: int = 128


class LatencyTracker:
    """Makes and takes the markers of one operator in one subtask.

    Args:
        settings: How latency is measured.
        operator_id: Of the operator.
        subtask: Of the operator.
        now_ms: Gives the wall-clock time.
        hand_on: Where markers go from here.
    """

    def __init__(
        self,
        settings: LatencySettings,
        *,
        operator_id: str,
        subtask: int,
        now_ms: Callable[[], int],
        hand_on: Callable[[LatencyMarker], None],
    ) -> None:
        self._settings = settings
        self._operator_id = operator_id
        self._subtask = subtask
        self._now_ms = now_ms
        self._hand_on = hand_on
        self._group = MetricGroup(now_ms)
        self._histograms: dict[tuple[str, int], Histogram] = {}
        self.due_ms = now_ms()

    def emit_if_due(self, epoch_ms: int) -> None:
        """Emit a marker if the interval is over; called by sources.

        Args:
            epoch_ms: The epoch's processing time: it may be ahead of this host's clock, and asked for the marker.
        """
        now_ms = self._now_ms()
        if max(now_ms, epoch_ms) >= self.due_ms:
            self.due_ms = max(now_ms, epoch_ms) + self._settings.interval_ms
            self._hand_on(LatencyMarker(now_ms, self._operator_id, self._subtask))

    def take(self, marker: LatencyMarker) -> None:
        """Note how old a marker is, and hand it on."""
        source = (marker.operator_id, marker.subtask)
        histogram = self._histograms.get(source)
        if histogram is None:
            histogram = self._histograms[source] = self._histogram_of(marker)
        histogram.update(max(self._now_ms() - marker.marked_ms, 0))
        self._hand_on(marker)

    def collect_changes(self) -> Mapping[MetricName, MetricValue]:
        """Return the histograms that have changed since the last call."""
        return self._group.collect_changes() if self._histograms else {}

    def _histogram_of(self, marker: LatencyMarker) -> Histogram:
        """Return the histogram for markers of a source, under Flink's groups."""
        group, granularity = self._group.add_group("latency"), self._settings.granularity
        if granularity is not LatencyGranularity.SINGLE:
            group = group.add_group("source_id", marker.operator_id)
        if granularity is LatencyGranularity.SUBTASK:
            group = group.add_group("source_subtask_index", str(marker.subtask))
        group = group.add_group("operator_id", self._operator_id)
        group = group.add_group("operator_subtask_index", str(self._subtask))
        return group.histogram("latency", self._settings.history_size)

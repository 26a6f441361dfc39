"""Sends metrics to an OpenTelemetry collector by OTLP over HTTP; with the extra `otel`."""

from __future__ import annotations

import socket
import threading
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from millstream.base.clock import Clock, SystemClock
from millstream.base.errors import ConfigurationError
from millstream.base.optional import load_package
from millstream.config.option_types import OptionType
from millstream.runtime.reporting.otel_points import Point, points_of
from millstream.spi.reporter import AskMetrics, MetricReporter
from millstream.version import __version__

__all__ = ["OpenTelemetryReporter"]

_ENDPOINT, _PROTOCOL, _TIMEOUT = "exporter.endpoint", "exporter.protocol", "exporter.timeout"
_DEFAULT_ENDPOINT = "http://localhost:4318"
_PATH = "/v1/metrics"


class OpenTelemetryReporter(MetricReporter):
    """Sends all metrics of each job at each interval, and once more when it ends.

    Settings, as Flink's: `exporter.endpoint`, the collector (http://localhost:4318; without a path, /v1/metrics is
    added); `exporter.protocol`, "HTTP"; `exporter.timeout` (10 s); `service.name` ("millstream"); `service.version`.
    `exporter.headers`, "name:value,…", is our own. What OpenTelemetry's variables say (OTEL_EXPORTER_OTLP_HEADERS,
    certificates, compression) counts as well.

    Args:
        clock: Time of the numbers.
    """

    default_interval_ms = 10_000

    def __init__(self, clock: Clock | None = None) -> None:
        self._clock = clock or SystemClock()
        self._jobs: dict[str, tuple[AskMetrics, int]] = {}
        self._changing = threading.Lock()
        self._endpoint = _DEFAULT_ENDPOINT + _PATH
        self._exporter: Any = None
        self._resource: Any = None
        self._points: Any = None

    def open(self, settings: Mapping[str, str]) -> None:
        """Read the settings, and make the exporter; it connects when there is something to send.

        Raises:
            ConfigurationError: If a setting does not fit, or the extra is not installed.
        """
        protocol = settings.get(_PROTOCOL, "HTTP")
        if protocol.upper() != "HTTP":
            raise ConfigurationError(
                f'OpenTelemetry\'s protocol "{protocol}" is not there',
                detail="Metrics are sent by OTLP over HTTP.",
                hint=f"Set {_PROTOCOL} to HTTP, and {_ENDPOINT} to the collector's port for it, usually 4318.",
            )
        self._endpoint = _endpoint(settings.get(_ENDPOINT, _DEFAULT_ENDPOINT))
        timeout_ms = _timeout_ms(settings.get(_TIMEOUT, "10 s"))
        headers = _headers(settings.get("exporter.headers", ""))
        what = "metrics for OpenTelemetry"
        self._points = load_package("opentelemetry.sdk.metrics.export", extra="otel", what=what)
        resources = load_package("opentelemetry.sdk.resources", extra="otel", what=what)
        exporters = load_package(
            "opentelemetry.exporter.otlp.proto.http.metric_exporter", extra="otel", what=what
        )
        self._resource = resources.Resource.create(
            {
                "service.name": settings.get("service.name", "millstream"),
                "service.version": settings.get("service.version", __version__),
            }
        )
        self._exporter = exporters.OTLPMetricExporter(
            endpoint=self._endpoint, headers=headers or None, timeout=timeout_ms / 1000
        )

    def add(self, job_id: str, ask: AskMetrics) -> None:
        """Send a job's metrics too."""
        with self._changing:
            self._jobs[job_id] = (ask, self._clock.now_ms())

    def remove(self, job_id: str) -> None:
        """Send a job's metrics for the last time."""
        with self._changing:
            ask, since_ms = self._jobs.pop(job_id, (None, 0))
        if ask is not None:
            self._send([(ask, since_ms)])

    def report(self) -> None:
        """Send the metrics of all jobs.

        Raises:
            OSError: If the collector does not take them.
        """
        with self._changing:
            jobs = list(self._jobs.values())
        self._send(jobs)

    def close(self) -> None:
        """End the exporter."""
        if self._exporter is not None:
            self._exporter.shutdown()

    def _send(self, jobs: list[tuple[AskMetrics, int]]) -> None:
        host, now_ms = socket.gethostname(), self._clock.now_ms()
        families: dict[tuple[str, bool, bool], list[Any]] = {}
        for ask, since_ms in jobs:
            for point in points_of(ask(), host):
                family = families.setdefault((point.name, point.is_sum, point.only_grows), [])
                family.append(self._number(point, since_ms, now_ms))
        if not families:
            return
        found = self._points
        scope = load_package(
            "opentelemetry.sdk.util.instrumentation", extra="otel", what="metrics for OpenTelemetry"
        ).InstrumentationScope("millstream", __version__)
        metrics = [self._metric(*key, numbers) for key, numbers in families.items()]
        scoped = found.ScopeMetrics(scope=scope, metrics=metrics, schema_url="")
        whole = found.ResourceMetrics(resource=self._resource, scope_metrics=[scoped], schema_url="")
        result = self._exporter.export(found.MetricsData(resource_metrics=[whole]))
        if result is not found.MetricExportResult.SUCCESS:
            raise OSError(
                f"{self._endpoint} did not take the metrics; OpenTelemetry's exporter has logged why"
            )

    def _number(self, point: Point, since_ms: int, now_ms: int) -> Any:
        return self._points.NumberDataPoint(
            attributes=dict(point.attributes),
            start_time_unix_nano=since_ms * 1_000_000 if point.is_sum else 0,
            time_unix_nano=now_ms * 1_000_000,
            value=point.value,
        )

    def _metric(self, name: str, is_sum: bool, only_grows: bool, numbers: list[Any]) -> Any:
        found = self._points
        data = (
            found.Sum(
                data_points=numbers,
                aggregation_temporality=found.AggregationTemporality.CUMULATIVE,
                is_monotonic=only_grows,
            )
            if is_sum
            else found.Gauge(data_points=numbers)
        )
        return found.Metric(name=name, description="", unit="", data=data)


def _endpoint(text: str) -> str:
    """Return where metrics are sent.

    >>> _endpoint("http://collector:4318/"), _endpoint("https://host/otlp/v1/metrics")
    ('http://collector:4318/v1/metrics', 'https://host/otlp/v1/metrics')

    Raises:
        ConfigurationError: If it is no address.
    """
    parts = urlsplit(text)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ConfigurationError(
            f'{_ENDPOINT} is "{text}", which is no address of HTTP', hint='Write "http://localhost:4318".'
        )
    return text if parts.path.strip("/") else text.rstrip("/") + _PATH


def _timeout_ms(text: str) -> int:
    try:
        timeout_ms = int(OptionType.DURATION.convert(text))
    except (ValueError, TypeError) as error:
        raise ConfigurationError(f'{_TIMEOUT} is "{text}", which is no duration') from error
    if timeout_ms <= 0:
        raise ConfigurationError(f'{_TIMEOUT} is "{text}"', detail="It must be positive.")
    return timeout_ms


def _headers(text: str) -> dict[str, str]:
    """Return headers by name; messages do not show them, for they may be secret.

    >>> _headers("Authorization: Bearer abc, x-tenant:7")
    {'authorization': 'Bearer abc', 'x-tenant': '7'}

    Raises:
        ConfigurationError: If one has no value.
    """
    headers = {}
    for each in filter(None, (part.strip() for part in text.split(","))):
        name, colon, value = each.partition(":")
        if not colon or not name.strip() or not value.strip():
            raise ConfigurationError(
                "exporter.headers has a part without a name or a value",
                hint='Write "Authorization: Bearer …", with commas between several.',
            )
        headers[name.strip().lower()] = value.strip()
    return headers

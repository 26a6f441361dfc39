"""Which reporters a job has, by Flink's options, and their life: shared by the jobs of a process.

::

    metrics.reporters: prom, log
    metrics.reporter.prom.factory.class: org.apache.flink.metrics.prometheus.PrometheusReporterFactory
    metrics.reporter.prom.port: 9250-9260
    metrics.reporter.log.interval: 30 s
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.metadata import entry_points

from millstream.base.clock import Clock, SystemClock
from millstream.base.errors import ConfigurationError, MillstreamError
from millstream.config.configuration import Configuration
from millstream.config.option_types import OptionType
from millstream.config.options_operating import METRICS_REPORTERS
from millstream.runtime.control.gateway import JobGateway
from millstream.runtime.control.views import MetricsView
from millstream.spi.reporter import MetricReporter

__all__ = ["JobReporters"]

_LOG = logging.getLogger("millstream")
_PREFIX = "metrics.reporter."
_FACTORY, _INTERVAL = "factory.class", "interval"
_OF_FLINK = {
    "org.apache.flink.metrics.prometheus.PrometheusReporterFactory": "prometheus",
    "org.apache.flink.metrics.slf4j.Slf4jReporterFactory": "log",
    "org.apache.flink.metrics.otel.OpenTelemetryMetricReporterFactory": "otel",
}
_OLDER_NAMES = {"prom": "prometheus", "slf4j": "log", "opentelemetry": "otel"}

_Key = tuple[str, tuple[tuple[str, str], ...]]


@dataclass(slots=True)
class _Shared:
    """A reporter that is open, and how many jobs have it."""

    reporter: MetricReporter
    lock: threading.Lock = field(default_factory=threading.Lock)
    ended: threading.Event = field(default_factory=threading.Event)
    jobs: int = 0


_open: dict[_Key, _Shared] = {}  # of the process, as ports are
_opening = threading.Lock()


class JobReporters:
    """The reporters of one job.

    A reporter that cannot be opened, or fails, is logged and left out: the job goes on.

    Args:
        configuration: The options.
        clock: Time, between two reports.

    Raises:
        ConfigurationError: From the constructor, if a reporter is not known.
    """

    def __init__(self, configuration: Configuration, clock: Clock | None = None) -> None:
        self._clock = clock or SystemClock()
        self._named = [(name, _settings(configuration, name)) for name in _names(configuration)]
        for name, settings in self._named:
            _class_of(name, settings)
            _interval_ms(name, settings, None)
        self._keys: list[_Key] = []
        self._job_id = ""

    def start(self, job: JobGateway) -> None:
        """Have a job reported; called once, when it begins."""
        self._job_id = job.job_id
        for name, settings in self._named:
            try:
                with _opening:
                    key, shared = self._acquire(name, settings)
                    shared.jobs += 1
                    self._keys.append(key)
                with shared.lock:
                    shared.reporter.add(job.job_id, lambda: job.view(MetricsView))
            except (MillstreamError, OSError) as error:
                _LOG.warning('metrics are not reported by "%s": %s', name, error)

    def close(self) -> None:
        """Have the job reported no more; called once, when it has ended."""
        for key in self._keys:
            with _opening:
                shared = _open[key]
                shared.jobs -= 1
                last = not shared.jobs
                if last:
                    del _open[key]
            try:
                with shared.lock:
                    shared.reporter.remove(self._job_id)
                    if last:
                        shared.ended.set()
                        shared.reporter.close()
            except Exception:  # noqa: BLE001 - a reporter may raise anything, and the job goes on
                _LOG.exception('reporter "%s" failed as its job ended', key[0])
        self._keys.clear()

    def _acquire(self, name: str, settings: Mapping[str, str]) -> tuple[_Key, _Shared]:
        key = (name, tuple(sorted(settings.items())))
        shared = _open.get(key)
        if shared is None:
            reporter = _class_of(name, settings)()
            reporter.open(settings)
            shared = _open[key] = _Shared(reporter)
            interval_ms = _interval_ms(name, settings, reporter.default_interval_ms)
            if interval_ms is not None and reporter.default_interval_ms is not None:
                arguments = (name, shared, interval_ms / 1000, self._clock)
                threading.Thread(target=_report, args=arguments, name=f"report-{name}", daemon=True).start()
        return key, shared


def _report(name: str, shared: _Shared, interval_s: float, clock: Clock) -> None:
    while not clock.wait(interval_s, shared.ended):
        try:
            with shared.lock:
                if not shared.ended.is_set():
                    shared.reporter.report()
        except Exception:  # noqa: BLE001 - a reporter may raise anything, and the job goes on
            _LOG.exception('reporter "%s" failed, and tries again in %s s', name, interval_s)


def _names(configuration: Configuration) -> list[str]:
    """Return the reporters that are named; without `metrics.reporters` all that have settings, as in Flink."""
    listed = configuration.get(METRICS_REPORTERS)
    if listed is not None:
        return [each.strip() for each in listed.replace(";", ",").split(",") if each.strip()]
    return sorted(
        {key[len(_PREFIX) :].split(".")[0] for key in configuration.key_set() if key.startswith(_PREFIX)}
    )


def _settings(configuration: Configuration, name: str) -> dict[str, str]:
    prefix = f"{_PREFIX}{name}."
    return {
        key[len(prefix) :]: str(value)
        for key, value in configuration.to_dict().items()
        if key.startswith(prefix)
    }


def _class_of(name: str, settings: Mapping[str, str]) -> type[MetricReporter]:
    given = settings.get(_FACTORY, name)
    wanted = _OF_FLINK.get(given) or _OLDER_NAMES.get(given, given)
    found = {entry.name: entry for entry in entry_points(group="millstream.reporters")}
    if wanted not in found:
        raise ConfigurationError(
            f'metrics reporter "{given}" is not known',
            detail=f"There are: {', '.join(sorted(found))}; of Flink's classes {', '.join(_OF_FLINK)}.",
            hint=f"Set {_PREFIX}{name}.{_FACTORY} to one of them.",
        )
    reporter: type[MetricReporter] = found[wanted].load()
    return reporter


def _interval_ms(name: str, settings: Mapping[str, str], default_ms: int | None) -> int | None:
    text = settings.get(_INTERVAL)
    if text is None:
        return default_ms
    try:
        interval_ms = int(OptionType.DURATION.convert(text))
    except (ValueError, TypeError) as error:
        raise ConfigurationError(f'{_PREFIX}{name}.{_INTERVAL} is "{text}", which is no duration') from error
    if interval_ms <= 0:
        raise ConfigurationError(f'{_PREFIX}{name}.{_INTERVAL} is "{text}"', detail="It must be positive.")
    return interval_ms

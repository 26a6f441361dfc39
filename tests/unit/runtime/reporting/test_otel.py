"""Metrics sent to an OpenTelemetry collector: an HTTP server that reads what OTLP's own messages say."""

from __future__ import annotations

import gzip
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest

from millstream.base.clock import ManualClock
from millstream.base.errors import ConfigurationError
from millstream.config.configuration import Configuration
from millstream.config.options_file_systems import is_secret
from millstream.metrics.reported import MetricsView, MetricView
from millstream.runtime.reporting import reporters
from millstream.runtime.reporting.otel import OpenTelemetryReporter
from millstream.runtime.reporting.reporters import JobReporters

CUMULATIVE = 2


class Collector:
    """Keeps the requests that come: path, headers and message."""

    def __init__(self):
        self.requests = []
        self.status = 200
        collector = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self):
                body = self.rfile.read(int(self.headers["Content-Length"]))
                if self.headers.get("Content-Encoding") == "gzip":
                    body = gzip.decompress(body)
                message = ExportMetricsServiceRequest.FromString(body)
                collector.requests.append((self.path, self.headers, message))
                self.send_response(collector.status)
                self.send_header("Content-Type", "application/x-protobuf")
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *arguments):
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def close(self):
        self._server.shutdown()
        self._server.server_close()

    def metrics(self, request=-1):
        """Return the metrics of a request by name."""
        ((resource,), _) = (self.requests[request][2].resource_metrics, None)
        ((scope,), _) = (resource.scope_metrics, None)
        return {metric.name: metric for metric in scope.metrics}

    def resource(self):
        (resource,) = self.requests[-1][2].resource_metrics
        return texts(resource.resource.attributes)


def texts(attributes):
    return {each.key: each.value.string_value for each in attributes}


@pytest.fixture
def collector():
    made = Collector()
    yield made
    made.close()


def reporter(collector, clock=None, **settings):
    made = OpenTelemetryReporter(clock or ManualClock(5_000))
    given = {key.replace("__", "."): value for key, value in settings.items()}
    made.open({"exporter.endpoint": collector.url, **given})
    return made


TASK = {"vertex_id": "v", "vertex_name": "Map -> Sink", "subtask": 1}
OPERATOR = {**TASK, "operator_id": "o", "operator": "Map"}


def view(*metrics):
    return MetricsView("abc", "orders", 0, metrics, 2, ("host-0", "host-1"))


def sent(collector, *metrics, clock=None):
    made = reporter(collector, clock)
    made.add("abc", lambda: view(*metrics))
    made.report()
    made.close()
    return collector.metrics()


def test_names_and_attributes_are_those_of_flinks_reporter(collector):
    found = sent(
        collector,
        MetricView("job", "numRestarts", "gauge", 3),
        MetricView("task", "busyTimeMsPerSecond", "gauge", 0.5, **TASK),
        MetricView(
            "operator",
            "shop.7.sold",
            "counter",
            5,
            **OPERATOR,
            variables={"shop": "7"},
            logical_name="shop.sold",
        ),
    )
    job = {"job_id": "abc", "job_name": "orders"}
    task = {
        **job,
        "host": "host-1",
        "tm_id": "slot-1",
        "task_id": "v",
        "task_name": "Map -> Sink",
        "task_attempt_id": "v_1_2",
        "task_attempt_num": "2",
        "subtask_index": "1",
    }
    (restarts,) = found["flink.jobmanager.job.numRestarts"].gauge.data_points
    assert (restarts.as_int, restarts.time_unix_nano) == (3, 5_000_000_000)
    assert {key: value for key, value in texts(restarts.attributes).items() if key != "host"} == job
    (busy,) = found["flink.taskmanager.job.task.busyTimeMsPerSecond"].gauge.data_points
    assert (busy.as_double, texts(busy.attributes)) == (0.5, task)
    (sold,) = found["flink.taskmanager.job.task.operator.shop.sold"].sum.data_points
    operator = {"operator_id": "o", "operator_name": "Map", "shop": "7"}
    assert (sold.as_int, texts(sold.attributes)) == (5, {**task, **operator})


def test_counters_are_sums_since_the_job_began_and_only_our_own_never_fall(collector):
    clock = ManualClock(1_000)
    made = reporter(collector, clock)
    counters = [MetricView("operator", name, "counter", 7, **OPERATOR) for name in ("numRecordsIn", "mine")]
    made.add("abc", lambda: view(*counters))
    clock.advance(2_000)
    made.report()
    made.close()
    found = collector.metrics()
    for name, only_grows in (("numRecordsIn", True), ("mine", False)):
        told = found[f"flink.taskmanager.job.task.operator.{name}"].sum
        (point,) = told.data_points
        assert (told.is_monotonic, told.aggregation_temporality) == (only_grows, CUMULATIVE)
        assert (point.start_time_unix_nano, point.time_unix_nano) == (1_000_000_000, 3_000_000_000)


def test_meters_histograms_and_distributions_have_a_number_for_each_figure(collector):
    found = sent(
        collector,
        MetricView("operator", "lines", "meter", {"count": 120, "rate": 2.0}, **OPERATOR),
        MetricView("operator", "times", "histogram", {"count": 4, "p99": 7, "mean": 2.5}, **OPERATOR),
        MetricView(
            "operator",
            "sizes",
            "distribution",
            {"sum": 6, "count": 3, "min": None, "max": 3, "mean": 2},
            **OPERATOR,
        ),
    )
    prefix = "flink.taskmanager.job.task.operator."
    numbers = {}
    for name, metric in found.items():
        (point,) = getattr(metric, metric.WhichOneof("data")).data_points
        numbers[name.removeprefix(prefix)] = getattr(point, point.WhichOneof("value"))
    assert numbers == {
        "lines.count": 120,
        "lines.rate": 2.0,
        "times.count": 4,
        "times.p99": 7,
        "times.mean": 2.5,
        "sizes.sum": 6,
        "sizes.count": 3,
        "sizes.max": 3,
        "sizes.mean": 2,
    }
    assert found[f"{prefix}lines.count"].sum.is_monotonic


def test_what_is_no_number_is_left_out_and_large_ones_are_floats(collector):
    found = sent(
        collector,
        MetricView("job", "lastCheckpointExternalPath", "gauge", "s3://bucket/chk-1"),
        MetricView("job", "large", "gauge", 2**70),
        MetricView("job", "yes", "gauge", True),
    )
    assert set(found) == {"flink.jobmanager.job.large", "flink.jobmanager.job.yes"}
    (large,) = found["flink.jobmanager.job.large"].gauge.data_points
    assert large.as_double == float(2**70)


def test_path_service_and_headers_are_those_of_the_settings(collector):
    made = reporter(
        collector,
        service__name="shop",
        service__version="7",
        exporter__headers="Authorization: Bearer s3cret, x-tenant:9",
    )
    made.add("abc", lambda: view(MetricView("job", "numRestarts", "gauge", 0)))
    made.report()
    made.close()
    path, headers, _ = collector.requests[0]
    assert (path, headers["authorization"], headers["x-tenant"]) == ("/v1/metrics", "Bearer s3cret", "9")
    assert (collector.resource()["service.name"], collector.resource()["service.version"]) == ("shop", "7")
    assert is_secret("metrics.reporter.otel.exporter.headers")


def test_a_job_that_ends_is_sent_once_more_and_then_no_more(collector):
    made = reporter(collector)
    made.add("abc", lambda: view(MetricView("job", "numRestarts", "gauge", 1)))
    made.remove("abc")
    assert len(collector.requests) == 1
    made.report()
    made.close()
    assert len(collector.requests) == 1


def test_a_collector_that_refuses_is_told_of(collector):
    collector.status = 400
    made = reporter(collector)
    made.add("abc", lambda: view(MetricView("job", "numRestarts", "gauge", 1)))
    with pytest.raises(OSError, match=r"/v1/metrics did not take the metrics"):
        made.report()
    made.close()


@pytest.mark.parametrize(
    ("setting", "value", "said"),
    [
        ("exporter.protocol", "gRPC", "protocol"),
        ("exporter.endpoint", "localhost:4318", "exporter.endpoint"),
        ("exporter.endpoint", "http://", "exporter.endpoint"),
        ("exporter.timeout", "soon", "exporter.timeout"),
        ("exporter.timeout", "0 s", "exporter.timeout"),
    ],
)
def test_settings_that_do_not_fit_are_refused(setting, value, said):
    with pytest.raises(ConfigurationError, match=said):
        OpenTelemetryReporter().open({setting: value})


def test_headers_that_do_not_fit_are_refused_without_showing_them():
    with pytest.raises(ConfigurationError) as told:
        OpenTelemetryReporter().open({"exporter.headers": "Bearer s3cret"})
    assert "s3cret" not in str(told.value)


def test_a_real_job_is_reported_under_flinks_class(collector, monkeypatch, new_environment):
    class Entry:
        name = "otel"

        def load(self):
            return OpenTelemetryReporter

    monkeypatch.setattr(reporters, "entry_points", lambda group: [Entry()])
    options = {
        "metrics.reporters": "mine",
        "metrics.reporter.mine.factory.class": "org.apache.flink.metrics.otel.OpenTelemetryMetricReporterFactory",
        "metrics.reporter.mine.exporter.endpoint": collector.url,
        "metrics.reporter.mine.interval": "1 h",
    }
    assert JobReporters(Configuration.from_dict(options))
    environment = new_environment("local", 1, options)
    environment.from_collection(list(range(9))).map(str).name("Text").print()
    environment.execute("sent")
    records = collector.metrics()["flink.taskmanager.job.task.operator.numRecordsIn"].sum
    counts = {
        texts(point.attributes)["operator_name"]: point.as_int
        for point in records.data_points
        if texts(point.attributes)["job_name"] == "sent"
    }
    assert counts["Text"] == 9
    assert reporters._open == {}

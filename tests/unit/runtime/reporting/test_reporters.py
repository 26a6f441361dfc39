"""Which reporters jobs have, and their life."""

from __future__ import annotations

import json
import logging
import urllib.error
import urllib.request

import pytest

from millstream.base.errors import ConfigurationError
from millstream.config.configuration import Configuration
from millstream.metrics.reported import MetricsView, MetricView
from millstream.runtime.reporting import reporters
from millstream.runtime.reporting.log_reporter import LogReporter
from millstream.runtime.reporting.prometheus import PrometheusReporter, parse_ports
from millstream.runtime.reporting.reporters import JobReporters


class Job:
    def __init__(self, job_id):
        self.job_id = job_id

    def view(self, kind):
        assert kind is MetricsView
        restarts = MetricView("job", "numRestarts", "gauge", 0)
        return MetricsView(self.job_id, "orders", 0, metrics=(restarts,))


@pytest.fixture(autouse=True)
def classes(monkeypatch):
    """The reporters of this checkout, whatever is installed."""
    known = {"prometheus": PrometheusReporter, "log": LogReporter}

    class Entry:
        def __init__(self, name):
            self.name = name

        def load(self):
            return known[self.name]

    monkeypatch.setattr(reporters, "entry_points", lambda group: [Entry(name) for name in known])
    yield
    assert reporters._open == {}


def started(job, **options):
    found = JobReporters(
        Configuration.from_dict({key.replace("__", "."): value for key, value in options.items()})
    )
    found.start(job)
    return found


def address():
    (shared,) = reporters._open.values()
    host, port = shared.reporter.address
    return f"http://{host}:{port}"


def get(url):
    with urllib.request.urlopen(url, timeout=10) as answer:
        return answer.headers["Content-Type"], answer.read().decode()


PROM = {"metrics__reporter__prom__port": "0"}


def test_jobs_of_a_process_share_an_endpoint_that_ends_with_the_last(caplog):
    one, two = started(Job("one"), **PROM), started(Job("two"), **PROM)
    url = address()
    kind, text = get(f"{url}/metrics")
    assert kind.startswith("text/plain; version=0.0.4")
    assert ('job_id="one"' in text, 'job_id="two"' in text) == (True, True)
    one.close()
    assert 'job_id="one"' not in get(url)[1]
    with pytest.raises(urllib.error.HTTPError, match="404"):
        get(f"{url}/secrets")
    two.close()
    with pytest.raises(urllib.error.URLError):
        get(url)
    assert caplog.records == []


def test_the_first_free_port_of_a_range_is_taken_and_none_is_no_reason_to_fail(caplog):
    first = started(Job("one"), **PROM)
    taken = int(address().rsplit(":", 1)[1])
    other = started(Job("two"), metrics__reporter__prom__port=f"{taken}, 0")
    (used,) = [
        each.reporter.address[1] for key, each in reporters._open.items() if ("port", "0") not in key[1]
    ]
    assert used != taken
    none = started(Job("three"), metrics__reporter__prom__port=f"{taken}-{taken}")
    assert f"no port of {taken} to {taken} on 127.0.0.1 is free" in caplog.text
    for each in (none, other, first):
        each.close()


def test_reporters_are_found_by_flinks_classes_by_name_and_by_their_settings():
    factory = "org.apache.flink.metrics.prometheus.PrometheusReporterFactory"
    found = started(
        Job("one"),
        metrics__reporters="mine",
        metrics__reporter__mine__factory__class=factory,
        metrics__reporter__mine__port="0",
        metrics__reporter__log__interval="1 h",
    )
    assert [type(each.reporter) for each in reporters._open.values()] == [PrometheusReporter]
    found.close()
    found = started(Job("one"), metrics__reporter__log__interval="1 h")
    assert [type(each.reporter) for each in reporters._open.values()] == [LogReporter]
    found.close()
    started(Job("one")).close()


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"metrics__reporters": "influx"}, '"influx" is not known'),
        ({"metrics__reporter__log__interval": "soon"}, "which is no duration"),
        ({"metrics__reporter__log__interval": "0 s"}, '"0 s"'),
    ],
)
def test_mistakes_are_told_before_the_job_runs(options, said):
    with pytest.raises(ConfigurationError, match=said):
        started(Job("one"), **options)


@pytest.mark.parametrize("text", ["", "a", "5-", "70000", "9-3"])
def test_what_is_no_port_is_refused(text):
    with pytest.raises(ConfigurationError, match="no port or range"):
        parse_ports(text)


def test_a_job_that_ends_is_logged_as_text_or_as_json(caplog):
    with caplog.at_level(logging.INFO, logger="millstream.metrics"):
        started(Job("one"), metrics__reporter__log__interval="1 h").close()
        started(Job("one"), metrics__reporter__log__format="json").close()
    text, line = [record.getMessage() for record in caplog.records]
    assert text.splitlines() == ['metrics of job one "orders"', "  job.numRestarts: 0"]
    assert json.loads(line)["metrics"][0]["name"] == "numRestarts"


def test_a_job_whose_metrics_cannot_be_read_is_told_of_and_the_endpoint_stays(caplog):
    class Broken(Job):
        def view(self, kind):
            raise ValueError("a gauge of the user's")

    found = started(Broken("one"), **PROM)
    with pytest.raises(urllib.error.HTTPError, match="500"):
        get(address())
    assert "metrics could not be put together" in caplog.text
    found.close()

"""Polling a real server."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from millstream.base.errors import JobExecutionError, MalformedRecordError, MillstreamError, SourceError
from millstream.common import WatermarkStrategy
from millstream.common.time import Time
from millstream.datastream.connectors.http import (
    HttpPaging,
    HttpRequest,
    HttpSource,
    HttpSourceBuilder,
    NextPage,
    Patience,
)
from millstream.spi.source import PlanRequest
from millstream.testing import FailurePoint, MiniCluster, SourceRun, check_source
from servers.web import PAGE, Planned, WebServer

SHORT = Patience(total_s=0.3)
FEED = HttpPaging.cursor("after", "data.next")


def builder(server: WebServer, path: str) -> HttpSourceBuilder:
    return HttpSource.builder().set_url(server.url + path).set_patience(SHORT)


def feed(server: WebServer) -> HttpSourceBuilder:
    return builder(server, "/feed").set_records("data.items").set_paging(FEED)


def read_all(source: HttpSource, restored: Any = None) -> list[Any]:
    return SourceRun(source, 1, 1_000, restored=restored).run()


def cause_of(error: BaseException) -> BaseException:
    while error.__cause__ is not None and not isinstance(error, (SourceError, MalformedRecordError)):
        error = error.__cause__
    return error


@pytest.mark.long
def test_bounded_source_keeps_the_contract(web):
    web.items = list(range(14))
    check_source(
        feed(web).set_bounded().build(), expected=list(range(14)), parallelisms=(1, 2), budgets=(3, 1_000)
    )


@pytest.mark.parametrize("count", [0, 1, PAGE, 2 * PAGE + 1])
@pytest.mark.parametrize(
    ("path", "paging"),
    [
        ("/offset", HttpPaging.offset("from")),
        ("/pages", HttpPaging.page("page")),
        ("/linked", HttpPaging.next_link()),
        ("/state", HttpPaging.none()),
    ],
)
def test_pages(web, path, paging, count):
    web.items = list(range(count))

    assert read_all(builder(web, path).set_paging(paging).set_bounded().build()) == list(range(count))


class ByDay(HttpPaging):
    """Of one's own: each day is a page."""

    def request(self, cursor: Any) -> HttpRequest:
        return HttpRequest(query={"page": str(cursor or 1)}, headers={"X-Day": str(cursor or 1)})

    def advance(self, cursor: Any, response: Any, records: Any) -> NextPage:
        return NextPage((cursor or 1) + 1, more=(cursor or 1) < 2)


def test_paging_and_records_of_ones_own(web):
    web.items = list(range(20))
    source = builder(web, "/pages").set_paging(ByDay())
    source.set_records(lambda response: [(response.status, each) for each in response.json()])

    assert read_all(source.set_bounded().build()) == [(200, each) for each in range(2 * PAGE)]
    assert [each.headers["x-day"] for each in web.requests] == ["1", "2"]


def test_a_list_that_has_not_changed_is_not_read_again(web):
    web.items = [1, 2]
    source = builder(web, "/state").set_interval(Time.seconds(10)).build()
    enumerator, reader = source.build_enumerator(1, None), source.build_reader(0, 1)
    reader.open()
    found: list[Any] = []

    def poll(now_ms: int) -> int | None:
        plan = enumerator.plan(PlanRequest(1, 1_000, now_ms))
        ends = [
            reader.read(each, lambda batch: found.append(batch.values) or True)
            for each in plan.ranges.get(0, ())
        ]
        enumerator.advance(ends)
        return plan.next_ms

    poll(0)
    assert poll(5_000) == 10_000  # not yet
    poll(10_000)
    web.items.append(3)
    poll(20_000)
    again = source.build_enumerator(1, enumerator.snapshot())
    assert again.snapshot() == enumerator.snapshot()
    reader.close()

    assert found == [[1, 2], [1, 2, 3]]
    assert ["if-none-match" in each.headers for each in web.requests] == [False, True, True]


def test_event_times(web):
    web.items = [5, 7]
    source = builder(web, "/state").set_timestamps(lambda item: item * 1_000).set_bounded().build()
    reader = source.build_reader(0, 1)
    reader.open()
    stamps: list[Any] = []
    (planned,) = source.build_enumerator(1, None).plan(PlanRequest(1, 9, 0)).ranges[0]
    reader.read(planned, lambda batch: stamps.extend(batch.timestamps) or True)
    reader.close()

    assert stamps == [5_000, 7_000]


@pytest.mark.parametrize("point", [FailurePoint.BEFORE_CHECKPOINT, FailurePoint.AFTER_EPOCH])
def test_a_job_that_fails_reads_each_record_of_a_feed_once(web, point):
    web.items = list(range(40))
    with MiniCluster(parallelism=2, options={"millstream.epoch.fixed-records": 5}) as cluster:
        cluster.fail_at(point, 3)
        stream = cluster.environment().from_source(
            feed(web).set_bounded().build(), WatermarkStrategy.no_watermarks(), "feed"
        )
        assert sorted(cluster.collect(stream)) == list(range(40))


class TestTrouble:
    def failing(self, source: HttpSource) -> str:
        with pytest.raises((JobExecutionError, MillstreamError)) as failed:
            read_all(source)
        return str(cause_of(failed.value))

    def test_server_that_is_down(self, web, caplog):
        web.stop()
        url = web.url.replace("://", "://me:secret-word@") + "/state?key=secret-key"
        new = builder(web, "/").set_url(url).set_headers({"X-Key": "secret-header"})
        source = new.build()
        said = self.failing(source)

        assert f"{web.url}/state did not answer" in said and "Check that the server runs" in said
        assert "secret" not in said + repr(source) + caplog.text

    def test_server_that_comes_back(self, web):
        web.items = [1, 2, 3]
        web.stop()
        timer = threading.Timer(0.5, web.start)
        timer.start()
        source = builder(web, "/state").set_patience(Patience(total_s=20)).set_bounded().build()

        assert read_all(source) == [1, 2, 3]
        timer.join()

    def test_server_that_is_busy(self, web):
        web.items = [1]
        web.planned.extend([Planned(503), Planned(429, {"Retry-After": "1"})])
        source = builder(web, "/state").set_patience(Patience(total_s=20)).set_bounded().build()

        assert read_all(source) == [1]

    def test_server_that_asks_for_more_patience_than_there_is(self, web):
        web.planned.append(Planned(503, {"Retry-After": "3600"}, b"come back tomorrow"))
        said = self.failing(builder(web, "/state").build())

        assert "status 503: come back tomorrow" in said and "after 3600 s" in said

    def test_slow_server(self, web):
        web.items = [1]
        web.planned.append(Planned(200, after_s=1.0))
        new = builder(web, "/state").set_timeout(Time.milliseconds(200)).set_patience(Patience(total_s=20))

        assert read_all(new.set_bounded().build()) == [1]

    def test_login(self, web, caplog):
        web.items = [1]
        url = web.url.replace("://", "://me:{}@") + "/secret"
        caplog.set_level("DEBUG", logger="millstream")
        assert read_all(builder(web, "/").set_url(url.format("secret-word")).set_bounded().build()) == [1]
        said = self.failing(builder(web, "/").set_url(url.format("false-word")).build())

        assert "status 401: who are you?" in said and "Check user and password" in said
        assert "-word" not in said + caplog.text

    @pytest.mark.parametrize(
        ("answer", "said"),
        [
            (Planned(404, body=b"x" * 1_000), "status 404: xxx"),
            (Planned(302, {"Location": "/other"}), "Redirects are not followed"),
            (Planned(200, body=b"<html>"), "is no JSON: b'<html>'"),
            (Planned(200, body=b'{"rows": []}'), "has no list at \\$"),
            (
                Planned(200, {"Link": '<http://elsewhere.example/>; rel="next"'}, b"[]"),
                "names a next page at another server",
            ),
        ],
    )
    def test_answers_that_do_not_fit(self, web, answer, said):
        web.planned.append(answer)
        with pytest.raises((JobExecutionError, MillstreamError), match=rf"(?s){said}") as failed:
            read_all(builder(web, "/pages").set_paging(HttpPaging.next_link()).build())
        assert len(str(failed.value)) < 1_000

"""What is declared of HTTP, without a server: what is refused at once, what is shown, paths, answers."""

from __future__ import annotations

import pickle

import pytest

from millstream.base.errors import ConfigurationError, MalformedRecordError
from millstream.common.time import Time
from millstream.connectors.http.responses import HttpRefusal, HttpResponse, check_status, is_passing
from millstream.connectors.http.selection import at_path, check_path, records_of
from millstream.connectors.http.target import HttpTarget
from millstream.datastream.connectors.http import (
    DeliveryGuarantee,
    HttpLookup,
    HttpPaging,
    HttpSink,
    HttpSource,
)

SECRET = "https://me:secret-word@host/path?key=secret-key"
HEADERS = {"Authorization": "Bearer secret-token"}


def answer(body: bytes = b"", status: int = 200, **headers: str) -> HttpResponse:
    return HttpResponse(status, headers, body, "http://host:80/path")


def test_secrets_are_shown_nowhere():
    target = HttpTarget(SECRET, HEADERS)
    assert target.address == "https://host:443/path"
    assert target.bare_url == "https://host/path?key=secret-key"
    declared = [
        target,
        HttpSource.builder().set_url(SECRET).set_headers(HEADERS).build(),
        HttpSink.builder().set_url(SECRET).set_headers(HEADERS).build(),
        HttpLookup(f"{SECRET}&id={{key}}", headers=HEADERS),
    ]
    for each in declared:
        assert "secret" not in repr(each)
        assert type(pickle.loads(pickle.dumps(each))) is type(each)


def test_headers_are_sent_to_one_server_only():
    target = HttpTarget("http://host/path")

    assert target.is_own("http://host:80/other")
    for url in ("https://host/path", "http://host:81/path", "http://host.evil/path", "http://evil@evil/"):
        assert not target.is_own(url)


@pytest.mark.parametrize("url", ["", "host", "ftp://host", "http://", "http://host:port", 7])
def test_urls_that_are_none(url):
    with pytest.raises(ConfigurationError):
        HttpSource.builder().set_url(url)


@pytest.mark.parametrize(
    ("declare", "said"),
    [
        (lambda: HttpSource.builder().build(), "no URL"),
        (lambda: HttpSink.builder().build(), "no URL"),
        (lambda: HttpSource.builder().set_records("a b.[c]"), "no path into JSON"),
        (lambda: HttpSource.builder().set_paging("next"), "no HttpPaging"),
        (lambda: HttpSource.builder().set_interval(Time.seconds(0)), "must be positive"),
        (lambda: HttpSink.builder().set_method("GET"), "must be one of"),
        (lambda: HttpSink.builder().set_batch_size(0), "must be positive"),
        (
            lambda: (
                HttpSink.builder()
                .set_url(SECRET)
                .set_idempotency_header(None)
                .set_delivery_guarantee(DeliveryGuarantee.EXACTLY_ONCE)
                .build()
            ),
            "no header for keys",
        ),
    ],
)
def test_what_is_missing_or_does_not_fit_is_named(declare, said):
    with pytest.raises(ConfigurationError, match=said):
        declare()


@pytest.mark.parametrize(
    ("path", "found"),
    [
        ("$", {"a": [{"b": 1}], "c d": None}),
        ("a", [{"b": 1}]),
        ("$.a[0].b", 1),
        ("a[*]", [{"b": 1}]),
        ("a[1]", None),
        ("a.b", None),
        ("c d.e", None),
    ],
)
def test_paths(path, found):
    check_path(path)
    assert at_path({"a": [{"b": 1}], "c d": None}, path) == found


@pytest.mark.parametrize("path", ["", "a[x]", "a[0", "..", "a[*].b", 7])
def test_paths_that_are_none(path):
    with pytest.raises(ConfigurationError, match="no path into JSON"):
        check_path(path)


def test_answers_without_records():
    with pytest.raises(MalformedRecordError, match="has no list at rows"):
        records_of(answer(b'{"rows": 5}'), "rows")
    with pytest.raises(MalformedRecordError, match="is no JSON"):
        records_of(answer(b"<html>"), "$")


@pytest.mark.parametrize(
    ("status", "retry_after", "passing"),
    [
        (503, "", True),
        (429, "59", True),
        (429, "61", False),
        (503, "Fri, 31 Dec 1999 23:59:59 GMT", True),
        (503, "Fri, 31 Dec 2999 23:59:59 GMT", False),
        (503, "soon", True),
        (400, "", False),
        (301, "", False),
    ],
)
def test_what_may_pass(status, retry_after, passing):
    with pytest.raises(HttpRefusal) as refused:
        check_status(answer(b"text", status, **{"retry-after": retry_after}))
    assert is_passing(refused.value, 60.0) is passing


class TestPaging:
    def test_cursor(self):
        paging = HttpPaging.cursor("after", "next")
        assert not paging.request(None).query
        page = paging.advance(None, answer(b'{"next": 7}'), [1])
        assert (page.cursor, page.more) == (7, True)
        assert paging.request(7).query == {"after": "7"}
        page = paging.advance(7, answer(b'{"next": 7}'), [])
        assert (page.cursor, page.more) == (7, False)
        page = paging.advance(7, answer(b'{"next": null}'), [1])
        assert (page.cursor, page.more) == (None, False)

    def test_links(self):
        paging = HttpPaging.next_link()
        link = '<http://host/first>; rel="first", </path?page=2>; rel="next"'
        page = paging.advance(None, answer(link=link), [1])
        assert (page.cursor, page.more) == ("http://host:80/path?page=2", True)
        assert paging.request(page.cursor).url == page.cursor
        page = HttpPaging.next_link("next").advance(None, answer(b'{"next": "other?page=2"}'), [])
        assert page.cursor == "http://host:80/other?page=2"
        assert not paging.advance(None, answer(), [1]).more

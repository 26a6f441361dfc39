"""The source that polls a server.

What it asks next is a position: the cursor of its paging, and what the server gave to ask whether a page has changed
(ETag, Last-Modified). It is part of checkpoints, so after a failure the same requests are made again::

    driver   plan: from position p, when the interval is over ──► slot: GET, GET … ──► records, position q
             checkpoint: q
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from millstream.base.errors import ConfigurationError, SourceError
from millstream.base.time import Duration, Time, to_milliseconds
from millstream.connectors.http.client import HttpClient
from millstream.connectors.http.paging import HttpPaging
from millstream.connectors.http.responses import HttpResponse
from millstream.connectors.http.selection import Selection, check_path, records_of
from millstream.connectors.http.target import HttpTarget
from millstream.connectors.patience import Patience
from millstream.spi.batch import Rows
from millstream.spi.source import (
    Boundedness,
    EmitBatch,
    PlanRequest,
    RangeEnd,
    Source,
    SourcePlan,
    SourceReader,
    SplitEnumerator,
    SplitRange,
)

__all__ = ["HttpSource", "HttpSourceBuilder"]

_NOT_MODIFIED = 304
_SPLIT = "poll"


@dataclass(frozen=True, slots=True)
class _Position:
    """Where reading goes on.

    Attributes:
        cursor: Of the paging.
        etag: Of the last answer, if the same request comes next.
        modified: The same of its Last-Modified.
        more: Whether it is worth asking at once.
    """

    cursor: Any = None
    etag: str | None = None
    modified: str | None = None
    more: bool = True

    def conditions(self) -> dict[str, str]:
        """Return the headers that ask whether the page has changed."""
        found = {"If-None-Match": self.etag, "If-Modified-Since": self.modified}
        return {name: value for name, value in found.items() if value is not None}

    def as_tuple(self) -> tuple[Any, str | None, str | None, bool]:
        return self.cursor, self.etag, self.modified, self.more


@dataclass(frozen=True, slots=True)
class HttpSource(Source):
    """Polls a server by GET, in one subtask; made by `HttpSource.builder()`.

    Example:
        >>> from millstream.datastream.connectors.http import HttpSource
        >>> source = HttpSource.builder().set_url("http://localhost:8080/feed").set_records("data.items").build()
    """

    _target: HttpTarget
    _records: Selection = field(repr=False)
    _paging: HttpPaging
    _interval_ms: int
    _boundedness: Boundedness
    _time: Callable[[Any], int] | None = field(repr=False)

    @staticmethod
    def builder() -> HttpSourceBuilder:
        """Return a builder."""
        return HttpSourceBuilder()

    def get_boundedness(self) -> Boundedness:
        """Return whether it ends when there are no more pages."""
        return self._boundedness

    def max_parallelism(self) -> int | None:
        """Return 1: one request follows from the other."""
        return 1

    def build_enumerator(self, parallelism: int, restored: Any | None) -> SplitEnumerator:
        """Make the enumerator; it asks the server nothing."""
        position = _Position() if restored is None else _Position(*restored)
        return _PollEnumerator(self._boundedness, self._interval_ms, position)

    def build_reader(self, subtask_index: int, parallelism: int) -> SourceReader:
        """Make the reader."""
        return _PollReader(self._target, self._records, self._paging, self._time)


class HttpSourceBuilder:
    """Builds an `HttpSource`; each method returns the builder.

    Example:
        >>> from millstream.common.time import Time
        >>> from millstream.datastream.connectors.http import HttpPaging, HttpSource
        >>> builder = HttpSource.builder().set_url("http://localhost:8080/feed").set_records("items")
        >>> source = builder.set_paging(HttpPaging.page("page")).set_interval(Time.seconds(10)).build()
    """

    def __init__(self) -> None:
        self._target: HttpTarget | None = None
        self._changes: dict[str, Any] = {}
        self._records: Selection = "$"
        self._paging = HttpPaging.none()
        self._interval_ms = 60_000
        self._boundedness = Boundedness.CONTINUOUS_UNBOUNDED
        self._time: Callable[[Any], int] | None = None

    def set_url(self, url: str) -> HttpSourceBuilder:
        """Name what is asked for: `https://user:password@host/path?name=value`.

        Raises:
            ConfigurationError: If it is no such URL.
        """
        self._target = HttpTarget(url)
        return self

    def set_headers(self, headers: Mapping[str, str]) -> HttpSourceBuilder:
        """Choose headers that are sent with each request, such as `Authorization`; they are shown nowhere."""
        self._changes["headers"] = dict(headers)
        return self

    def set_certificate_authority(self, path: str) -> HttpSourceBuilder:
        """Choose the file with the certificates of who signed the server's; by default those of the system."""
        self._changes["authority"] = path
        return self

    def set_timeout(self, duration: Time | Duration) -> HttpSourceBuilder:
        """Choose how long connecting, and each wait for data, may take; 30 s by default."""
        self._changes["timeout_s"] = to_milliseconds(duration) / 1_000
        return self

    def set_patience(self, patience: Patience) -> HttpSourceBuilder:
        """Choose how long a server that is away, or has too much to do, is waited for."""
        self._changes["patience"] = patience
        return self

    def set_records(self, records: Selection) -> HttpSourceBuilder:
        """Choose where records are in an answer: a path to a list (`$` by default), or a function of `HttpResponse`.

        Raises:
            ConfigurationError: If it is neither.
        """
        if not callable(records):
            check_path(records)
        self._records = records
        return self

    def set_paging(self, paging: HttpPaging) -> HttpSourceBuilder:
        """Choose how it gets on from one answer to the next request; by default there is one page.

        Raises:
            ConfigurationError: If it is something else.
        """
        if not isinstance(paging, HttpPaging):
            raise ConfigurationError(f"{type(paging).__name__} is no HttpPaging")
        self._paging = paging
        return self

    def set_timestamps(self, function: Callable[[Any], int]) -> HttpSourceBuilder:
        """Choose a function that returns a record's event time in epoch milliseconds."""
        self._time = function
        return self

    def set_interval(self, interval: Time | Duration) -> HttpSourceBuilder:
        """Choose how long it waits when there was nothing more; a minute by default.

        Raises:
            ConfigurationError: If it is not positive.
        """
        self._interval_ms = to_milliseconds(interval)
        if self._interval_ms <= 0:
            raise ConfigurationError(f"the interval is {self._interval_ms} ms, must be positive")
        return self

    def set_bounded(self) -> HttpSourceBuilder:
        """End when there are no more pages."""
        self._boundedness = Boundedness.BOUNDED
        return self

    def build(self) -> HttpSource:
        """Return the source.

        Raises:
            ConfigurationError: If there is no URL, or something does not fit.
        """
        if self._target is None:
            raise ConfigurationError("the HTTP source has no URL", hint="set_url('https://host/path').")
        target = replace(self._target, **self._changes)
        return HttpSource(
            target, self._records, self._paging, self._interval_ms, self._boundedness, self._time
        )


class _PollEnumerator(SplitEnumerator):
    """Plans requests: at once while there is more, else when the interval is over."""

    def __init__(self, boundedness: Boundedness, interval_ms: int, position: _Position) -> None:
        self._is_bounded = boundedness is Boundedness.BOUNDED
        self._interval_ms = interval_ms
        self._position = position
        self._now_ms = 0
        self._next_ms: int | None = None

    def plan(self, request: PlanRequest) -> SourcePlan:
        self._now_ms = request.now_ms
        idle = frozenset(range(1, request.parallelism))
        if self._is_bounded and not self._position.more:
            return SourcePlan(finished=frozenset(range(request.parallelism)))
        if self._next_ms is not None and request.now_ms < self._next_ms:
            return SourcePlan(finished=idle, next_ms=self._next_ms)
        if _SPLIT in request.paused:
            return SourcePlan(finished=idle)
        planned = SplitRange(_SPLIT, None, self._position.as_tuple(), max_records=request.max_records)
        return SourcePlan({0: [planned]}, idle, backlog=self._position.more)

    def advance(self, ends: Sequence[RangeEnd]) -> None:
        for end in ends:
            self._position = _Position(*end.position)
            self._next_ms = None if self._position.more else self._now_ms + self._interval_ms

    def snapshot(self) -> Any:
        return self._position.as_tuple()


class _PollReader(SourceReader):
    """Asks, page by page."""

    gives_away = True

    def __init__(
        self,
        target: HttpTarget,
        records: Selection,
        paging: HttpPaging,
        time: Callable[[Any], int] | None,
    ) -> None:
        self._target = target
        self._records = records
        self._paging = paging
        self._time = time
        self._client: HttpClient | None = None

    def open(self) -> None:
        self._client = HttpClient(self._target, SourceError)

    def read(self, split_range: SplitRange, emit: EmitBatch) -> RangeEnd:
        """Read pages until there are no more, or enough records.

        A page is emitted whole, so a range may have more records than were asked for.
        """
        position, count = _Position(*split_range.start), 0
        while True:
            records, position = self._read_page(position)
            count += len(records)
            goes_on = emit(self._rows(records)) if records else True
            if not position.more or not goes_on or count >= split_range.max_records:
                return RangeEnd(_SPLIT, position.as_tuple(), False, count)

    def close(self) -> None:
        if self._client is not None:
            self._client.close()
            self._client = None

    def _read_page(self, position: _Position) -> tuple[list[Any], _Position]:
        response = self._ask(position)
        if response.status == _NOT_MODIFIED:
            return [], replace(position, more=False)
        records = records_of(response, self._records)
        page = self._paging.advance(position.cursor, response, records)
        if page.cursor != position.cursor:
            return records, _Position(page.cursor, more=page.more)
        headers = response.headers
        return records, _Position(page.cursor, headers.get("etag"), headers.get("last-modified"), page.more)

    def _ask(self, position: _Position) -> HttpResponse:
        assert self._client is not None
        target, request = self._target, self._paging.request(position.cursor)
        if request.url is not None and not target.is_own(request.url):
            raise SourceError(
                f"{target.address} names a next page at another server",
                detail="The source's headers may hold secrets, which are not for that server.",
                hint="Read it with a source of its own, or a paging that makes URLs of this server.",
            )
        return self._client.send(
            "polling",
            "GET",
            request.url or target.bare_url,
            query=request.query,
            headers={**position.conditions(), **request.headers},
        )

    def _rows(self, records: list[Any]) -> Rows:
        return Rows(records, None if self._time is None else [self._time(record) for record in records])

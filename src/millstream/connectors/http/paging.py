"""How a source gets on from one answer to the next request.

A cursor tells where reading goes on; it is part of checkpoints. None is the beginning::

    cursor  None ──► GET /orders            ──► records, next: "b"     more: ask at once
            "b"  ──► GET /orders?after=b    ──► records, next: "c"
            "c"  ──► GET /orders?after=c    ──► nothing new            wait, or the end
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urljoin

from millstream.connectors.http.responses import HttpResponse
from millstream.connectors.http.selection import at_path, check_path

__all__ = ["HttpPaging", "HttpRequest", "NextPage"]

_NEXT = re.compile(r'<([^>]*)>[^,<]*\brel="?next\b', re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class HttpRequest:
    """What is asked for.

    Attributes:
        url: Another URL of the same server; None for the source's own.
        query: Put to the URL's query.
        headers: Beside those of the source.

    Example:
        >>> from millstream.datastream.connectors.http import HttpRequest
        >>> HttpRequest(query={"page": "2"}).query
        {'page': '2'}
    """

    url: str | None = None
    query: Mapping[str, str] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class NextPage:
    """How it goes on.

    Attributes:
        cursor: Where the next request begins; picklable, None for the beginning.
        more: Whether it is worth asking at once; if not, a bounded source ends, others wait for their interval.

    Example:
        >>> from millstream.datastream.connectors.http import HttpPaging, HttpRequest, NextPage
        >>> class ById(HttpPaging):
        ...     def request(self, cursor):
        ...         return HttpRequest(query={} if cursor is None else {"behind": str(cursor)})
        ...     def advance(self, cursor, response, records):
        ...         last = records[-1]["id"] if records else cursor
        ...         return NextPage(last, more=bool(records))
    """

    cursor: Any
    more: bool


class HttpPaging(ABC):
    """Turns cursors into requests, and answers into cursors; one of the methods below makes it, or derive from it.

    If the same cursor gives the same records again, plus perhaps later ones that were not read, the source is exactly
    once.

    Example:
        >>> from millstream.datastream.connectors.http import HttpPaging
        >>> # ?after=..., and data.next of an answer is the next cursor
        >>> by_cursor = HttpPaging.cursor("after", "data.next")
        >>> by_cursor.request("x17").query
        {'after': 'x17'}
    """

    @abstractmethod
    def request(self, cursor: Any) -> HttpRequest:
        """Return what is asked for at a cursor."""

    @abstractmethod
    def advance(self, cursor: Any, response: HttpResponse, records: Sequence[Any]) -> NextPage:
        """Return how it goes on behind an answer.

        Args:
            cursor: That of the request.
            response: The answer.
            records: What was made of it.
        """

    @staticmethod
    def none() -> HttpPaging:
        """One request has all; each poll gives all of it again, unless the server says that it has not changed."""
        return _NoPaging()

    @staticmethod
    def cursor(parameter: str, path: str) -> HttpPaging:
        """Put what an answer has at a path into a parameter of the next request.

        At the end a server gives the same cursor again, and reading goes on there with the next poll; or none, and the
        next poll begins anew.

        Raises:
            ConfigurationError: If it is no path.
        """
        check_path(path)
        return _CursorPaging(parameter, path)

    @staticmethod
    def offset(parameter: str, first: int = 0) -> HttpPaging:
        """Put the number of records that came until now into a parameter: for lists that only grow at their end."""
        return _OffsetPaging(parameter, first)

    @staticmethod
    def next_link(path: str | None = None) -> HttpPaging:
        """Follow the URL at a path of the answer, or in its header `Link` (`rel="next"`); then begin anew.

        Raises:
            ConfigurationError: If it is no path.
        """
        if path is not None:
            check_path(path)
        return _LinkPaging(path)

    @staticmethod
    def page(parameter: str, first: int = 1) -> HttpPaging:
        """Count pages in a parameter until one is empty; then begin anew."""
        return _NumberPaging(parameter, first)


@dataclass(frozen=True, slots=True)
class _NoPaging(HttpPaging):
    def request(self, cursor: Any) -> HttpRequest:
        return HttpRequest()

    def advance(self, cursor: Any, response: HttpResponse, records: Sequence[Any]) -> NextPage:
        return NextPage(None, more=False)


@dataclass(frozen=True, slots=True)
class _CursorPaging(HttpPaging):
    parameter: str
    path: str

    def request(self, cursor: Any) -> HttpRequest:
        return HttpRequest() if cursor is None else HttpRequest(query={self.parameter: str(cursor)})

    def advance(self, cursor: Any, response: HttpResponse, records: Sequence[Any]) -> NextPage:
        found = at_path(response.json(), self.path)
        if found is None or found == "":
            return NextPage(None, more=False)
        return NextPage(found, more=found != cursor)


@dataclass(frozen=True, slots=True)
class _OffsetPaging(HttpPaging):
    parameter: str
    first: int

    def request(self, cursor: Any) -> HttpRequest:
        return HttpRequest(query={self.parameter: str(self.first if cursor is None else cursor)})

    def advance(self, cursor: Any, response: HttpResponse, records: Sequence[Any]) -> NextPage:
        position = self.first if cursor is None else cursor
        return NextPage(position + len(records), more=bool(records))


@dataclass(frozen=True, slots=True)
class _LinkPaging(HttpPaging):
    path: str | None

    def request(self, cursor: Any) -> HttpRequest:
        return HttpRequest(cursor)

    def advance(self, cursor: Any, response: HttpResponse, records: Sequence[Any]) -> NextPage:
        if self.path is not None:
            link = at_path(response.json(), self.path)
        else:
            match = _NEXT.search(response.headers.get("link", ""))
            link = match[1] if match else None
        if not link:
            return NextPage(None, more=False)
        return NextPage(urljoin(cursor or response.address, str(link)), more=True)


@dataclass(frozen=True, slots=True)
class _NumberPaging(HttpPaging):
    parameter: str
    first: int

    def request(self, cursor: Any) -> HttpRequest:
        return HttpRequest(query={self.parameter: str(self.first if cursor is None else cursor)})

    def advance(self, cursor: Any, response: HttpResponse, records: Sequence[Any]) -> NextPage:
        if not records:
            return NextPage(None, more=False)
        return NextPage((self.first if cursor is None else cursor) + 1, more=True)

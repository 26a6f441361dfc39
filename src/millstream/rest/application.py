"""The ASGI application: reads a request, finds its route, has it answered on a thread, writes JSON.

The event loop never waits for a job: handlers run on a few threads of the server's own. What a handler takes longer
than ten seconds for is answered with 503. What was made of views is given again while they hold (`answers.py`); who
asks for what is being made waits for that.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping, MutableMapping
from concurrent.futures import ThreadPoolExecutor
from email.utils import formatdate
from typing import Any

import msgspec

from millstream.base.errors import MillstreamError
from millstream.rest.answers import RAW_REQUEST, AnswerCache
from millstream.rest.context import RestContext
from millstream.rest.errors import Errors, RestError, describe_error
from millstream.rest.pages import Page
from millstream.rest.routes import Call, PlainText, Route, Router
from millstream.rest.security import Guard

__all__ = ["RestApplication"]

log = logging.getLogger(__name__)

_LONGEST_BODY = 1_000_000
_FORM_BYTES = 10_000
"""Of an upload, around the file."""
_LONGEST_PATH = 8_000
_PATIENCE_S = 10.0
_THREADS = 8
_JSON = ("content-type", "application/json; charset=UTF-8")
_TEXT = ("content-type", "text/plain; charset=UTF-8")
_HEADERS = (
    (b"cache-control", b"no-store"),
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"content-security-policy", b"default-src 'none'; frame-ancestors 'none'"),
    (b"referrer-policy", b"no-referrer"),
)

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]


class RestApplication:
    """Answers requests; called on the server's event loop.

    Args:
        router: What there is.
        guard: Who may ask.
        context: What handlers ask.
        pages: Files of the dashboard by path; answered without a token.

    Attributes:
        quick: Whole answers, by the bytes of their requests.
    """

    def __init__(
        self, router: Router, guard: Guard, context: RestContext, pages: Mapping[bytes, Page] | None = None
    ) -> None:
        self._pages = pages or {}
        self._router = router
        self._guard = guard
        self._context = context
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="rest")
        self._encoder = msgspec.json.Encoder()
        self.quick: AnswerCache[bytes] = AnswerCache(context.jobs.version)
        self._made: AnswerCache[tuple[bytes, bytes]] = AnswerCache(context.jobs.version)
        self._making: dict[Any, asyncio.Task[bytes]] = {}

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            return
        headers: tuple[tuple[str, str], ...] = ()
        page = self._pages.get(scope["raw_path"].partition(b"?")[0])
        try:
            if page is not None and scope["method"] in ("GET", "HEAD"):
                self._guard.check("GET", _read_headers(scope["headers"]), has_body=False, is_open=True)
                await _send_page(send, page, head=scope["method"] == "HEAD")
                return
            status, document = await self._answer(scope, receive)
            if isinstance(document, bytes):
                body = document
            elif isinstance(document, PlainText):
                headers, body = (_TEXT,), document.text.encode(errors="replace")
            else:
                body = self._encode(document)
        except RestError as error:
            status, headers, body = (
                error.status,
                error.headers,
                self._encode(Errors(errors=[error.message])),
            )
        except ClientGone:
            return
        except Exception:
            log.exception("request failed: %s %s", scope["method"], scope["path"])
            status = 500
            body = self._encoder.encode(
                Errors(errors=["the server failed to answer; its log has the reason (millstream.rest)"])
            )
        await _send(send, status, headers, body, head=scope["method"] == "HEAD")

    def _encode(self, document: Any) -> bytes:
        try:
            return self._encoder.encode(document)
        except UnicodeEncodeError:  # half of a surrogate pair in a user's text: there is no UTF-8 for it
            return json.dumps(msgspec.to_builtins(document), ensure_ascii=False).encode(errors="replace")

    def close(self) -> None:
        """Let go of the threads; called once, when the server has ended."""
        self._threads.shutdown(wait=False, cancel_futures=True)

    async def _answer(self, scope: Message, receive: Receive) -> tuple[int, Any]:
        raw_path = scope["raw_path"].partition(b"?")[0]
        if len(raw_path) + len(scope["query_string"]) > _LONGEST_PATH:
            raise RestError(414, f"the path is longer than {_LONGEST_PATH} bytes")
        headers = _read_headers(scope["headers"])
        route, values, refused = self._find(scope["method"], raw_path)
        programs = self._context.programs
        most = _LONGEST_BODY
        if route is not None and route.upload:  # nothing large is read of whoever may not send it
            self._guard.check(scope["method"], headers, has_body=True, takes_files=True)
            most = _LONGEST_BODY if programs is None else programs.most_bytes + _FORM_BYTES
        body = await _read_body(receive, headers, most)
        # Whoever is not let in learns nothing: not even which paths there are.
        self._guard.check(
            scope["method"],
            headers,
            has_body=bool(body),
            is_open=route is not None and route.open,
            takes_files=route is not None and route.upload,
        )
        if refused is not None or route is None:
            raise refused or RestError(404, "not found")
        call = Call(
            route.read_path(values),
            route.read_query(scope["query_string"]),
            (body, headers.get("content-type", "")) if route.upload else route.read_body(body),
            self._context,
        )
        if route.of_views:
            return route.status, await self._view_answer(route, call, scope)
        return route.status, await self._run(route, call)

    async def _view_answer(self, route: Route, call: Call, scope: Message) -> bytes:
        """Return the JSON of an answer that is made of views, as it was made or is being made for the same path."""
        key = (scope["raw_path"], scope["query_string"])
        version = self._context.jobs.version()
        body = self._made.find(key)
        if body is None:
            making = self._making.get((version, key))
            if making is None:
                making = asyncio.get_running_loop().create_task(self._make(route, call, version, key))
                self._making[version, key] = making
                making.add_done_callback(lambda _: self._making.pop((version, key), None))
            body = await asyncio.shield(making)
        if RAW_REQUEST in scope and scope["method"] == "GET":
            self.quick.keep(version, scope[RAW_REQUEST], _write_out(body))
        return body

    async def _make(self, route: Route, call: Call, version: Any, key: tuple[bytes, bytes]) -> bytes:
        body = self._encode(await self._run(route, call))
        self._made.keep(version, key, body)
        return body

    async def _run(self, route: Route, call: Call) -> Any:
        running = asyncio.get_running_loop().run_in_executor(self._threads, route.handler, call)
        try:
            return await asyncio.wait_for(running, _PATIENCE_S)
        except TimeoutError:
            raise RestError(
                503,
                f"no answer within {_PATIENCE_S:.0f} s; the job may be stuck",
                headers=[("retry-after", "5")],
            ) from None
        except MillstreamError as error:
            raise describe_error(error) from error

    def _find(self, method: str, raw_path: bytes) -> tuple[Route | None, dict[str, str], RestError | None]:
        try:
            return *self._router.find(method, raw_path), None
        except RestError as error:
            return None, {}, error


class ClientGone(Exception):
    """The client has gone before its request was whole."""


def _read_headers(raw: Iterable[tuple[bytes, bytes]]) -> dict[str, str]:
    headers: dict[str, str] = {}
    for name, value in raw:
        key = name.decode("latin-1").lower()
        if key in ("host", "authorization", "origin") and key in headers:
            raise RestError(400, f"header {key} stands twice")
        headers[key] = value.decode("latin-1")
    return headers


async def _read_body(receive: Receive, headers: dict[str, str], most: int = _LONGEST_BODY) -> bytes:
    length = headers.get("content-length", "0")
    if length.isascii() and length.isdigit() and int(length) > most:
        raise _too_long(most)
    parts = []
    size = 0
    while True:
        message = await receive()
        if message["type"] != "http.request":
            raise ClientGone
        parts.append(message.get("body", b""))
        size += len(parts[-1])
        if size > most:
            raise _too_long(most)
        if not message.get("more_body", False):
            return b"".join(parts)


def _too_long(most: int) -> RestError:
    return RestError(413, f"a body has {most} bytes at most", headers=[("connection", "close")])


async def _send_page(send: Send, page: Page, *, head: bool) -> None:
    length = (b"content-length", str(len(page.content)).encode())
    await send({"type": "http.response.start", "status": 200, "headers": [*page.headers, length]})
    await send({"type": "http.response.body", "body": b"" if head else page.content})


async def _send(
    send: Send, status: int, headers: Iterable[tuple[str, str]], body: bytes, *, head: bool
) -> None:
    given = [*headers]
    if _TEXT not in given:
        given.append(_JSON)
    more = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in given]
    length = (b"content-length", str(len(body)).encode())
    await send({"type": "http.response.start", "status": status, "headers": [*_HEADERS, length, *more]})
    await send({"type": "http.response.body", "body": b"" if head else body})


def _write_out(body: bytes) -> bytes:
    """Return a whole answer as it goes over the wire, for a request that is not a HEAD."""
    lines = [b"HTTP/1.1 200 OK", b"date: " + formatdate(usegmt=True).encode()]
    lines += [name + b": " + value for name, value in _HEADERS]
    lines += [b"content-length: " + str(len(body)).encode(), b"content-type: " + _JSON[1].encode()]
    return b"\r\n".join([*lines, b"", body])

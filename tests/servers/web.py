"""A server that speaks HTTP, in threads of the test: lists in pages, a service that takes records, rows by key."""

from __future__ import annotations

import base64
import json
import threading
import time
from collections import deque
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

from servers.ports import free_port

PAGE = 4


@dataclass
class Planned:
    """An answer in the place of the usual one."""

    status: int
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b""
    after_s: float = 0.0
    is_done: bool = False  # the request has its effect all the same


@dataclass
class Request:
    method: str
    path: str
    headers: dict[str, str]
    body: bytes


class WebServer:
    """Serves, on one port, also after `stop` and `start`.

    `/feed?after=n` and `/offset?from=n`, `/pages?page=n`, `/linked?page=n` have the items; `/state` has all;
    `/take` takes records, those of a key once; `/users/k` has rows; `/secret` wants the user `me` with `secret-word`.
    """

    def __init__(self) -> None:
        self.port = free_port()
        self.items: list[Any] = []
        self.users: dict[str, Any] = {}
        self.planned: deque[Planned] = deque()
        self.requests: list[Request] = []
        self.taken: list[tuple[str, Any]] = []
        self.keys: set[str] = set()
        self.most_at_a_time = self._at_a_time = 0
        self._lock = threading.Lock()
        self._server: ThreadingHTTPServer | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def start(self) -> None:
        server = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                server.handle(self)

            do_POST = do_PUT = do_GET

            def log_message(self, *_: Any) -> None: ...

        ThreadingHTTPServer.allow_reuse_address = True
        self._server = ThreadingHTTPServer(("127.0.0.1", self.port), Handler)
        self._server.daemon_threads = True
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()

    def stop(self) -> None:
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()
            self._server = None

    def texts(self) -> list[Any]:
        """Return the records that were taken."""
        with self._lock:
            return [record for _, record in self.taken]

    def handle(self, handler: Any) -> None:
        length = int(handler.headers.get("content-length", 0))
        body = handler.rfile.read(length)
        headers = {name.lower(): value for name, value in handler.headers.items()}
        request = Request(handler.command, handler.path, headers, body)
        with self._lock:
            self.requests.append(request)
            planned = self.planned.popleft() if self.planned else None
            self._at_a_time += 1
            self.most_at_a_time = max(self.most_at_a_time, self._at_a_time)
        try:
            if planned is not None:
                time.sleep(planned.after_s)
                if planned.is_done:
                    self._answer(request)
                answer = planned.status, planned.headers, planned.body
            else:
                answer = self._answer(request)
        finally:
            with self._lock:
                self._at_a_time -= 1
        status, told, data = answer
        handler.close_connection = self._server is None
        handler.send_response(status)
        for name, value in told.items():
            handler.send_header(name, value)
        handler.send_header("Content-Length", "0" if status == 304 else str(len(data)))
        handler.end_headers()
        if status != 304:
            handler.wfile.write(data)

    def _answer(self, request: Request) -> tuple[int, dict[str, str], bytes]:
        parts = urlsplit(request.path)
        query = {name: values[0] for name, values in parse_qs(parts.query).items()}
        with self._lock:
            if parts.path.startswith("/users/"):
                name = parts.path.removeprefix("/users/")
                return (200, {}, _json(self.users[name])) if name in self.users else (404, {}, b"nobody")
            if parts.path == "/take":
                return self._take(request)
            return getattr(self, f"_get_{parts.path.strip('/')}", self._nowhere)(request, query)

    def _take(self, request: Request) -> tuple[int, dict[str, str], bytes]:
        key = request.headers.get("idempotency-key", "")
        if not key or key not in self.keys:
            self.keys.add(key)
            if "ndjson" in request.headers["content-type"]:
                records = [json.loads(line) for line in request.body.splitlines()]
            else:
                records = json.loads(request.body)
            self.taken += [(key, record) for record in (records if isinstance(records, list) else [records])]
        return 201, {}, b""

    def _get_feed(self, _: Request, query: dict[str, str]) -> tuple[int, dict[str, str], bytes]:
        after = int(query.get("after", 0))
        items = self.items[after : after + PAGE]
        return 200, {}, _json({"data": {"items": items, "next": after + len(items)}})

    def _get_offset(self, _: Request, query: dict[str, str]) -> tuple[int, dict[str, str], bytes]:
        first = int(query["from"])
        return 200, {}, _json(self.items[first : first + PAGE])

    def _get_pages(self, _: Request, query: dict[str, str]) -> tuple[int, dict[str, str], bytes]:
        first = (int(query["page"]) - 1) * PAGE
        return 200, {}, _json(self.items[first : first + PAGE])

    def _get_linked(self, _: Request, query: dict[str, str]) -> tuple[int, dict[str, str], bytes]:
        number = int(query.get("page", 0))
        items = self.items[number * PAGE : (number + 1) * PAGE]
        more = (number + 1) * PAGE < len(self.items)
        link = {"Link": f'</linked?page={number + 1}>; rel="next", </>; rel="first"'} if more else {}
        return 200, link, _json(items)

    def _get_state(self, request: Request, _: dict[str, str]) -> tuple[int, dict[str, str], bytes]:
        data = _json(self.items)
        tag = f'"{hash(data)}"'
        if request.headers.get("if-none-match") == tag:
            return 304, {"ETag": tag}, b""
        return 200, {"ETag": tag}, data

    def _get_secret(self, request: Request, _: dict[str, str]) -> tuple[int, dict[str, str], bytes]:
        wanted = "Basic " + base64.b64encode(b"me:secret-word").decode()
        if request.headers.get("authorization") != wanted:
            return 401, {}, b"who are you?"
        return 200, {}, _json(self.items)

    def _nowhere(self, *_: Any) -> tuple[int, dict[str, str], bytes]:
        return 404, {}, b"no such page"


def _json(value: Any) -> bytes:
    return json.dumps(value).encode()

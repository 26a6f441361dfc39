"""Stands before a server of AWS' JSON protocol, and answers some requests itself: throttled, refused, in part."""

from __future__ import annotations

import http.client
import json
import threading
from collections import Counter, deque
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Answer = tuple[int, dict[str, Any]]
Reaction = Callable[[dict[str, Any], Callable[[dict[str, Any]], Answer]], Answer]
"""Takes a request's body, and what asks the server; returns status and body of the answer."""


class AwsFront:
    """A server before a server; use it with `with`.

    Attributes:
        asked: How often each operation was asked for.
    """

    def __init__(self, port: int) -> None:
        self._port = port
        self._reactions: dict[str, deque[Reaction]] = {}
        self.asked: Counter[str] = Counter()
        front = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                operation = self.headers["X-Amz-Target"].rpartition(".")[2]
                front.asked[operation] += 1
                reactions = front._reactions.get(operation)
                headers = {name: value for name, value in self.headers.items() if name != "Content-Length"}

                def forward(request: bytes) -> tuple[int, bytes]:
                    connection = http.client.HTTPConnection("127.0.0.1", front._port, timeout=30)
                    connection.request("POST", "/", request, headers)
                    answer = connection.getresponse()
                    return answer.status, answer.read()

                if reactions:

                    def ask(request: dict[str, Any]) -> Answer:
                        status, answer = forward(json.dumps(request).encode())
                        return status, json.loads(answer)

                    status, told = reactions.popleft()(json.loads(body), ask)
                    data = json.dumps(told).encode()
                else:
                    status, data = forward(body)
                self.send_response(status)
                self.send_header("Content-Type", "application/x-amz-json-1.1")
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, *_: Any) -> None: ...

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def react(self, operation: str, *reactions: Reaction) -> None:
        """Have the next requests for an operation answered so, one by one."""
        self._reactions.setdefault(operation, deque()).extend(reactions)

    def __enter__(self) -> AwsFront:
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()


def refuse(code: str, message: str = "not now", status: int = 400) -> Reaction:
    """Refuse a request."""
    return lambda request, ask: (status, {"__type": code, "message": message})

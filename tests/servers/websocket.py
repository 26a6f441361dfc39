"""A server that speaks WebSocket, in threads of the test."""

from __future__ import annotations

import base64
import threading
from collections import deque
from typing import Any

from websockets.exceptions import ConnectionClosed
from websockets.sync.server import Server, ServerConnection, serve

from servers.ports import free_port


class WebSocketServer:
    """Serves, on one port, also after `stop` and `start`.

    Connections to `/feed` are sent the items, each once; `/take` takes messages. `/secret` is a feed for the user `me`
    with `secret-word`. Connections can be closed at once with a code.
    """

    def __init__(self) -> None:
        self.port = free_port()
        self.items: deque[str | bytes] = deque()
        self.taken: list[str | bytes] = []
        self.first_messages: list[str | bytes] = []
        self.wants_first_message = False
        self.close_codes: deque[int] = deque()
        self.connections: list[ServerConnection] = []
        self._server: Server | None = None
        self._stopped = False

    @property
    def url(self) -> str:
        return f"ws://127.0.0.1:{self.port}"

    def start(self) -> None:
        self._stopped = False
        self._server = serve(
            self._handle, "127.0.0.1", self.port, process_request=self._answer, max_size=None
        )
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def stop(self) -> None:
        """End without saying so: connections are cut."""
        self._stopped = True
        if self._server is not None:
            self._server.shutdown()
            self._server = None
        for connection in self.connections:
            connection.close_socket()
        self.connections = []

    def _answer(self, connection: ServerConnection, request: Any) -> Any:
        wanted = "Basic " + base64.b64encode(b"me:secret-word").decode()
        if request.path.startswith("/secret") and request.headers.get("authorization") != wanted:
            return connection.respond(401, "who are you?")
        return None

    def _handle(self, connection: ServerConnection) -> None:
        self.connections.append(connection)
        try:
            if self.close_codes:
                connection.close(self.close_codes.popleft(), "not now")
                return
            if self.wants_first_message:
                self.first_messages.append(connection.recv())
            if connection.request is not None and connection.request.path.startswith("/take"):
                for message in connection:
                    self.taken.append(message)
                return
            while not self._stopped:
                while self.items:
                    connection.send(self.items[0])
                    self.items.popleft()
                try:
                    connection.recv(timeout=0.02)
                except TimeoutError:
                    continue
        except ConnectionClosed:
            return

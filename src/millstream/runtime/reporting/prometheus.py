"""An HTTP endpoint that Prometheus scrapes; metrics are put together when it asks."""

from __future__ import annotations

import logging
import socket
import threading
from collections.abc import Mapping
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from millstream.base.errors import ConfigurationError
from millstream.runtime.reporting.exposition import CONTENT_TYPE, render
from millstream.spi.reporter import AskMetrics, MetricReporter

__all__ = ["PrometheusReporter", "parse_ports"]

_LOG = logging.getLogger("millstream")
_DEFAULT_PORT = "9249"
_MOST_PORT = 65_535
_PATHS = ("/", "/metrics")
_REQUEST_S = 10


def parse_ports(text: str) -> list[int]:
    """Return the ports of a range, in the order in which they are tried; 0 is any free one.

    >>> parse_ports("9249"), parse_ports("9250-9252, 9300")
    ([9249], [9250, 9251, 9252, 9300])

    Raises:
        ConfigurationError: If it is no range of ports.
    """
    ports: list[int] = []
    try:
        for part in text.split(","):
            first, dash, last = part.strip().partition("-")
            ports += range(int(first), int(last if dash else first) + 1)
    except ValueError:
        ports = []
    if not ports or not all(0 <= port <= _MOST_PORT for port in ports):
        raise ConfigurationError(
            f'"{text}" is no port or range of ports',
            hint='Write "9249", "9250-9260" or "0" for any free one.',
        )
    return ports


class PrometheusReporter(MetricReporter):
    """Serves the metrics of all jobs of this process at `/metrics`.

    Settings: `port`, one or a range of which the first free one is taken (9249); `host`, the address to listen on
    (127.0.0.1: nobody from elsewhere can ask).

    Attributes:
        address: Host and port where it listens; None before `open`.
    """

    def __init__(self) -> None:
        self.address: tuple[str, int] | None = None
        self._jobs: dict[str, AskMetrics] = {}
        self._changing = threading.Lock()
        self._server: ThreadingHTTPServer | None = None

    def open(self, settings: Mapping[str, str]) -> None:
        """Listen.

        Raises:
            ConfigurationError: If `port` is no range of ports.
            OSError: If no port of it is free.
        """
        host = settings.get("host", "127.0.0.1")
        ports = parse_ports(settings.get("port", _DEFAULT_PORT))
        self._server = server = _listen(host, ports, self.render)
        self.address = (host, server.server_address[1])
        threading.Thread(target=server.serve_forever, name="prometheus", daemon=True).start()
        _LOG.info("metrics are served at http://%s:%d/metrics", *self.address)

    def add(self, job_id: str, ask: AskMetrics) -> None:
        """Serve a job's metrics too."""
        with self._changing:
            self._jobs[job_id] = ask

    def remove(self, job_id: str) -> None:
        """Serve a job's metrics no more."""
        with self._changing:
            self._jobs.pop(job_id, None)

    def render(self) -> str:
        """Return all metrics as Prometheus reads them; any thread may call it."""
        with self._changing:
            asked = list(self._jobs.values())
        return render([ask() for ask in asked], socket.gethostname())

    def close(self) -> None:
        """Listen no more."""
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()


def _listen(host: str, ports: list[int], render: Any) -> ThreadingHTTPServer:
    class Handler(_Handler):
        render_metrics = staticmethod(render)

    refused: OSError | None = None
    for port in ports:
        try:
            return _Server((host, port), Handler)
        except OSError as error:
            refused = error
    raise OSError(f"no port of {ports[0]} to {ports[-1]} on {host} is free") from refused


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    allow_reuse_address = True
    request_queue_size = 16


class _Handler(BaseHTTPRequestHandler):
    timeout = _REQUEST_S
    server_version = "millstream"
    sys_version = ""
    render_metrics: Any = None

    def do_GET(self) -> None:
        """Answer with all metrics."""
        if self.path.partition("?")[0] not in _PATHS:
            self.send_error(HTTPStatus.NOT_FOUND)
            return
        try:
            body = self.render_metrics().encode()
        except Exception:  # noqa: BLE001 - a gauge may raise anything
            _LOG.exception("metrics could not be put together")
            self.send_error(HTTPStatus.INTERNAL_SERVER_ERROR)
            return
        self.send_response(HTTPStatus.OK)
        self.send_header("Content-Type", CONTENT_TYPE)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """Write nothing: scrapes come every few seconds."""

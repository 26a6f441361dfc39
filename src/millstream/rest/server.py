"""The HTTP server: uvicorn on a thread of its own, on a socket that is bound before anything is announced."""

from __future__ import annotations

import logging
import socket
import ssl
import threading
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

import uvicorn

from millstream.base.clock import Clock
from millstream.base.errors import ConfigurationError
from millstream.rest.answers import protocol_with
from millstream.rest.application import RestApplication
from millstream.rest.context import RestContext, no_logs_of
from millstream.rest.directory import JobDirectory
from millstream.rest.openapi import build_openapi
from millstream.rest.operations import Operations
from millstream.rest.pages import read_pages
from millstream.rest.programs import Programs
from millstream.rest.routes import Router
from millstream.rest.security import Guard
from millstream.rest.settings import RestSettings
from millstream.rest.table import ROUTES

__all__ = ["RestServer"]

log = logging.getLogger(__name__)

_START_S = 10.0
_LOOK_S = 0.01
_BACKLOG = 256
_KEEP_ALIVE_S = 30


class RestServer:
    """Serves the jobs of a directory; `start` and `close` are called once, on any thread.

    The server's thread is a daemon: it keeps no process alive.

    Args:
        settings: Where it listens, and who may ask.
        jobs: What it shows.
        clock: Time.
        options: Options of this process by key, without secrets.
        logs: Gives the log files that are shown, by name.
        logs_of: Gives those of the program that runs as a process, by name.
        main_log: Which of them is this process' own.
        programs: Who keeps and runs programs; None if nobody does.

    Attributes:
        address: `http://host:port`, once it is started.
    """

    def __init__(
        self,
        settings: RestSettings,
        jobs: JobDirectory,
        clock: Clock,
        options: Mapping[str, str],
        *,
        logs: Callable[[], Mapping[str, Path]] = dict,
        logs_of: Callable[[int], Mapping[str, Path]] = no_logs_of,
        main_log: str = "",
        programs: Programs | None = None,
    ) -> None:
        self.address = ""
        self._settings = settings
        self._clock = clock
        self._context = RestContext(
            jobs=jobs,
            operations=Operations(clock),
            clock=clock,
            started_ms=0,
            address="",
            options=options,
            logs=logs,
            logs_of=logs_of,
            main_log=main_log,
            programs=programs,
        )
        self._server: uvicorn.Server | None = None
        self._application: RestApplication | None = None
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Listen and answer.

        Raises:
            ConfigurationError: If no port is free, or the certificate cannot be used.
        """
        settings = self._settings
        stream = _bind(settings)
        try:
            scheme = "http" if settings.certificate is None else "https"
            name = settings.address or settings.bind_address
            shown = f"[{name}]" if ":" in name else name
            self.address = f"{scheme}://{shown}:{stream.getsockname()[1]}"
            context = replace(
                self._context,
                started_ms=self._clock.now_ms(),
                address=self.address,
                openapi=build_openapi(ROUTES),
            )
            application = RestApplication(
                Router(ROUTES),
                Guard(settings.token, settings.hosts | {settings.bind_address.lower()}),
                context,
                read_pages(),
            )
            server = uvicorn.Server(_uvicorn_config(application, settings))
        except BaseException:
            stream.close()
            raise
        self._application, self._server = application, server
        self._thread = threading.Thread(
            target=server.run, kwargs={"sockets": [stream]}, name="rest-server", daemon=True
        )
        self._thread.start()
        deadline_s = self._clock.monotonic() + _START_S
        while not server.started and self._thread.is_alive() and self._clock.monotonic() < deadline_s:
            self._clock.wait(_LOOK_S)
        if settings.token is None and not _is_loopback(stream):
            log.warning(
                "REST API at %s can be used by everybody who can connect: set millstream.rest.token",
                self.address,
            )

    def close(self) -> None:
        """Answer no more; waits for requests that run."""
        if self._server is None or self._thread is None or self._application is None:
            return
        self._server.should_exit = True
        self._thread.join(_START_S)
        self._application.close()


def _uvicorn_config(application: RestApplication, settings: RestSettings) -> uvicorn.Config:
    config = uvicorn.Config(
        application,
        loop="asyncio",
        http=protocol_with(application.quick),
        lifespan="off",
        ws="none",
        interface="asgi3",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        backlog=_BACKLOG,
        timeout_keep_alive=_KEEP_ALIVE_S,
        timeout_graceful_shutdown=2,
        ssl_certfile=settings.certificate,
        ssl_keyfile=settings.private_key,
        ssl_keyfile_password=settings.private_key_password,
    )
    try:
        config.load()
    except (OSError, ssl.SSLError) as error:
        raise ConfigurationError(
            f'certificate "{settings.certificate}" of the REST API cannot be used: {error}',
            hint="millstream.rest.ssl.certificate and millstream.rest.ssl.key name PEM files that fit each other.",
        ) from error
    return config


def _bind(settings: RestSettings) -> socket.socket:
    """Return a socket on the first port that is free."""
    refused: OSError | None = None
    for port in settings.ports:
        try:
            family, kind, protocol, _, address = min(
                socket.getaddrinfo(
                    settings.bind_address, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
                ),
                key=lambda found: found[0] != socket.AF_INET,
            )
        except OSError as error:
            raise ConfigurationError(
                f'rest.bind-address is "{settings.bind_address}", which is no address of this host: {error}'
            ) from error
        stream = socket.socket(family, kind, protocol)
        stream.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            stream.bind(address)
            stream.listen(_BACKLOG)
        except OSError as error:
            refused = error
            stream.close()
            continue
        return stream
    ports = settings.ports
    shown = str(ports[0]) if len(ports) == 1 else f"{ports[0]} to {ports[-1]}"
    raise ConfigurationError(
        f'the REST API cannot listen on "{settings.bind_address}", port {shown}: {refused}',
        hint="Set rest.port to another port (0 takes any), or rest.bind-port to a range such as 8081-8099.",
    )


def _is_loopback(stream: socket.socket) -> bool:
    host = str(stream.getsockname()[0])
    return host.startswith("127.") or host == "::1"

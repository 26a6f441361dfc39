"""Redis. What it has acknowledged outlives the process: it is written to the file, though not synced at once."""

from __future__ import annotations

import itertools
import shutil
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from servers.packages import install
from servers.ports import free_port
from servers.process import Server, answers


class RedisServer(Server):
    """A Redis server.

    Args:
        directory: Of its data.
        options: Further ones of its configuration, such as `--maxmemory 1mb`.
        persistent: Whether it keeps its data when it is killed.
    """

    def __init__(self, directory: Path, *options: str, persistent: bool = True) -> None:
        super().__init__(directory)
        self._options = options
        self._persistent = persistent
        self.tls_port = free_port()
        self.tls: list[str] = []  # options, if it is to speak TLS as well
        self._databases = itertools.count(1)

    def command(self) -> list[str]:
        if shutil.which("redis-server") is None:
            install("redis-server")
        command = ["redis-server", "--port", str(self.port), "--bind", "127.0.0.1", "--save", ""]
        command += ["--dir", str(self.directory), "--appendonly", "yes" if self._persistent else "no"]
        if self.tls:
            command += ["--tls-port", str(self.tls_port), *self.tls]
        return [*command, "--databases", "1024", *self._options]

    def url(self, database: int = 0) -> str:
        return f"redis://127.0.0.1:{self.port}/{database}"

    def client(self, database: int = 0) -> Any:
        return redis.Redis(port=self.port, db=database, protocol=2, retry=Retry(NoBackoff(), 0))

    def new_database(self) -> RedisDatabase:
        return RedisDatabase(self, next(self._databases))

    def is_ready(self) -> bool:
        def ask() -> None:
            try:
                self.client().ping()
            except redis.AuthenticationError:
                return

        return answers(ask)


@dataclass(frozen=True)
class RedisDatabase:
    """One of a server's databases."""

    server: RedisServer
    number: int

    @property
    def url(self) -> str:
        return self.server.url(self.number)

    def client(self) -> Any:
        return self.server.client(self.number)

    def add(self, stream: str, numbers: Iterable[int]) -> None:
        """Append entries with the field `value`; their ids have the number for a time."""
        with self.client().pipeline(transaction=False) as pipeline:
            for number in numbers:
                pipeline.xadd(stream, {"value": str(number)}, id=f"{number + 1}-0")
            pipeline.execute()

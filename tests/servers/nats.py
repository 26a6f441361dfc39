"""NATS with JetStream. What it has acknowledged outlives the process: it is in files, though not synced at once."""

from __future__ import annotations

import asyncio
import json
import shutil
import uuid
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import nats

from servers.packages import install
from servers.process import Server, answers


class NatsServer(Server):
    """A NATS server.

    Args:
        directory: Of its data.
        options: Further ones, such as `--user me`.
        jetstream: Whether it has streams.
        login: What stands before the host in its URL: `me:password@`.
    """

    def __init__(self, directory: Path, *options: str, jetstream: bool = True, login: str = "") -> None:
        super().__init__(directory)
        self._options = options
        self._jetstream = jetstream
        self._login = login
        self.connecting: dict[str, Any] = {}

    def command(self) -> list[str]:
        if shutil.which("nats-server") is None:
            install("nats-server")
        command = ["nats-server", "-a", "127.0.0.1", "-p", str(self.port)]
        if self._jetstream:
            command += ["-js", "-sd", str(self.directory / "data")]
        return [*command, *self._options]

    def url(self, login: str | None = None) -> str:
        return f"nats://{self._login if login is None else login}127.0.0.1:{self.port}"

    def run(self, action: Callable[[Any], Awaitable[Any]]) -> Any:
        """Do something with a connection of its own."""

        async def ignore(_: Exception) -> None: ...

        async def act() -> Any:
            connection = await nats.connect(
                self.url(),
                allow_reconnect=False,
                max_reconnect_attempts=1,
                error_cb=ignore,
                **self.connecting,
            )
            try:
                return await action(connection)
            finally:
                await connection.close()

        return asyncio.run(act())

    def ask(self, subject: str, **body: Any) -> dict[str, Any]:
        """Return what JetStream answers."""
        data = json.dumps(body).encode() if body else b""

        async def ask(connection: Any) -> dict[str, Any]:
            answer: dict[str, Any] = json.loads((await connection.request(f"$JS.API.{subject}", data)).data)
            assert "error" not in answer, answer
            return answer

        return self.run(ask)  # type: ignore[no-any-return]

    def is_ready(self) -> bool:
        if self._jetstream:
            return answers(lambda: self.ask("INFO"))
        return answers(lambda: self.run(lambda connection: connection.flush()))

    def new_stream(self, **config: Any) -> NatsStream:
        stream = NatsStream(self, f"S{uuid.uuid4().hex[:12]}")
        stream.make(**config)
        return stream


@dataclass(frozen=True)
class NatsStream:
    """A stream that stores the subjects that begin with its name."""

    server: NatsServer
    name: str

    @property
    def url(self) -> str:
        return self.server.url()

    def make(self, **config: Any) -> None:
        settings = {"name": self.name, "subjects": [f"{self.name}.>"], **config}
        self.server.ask(f"STREAM.CREATE.{self.name}", **settings)

    def remove(self) -> None:
        self.server.ask(f"STREAM.DELETE.{self.name}")

    def purge(self, before: int) -> None:
        """Remove messages up to a sequence."""
        self.server.ask(f"STREAM.PURGE.{self.name}", seq=before)

    def delete(self, sequence: int) -> None:
        self.server.ask(f"STREAM.MSG.DELETE.{self.name}", seq=sequence)

    def add(self, values: Iterable[Any], end: str = "numbers", **headers: str) -> None:
        """Publish texts, or bytes, to the subject `name.end`."""
        self.publish(f"{self.name}.{end}", values, **headers)

    def publish(self, subject: str, values: Iterable[Any], **headers: str) -> None:
        """Publish texts, or bytes, and wait until they are stored."""

        async def publish(connection: Any) -> None:
            stream = connection.jetstream()
            acknowledged = [
                await stream.publish_async(
                    subject,
                    value if isinstance(value, bytes) else str(value).encode(),
                    headers=headers or None,
                )
                for value in values
            ]
            await asyncio.gather(*acknowledged)

        self.server.run(publish)

    def read(self, behind: int = 0) -> list[tuple[str, bytes, dict[str, str]]]:
        """Return subject, data and headers of all messages behind a sequence; none of them may have been removed."""

        async def read(connection: Any) -> list[Any]:
            stream = connection.jetstream()
            count = (await stream.stream_info(self.name)).state.last_seq - behind
            if not count:
                return []
            config = nats.js.api.ConsumerConfig(
                ack_policy=nats.js.api.AckPolicy.NONE,
                deliver_policy=nats.js.api.DeliverPolicy.BY_START_SEQUENCE,
                opt_start_seq=behind + 1,
            )
            subscription = await stream.pull_subscribe("", stream=self.name, config=config)
            found: list[Any] = []
            while len(found) < count:
                found += await subscription.fetch(min(1_000, count - len(found)))
            return [(each.subject, each.data, dict(each.headers or {})) for each in found]

        return self.server.run(read)  # type: ignore[no-any-return]

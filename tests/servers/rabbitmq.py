"""RabbitMQ, without plugins; Erlang's name server (epmd) is its own too."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import pika

from servers.packages import install
from servers.ports import free_port
from servers.process import Server, answers

_PROGRAM = Path("/usr/lib/rabbitmq/bin/rabbitmq-server")


class RabbitServer(Server):
    """A broker whose data are in a directory of its own below /tmp: it runs as a user of its own."""

    user = "rabbitmq"

    def __init__(self) -> None:
        super().__init__(Path(tempfile.mkdtemp(prefix="ms-rabbit-", dir="/tmp")))
        self._distribution_port, self._epmd_port = free_port(), free_port()
        self._epmd: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        if not _PROGRAM.exists():
            install("rabbitmq-server")
        (self.directory / "enabled_plugins").write_text("[].")
        (self.directory / "rabbitmq.conf").write_text(
            f"listeners.tcp.1 = 127.0.0.1:{self.port}\nvm_memory_high_watermark.absolute = 1GB\n"
            "disk_free_limit.absolute = 1MB\n"
        )
        if os.geteuid() == 0:
            for path in [self.directory, *self.directory.rglob("*")]:
                shutil.chown(path, self.user)
        # Started by the broker it would be nobody's child, and outlive a test process that is killed.
        self._epmd = self._spawn(["epmd", "-port", str(self._epmd_port), "-address", "127.0.0.1"])
        super().start()

    def command(self) -> list[str]:
        base = str(self.directory)
        settings = {
            "HOME": base,
            "RABBITMQ_BASE": base,
            "RABBITMQ_MNESIA_BASE": f"{base}/mnesia",
            "RABBITMQ_LOG_BASE": f"{base}/log",
            "RABBITMQ_LOGS": "-",
            "RABBITMQ_CONFIG_FILE": f"{base}/rabbitmq.conf",
            "RABBITMQ_ENABLED_PLUGINS_FILE": f"{base}/enabled_plugins",
            "RABBITMQ_NODENAME": f"ms{self.port}@localhost",
            "RABBITMQ_DIST_PORT": str(self._distribution_port),
            "ERL_EPMD_PORT": str(self._epmd_port),
            "ERL_EPMD_ADDRESS": "127.0.0.1",
            "RUNNING_UNDER_SYSTEMD": "true",  # then the script becomes the broker: it has no child to outlive it
            "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": "+S 1:1",
        }
        return ["env", *[f"{key}={value}" for key, value in settings.items()], str(_PROGRAM)]

    def stop(self) -> None:
        """Kill the broker with all processes of its session, and its name server."""
        if self._process is not None:
            with contextlib.suppress(ProcessLookupError):  # it has ended by itself
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
            self._process = None
        if self._epmd is not None:
            self._epmd.kill()
            self._epmd.wait()
            self._epmd = None

    def pause(self) -> None:
        assert self._process is not None
        os.killpg(self._process.pid, signal.SIGSTOP)

    def go_on(self) -> None:
        assert self._process is not None
        os.killpg(self._process.pid, signal.SIGCONT)

    def close(self) -> None:
        """End it, with its data."""
        self.stop()
        shutil.rmtree(self.directory, ignore_errors=True)

    def is_ready(self) -> bool:
        return answers(lambda: self.connect().close())

    def connect(self) -> Any:
        return pika.BlockingConnection(
            pika.ConnectionParameters("127.0.0.1", self.port, blocked_connection_timeout=10)
        )

    def publish(self, queue: str, *bodies: str | bytes, ids: bool = False, **arguments: Any) -> None:
        """Declare a durable queue, and publish persistent messages to it; with `ids` each has a correlation id."""
        connection = self.connect()
        channel = connection.channel()
        channel.queue_declare(queue, durable=True, arguments=arguments or None)
        channel.confirm_delivery()
        for body in bodies:
            name = body if isinstance(body, str) else body.hex()
            properties = pika.BasicProperties(delivery_mode=2, correlation_id=name if ids else None)
            channel.basic_publish("", queue, body, properties)
        connection.close()

    def count(self, queue: str) -> int:
        """Return how many messages wait in a queue, and are with no consumer."""
        connection = self.connect()
        count: int = connection.channel().queue_declare(queue, passive=True).method.message_count
        connection.close()
        return count

    def take(self, queue: str) -> list[bytes]:
        """Take all messages out of a queue."""
        connection = self.connect()
        channel = connection.channel()
        bodies = []
        while (got := channel.basic_get(queue, auto_ack=True))[0] is not None:
            bodies.append(got[2])
        connection.close()
        return bodies

"""PostgreSQL: a cluster of its own, which speaks TCP and asks for passwords."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
import urllib.parse
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil
import psycopg

from servers.packages import install
from servers.process import Server, answers


class PostgresServer(Server):
    """A server whose data are in a directory of its own below /tmp, for it refuses to run as root.

    It does logical decoding and keeps prepared transactions. Its only user is a superuser.
    """

    user = "postgres"
    password = "Tr0ub4dor-and-3"

    def __init__(self, directory: Path | None = None) -> None:
        super().__init__(directory or Path(tempfile.mkdtemp(prefix="ms-postgres-", dir="/tmp")))

    def command(self) -> list[str]:
        settings = {
            "listen_addresses": "127.0.0.1",
            "unix_socket_directories": str(self.directory),
            "wal_level": "logical",
            "max_wal_senders": "16",
            "max_replication_slots": "32",
            "max_prepared_transactions": "64",
            "fsync": "off",  # processes are killed here, machines are not
        }
        command = [_program("postgres"), "-D", str(self._data), "-p", str(self.port)]
        return command + [word for key, value in settings.items() for word in ("-c", f"{key}={value}")]

    @property
    def _data(self) -> Path:
        return self.directory / "data"

    def start(self) -> None:
        if not self._data.is_dir():
            self._initialize()
        super().start()

    def _initialize(self) -> None:
        secret = self.directory / "password"
        secret.write_text(self.password)
        command = [_program("initdb"), "-D", str(self._data), "-U", "postgres", "--pwfile", str(secret)]
        # SCRAM takes milliseconds of both for each connection, and tests make thousands.
        command += ["-A", "md5", "-E", "UTF8", "--locale=C", "-N"]
        as_user: dict[str, Any] = {}
        if os.geteuid() == 0:
            for path in (self.directory, secret):
                shutil.chown(path, self.user, self.user)
            as_user = {"user": self.user, "group": self.user, "extra_groups": []}
        done = subprocess.run(
            command, cwd=self.directory, capture_output=True, text=True, timeout=120, **as_user
        )
        secret.unlink()
        if done.returncode:
            raise RuntimeError(f"initdb failed:\n{done.stdout}{done.stderr}")

    def stop(self) -> None:
        """Have all of its processes end at once, as if they were killed; the next start recovers from its log."""
        if self._process is not None:
            self.go_on()
            self._process.send_signal(
                signal.SIGQUIT
            )  # after SIGKILL, its children would be there for a while
            try:
                self._process.wait(10)
            except subprocess.TimeoutExpired:
                super().stop()
            self._process = None

    def restart(self) -> None:
        self.stop()
        self.start()

    def pause(self) -> None:
        self._signal(signal.SIGSTOP)

    def go_on(self) -> None:
        self._signal(signal.SIGCONT)

    def _signal(self, number: int) -> None:
        assert self._process is not None
        if self._process.poll() is None:
            processes = psutil.Process(self._process.pid)
            for each in [processes, *processes.children(recursive=True)]:
                try:
                    each.send_signal(number)
                except psutil.NoSuchProcess:
                    continue

    def close(self) -> None:
        """Stop it and remove its data."""
        self.stop()
        shutil.rmtree(self.directory)

    def is_ready(self) -> bool:
        return answers(lambda: self.connect("postgres").close())

    def connect(self, database: str, **options: Any) -> psycopg.Connection[Any]:
        """Return a connection of the superuser; each statement is a transaction."""
        options = {"autocommit": True, "connect_timeout": 10} | options
        return psycopg.connect(
            host="127.0.0.1",
            port=self.port,
            dbname=database,
            user="postgres",
            password=self.password,
            **options,
        )

    @contextmanager
    def new_database(self) -> Iterator[PostgresDatabase]:
        """Make a database, which goes at the end with its replication slots and whoever is connected."""
        name = f"test_{uuid.uuid4().hex[:12]}"
        with self.connect("postgres") as connection:
            connection.execute(f"CREATE DATABASE {name}")
        try:
            yield PostgresDatabase(self, name)
        finally:
            if self._process is None or self._process.poll() is not None:
                self.start()
            self.go_on()
            with self.connect("postgres") as connection:
                connection.execute(
                    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s", (name,)
                )
                connection.execute(
                    "SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots "
                    "WHERE database = %s AND NOT active",
                    (name,),
                )
                _roll_back_prepared(self, name)
                connection.execute(f"DROP DATABASE {name} WITH (FORCE)")


class PostgresDatabase:
    """A database of a test's own.

    Attributes:
        server: Where it is.
        name: How it is called.
    """

    user = "postgres"
    password = PostgresServer.password
    host = "127.0.0.1"

    def __init__(self, server: PostgresServer, name: str) -> None:
        self.server = server
        self.name = name

    @property
    def port(self) -> int:
        return self.server.port

    @property
    def url(self) -> str:
        """Its address with user and password, as libpq takes it."""
        password = urllib.parse.quote(self.password)
        return f"postgresql://{self.user}:{password}@{self.host}:{self.port}/{self.name}"

    @property
    def address(self) -> str:
        """Its address without user and password."""
        return f"{self.host}:{self.port}/{self.name}"

    def connect(self, **options: Any) -> psycopg.Connection[Any]:
        return self.server.connect(self.name, **options)

    def execute(self, statement: str, parameters: Any = None) -> list[Any]:
        """Run statements, each a transaction; return the rows of the last, if it has any."""
        with self.connect() as connection:
            cursor = connection.execute(statement, parameters)
            return cursor.fetchall() if cursor.description is not None else []


def _roll_back_prepared(server: PostgresServer, database: str) -> None:
    """A database that has prepared transactions cannot be dropped."""
    with server.connect(database) as connection:
        found = connection.execute("SELECT gid FROM pg_prepared_xacts WHERE database = current_database()")
        for (gid,) in found.fetchall():
            quoted = gid.replace("'", "''")
            connection.execute(f"ROLLBACK PREPARED '{quoted}'")


def _program(name: str) -> str:
    if (found := _find(name)) is None:
        install("postgresql")
        found = _find(name)
    if found is None:
        raise RuntimeError(f"These tests need the program {name} of PostgreSQL: please install it.")
    return found


def _find(name: str) -> str | None:
    """Return a program of the newest server; Debian has them in directories that are not on the path."""
    found = sorted(
        Path("/usr/lib/postgresql").glob(f"*/bin/{name}"), key=lambda path: int(path.parts[-3].split(".")[0])
    )
    return str(found[-1]) if found else shutil.which(name)

"""MariaDB: a server of its own, which speaks TCP and asks for passwords."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pymysql

from servers.packages import install
from servers.process import Server, answers


class MariaDbServer(Server):
    """A server whose data are in a directory of its own below /tmp. Its only user that has a password is `millstream`.

    It writes a log of changes, row by row, with names of columns.
    """

    user = "mysql"
    name = "millstream"
    password = "Tr0ub4dor-and-4"

    def __init__(self) -> None:
        super().__init__(Path(tempfile.mkdtemp(prefix="ms-mariadb-", dir="/tmp")))

    def command(self) -> list[str]:
        settings = {
            "datadir": self._data,
            "port": self.port,
            "bind-address": "127.0.0.1",
            "socket": self._socket,
            "log-bin": self.directory / "binlog",
            "server-id": 1,
            "binlog-format": "ROW",
            "binlog-row-image": "FULL",
            "binlog-row-metadata": "FULL",
            "innodb-buffer-pool-size": "64M",
            "innodb-flush-log-at-trx-commit": 2,
            "innodb-flush-method": "nosync",  # processes are killed here, machines are not
            "local-infile": 1,
        }
        command = [_program("mariadbd"), "--no-defaults", "--skip-name-resolve"]
        return command + [f"--{key}={value}" for key, value in settings.items()]

    @property
    def _data(self) -> Path:
        return self.directory / "data"

    @property
    def _socket(self) -> Path:
        return self.directory / "s.sock"

    def start(self) -> None:
        if not self._data.is_dir():
            self._initialize()
        super().start()

    def _initialize(self) -> None:
        program = _program("mariadb-install-db")
        if os.geteuid() == 0:
            shutil.chown(self.directory, self.user, self.user)
        command = [program, "--no-defaults", f"--datadir={self._data}", "--skip-test-db"]
        command += ["--auth-root-authentication-method=normal"]
        if os.geteuid() == 0:
            command.append(f"--user={self.user}")
        done = subprocess.run(command, cwd=self.directory, capture_output=True, text=True, timeout=120)
        if done.returncode:
            raise RuntimeError(f"mariadb-install-db failed:\n{done.stdout}{done.stderr}")

    def restart(self) -> None:
        self.stop()
        self.start()

    def close(self) -> None:
        """Stop it and remove its data."""
        self.stop()
        shutil.rmtree(self.directory)

    def is_ready(self) -> bool:
        return answers(lambda: self._make_user())

    def _make_user(self) -> None:
        with pymysql.connect(unix_socket=str(self._socket), user="root") as connection:
            cursor = connection.cursor()
            cursor.execute(
                f"CREATE USER IF NOT EXISTS {self.name}@'127.0.0.1' IDENTIFIED BY '{self.password}'"
            )
            cursor.execute(f"GRANT ALL ON *.* TO {self.name}@'127.0.0.1'")

    def connect(self, database: str | None = None) -> Any:
        """Return a connection; each statement is a transaction."""
        return pymysql.connect(
            host="127.0.0.1",
            port=self.port,
            user=self.name,
            password=self.password,
            database=database,
            charset="utf8mb4",
            autocommit=True,
        )

    @contextmanager
    def new_database(self) -> Iterator[MariaDbDatabase]:
        """Make a database, which goes at the end."""
        name = f"test_{uuid.uuid4().hex[:12]}"
        with self.connect() as connection:
            connection.cursor().execute(f"CREATE DATABASE {name} CHARACTER SET utf8mb4")
        try:
            yield MariaDbDatabase(self, name)
        finally:
            if self._process is None or self._process.poll() is not None:
                self.start()
            self.go_on()
            with self.connect() as connection:
                connection.cursor().execute(f"DROP DATABASE {name}")


class MariaDbDatabase:
    """A database of a test's own.

    Attributes:
        server: Where it is.
        name: How it is called.
    """

    user = MariaDbServer.name
    password = MariaDbServer.password
    host = "127.0.0.1"

    def __init__(self, server: MariaDbServer, name: str) -> None:
        self.server = server
        self.name = name

    @property
    def port(self) -> int:
        return self.server.port

    def execute(self, statement: str, parameters: Any = None) -> list[Any]:
        """Run a statement in a transaction of its own; return its rows, if it has any."""
        with self.server.connect(self.name) as connection, connection.cursor() as cursor:
            cursor.execute(statement, parameters)
            return list(cursor.fetchall())


def _program(name: str) -> str:
    if (found := _find(name)) is None:
        install("mariadb-server")
        found = _find(name)
    if found is None:
        raise RuntimeError(f"These tests need the program {name} of MariaDB: please install it.")
    return found


def _find(name: str) -> str | None:
    return shutil.which(name, path=f"{os.environ.get('PATH', '')}:/usr/sbin:/usr/local/sbin")

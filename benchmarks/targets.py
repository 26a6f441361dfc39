"""Where the job of `kafka_kills.py` writes its results, and what readers see of them while it is killed."""

from __future__ import annotations

import os
import re
import sys
import time
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, TopicPartition
from killing import ROOT

sys.path.insert(0, str(ROOT / "tests"))

from servers.kafka import KafkaServer
from servers.postgres import PostgresServer
from servers.storage import S3Server

__all__ = ["PARTITIONS", "TARGETS", "Result", "Target"]

PARTITIONS = 2
# (key, how often it was seen, how often its group was seen)
Result = tuple[int, int, int]


class Target(ABC):
    """A place for results, with a reader of its own that knows nothing of the job's connector.

    Attributes:
        name: What it is.
        has_order: Whether the order in which results are read means something.
        where: What the job's program is told.
        options: What the job is configured with besides.
        servers: Servers of its own that may be killed, by what they are called in the table.
        of_key: What was seen for each key, in the order in which it was read.
        of_group: What was seen for each group.
        disordered: Keys whose results had another order than that of their counts, and where.
    """

    name = ""
    has_order = True
    options: Mapping[str, str] = {}

    def __init__(self, directory: Path, broker: KafkaServer, groups: int) -> None:
        self.directory = directory
        self.broker = broker
        self._groups = groups
        self.servers: dict[str, Any] = {}
        self.where: Any = None
        self.of_key: dict[int, list[int]] = {}
        self.of_group: dict[int, list[int]] = {}
        self.disordered: set[tuple[int, Any]] = set()
        self.count = 0

    def start(self) -> None:
        """Start what it needs."""

    def stop(self) -> None:
        """Stop what it started."""

    @abstractmethod
    def look(self, seconds: float) -> None:
        """Take what is new, which may come within some time."""

    def finish(self) -> None:
        """Read what `look` only counts, when nothing more comes."""

    def add(self, results: Iterable[Result], place: Any) -> None:
        """Note results that were read from one place, in the order of that place."""
        last: dict[int, int] = {}
        for key, seen, in_group in results:
            if seen <= last.get(key, 0):
                self.disordered.add((key, place))
            last[key] = seen
            self.of_key.setdefault(key, []).append(seen)
            self.of_group.setdefault(key % self._groups, []).append(in_group)
            self.count += 1


def parse(line: str) -> Result:
    key, seen, in_group = map(int, line.split(":"))
    return key, seen, in_group


class KafkaTarget(Target):
    """A topic, and a reader of committed messages: results of a key are in order over the whole run."""

    name = "Kafka"

    def start(self) -> None:
        self.where = self.broker.create_topic("counts", PARTITIONS)
        self._consumer = Consumer({
            "bootstrap.servers": self.broker.bootstrap, "group.id": "reader", "isolation.level": "read_committed",
            "enable.auto.commit": False, "auto.offset.reset": "earliest", "reconnect.backoff.max.ms": "500",
            "log_level": "0",
        })  # fmt: skip
        self._consumer.assign([TopicPartition("counts", number, 0) for number in range(PARTITIONS)])

    def look(self, seconds: float) -> None:
        deadline = time.monotonic() + seconds
        messages: list[Any] = []
        while True:
            found = self._consumer.consume(5000, max(0.0, deadline - time.monotonic()))
            messages += found
            if not found and time.monotonic() >= deadline:
                break
        results = [parse(each.value().decode()) for each in messages if each.error() is None]
        before = {key: self.of_key[key][-1] for key, _, _ in results if key in self.of_key}
        for key, seen, _ in results:
            if key in before and seen <= before.pop(key):
                self.disordered.add((key, "topic"))
        self.add(results, "topic")


class PartsTarget(Target):
    """Results in files: what is visible is read once, and stays. In each file the results of a key are in order."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._read: Counter[str] = Counter()

    def look(self, seconds: float) -> None:
        time.sleep(seconds)
        visible = Counter(self.parts())
        for part in visible - self._read:
            self.add(self.read(part), part)
            self._read[part] += 1
        if gone := self._read - visible:
            raise SystemExit(f"readers saw files that are gone: {sorted(gone)}")

    @abstractmethod
    def parts(self) -> Iterable[str]:
        """Return the files that readers see now."""

    @abstractmethod
    def read(self, part: str) -> Iterable[Result]:
        """Read one."""


def is_hidden(path: str) -> bool:
    return path.rpartition("/")[2].startswith((".", "_"))


class FilesTarget(PartsTarget):
    name = "files"

    def start(self) -> None:
        self.where = str(self.directory / "out")

    def parts(self) -> Iterable[str]:
        # Thousands of files are looked at many times a second: their names have to do.
        return [
            f"{at}/{name}" for at, _, names in os.walk(self.where) for name in names if not is_hidden(name)
        ]

    def read(self, part: str) -> Iterable[Result]:
        return map(parse, Path(part).read_text(encoding="utf-8").splitlines())


# The server lists objects that it is still writing: their keys end with an id of its own.
_OF_SERVER = re.compile(r"-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


def is_being_written(key: str) -> bool:
    return _OF_SERVER.search(key, len(key) - 37) is not None


class S3Target(PartsTarget):
    """Objects, which a client of pyarrow lists and reads."""

    name = "S3"

    def start(self) -> None:
        from pyarrow import fs

        (self.directory / "s3").mkdir()
        self._server = S3Server(self.directory / "s3")
        self._server.start()
        self.options = self._server.options
        self.where = f"s3://{self._server.bucket}/out"
        self._files = fs.S3FileSystem(
            access_key=self._server.access_key,
            secret_key=self._server.secret_key,
            endpoint_override=self._server.endpoint,
            scheme="http",
        )
        self._selector = fs.FileSelector(f"{self._server.bucket}/out", recursive=True, allow_not_found=True)

    def stop(self) -> None:
        self._server.stop()

    def look(self, seconds: float) -> None:
        super().look(max(seconds, 0.2))  # a list of thousands of keys takes a while

    def parts(self) -> Iterable[str]:
        found = self._files.get_file_info(self._selector)
        return [
            each.path
            for each in found
            if each.is_file and not is_hidden(each.path) and not is_being_written(each.path)
        ]

    def read(self, part: str) -> Iterable[Result]:
        with self._files.open_input_stream(part) as stream:
            return list(map(parse, stream.read().decode().splitlines()))


class LakeTarget(PartsTarget):
    """The Parquet files of a table's current version."""

    # Each checkpoint is a version of the table, and to make one takes the longer the more there are.
    options: Mapping[str, str] = {"execution.checkpointing.interval": "2 s"}

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._version: Any = None
        self._parts: list[str] = []

    def parts(self) -> Iterable[str]:
        if (version := self.version()) != self._version:
            self._parts, self._version = self.parts_of_table(), version
        return self._parts

    def look(self, seconds: float) -> None:
        super().look(max(seconds, 0.3))

    @abstractmethod
    def version(self) -> Any:
        """Return what changes with each commit, for little money."""

    @abstractmethod
    def parts_of_table(self) -> list[str]:
        """Return the data files of the table, each as often as the table names it."""

    def read(self, part: str) -> Iterable[Result]:
        from pyarrow import parquet

        table = parquet.ParquetFile(part.removeprefix("file://")).read()
        return zip(*(table[name].to_pylist() for name in ("key", "seen", "in_group")), strict=True)


class IcebergTarget(LakeTarget):
    name = "Iceberg"

    def start(self) -> None:
        directory = self.directory / "lake"
        directory.mkdir()
        self._catalog = {
            "type": "sql", "uri": f"sqlite:///{directory}/catalog.db", "warehouse": f"file://{directory}/lake",
        }  # fmt: skip
        self.where = {"catalog": self._catalog, "table": "db.results"}

    def version(self) -> Any:
        return len(list((self.directory / "lake").rglob("*.metadata.json")))

    def parts_of_table(self) -> list[str]:
        from pyiceberg.catalog import load_catalog

        catalog = load_catalog("lake", **self._catalog)
        if not catalog.table_exists("db.results"):
            return []
        return [task.file.file_path for task in catalog.load_table("db.results").scan().plan_files()]


class DeltaTarget(LakeTarget):
    name = "Delta"

    def start(self) -> None:
        self.where = str(self.directory / "delta")

    def version(self) -> Any:
        return len(list((Path(self.where) / "_delta_log").glob("*.json")))

    def parts_of_table(self) -> list[str]:
        from deltalake import DeltaTable

        if not DeltaTable.is_deltatable(self.where):
            return []
        return DeltaTable(self.where).file_uris()


class PostgresTarget(Target):
    """A table without a key, so that what is written twice is there twice. It has an order of no meaning."""

    name = "PostgreSQL"
    has_order = False

    def start(self) -> None:
        self._server = PostgresServer()
        self._server.start()
        self.servers = {"database": self._server}
        with self._server.connect("postgres") as connection:
            connection.execute("CREATE TABLE results (key bigint, seen bigint, in_group bigint)")
        self.where = {
            "url": f"jdbc:postgresql://127.0.0.1:{self._server.port}/postgres", "user": "postgres",
            "password": self._server.password, "table": "results",
        }  # fmt: skip
        self._connection: Any = None

    def stop(self) -> None:
        self._server.close()

    def look(self, seconds: float) -> None:
        import psycopg

        time.sleep(max(seconds, 0.1))
        try:
            if self._connection is None:
                self._connection = self._server.connect("postgres")
            row = self._connection.execute("SELECT count(*) FROM results").fetchone()
        except psycopg.OperationalError:  # it was killed
            self._connection = None
            return
        self.count = row[0]

    def finish(self) -> None:
        self.count = 0
        with self._server.connect("postgres") as connection:
            self.add(connection.execute("SELECT key, seen, in_group FROM results").fetchall(), None)
        self.disordered.clear()


TARGETS: dict[str, type[Target]] = {
    "kafka": KafkaTarget,
    "postgres": PostgresTarget,
    "files": FilesTarget,
    "s3": S3Target,
    "iceberg": IcebergTarget,
    "delta": DeltaTarget,
}

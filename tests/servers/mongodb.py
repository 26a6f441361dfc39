"""A stand-in for MongoDB from Maven, as no MongoDB is in any package registry: it speaks the protocol, in memory.

It has no sessions, transactions, users or replicas, and forgets all when it is killed.
"""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import pymongo

from servers.maven import JVM_OPTIONS, jars
from servers.process import Server, answers

VERSION = "1.47.0"
_MAIN = Path(__file__).parent / "MongoMain.java"


class MongoStandIn(Server):
    """A mongo-java-server."""

    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        self._names = itertools.count()
        self._client: Any = None

    def command(self) -> list[str]:
        path = jars((f"de.bwaldvogel:mongo-java-server:{VERSION}",))
        return ["java", *JVM_OPTIONS, "-cp", path, str(_MAIN), str(self.port)]

    def uri(self, login: str = "") -> str:
        return f"mongodb://{login}127.0.0.1:{self.port}/?retryWrites=false"

    @property
    def client(self) -> Any:
        if self._client is None:
            self._client = pymongo.MongoClient(self.uri(), uuidRepresentation="standard")
        return self._client

    def new_collection(self, *documents: dict[str, Any]) -> Any:
        """Return a collection with a name of its own, in database `tests`."""
        collection = self.client.tests[f"c{next(self._names)}"]
        if documents:
            collection.insert_many(documents)
        return collection

    def is_ready(self) -> bool:
        def ask() -> None:
            with pymongo.MongoClient(self.uri(), serverSelectionTimeoutMS=500) as client:
                client.admin.command("ping")

        return answers(ask)

    def stop(self) -> None:
        """Kill it, with its documents."""
        if self._client is not None:
            self._client.close()
            self._client = None
        super().stop()

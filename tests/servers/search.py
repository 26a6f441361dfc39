"""What test servers of OpenSearch and Elasticsearch have in common: both speak the same HTTP."""

from __future__ import annotations

import json
import uuid
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import urllib3

from servers.ports import free_port
from servers.process import Server, answers


class SearchServer(Server):
    """A node that is a cluster of its own; documents that it has acknowledged outlive it."""

    start_s = 240

    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        self.transport_port = free_port()
        self._pool = urllib3.PoolManager(timeout=urllib3.Timeout(60), retries=False)

    @property
    def host(self) -> str:
        return f"127.0.0.1:{self.port}"

    def is_ready(self) -> bool:
        return answers(lambda: self.ask("GET", "/_cluster/health?wait_for_status=yellow&timeout=1s"))

    def ask(self, method: str, path: str, body: Any = None) -> Any:
        """Return what it answers; a list is a body of lines."""
        kind = "application/x-ndjson" if isinstance(body, list) else "application/json"
        lines = body if isinstance(body, list) else [] if body is None else [body]
        data = "".join(json.dumps(line) + "\n" for line in lines).encode() or None
        answer = self._pool.request(
            method, f"http://{self.host}{path}", body=data, headers={"Content-Type": kind}
        )
        assert answer.status < 300, answer.data.decode()
        return json.loads(answer.data)

    def new_index(self, **body: Any) -> SearchIndex:
        index = SearchIndex(self, f"index-{uuid.uuid4().hex[:12]}")
        index.make(**body)
        return index


@dataclass(frozen=True)
class SearchIndex:
    """An index of a server."""

    server: SearchServer
    name: str

    def make(self, *, shards: int = 1, mappings: Any = None, settings: Any = None) -> None:
        body = {
            "settings": {
                "number_of_shards": shards,
                "number_of_replicas": 0,
                "max_result_window": 100_000,
                **(settings or {}),
            },
            "mappings": mappings or {},
        }
        self.server.ask("PUT", f"/{self.name}", body)

    def add(self, documents: dict[str, Any]) -> None:
        """Index documents by id."""
        lines: list[Any] = []
        for key, document in documents.items():
            lines += [{"index": {"_id": key}}, document]
        answer = self.server.ask("POST", f"/{self.name}/_bulk?refresh=true", lines)
        assert not answer["errors"], answer

    def remove(self) -> None:
        self.server.ask("DELETE", f"/{self.name}")

    def set(self, **settings: Any) -> None:
        self.server.ask("PUT", f"/{self.name}/_settings", {"index": settings})

    def documents(self) -> list[tuple[str, Any]]:
        """Return id and source of all documents, by id."""
        self.server.ask("POST", f"/{self.name}/_refresh")
        count = self.server.ask("GET", f"/{self.name}/_count")["count"]
        hits = self.server.ask("POST", f"/{self.name}/_search", {"size": count or 1})["hits"]["hits"]
        return sorted((hit["_id"], hit["_source"]) for hit in hits)

    def sources(self) -> list[Any]:
        return [source for _, source in self.documents()]

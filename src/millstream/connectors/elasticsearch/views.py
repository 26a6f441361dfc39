"""Indices as they are at one moment: points in time.

The server keeps what an index was when the view was opened, for as long as somebody reads in it, and then for a while
(`keep_alive`). A view is cut into slices. There are as many of them for each shard, so each slice is a part of a single
shard; there the order of documents (`_doc`) is a complete one, and a place in it can be gone back to.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from millstream.base.errors import LostInputError, SourceError
from millstream.connectors.elasticsearch.connection import Answer, ElasticsearchClient, quote_path

__all__ = ["Hit", "View", "close_views", "open_views", "renew_view", "search_slice"]

_SEARCH = "/_search?allow_partial_search_results=false&filter_path=error,status,_shards.failed,hits.hits"


@dataclass(frozen=True, slots=True)
class View:
    """An index at one moment.

    Attributes:
        index: Its name; of what an alias or pattern names, one index.
        id: The server's name of the view.
        shards: How many shards the index has.
        is_opensearch: Whether OpenSearch made it; Elasticsearch has other paths.
    """

    index: str
    id: str
    shards: int
    is_opensearch: bool


@dataclass(frozen=True, slots=True)
class Hit:
    """A document that was found.

    Attributes:
        id: The document's id.
        source: What it holds.
        place: Where reading goes on behind it.
    """

    id: str
    source: dict[str, Any]
    place: list[Any]


def open_views(client: ElasticsearchClient, name: str, keep_alive: str) -> list[View]:
    """Open a view of each index that a name, an alias or a pattern stands for.

    Raises:
        SourceError: If there is none, or they may not be read.
    """
    what = f'looking for index "{name}"'
    path = f"/{quote_path(name)}/_settings/index.number_of_shards?flat_settings=true&allow_no_indices=false"
    answer = client.ask("GET", path, what=what, accept=(404,))
    if answer.status == 404:
        raise client.refused(what, answer, "Check the name of the index.")
    told = answer.json()
    if not isinstance(told, dict):
        raise client.refused(what, answer)
    return [
        _open(client, index, int(each["settings"]["index.number_of_shards"]), keep_alive)
        for index, each in sorted(told.items())
    ]


def _open(client: ElasticsearchClient, index: str, shards: int, keep_alive: str) -> View:
    what = f'opening a view of index "{index}"'
    path = f"/{quote_path(index)}/_pit?keep_alive={keep_alive}"
    answer = client.ask("POST", path, what=what, accept=(400, 405))
    if answer.status < 300:
        return View(index, _text(client, what, answer, "id"), shards, False)
    path = f"/{quote_path(index)}/_search/point_in_time?keep_alive={keep_alive}"
    answer = client.ask("POST", path, what=what)
    return View(index, _text(client, what, answer, "pit_id"), shards, True)


def _text(client: ElasticsearchClient, what: str, answer: Answer, field: str) -> str:
    told = answer.json()
    if not isinstance(told, dict) or not isinstance(told.get(field), str):
        raise client.refused(
            what, answer, "Points in time are there since Elasticsearch 7.10 and OpenSearch 2.4."
        )
    return str(told[field])


def renew_view(client: ElasticsearchClient, view: View, keep_alive: str) -> None:
    """Have the server keep a view for longer, in all of its shards.

    Raises:
        LostInputError: If it is gone.
        SourceError: If the server refuses it, or stays away.
    """
    _search(client, view, {"size": 0}, keep_alive)


def search_slice(
    client: ElasticsearchClient,
    view: View,
    keep_alive: str,
    *,
    number: int,
    slices: int,
    size: int,
    behind: Sequence[Any] | None,
    query: dict[str, Any] | None,
    fields: Sequence[str],
) -> list[Hit]:
    """Return the next documents of a slice; fewer than `size` if no others follow.

    Args:
        client: Asks the server.
        view: What is read.
        keep_alive: How long the view is kept.
        number: Of the slice.
        slices: How many there are in the view, a multiple of its shards.
        size: How many documents are wanted.
        behind: The place of the last document; None from the beginning.
        query: Which documents; None for all.
        fields: Which of their fields; none for all.

    Raises:
        LostInputError: If the view is gone.
        SourceError: If the server refuses it, or stays away.
    """
    body: dict[str, Any] = {"size": size, "sort": ["_doc"]}
    if slices > 1:
        body["slice"] = {"id": number, "max": slices}
    if behind is not None:
        body["search_after"] = list(behind)
    if query is not None:
        body["query"] = query
    if fields:
        body["_source"] = list(fields)
    hits = _search(client, view, body, keep_alive)
    return [Hit(hit["_id"], hit.get("_source", {}), hit["sort"]) for hit in hits]


def _search(client: ElasticsearchClient, view: View, body: dict[str, Any], keep_alive: str) -> list[Any]:
    what = f'reading index "{view.index}"'
    body |= {"pit": {"id": view.id, "keep_alive": keep_alive}, "track_total_hits": False}
    answer = client.ask("POST", _SEARCH, body, what=what, accept=(404,))
    if answer.status == 404:
        raise LostInputError(
            f'the view of index "{view.index}" that is read is gone: {answer.reason()}',
            detail=f"Server {client.connection.address}. It was restarted, or nobody read for longer than the view is "
            "kept; what was read cannot be told from what was not any more.",
            hint="Start the job anew, without its checkpoint; set_keep_alive(...) keeps the view for longer.",
        )
    told = answer.json()
    if not isinstance(told, dict) or told.get("_shards", {}).get("failed"):
        raise SourceError(
            f"the search server read only a part, {what}: {answer.reason()}",
            detail=f"Server {client.connection.address}.",
        )
    return list(told.get("hits", {}).get("hits", ()))


def close_views(client: ElasticsearchClient, views: Sequence[View]) -> None:
    """Have the server forget views.

    Raises:
        SourceError: If it stays away.
    """
    for view in views:
        path = "/_search/point_in_time" if view.is_opensearch else "/_pit"
        body: dict[str, Any] = {"pit_id": [view.id]} if view.is_opensearch else {"id": view.id}
        client.ask("DELETE", path, body, what=f'closing the view of index "{view.index}"', accept=(404,))

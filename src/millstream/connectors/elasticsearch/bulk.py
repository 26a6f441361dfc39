"""Bulk requests: gathered, sent, and sent again in part.

A server answers for each item of a request by itself. What it rejects for a while is sent again, and with it every
later item about the same document: otherwise an older state would overwrite a newer one that was taken at once::

    request   a=1  b=1  a=2  c=1        a=1 is rejected for a while, the rest is taken
    again     a=1       a=2
"""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from millstream.base.clock import Clock, SystemClock
from millstream.base.errors import MillstreamError, SinkError, shorten
from millstream.connectors.elasticsearch.connection import ElasticsearchClient, describe_error
from millstream.connectors.elasticsearch.documents import (
    ActionEncoder,
    BulkItem,
    ElasticsearchAction,
    Operation,
)
from millstream.connectors.elasticsearch.rejections import Backoff, FlushBackoffType, RejectedPolicy

__all__ = ["BulkLimits", "BulkRequests", "items_again"]

log = logging.getLogger(__name__)

_SLICE_S = 0.2  # a job that is cancelled is not kept waiting longer
_PATH = "/_bulk?filter_path=errors,error,status,items.*.status,items.*.error"
_BUSY, _TOO_LARGE = 429, 413
_PASSING = frozenset({_BUSY, 502, 503, 504})
_ABOUT_INDEX = frozenset(
    {"index_closed_exception", "invalid_index_name_exception", "invalid_alias_name_exception"}
)


@dataclass(frozen=True, slots=True)
class BulkLimits:
    """When a bulk request is sent before an epoch ends; None for no limit.

    Attributes:
        actions: When it has so many actions.
        size_bytes: When it is so large; a request is larger only if a single document is.
        interval_ms: When the first of its actions is so old. With it, ends of epochs that are no checkpoints wait for
            it as well.
    """

    actions: int | None = 1_000
    size_bytes: int | None = 5 << 20
    interval_ms: int | None = None


@dataclass(slots=True)
class _Outcome:
    """What a server did with the items of a request.

    Attributes:
        again: Whether an item is rejected for a while, by its place in the request; and why.
        refused: Items that are rejected for good, and why.
    """

    again: dict[int, str] = field(default_factory=dict)
    refused: list[tuple[BulkItem, int, dict[str, Any]]] = field(default_factory=list)


class BulkRequests:
    """Gathers actions and sends them; for one thread.

    Args:
        client: Asks the server.
        encoder: Makes lines of actions.
        limits: When a request is sent.
        backoff: What is done about documents that are rejected for a while.
        policy: What becomes of those that are rejected for good.
        clock: Waits.
    """

    def __init__(
        self,
        client: ElasticsearchClient,
        encoder: ActionEncoder,
        *,
        limits: BulkLimits,
        backoff: Backoff,
        policy: RejectedPolicy,
        clock: Clock | None = None,
    ) -> None:
        self._client = client
        self._encoder = encoder
        self._limits = limits
        self._backoff = backoff
        self._policy = policy
        self._clock = clock or SystemClock()
        self._items: list[BulkItem] = []
        self._bytes = 0
        self._rejected = 0
        self._next_logged = 1

    def __len__(self) -> int:
        return len(self._items)

    def add(self, item: BulkItem) -> None:
        """Gather an item; send what was gathered if it is enough.

        Raises:
            SinkError: If the server rejects something.
        """
        limits = self._limits
        if limits.size_bytes is not None and self._bytes + len(item.data) > limits.size_bytes:
            self.flush()
        self._items.append(item)
        self._bytes += len(item.data)
        if limits.actions is not None and len(self._items) >= limits.actions:
            self.flush()

    def flush(self) -> None:
        """Send what was gathered; return when the server has all of it.

        Raises:
            SinkError: If it rejects some of it, or stays away.
        """
        items, self._items, self._bytes = self._items, [], 0
        pauses: Iterator[float] | None = None
        while items:
            outcome = self._send(items)
            self._refuse(outcome)
            if not outcome.again:
                break
            if pauses is None:
                pauses = self._backoff.pauses()
                self._warn(items, outcome)
            self._wait(items, outcome, next(pauses, None))
            items = items_again(items, outcome.again)

    def _send(self, items: Sequence[BulkItem]) -> _Outcome:
        """Send a request, in halves if it is too large for the server."""
        body = b"".join([item.data for item in items])
        what = f"writing {len(items)} documents"
        answer = self._client.ask("POST", _PATH, body, what=what, accept=(_BUSY, _TOO_LARGE))
        if answer.status == _BUSY:
            return _Outcome(again=dict.fromkeys(range(len(items)), answer.reason()))
        if answer.status == _TOO_LARGE:
            if len(items) > 1:
                return self._send_halves(items)
            raise self._too_large(items[0])
        told = answer.json()
        if not isinstance(told, dict) or "errors" not in told:
            raise self._client.refused(what, answer)
        outcome = _Outcome()
        if told["errors"]:
            for place, (item, result) in enumerate(zip(items, told["items"], strict=True)):
                _sort(outcome, place, item, next(iter(result.values())))
        return outcome

    def _send_halves(self, items: Sequence[BulkItem]) -> _Outcome:
        middle = len(items) // 2
        first, second = self._send(items[:middle]), self._send(items[middle:])
        again = first.again | {middle + place: reason for place, reason in second.again.items()}
        return _Outcome(again, first.refused + second.refused)

    def _wait(self, items: Sequence[BulkItem], outcome: _Outcome, pause: float | None) -> None:
        place, reason = next(iter(outcome.again.items()))
        if pause is None:
            is_tried = self._backoff.kind is not FlushBackoffType.NONE
            retries = f"after {self._backoff.max_retries} retries" if is_tried else "and is not sent again"
            raise self._rejection(
                items[place],
                f"{reason}, {retries}",
                "The server has no room for it now: give it more, write with less parallelism, or wait longer: "
                "set_bulk_flush_backoff_strategy(FlushBackoffType.EXPONENTIAL, 10, 200).",
            )
        while pause > 0:
            self._clock.wait(min(pause, _SLICE_S))
            pause -= _SLICE_S

    def _warn(self, items: Sequence[BulkItem], outcome: _Outcome) -> None:
        log.warning(
            "%s: %d of %d documents rejected for a while: %s",
            self._client.connection.address,
            len(outcome.again),
            len(items),
            next(iter(outcome.again.values())),
        )

    def _refuse(self, outcome: _Outcome) -> None:
        """Do with documents that are rejected for good what the policy says."""
        letters: list[BulkItem] = []
        for item, status, error in outcome.refused:
            reason = describe_error(error)
            if self._policy.fails or not _is_about_document(status, error):
                raise self._rejection(item, reason, _hint(status, error))
            self._note(item, reason)
            if self._policy.index is not None:
                letters.append(self._letter(self._policy.index, item, reason))
        if letters:
            self._send_letters(letters)

    def _note(self, item: BulkItem, reason: str) -> None:
        self._rejected += 1
        if self._rejected >= self._next_logged:
            self._next_logged = 10 ** len(str(self._rejected))  # the 1st, 10th, 100th ...
            log.warning(
                "%s: %d documents rejected so far, the last one %s: %s",
                self._client.connection.address,
                self._rejected,
                _name_of(item),
                reason,
            )

    def _letter(self, index: str, item: BulkItem, reason: str) -> BulkItem:
        """Return what is kept of a document that was rejected; the same one again has the same id."""
        text = self._encoder.document(item.action.document).decode()
        letter = {"index": item.action.index, "id": item.action.id, "reason": reason, "document": text}
        key = hashlib.blake2b(json.dumps(letter).encode(), digest_size=16).hexdigest()
        return self._encoder.encode(ElasticsearchAction.index_document(index, letter, id=key))

    def _send_letters(self, letters: Sequence[BulkItem]) -> None:
        BulkRequests(
            self._client,
            self._encoder,
            limits=self._limits,
            backoff=self._backoff,
            policy=RejectedPolicy.fail(),
            clock=self._clock,
        )._send_all(letters)

    def _send_all(self, items: Sequence[BulkItem]) -> None:
        self._items = list(items)
        self.flush()

    def _rejection(self, item: BulkItem, reason: str, hint: str) -> MillstreamError:
        return SinkError(
            f"the search server rejected {_name_of(item)}: {reason}",
            detail=f"{_shown(item)} Server {self._client.connection.address}.",
            hint=hint,
        )

    def _too_large(self, item: BulkItem) -> MillstreamError:
        return self._rejection(
            item,
            f"it has {len(item.data):,} bytes, more than the server takes in one request (413)",
            "Make the document smaller, or have server and proxies take more (http.max_content_length).",
        )


def _sort(outcome: _Outcome, place: int, item: BulkItem, result: dict[str, Any]) -> None:
    """Take note of what was done with an item."""
    error, status = result.get("error"), result.get("status", 500)
    if error is None:
        return  # also a deletion of what is not there (404)
    if not isinstance(error, dict):
        error = {"type": "error", "reason": str(error)}
    operation = item.action.operation
    if status in _PASSING or (status == 409 and operation is Operation.UPDATE):
        outcome.again[place] = describe_error(error)
    elif status == 409 and (operation is Operation.CREATE or item.action.version is not None):
        return  # it is there, or a newer one is
    elif status == 404 and operation is Operation.DELETE:
        return  # there is no such index
    else:
        outcome.refused.append((item, status, error))


def items_again(items: Sequence[BulkItem], again: dict[int, str]) -> list[BulkItem]:
    """Return the items that were rejected for a while, and later ones about the same documents, in order."""
    chosen: list[BulkItem] = []
    keys: set[tuple[str, str]] = set()
    for place, item in enumerate(items):
        if place in again or (item.key is not None and item.key in keys):
            chosen.append(item)
            if item.key is not None:
                keys.add(item.key)
    return chosen


def _is_about_document(status: int, error: dict[str, Any]) -> bool:
    return status == 400 and error.get("type") not in _ABOUT_INDEX


def _name_of(item: BulkItem) -> str:
    action = item.action
    name = f'document "{action.id}"' if action.id is not None else "a document without id"
    return f'{name} of index "{action.index}"'


def _shown(item: BulkItem) -> str:
    document = item.action.document
    return "" if document is None else f"The document: {shorten(document)}."


def _hint(status: int, error: dict[str, Any]) -> str:
    kind = str(error.get("type"))
    if kind == "index_not_found_exception" or status == 404:
        return "Make the index, or allow that indices are made when they are written to (action.auto_create_index)."
    if status in (401, 403):
        return "Have somebody allow it: the rights to the index, or a block of it (index.blocks.*)."
    if kind in _ABOUT_INDEX:
        return "Open the index, or choose another one."
    if status == 400:
        return (
            "Make the document fit the mapping of the index, change the mapping, or go on without such documents: "
            "set_rejected_policy(RejectedPolicy.to_index('rejected'))."
        )
    return "See the log of the server."

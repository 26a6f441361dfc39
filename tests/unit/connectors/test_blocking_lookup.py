"""Look-ups by clients that block: parts, threads, clients that broke, calls that are given up."""

from __future__ import annotations

import asyncio
import pickle
import threading
import time
from collections.abc import Sequence
from typing import Any

import pytest

from millstream.base.errors import ConfigurationError, SourceError
from millstream.connectors.blocking_lookup import BlockingLookup, LookupBuilder, LookupSettings, rows_by_key
from millstream.testing import check_lookup

ROWS = {number: f"row {number}" for number in range(50)}


class Clients:
    """What clients of a test are and were doing."""

    def __init__(self) -> None:
        self.made = 0
        self.ended = 0
        self.busy = 0
        self.most_busy = 0
        self.requests: list[list[Any]] = []
        self.go_on = threading.Event()
        self.go_on.set()


CLIENTS = Clients()


@pytest.fixture(autouse=True)
def clients():
    global CLIENTS
    CLIENTS = Clients()
    yield CLIENTS
    CLIENTS.go_on.set()


class Rows(BlockingLookup[object]):
    def connect(self) -> object:
        CLIENTS.made += 1
        return object()

    def find(self, client: object, keys: Sequence[Any]) -> dict[Any, Any]:
        CLIENTS.busy += 1
        CLIENTS.most_busy = max(CLIENTS.most_busy, CLIENTS.busy)
        CLIENTS.requests.append(list(keys))
        try:
            time.sleep(0.005)
            assert CLIENTS.go_on.wait(20)
            if "broken" in keys:
                raise SourceError("broken")
        finally:
            CLIENTS.busy -= 1
        return {key: ROWS[key] for key in keys if key in ROWS}

    def disconnect(self, client: object) -> None:
        CLIENTS.ended += 1


class Shared(Rows):
    shares_client = True


def run(lookup: BlockingLookup[Any], *calls: Sequence[Any]) -> list[Any]:
    async def ask() -> list[Any]:
        await lookup.open()
        try:
            return await asyncio.gather(*map(lookup.lookup, calls), return_exceptions=True)
        finally:
            await lookup.close()

    return asyncio.run(ask())


@pytest.mark.parametrize("kind", [Rows, Shared])
def test_it_keeps_the_contract(kind):
    check_lookup(kind(LookupSettings(3, 7)), ROWS, unknown=[-1, None])


def test_keys_are_asked_for_in_parts_by_no_more_threads_than_allowed(clients):
    (found,) = run(Rows(LookupSettings(connections=2, request_keys=8)), list(range(-3, 50)))

    assert found == ROWS
    assert max(map(len, clients.requests)) == 8 and len(clients.requests) == 7
    assert clients.most_busy <= 2 and clients.made <= 3  # the first one is made by `open`
    assert clients.made == clients.ended


def test_threads_share_a_client_that_allows_it(clients):
    assert run(Shared(LookupSettings(4, 1)), range(10), range(10, 20))[0] == {n: ROWS[n] for n in range(10)}
    assert (clients.made, clients.ended) == (1, 1)


def test_keys_that_are_none_are_not_asked_for(clients):
    assert run(Rows(LookupSettings()), [None, (1, None), 3]) == [{3: "row 3"}]
    assert clients.requests == [[3]]
    assert run(Rows(LookupSettings()), [None]) == [{}]


def test_client_that_broke_is_not_used_again(clients):
    failed, found = run(Rows(LookupSettings(connections=1)), ["broken"], [1])
    assert isinstance(failed, SourceError) and found == {1: "row 1"}
    assert (clients.made, clients.ended) == (2, 2)


def test_call_that_is_given_up_holds_nobody_up(clients):
    clients.go_on.clear()
    lookup = Rows(LookupSettings(connections=1))

    async def ask() -> None:
        await lookup.open()
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(lookup.lookup([1]), 0.05)
        await asyncio.wait_for(lookup.close(), 5)

    asyncio.run(ask())
    clients.go_on.set()
    deadline = time.monotonic() + 10
    while clients.ended < clients.made and time.monotonic() < deadline:
        time.sleep(0.01)
    assert clients.ended == clients.made == 1


def test_closing_one_that_was_not_opened_and_copies():
    lookup = pickle.loads(pickle.dumps(Rows(LookupSettings())))
    asyncio.run(lookup.close())
    assert run(lookup, [2]) == [{2: "row 2"}]


def test_several_rows_of_a_key():
    found = [(1, "a"), (2, "b"), (1, "c")]
    assert rows_by_key(found, gives_lists=True, where="t") == {1: ["a", "c"], 2: ["b"]}
    with pytest.raises(SourceError, match="key 1 has several rows in t"):
        rows_by_key(found, gives_lists=False, where="t")


@pytest.mark.parametrize("setter", ["set_connections", "set_request_size"])
def test_numbers_that_do_not_fit(setter):
    with pytest.raises(ConfigurationError, match="0, must be positive"):
        getattr(LookupBuilder(), setter)(0)

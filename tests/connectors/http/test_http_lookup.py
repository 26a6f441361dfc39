"""Looking up rows at a real server."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

from millstream.base.errors import ConfigurationError, SourceError
from millstream.common.time import Time
from millstream.datastream import AsyncDataStream
from millstream.datastream.connectors.http import HttpLookup, Patience
from millstream.spi.lookup import LookupCache
from millstream.testing import MiniCluster, check_lookup
from servers.web import Planned, WebServer

SHORT = Patience(total_s=0.3)
LONG = Patience(total_s=20)
USERS = {f"user {number}": {"name": f"N{number}"} for number in range(40)}


def lookup(server: WebServer, **more: Any) -> HttpLookup:
    return HttpLookup(f"{server.url}/users/{{key}}", **{"patience": SHORT, **more})


def find(asked: HttpLookup, *keys: Any) -> Any:
    async def ask() -> Any:
        await asked.open()
        try:
            return await asked.lookup(keys)
        finally:
            await asked.close()

    return asyncio.run(ask())


def encoded(users: dict[str, Any]) -> dict[str, Any]:
    return {name.replace(" ", "%20"): row for name, row in users.items()}


@pytest.mark.long
def test_look_up_keeps_the_contract(web):
    web.users = encoded(USERS)
    check_lookup(lookup(web), USERS, unknown=["nobody", "a/b?c"])


def test_rows_by_path_and_by_function(web):
    web.users = {"a": {"name": "A"}}

    assert find(lookup(web, row="name"), "a", "b") == {"a": "A"}
    assert find(lookup(web, row=lambda response: response.json()["name"] * 2), "a") == {"a": "AA"}


def test_no_more_calls_at_a_time_than_allowed(web):
    web.users = encoded(USERS)
    web.planned.extend([Planned(200, body=b"{}", after_s=0.05)] * 12)
    find(lookup(web, concurrency=3), *USERS)

    assert 1 < web.most_at_a_time <= 3


def test_a_job_asks_once_for_a_key_that_is_in_the_cache(web):
    web.users = {"a": {"name": "A"}}
    with MiniCluster(parallelism=1) as cluster:
        users = cluster.environment().from_collection(["a", "b"] * 50)
        stream = AsyncDataStream.ordered_lookup(
            users,
            lookup(web),
            lambda user: user,
            Time.seconds(20),
            lambda user, row: (user, row and row["name"]),
            cache=LookupCache(),
        )
        assert cluster.collect(stream) == [("a", "A"), ("b", None)] * 50
    assert len(web.requests) == 2


class TestTrouble:
    def test_server_that_is_down_is_named_without_secrets(self, web, caplog):
        web.stop()
        asked = HttpLookup(
            f"http://me:secret-word@127.0.0.1:{web.port}/{{key}}?key=secret-key",
            headers={"X-Key": "secret-header"},
            patience=SHORT,
        )
        with pytest.raises(SourceError, match="did not answer, looking up a key") as failed:
            find(asked, "a")
        assert "secret" not in str(failed.value) + repr(asked) + caplog.text

    def test_server_that_comes_back_is_busy_and_slow(self, web):
        web.users = {"a": {"name": "A"}}
        web.stop()
        slow = Planned(200, after_s=1.0)
        web.planned.extend([Planned(503), Planned(429, {"Retry-After": "1"}), slow])
        timer = threading.Timer(0.3, web.start)
        timer.start()

        assert find(lookup(web, patience=LONG, timeout=Time.milliseconds(300)), "a") == web.users
        timer.join()

    def test_refusal(self, web):
        web.planned.append(Planned(403, body=b"not you"))
        with pytest.raises(SourceError, match="(?s)status 403: not you.*what the user, or the key"):
            find(lookup(web), *USERS)

    def test_arguments_that_do_not_fit(self, web):
        for make, said in (
            (lambda: HttpLookup("http://host/users"), "no place for the key"),
            (lambda: lookup(web, concurrency=0), "concurrency is 0"),
            (lambda: lookup(web, row="a..[b]"), "no path into JSON"),
            (lambda: lookup(web, timeout=Time.seconds(0)), "timeout is 0"),
        ):
            with pytest.raises(ConfigurationError, match=said):
                make()

"""The conformance suite of look-ups: a right one passes, and one with a bug is told which rule it breaks."""

from __future__ import annotations

import asyncio
import sqlite3
import threading

import pytest

from millstream.spi.lookup import AsyncLookup
from millstream.testing import ContractViolation, LookupRule, check_lookup

ROWS = {number: f"row {number}" for number in range(50)}


class Table(AsyncLookup):
    """Looks into a table of SQLite."""

    def __init__(self, path):
        self.path = path

    async def open(self):
        self.closed = False

    async def lookup(self, keys):
        assert keys and not self.closed
        return await asyncio.to_thread(self.read, keys)

    def read(self, keys):
        marks = ", ".join("?" * len(keys))
        connection = sqlite3.connect(self.path)
        try:
            return dict(connection.execute(f"SELECT id, name FROM t WHERE id IN ({marks})", keys))
        finally:
            connection.close()

    async def close(self):
        self.closed = True


class Unpicklable(Table):
    def __init__(self, path):
        super().__init__(path)
        self.lock = threading.Lock()


class GivesPairs(Table):
    async def lookup(self, keys):
        return list((await super().lookup(keys)).items())


class GivesMore(Table):
    async def lookup(self, keys):
        return await super().lookup([*keys, 7])


class ForgetsTheLast(Table):
    async def lookup(self, keys):
        return await super().lookup(keys[: max(1, len(keys) - 1)])


class InventsRows(Table):
    async def lookup(self, keys):
        return {key: f"row {key}" for key in keys}


class SharesAList(Table):
    """Keeps what is asked where the next call finds it."""

    async def lookup(self, keys):
        self.asked = keys
        await asyncio.sleep(0)
        found = await super().lookup(self.asked)
        return {key: row for key, row in found.items() if key in keys}


class OnlyOnce(Table):
    opened = 0

    async def open(self):
        await super().open()
        OnlyOnce.opened += 1

    async def lookup(self, keys):
        return await super().lookup(keys) if OnlyOnce.opened == 1 else {}


BUGS = {
    Unpicklable: LookupRule.TRAVELS,
    GivesPairs: LookupRule.MAPPING,
    GivesMore: LookupRule.MAPPING,
    ForgetsTheLast: LookupRule.FOUND,
    InventsRows: LookupRule.UNKNOWN,
    SharesAList: LookupRule.AT_A_TIME,
    OnlyOnce: LookupRule.REOPENED,
}


@pytest.fixture
def path(tmp_path):
    path = str(tmp_path / "t.db")
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE t (id INTEGER, name TEXT)")
    connection.executemany("INSERT INTO t VALUES (?, ?)", ROWS.items())
    connection.commit()
    connection.close()
    return path


def test_a_right_look_up_passes(path):
    check_lookup(Table(path), ROWS, unknown=[99, -1])
    check_lookup(Table(path), {1: "row 1"})


def test_a_bug_of_each_kind_is_planted():
    assert set(BUGS.values()) == set(LookupRule)


@pytest.mark.parametrize("lookup", BUGS)
def test_a_bug_is_found_and_the_rule_that_it_breaks_is_named(path, lookup):
    OnlyOnce.opened = 0
    with pytest.raises(ContractViolation) as raised:
        check_lookup(lookup(path), ROWS, unknown=[99, -1])
    assert raised.value.rule is BUGS[lookup], str(raised.value)
    assert f"[{raised.value.rule.name}]" in str(raised.value)

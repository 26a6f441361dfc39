"""Holds a look-up against the contract of `spi.lookup`: keys alone and together, unknown ones, calls at a time."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

from millstream.base.errors import shorten
from millstream.spi.lookup import AsyncLookup
from millstream.testing.rules import ContractViolation, KeyOf, Rule, as_text, travel

__all__ = ["LookupRule", "check_lookup"]

_AT_A_TIME = 20


class LookupRule(Rule):
    """What `spi.lookup` asks of a look-up.

    Example:
        >>> from millstream.testing import LookupRule
        >>> LookupRule.UNKNOWN.value
        'a key that is not there is not in the result, and disturbs no other'
    """

    TRAVELS = "a look-up can be pickled; copies are as good as the original"
    MAPPING = "a look-up gives a dict whose keys were asked for"
    FOUND = "a key that is there is found, whatever it is asked for with, and as often as it is"
    UNKNOWN = "a key that is not there is not in the result, and disturbs no other"
    AT_A_TIME = "calls that are under way at the same time give what each asked for"
    REOPENED = "a copy finds the same when another one was closed"


def check_lookup(
    lookup: AsyncLookup,
    rows: Mapping[Any, Any],
    *,
    unknown: Sequence[Any] = (),
    key: KeyOf = as_text,
) -> None:
    """Check that a look-up keeps the contract of `millstream.spi.lookup`; returns if it does.

    What it looks into must not change meanwhile.

    Args:
        lookup: The look-up.
        rows: What it has to find, by key; at least one.
        unknown: Keys that are not there.
        key: Gives something that is equal for equal rows; by default their text.

    Raises:
        ContractViolation: If it breaks a rule; names the rule, what was being done, and what was seen.
    """
    check = _LookupCheck(rows, list(unknown), key)
    asyncio.run(check.attempt(travel(lookup, LookupRule.TRAVELS, "a new look-up"), LookupRule.FOUND))
    again = travel(lookup, LookupRule.TRAVELS, "a look-up of the next attempt")
    asyncio.run(check.attempt(again, LookupRule.REOPENED))


class _LookupCheck:
    def __init__(self, rows: Mapping[Any, Any], unknown: list[Any], key: KeyOf) -> None:
        self._rows = rows
        self._unknown = unknown
        self._key = key

    async def attempt(self, lookup: AsyncLookup, rule: LookupRule) -> None:
        """Open it, ask in all ways, and close it."""
        keys = list(self._rows)
        await lookup.open()
        try:
            for times in range(2):
                await self._ask(lookup, keys, rule, f"all {len(keys)} keys, time {times + 1}")
            for asked in keys[:_AT_A_TIME]:
                await self._ask(lookup, [asked], rule, "one key")
            for asked in self._unknown:
                await self._ask(lookup, [asked], LookupRule.UNKNOWN, "a key that is not there")
            together = [*self._unknown, *reversed(keys)]
            await self._ask(lookup, together, LookupRule.UNKNOWN, "keys that are there and others")
            parts = [[*keys[turn::_AT_A_TIME], *self._unknown] for turn in range(_AT_A_TIME)]
            calls = [
                self._ask(lookup, part, LookupRule.AT_A_TIME, f"{_AT_A_TIME} calls at a time")
                for part in parts
                if part
            ]
            await asyncio.gather(*calls)
        finally:
            await lookup.close()

    async def _ask(self, lookup: AsyncLookup, keys: list[Any], rule: LookupRule, scenario: str) -> None:
        found = await lookup.lookup(list(keys))
        if not isinstance(found, Mapping):
            raise ContractViolation(LookupRule.MAPPING, scenario, f"a {type(found).__name__}")
        others = [asked for asked in found if asked not in keys]
        if others:
            raise ContractViolation(LookupRule.MAPPING, scenario, f"{shorten(others[0])} was not asked for")
        for asked in keys:
            row, wanted = found.get(asked), self._rows.get(asked)
            if (row is None) != (wanted is None) or self._key(row) != self._key(wanted):
                seen = f"for {shorten(asked)} came {shorten(row)}, expected was {shorten(wanted)}"
                raise ContractViolation(rule, scenario, seen)

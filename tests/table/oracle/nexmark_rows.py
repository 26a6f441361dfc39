"""Rows like Nexmark's, few and the same in every run."""

from __future__ import annotations

import datetime
import random
from typing import Any

import pyarrow as pa

_BEGIN = datetime.datetime(2024, 1, 1)
_CHANNELS = ("Google", "Facebook", "Baidu", "Apple", "channel-7")


def nexmark_tables(bids: int = 300, seed: int = 7) -> dict[str, pa.Table]:
    """Return `bid`, `auction` and `person`; times are out of order by less than 2 s."""
    rng = random.Random(seed)
    people = max(bids // 15, 10)
    auctions = max(bids // 5, 20)
    return {
        "bid": _table([_bid(place, rng, people, auctions) for place in range(bids)], _BID),
        "auction": _table([_auction(place, rng, people, bids) for place in range(auctions)], _AUCTION),
        "person": _table([_person(place, rng, bids) for place in range(people)], _PERSON),
    }


_TIME = pa.timestamp("ms")
_BID = pa.schema(
    [
        ("auction", pa.int64()),
        ("bidder", pa.int64()),
        ("price", pa.int64()),
        ("channel", pa.string()),
        ("url", pa.string()),
        ("dateTime", _TIME),
        ("extra", pa.string()),
    ]
)
_AUCTION = pa.schema(
    [
        ("id", pa.int64()),
        ("itemName", pa.string()),
        ("description", pa.string()),
        ("initialBid", pa.int64()),
        ("reserve", pa.int64()),
        ("dateTime", _TIME),
        ("expires", _TIME),
        ("seller", pa.int64()),
        ("category", pa.int64()),
        ("extra", pa.string()),
    ]
)
_PERSON = pa.schema(
    [
        ("id", pa.int64()),
        ("name", pa.string()),
        ("emailAddress", pa.string()),
        ("creditCard", pa.string()),
        ("city", pa.string()),
        ("state", pa.string()),
        ("dateTime", _TIME),
        ("extra", pa.string()),
    ]
)


def _table(rows: list[tuple[Any, ...]], schema: pa.Schema) -> pa.Table:
    columns = list(zip(*rows, strict=True))
    arrays = [pa.array(column, each.type) for column, each in zip(columns, schema, strict=True)]
    return pa.Table.from_arrays(arrays, schema=schema)


def _moment(second: float) -> datetime.datetime:
    return _BEGIN + datetime.timedelta(milliseconds=int(second * 1000))


def _bid(place: int, rng: random.Random, people: int, auctions: int) -> tuple[Any, ...]:
    auction = 1000 + (rng.randrange(3) if rng.random() < 0.5 else rng.randrange(auctions))
    moment = _moment(place / 4 + rng.random() * 1.9)
    url = f"https://www.nexmark.com/item/{rng.randrange(9)}/x?channel_id={rng.randrange(5)}"
    # No two bids have the same price, so that the best one is known.
    price = rng.randrange(100, 10_000) * 1000 + place
    return (
        auction,
        2000 + rng.randrange(people),
        price,
        rng.choice(_CHANNELS),
        url,
        moment,
        "c" * rng.randrange(6) + "x",
    )


def _auction(place: int, rng: random.Random, people: int, bids: int) -> tuple[Any, ...]:
    start = place * bids / 4 / max(bids // 5, 20)
    moment = _moment(start)
    return (
        1000 + place,
        f"item {place}",
        "d",
        rng.randrange(100),
        rng.randrange(100),
        moment,
        moment + datetime.timedelta(seconds=rng.randrange(5, 40)),
        2000 + rng.randrange(people),
        10 + rng.randrange(3),
        "e",
    )


def _person(place: int, rng: random.Random, bids: int) -> tuple[Any, ...]:
    return (
        2000 + place,
        f"name {place}",
        "m",
        "1234",
        rng.choice(("Phoenix", "Portland")),
        rng.choice(("OR", "ID", "CA", "WY")),
        _moment(place * bids / 4 / max(bids // 15, 10)),
        "e",
    )

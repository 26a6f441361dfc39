"""Tables of the connector `datagen`, by what Flink's documentation says of each type."""

from __future__ import annotations

import datetime
from decimal import Decimal

import pytest

from millstream.base.errors import ConfigurationError, NotSupportedError
from millstream.config.configuration import Configuration
from millstream.table import EnvironmentSettings, TableEnvironment


@pytest.fixture
def generated():
    """Gives the rows of a table of some columns and options."""
    options = {"execution.target": "local", "parallelism.default": "1", "table.local-time-zone": "UTC"}
    settings = EnvironmentSettings.new_instance().with_configuration(Configuration.from_dict(options)).build()
    tables = TableEnvironment.create(settings)

    def rows(columns, **options):
        given = {"connector": "datagen", "number-of-rows": "20", **options}
        shown = ", ".join(f"'{name}' = '{value}'" for name, value in given.items())
        tables.execute_sql(f"CREATE TABLE g ({columns}) WITH ({shown})")
        with tables.execute_sql("SELECT * FROM g").collect() as found:
            return [tuple(row) for row in found]

    return rows


def test_every_type_has_values_of_its_own(generated):
    before = datetime.datetime.now(datetime.UTC).replace(tzinfo=None)
    rows = generated(
        "t TINYINT, i INT, l BIGINT, f FLOAT, d DOUBLE, n DECIMAL(10, 3), b BOOLEAN, c CHAR(4), v VARCHAR(7), "
        "s STRING, x BINARY(3), y VARBINARY(5), z BYTES, dt DATE, tm TIME, ts TIMESTAMP(3), tl TIMESTAMP_LTZ(3)"
    )
    after = datetime.datetime.now(datetime.UTC).replace(tzinfo=None) + datetime.timedelta(seconds=1)
    assert len(rows) == 20
    assert len({row[:13] for row in rows}) == 20, "random values differ"
    for row in rows:
        tiny, number, long, single, double, decimal, flag, char, varchar, text, three, five, raw = row[:13]
        assert -128 <= tiny < 128 and -(2**31) <= number < 2**31 and -(2**63) <= long < 2**63
        assert isinstance(single, float) and isinstance(double, float) and isinstance(flag, bool)
        assert abs(single) < 3.5e38 and decimal == round(decimal, 3) and abs(decimal) < 10**7
        assert isinstance(decimal, Decimal)
        assert [len(each) for each in (char, varchar, text, three, five, raw)] == [4, 7, 100, 3, 5, 100]
        day, time, stamp, _ = row[13:]
        assert isinstance(time, datetime.time)
        assert before - datetime.timedelta(seconds=1) <= stamp <= after
        assert before.date() <= day <= after.date()


def test_moments_are_of_the_time_when_rows_are_due(generated):
    rows = generated("ts TIMESTAMP(3)", **{"rows-per-second": "100", "number-of-rows": "5"})
    steps = [(row[0] - rows[0][0]) / datetime.timedelta(milliseconds=1) for row in rows]
    assert steps == [0, 10, 20, 30, 40]
    earliest = datetime.datetime.now(datetime.UTC).replace(tzinfo=None) - datetime.timedelta(seconds=20)
    assert all(row[0] > earliest for row in rows)


def test_moments_go_back(generated):
    now = datetime.datetime.now(datetime.UTC).replace(tzinfo=None)
    ages = [now - row[0] for row in generated("ts TIMESTAMP(3)", **{"fields.ts.max-past": "10 d"})]
    assert max(ages) <= datetime.timedelta(days=10) and min(ages) >= -datetime.timedelta(minutes=10)
    assert max(ages) - min(ages) > datetime.timedelta(days=1), "20 moments of 10 days are not of one day"


def test_collections_and_rows(generated):
    rows = generated(
        "a ARRAY<INT>, m MAP<INT, STRING>, r ROW<x INT, y ROW<z DECIMAL(4, 1)>>, w MULTISET<INT>",
        **{
            "fields.a.element.min": "1",
            "fields.a.element.max": "9",
            "fields.a.length": "5",
            "fields.m.value.length": "2",
            "fields.r.x.min": "3",
            "fields.r.x.max": "3",
            "fields.r.y.z.min": "0.5",
            "fields.r.y.z.max": "0.5",
        },
    )
    for numbers, pairs, row, bag in rows:
        assert len(numbers) == 5 and all(1 <= each <= 9 for each in numbers)
        assert len(pairs) == 3 and all(len(value) == 2 for value in pairs.values())
        assert (row[0], row[1][0]) == (3, Decimal("0.5"))
        assert all(1 <= count <= 3 for count in bag.values())


def test_sequences_nulls_and_lengths(generated):
    rows = generated(
        "k BIGINT, s STRING, d DECIMAL(5, 2), n INT, o INT, v STRING",
        **{
            **{f"fields.{name}.kind": "sequence" for name in "ksd"},
            **{f"fields.{name}.start": "1" for name in "ksd"},
            **{f"fields.{name}.end": "15" for name in "ksd"},
            "fields.n.null-rate": "1",
            "fields.o.null-rate": "0.0",
            "fields.v.length": "6",
            "fields.v.var-len": "true",
        },
    )
    assert [row[:3] for row in rows] == [(k, str(k), Decimal(k)) for k in range(1, 16)]
    assert {row[3] for row in rows} == {None} and None not in {row[4] for row in rows}
    assert {len(row[5]) for row in rows} <= set(range(1, 7)) and len({len(row[5]) for row in rows}) > 1


@pytest.mark.parametrize(
    ("columns", "options", "kind", "words"),
    [
        ("v VARCHAR(3)", {"fields.v.length": "4"}, ConfigurationError, "1 to 3"),
        ("v INT", {"fields.v.null-rate": "2"}, ConfigurationError, "0 to 1"),
        ("v DATE", {"fields.v.kind": "sequence"}, ConfigurationError, "have sequences"),
        ("v INT", {"fields.w.min": "2"}, ConfigurationError, "fields.w.min"),
        ("v TIMESTAMP(3)", {"fields.v.max-past": "long"}, ConfigurationError, "no span of time"),
        ("v INTERVAL MONTH", {}, NotSupportedError, "cannot be generated"),
    ],
)
def test_what_cannot_be_generated_is_told(generated, columns, options, kind, words):
    with pytest.raises(kind, match=words):
        generated(columns, **options)

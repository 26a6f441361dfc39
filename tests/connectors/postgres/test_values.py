"""What values of each type are read as, in rows and in columns."""

from __future__ import annotations

import datetime
import decimal
import math
import random
from typing import Any

import pytest

from millstream.base.errors import ConfigurationError, MalformedRecordError, SourceError
from millstream.base.time import Instant
from millstream.connectors.postgres.source import PostgresSource, PostgresSourceBuilder
from millstream.table import DataTypes
from millstream.testing.source_run import SourceRun
from servers.postgres import PostgresDatabase

MOST = "9999999999999999999999999999.9999999999"
ALL_PLANES = "a\u00e9\u4e2d\U0001f600\U000e0041\U0010fffd \"quoted\", 'single'; \\ {braces} \t\r\nline NULL"


def reading(database: PostgresDatabase) -> PostgresSourceBuilder:
    return PostgresSource.builder().set_url(database.url)


def read(source: PostgresSource, *, columns: bool = False) -> list[Any]:
    return SourceRun(source, 1, 100_000, columns=columns).run()


@pytest.fixture(params=[False, True], ids=["rows", "columns"])
def columns(request: pytest.FixtureRequest) -> bool:
    return bool(request.param)


TYPES = f"""
CREATE TYPE mood AS ENUM ('sad', 'ok', 'very happy');
CREATE DOMAIN price AS numeric(10,2) CHECK (value >= 0);
CREATE TABLE every (
    id int PRIMARY KEY, i2 int2, i4 int4, i8 int8, f4 float4, f8 float8, amount numeric(38,10), free numeric,
    truth bool, words text, short varchar(5), padded char(4), at timestamptz, local timestamp, rough timestamp(0),
    day date, hour time, document jsonb, old json, bytes bytea, uid uuid, feeling mood, cost price,
    numbers int[], texts text[], amounts numeric(10,2)[], moments timestamptz[], truths bool[], binaries bytea[],
    feelings mood[], named name
);
INSERT INTO every (id) VALUES (0);
INSERT INTO every VALUES (1, -32768, -2147483648, -9223372036854775808, 1.1, 0.1, -{MOST}, 1.5,
    true, $x${ALL_PLANES}$x$, '', 'ab', '2024-02-29 23:59:59.999999+05:30', '0001-01-01 00:00:00',
    '2024-01-02 03:04:05',
    '9999-12-31', '23:59:59.999999', '{{"a": [1, null, "\u00e9"]}}', '{{"b":  1}}', '\\x00ff10', '{"a" * 32}',
    'very happy',
    9.99, '{{1,NULL,3}}', '{{"a,b","NULL",NULL,"","q\\"uote\\\\back","{{x}}"}}', '{{1.50,NULL}}',
    '{{"2024-01-01 00:00:00+01"}}', '{{t,f,NULL}}', '{{"\\\\x00ff",NULL}}', '{{ok,"very happy"}}', 'n');
INSERT INTO every (id, f4, f8, words, numbers, texts, i8, bytes)
    VALUES (2, 'NaN', '-Infinity', '', '{{}}', '{{}}', 9223372036854775807, '');
"""


def test_values_of_every_type(postgres: PostgresDatabase, columns: bool) -> None:
    postgres.execute(TYPES)
    nothing, full, odd = read(reading(postgres).set_table("every").build(), columns=columns)
    assert list(nothing) == [0] + [None] * 30
    number = decimal.Decimal
    wanted = {
        "id": 1,
        "i2": -32768,
        "i4": -(2**31),
        "i8": -(2**63),
        "f8": 0.1,
        "amount": number("-" + MOST),
        "free": number("1.5"),
        "truth": True,
        "words": ALL_PLANES,
        "short": "",
        "padded": "ab  ",
        "at": Instant(1709231399, 999999000),
        "local": datetime.datetime(1, 1, 1),
        "rough": datetime.datetime(2024, 1, 2, 3, 4, 5),
        "day": datetime.date(9999, 12, 31),
        "hour": datetime.time(23, 59, 59, 999999),
        "document": '{"a": [1, null, "\u00e9"]}',
        "old": '{"b":  1}',
        "bytes": b"\x00\xff\x10",
        "uid": "aaaaaaaa-aaaa-aaaa-aaaa-aaaaaaaaaaaa",
        "feeling": "very happy",
        "cost": number("9.99"),
        "numbers": [1, None, 3],
        "texts": ["a,b", "NULL", None, "", 'q"uote\\back', "{x}"],
        "amounts": [number("1.50"), None],
        "moments": [Instant(1704063600, 0)],
        "truths": [True, False, None],
        "binaries": [b"\x00\xff", None],
        "feelings": ["ok", "very happy"],
        "named": "n",
    }
    found = full.as_dict()
    assert found.pop("f4") == pytest.approx(1.1)
    assert found == wanted
    assert math.isnan(odd.f4)
    assert (odd.f8, odd.words, odd.numbers, odd.texts, odd.bytes) == (-math.inf, "", [], [], b"")
    assert odd.i8 == 2**63 - 1


def test_the_row_type_is_that_of_the_catalogue(postgres: PostgresDatabase) -> None:
    postgres.execute(TYPES)
    found = reading(postgres).set_table("every").build().read_row_type()
    wanted = {
        "i2": DataTypes.SMALLINT(),
        "f4": DataTypes.FLOAT(),
        "amount": DataTypes.DECIMAL(38, 10),
        "free": DataTypes.DECIMAL(38, 18),
        "short": DataTypes.VARCHAR(5),
        "padded": DataTypes.CHAR(4),
        "at": DataTypes.TIMESTAMP_LTZ(),
        "rough": DataTypes.TIMESTAMP(0),
        "hour": DataTypes.TIME(6),
        "document": DataTypes.STRING(),
        "feeling": DataTypes.STRING(),
        "cost": DataTypes.DECIMAL(10, 2),
        "amounts": DataTypes.ARRAY(DataTypes.DECIMAL(10, 2)),
    }
    types = {field.name: field.data_type for field in found}
    assert {name: types[name] for name in wanted} == wanted
    assert len(found) == 31


def test_texts_of_every_plane_and_sign_come_as_they_are(postgres: PostgresDatabase, columns: bool) -> None:
    chance = random.Random(7)
    signs = '",\n\r\t\\.{}NULL' + "".join(chr(each) for each in (0x7F, 0x85, 0x2028, 0xFFFD, 0xFEFF))
    texts = [
        "".join(
            chance.choice(signs)
            if chance.random() < 0.5
            else chr(chance.choice([chance.randrange(1, 0xD800), chance.randrange(0xE000, 0x110000)]))
            for _ in range(chance.randrange(8))
        )
        for _ in range(2_000)
    ] + ["\\.", "\\N", '""', "NULL", "\ufeff"]
    with postgres.connect() as connection:
        connection.execute("CREATE TABLE texts (id int PRIMARY KEY, words text, list text[])")
        with connection.cursor() as cursor:
            cursor.executemany(
                "INSERT INTO texts VALUES (%s, %s, %s)",
                [(place, text, [text, None, text[:1]]) for place, text in enumerate(texts)],
            )
    rows = read(reading(postgres).set_table("texts").build(), columns=columns)
    assert [row.words for row in rows] == texts
    assert [row.list for row in rows] == [[text, None, text[:1]] for text in texts]


def test_a_single_column_of_empty_texts_and_nulls(postgres: PostgresDatabase, columns: bool) -> None:
    postgres.execute("CREATE TABLE bare (words text)")
    postgres.execute("INSERT INTO bare VALUES (''), (NULL), (E'\\n'), ('\\.'), (NULL)")
    source = reading(postgres).set_query("SELECT words FROM bare").build()
    assert sorted(map(repr, read(source, columns=columns))) == sorted(
        f"Row(words={each!r})" for each in ("", None, "\n", "\\.", None)
    )


def test_a_text_of_twenty_megabytes(postgres: PostgresDatabase, columns: bool) -> None:
    postgres.execute("CREATE TABLE large (id int PRIMARY KEY, words text)")
    postgres.execute("INSERT INTO large SELECT n, repeat(chr(64 + n), 20000000) FROM generate_series(1, 3) n")
    rows = read(reading(postgres).set_table("large").build(), columns=columns)
    assert [(row.id, len(row.words), set(row.words)) for row in rows] == [
        (1, 20_000_000, {"A"}),
        (2, 20_000_000, {"B"}),
        (3, 20_000_000, {"C"}),
    ]


@pytest.mark.parametrize(
    ("kind", "shown"),
    [
        ("interval", "interval"),
        ("point", "point"),
        ("int4range[]", "int4range"),
        ("numeric(39,2)", "numeric(39,2)"),
        ("timetz", "time with time zone"),
    ],
)
def test_a_type_that_has_no_sql_type_is_an_error_that_names_the_column(
    postgres: PostgresDatabase, kind: str, shown: str
) -> None:
    postgres.execute(f"CREATE TABLE strange (id int PRIMARY KEY, odd {kind})")
    with pytest.raises(SourceError) as raised:
        read(reading(postgres).set_table("strange").build())
    assert raised.value.message == f"column 'odd' is of type {shown}, which has no SQL type here"


def test_a_declared_type_has_values_as_text(postgres: PostgresDatabase, columns: bool) -> None:
    postgres.execute("CREATE TABLE strange (id int PRIMARY KEY, odd interval, numbers int[], amount numeric)")
    postgres.execute("INSERT INTO strange VALUES (1, '1 day 02:00', '{1,2}', 12345678901234567890.5)")
    declared = DataTypes.ROW(
        [
            DataTypes.FIELD("numbers", DataTypes.STRING()),
            DataTypes.FIELD("odd", DataTypes.STRING()),
            DataTypes.FIELD("amount", DataTypes.DOUBLE()),
            DataTypes.FIELD("id", DataTypes.DECIMAL(10, 1)),
        ]
    )
    source = reading(postgres).set_table("strange").set_row_type(declared).build()
    assert source.read_row_type() == declared
    assert [list(row) for row in read(source, columns=columns)] == [
        ["{1,2}", "P1DT2H", 12345678901234567890.5, decimal.Decimal("1.0")]
    ]


@pytest.mark.parametrize(
    ("kind", "value", "declared"),
    [
        ("time", "24:00:00", "TIME(6)"),
        ("timestamp", "infinity", "TIMESTAMP(6)"),
        ("date", "0044-03-15 BC", "DATE"),
        ("numeric", "NaN", "DECIMAL(38, 18)"),
        ("numeric", "1e30", "DECIMAL(38, 18)"),
        ("numeric", "0.1234567890123456789", "DECIMAL(38, 18)"),
        ("numeric[]", "{1e30}", "ARRAY<DECIMAL(38, 18)>"),
        ("int[]", "{{1,2},{3,4}}", "ARRAY<INT>"),
    ],
)
def test_a_value_that_does_not_fit_is_an_error_that_names_the_column(
    postgres: PostgresDatabase, kind: str, value: str, declared: str
) -> None:
    postgres.execute(f"CREATE TABLE strange (id int PRIMARY KEY, odd {kind})")
    postgres.execute(f"INSERT INTO strange VALUES (1, '{value}')")
    with pytest.raises(MalformedRecordError) as raised:
        read(reading(postgres).set_table("strange").build())
    assert "column 'odd' of table public.strange" in raised.value.message
    assert raised.value.message.endswith(f"a value does not fit {declared}")


def test_rows_inside_rows_are_refused_at_once(postgres: PostgresDatabase) -> None:
    inner = DataTypes.ROW([DataTypes.FIELD("a", DataTypes.INT())])
    with pytest.raises(ConfigurationError, match="field 'odd' is declared as ROW"):
        reading(postgres).set_row_type(DataTypes.ROW([DataTypes.FIELD("odd", inner)]))

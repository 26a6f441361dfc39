"""Tables of PostgreSQL and MariaDB, against what their own clients find in them."""

from __future__ import annotations

import datetime
from decimal import Decimal

import pytest

SERVERS = ["postgres", pytest.param("mariadb", marks=pytest.mark.long)]
# name: type in PostgreSQL, in MariaDB, in SQL
COLUMNS = {
    "id": ("bigint PRIMARY KEY", "BIGINT PRIMARY KEY", "BIGINT"),
    "small": ("smallint", "SMALLINT", "SMALLINT"),
    "whole": ("int", "INT", "INT"),
    "total": ("numeric(38,10)", "DECIMAL(38,10)", "DECIMAL(38, 10)"),
    "single": ("real", "FLOAT", "FLOAT"),
    "rate": ("float8", "DOUBLE", "DOUBLE"),
    "paid": ("boolean", "BOOLEAN", "BOOLEAN"),
    "at_time": ("timestamp", "DATETIME(6)", "TIMESTAMP(6)"),
    "on_day": ("date", "DATE", "DATE"),
    "clock": ("time", "TIME", "TIME"),
    "note": ("text", "LONGTEXT CHARACTER SET utf8mb4", "STRING"),
    "bin": ("bytea", "BLOB", "BYTES"),
}
CHARACTERS = [chr(code) for code in range(1, 0x110000, 7) if not 0xD800 <= code < 0xE000]
PER_ROW = 5_000


TRIGGER = {
    "postgres": "CREATE FUNCTION note() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN "
    "INSERT INTO seen VALUES (NEW.id, NEW.whole); RETURN NEW; END $$; "
    "CREATE TRIGGER note AFTER INSERT ON counts FOR EACH ROW EXECUTE FUNCTION note()",
    "mariadb": "CREATE TRIGGER note AFTER INSERT ON counts FOR EACH ROW INSERT INTO seen VALUES (NEW.id, NEW.whole)",
}


def value_rows():
    """Return rows with extremes, NULLs, and over all of them characters of every plane."""
    rows = [
        (
            0, -32768, -(2**31), Decimal("-9999999999999999999999999999.9999999999"), -0.5, -1e300, False,
            datetime.datetime(1, 1, 1), datetime.date(1, 1, 1), datetime.time(0, 0), "", b"",
        ),
        (
            1, 32767, 2**31 - 1, Decimal("9999999999999999999999999999.9999999999"), 1.5, 5e-300, True,
            datetime.datetime(9999, 12, 31, 23, 59, 59, 999999), datetime.date(9999, 12, 31),
            datetime.time(23, 59, 59), "a'\"\\?%s:x", bytes(range(256)),
        ),
        (2, *[None] * 11),
    ]  # fmt: skip
    for place, first in enumerate(range(0, len(CHARACTERS), PER_ROW), 3):
        text = "".join(CHARACTERS[first : first + PER_ROW])
        total = (Decimal(place) / 7).quantize(Decimal("1e-10"))
        rows.append((place, place, -place, total, None, place / 3, None, None, None, None, text, None))
    return rows


class Database:
    """A database of either kind, as its own client sees it."""

    def __init__(self, kind, database):
        self.kind = kind
        self._database = database
        self.place = ("postgres", "mariadb").index(kind)
        self.options = (
            f"'connector' = 'jdbc', 'url' = 'jdbc:{'postgresql' if kind == 'postgres' else 'mariadb'}://"
            f"{database.host}:{database.port}/{database.name}', 'username' = '{database.user}', "
            f"'password' = '{database.password}'"
        )

    def execute(self, statement, rows=()):
        connection = self._database.server.connect(self._database.name)
        try:
            with connection.cursor() as cursor:
                if rows:
                    cursor.executemany(statement, rows)
                else:
                    cursor.execute(statement)
                found = cursor.fetchall() if cursor.description is not None else []
            connection.commit()
        finally:
            connection.close()
        return [tuple(row) for row in found]

    def create(self, name, columns=tuple(COLUMNS)):
        kinds = ", ".join(f"{each} {COLUMNS[each][self.place]}" for each in columns)
        self.execute(f"CREATE TABLE {name} ({kinds})")


@pytest.fixture(params=SERVERS)
def database(request):
    return Database(request.param, request.getfixturevalue(request.param))


def declare(tables, database, name, columns=tuple(COLUMNS), key=None, extra=""):
    kinds = ", ".join(f"{each} {COLUMNS[each][2]}" for each in columns)
    primary = f", PRIMARY KEY ({key}) NOT ENFORCED" if key else ""
    tables.execute_sql(
        f"CREATE TABLE {name} ({kinds}{primary}) WITH ({database.options}, 'table-name' = '{name}'{extra})"
    )


def test_every_value_is_copied_as_it_is(tables, database):
    database.create("there")
    database.create("here")
    wanted = value_rows()
    database.execute(f"INSERT INTO there VALUES ({', '.join(['%s'] * len(COLUMNS))})", wanted)
    parts = (
        ", 'scan.partition.column' = 'id', 'scan.partition.num' = '3', 'scan.partition.lower-bound' = '0', "
        f"'scan.partition.upper-bound' = '{len(wanted)}', 'scan.fetch-size' = '10'"
    )
    declare(tables, database, "there", key="id", extra=parts)
    declare(tables, database, "here", key="id")
    tables.execute_sql("INSERT INTO here SELECT * FROM there").wait()
    found, original = (database.execute(f"SELECT * FROM {name} ORDER BY id") for name in ("here", "there"))
    assert found == original
    assert len(found) == len(wanted)
    assert {ord(each) >> 16 for row in found for each in row[10] or ""} == set(range(17)), "all planes"


def test_rows_that_are_read_have_the_values_of_the_types(tables, rows, database):
    database.create("there")
    database.execute(f"INSERT INTO there VALUES ({', '.join(['%s'] * len(COLUMNS))})", value_rows()[:3])
    declare(tables, database, "there")
    assert sorted(rows("SELECT * FROM there")) == value_rows()[:3]
    assert rows("SELECT id FROM there WHERE total > 0 AND at_time > TIMESTAMP '2000-01-01 00:00:00'") == [
        (1,)
    ]


def test_rows_are_replaced_and_deleted_by_key(tables, database):
    database.create("counts", ("id", "whole"))
    database.execute("INSERT INTO counts VALUES (1, 77), (9, 9)")
    declare(tables, database, "counts", ("id", "whole"), key="id")
    tables.get_config().set("millstream.epoch.fixed-records", "2")
    tables.execute_sql(
        "INSERT INTO counts SELECT n, CAST(COUNT(*) AS INT) FROM (SELECT w, COUNT(*) AS n FROM "
        "(VALUES ('a'), ('b'), ('a'), ('c'), ('c'), ('c'), ('a'), ('d')) AS t (w) GROUP BY w) GROUP BY n"
    ).wait()
    # 1: b and d; 3: a and c; whatever had 2 has gone; 9 is not the query's.
    assert sorted(database.execute("SELECT * FROM counts")) == [(1, 2), (3, 2), (9, 9)]


@pytest.mark.parametrize("guarantee", ["", ", 'sink.delivery-guarantee' = 'at-least-once'"])
def test_with_checkpoints_upserts_are_written_as_they_complete(tables, database, guarantee):
    """A row that came and went again between two checkpoints was never there for others, unless told otherwise."""
    database.create("counts", ("id", "whole"))
    database.create("seen", ("id", "whole"))
    database.execute(TRIGGER[database.kind])
    one = ", 'sink.buffer-flush.max-rows' = '1'"
    declare(tables, database, "counts", ("id", "whole"), key="id", extra=one + guarantee)
    tables.get_config().set("millstream.epoch.fixed-records", "1")
    tables.get_config().set("execution.checkpointing.interval", "1 h")
    tables.execute_sql(
        "INSERT INTO counts SELECT n, CAST(COUNT(*) AS INT) FROM (SELECT w, COUNT(*) AS n FROM "
        "(VALUES ('a'), ('a'), ('a')) AS t (w) GROUP BY w) GROUP BY n"
    ).wait()
    assert database.execute("SELECT * FROM counts") == [(3, 1)]
    assert sorted(database.execute("SELECT id FROM seen")) == ([(1,), (2,), (3,)] if guarantee else [(3,)])


@pytest.mark.parametrize("cache", ["", ", 'lookup.cache' = 'PARTIAL', 'lookup.partial-cache.max-rows' = '2'"])
def test_rows_are_looked_up(tables, rows, database, cache):
    database.create("people", ("id", "note", "total"))
    database.execute(
        "INSERT INTO people VALUES (%s, %s, %s)",
        [(1, "ann ☃", Decimal("1.5")), (2, None, None), (3, "cy 𝄞", 7)],
    )
    declare(tables, database, "people", ("id", "note", "total"), extra=cache)
    tables.execute_sql(
        "CREATE TEMPORARY VIEW orders AS SELECT *, PROCTIME() AS p FROM (VALUES (10, 1), (11, 9), (12, 3), (13, 1), "
        "(14, 2), (15, CAST(NULL AS BIGINT)), (16, 3), (17, 9)) AS t (o, c)"
    )
    query = "SELECT o, note, total FROM orders LEFT JOIN people FOR SYSTEM_TIME AS OF orders.p ON orders.c = people.id"
    seven, half = Decimal("7.0000000000"), Decimal("1.5000000000")
    ann, cy = ("ann ☃", half), ("cy 𝄞", seven)
    none = (None, None)
    expected = [
        (10, *ann),
        (11, *none),
        (12, *cy),
        (13, *ann),
        (14, *none),
        (15, *none),
        (16, *cy),
        (17, *none),
    ]
    assert sorted(rows(query)) == expected
    assert sorted(rows(query.replace("LEFT ", ""))) == [
        each for each in expected if each[0] not in (11, 15, 17)
    ]


def test_a_table_in_a_schema_and_names_in_upper_case_are_found(tables, rows, postgres):
    postgres.execute('CREATE SCHEMA "Shop"')
    postgres.execute('CREATE TABLE "Shop"."Orders" ("Id" int PRIMARY KEY, "select" text)')
    options = Database("postgres", postgres).options
    tables.execute_sql(
        "CREATE TABLE o (`Id` INT, `select` STRING, PRIMARY KEY (`Id`) NOT ENFORCED) "
        f"WITH ({options}, 'table-name' = 'Shop.Orders')"
    )
    tables.execute_sql("INSERT INTO o VALUES (1, 'x'), (2, 'y') ON CONFLICT DO DEDUPLICATE").wait()
    tables.execute_sql("INSERT INTO o VALUES (1, 'z') ON CONFLICT DO DEDUPLICATE").wait()
    assert sorted(postgres.execute('SELECT * FROM "Shop"."Orders"')) == [(1, "z"), (2, "y")]
    assert rows("SELECT `select` FROM o WHERE `Id` = 1") == [("z",)]

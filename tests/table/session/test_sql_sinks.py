"""What sinks get, as PyFlink 2.3 printed it."""

from __future__ import annotations

import pytest


@pytest.mark.parametrize(
    ("enforcer", "rows"),
    [("IGNORE", ["Hello", "W"]), ("TRIM_PAD", ["He", "W"])],
)
def test_lengths_of_text_are_heeded_if_the_enforcer_says_so(tables, tmp_path, enforcer, rows):
    """`CAST` cuts, an INSERT does not: PyFlink's example multi_sink writes "Hello" into a VARCHAR(1)."""
    tables.execute_sql(f"SET 'table.exec.sink.type-length-enforcer' = '{enforcer}'")
    columns = f"WITH ('connector' = 'filesystem', 'path' = '{tmp_path}/t', 'format' = 'json')"
    tables.execute_sql(f"CREATE TABLE t (v VARCHAR(2)) {columns}")
    tables.execute_sql(f"CREATE TABLE shown (v STRING) {columns}")
    tables.execute_sql("INSERT INTO t SELECT v FROM (VALUES ('Hello'), ('W')) AS s(v)").wait()
    with tables.execute_sql("SELECT v FROM shown").collect() as found:
        assert sorted(row[0] for row in found) == rows


def test_printed_moments_with_a_zone_have_seconds(tables, capfd):
    tables.execute_sql("CREATE TABLE p (l TIMESTAMP_LTZ(3), n TIMESTAMP(3)) WITH ('connector' = 'print')")
    tables.execute_sql(
        "INSERT INTO p SELECT TO_TIMESTAMP_LTZ(x, 3), TIMESTAMP '1970-01-01 00:00:00' "
        "FROM (VALUES (0), (5000), (60001)) AS t(x)"
    ).wait()
    assert sorted(capfd.readouterr().out.split("\n")[:-1]) == [
        "+I[1970-01-01T00:00:00Z, 1970-01-01T00:00]",
        "+I[1970-01-01T00:00:05Z, 1970-01-01T00:00]",
        "+I[1970-01-01T00:01:00.001Z, 1970-01-01T00:00]",
    ]


def test_casts_that_flink_has_not(rows, tables):
    """Digits of milliseconds are cut towards 1970; an interval is no number."""
    query = "SELECT CAST(CAST(TIMESTAMP '1969-12-31 23:59:58.567' AS TIMESTAMP({})) AS STRING)"
    assert rows(query.format(0)) == [("1969-12-31 23:59:59",)]
    assert rows(query.format(1)) == [("1969-12-31 23:59:58.6",)]
    assert rows(query.format(3)) == [("1969-12-31 23:59:58.567",)]
    for text in ("INTERVAL '3' MONTH AS INT", "INTERVAL '3' SECOND AS BIGINT"):
        with pytest.raises(ValueError, match="does not exist"):
            tables.execute_sql(f"SELECT CAST({text})")

"""Statements of a session: what PyFlink 2.3 printed for them, and what they do to catalogs."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from millstream.base.errors import ConfigurationError, MillstreamError, NotSupportedError
from millstream.config.configuration import Configuration
from millstream.table.catalog import CatalogPartitionSpec, ObjectPath
from millstream.table.catalog.catalog import InMemoryCatalog
from millstream.table.environment import TableEnvironment
from millstream.table.environment_settings import EnvironmentSettings
from millstream.table.errors import SqlError, ValidationError

PRINTS = json.loads(Path(__file__).with_name("flink_prints.json").read_text(encoding="utf-8"))
"""Statements that were executed in order by PyFlink, with what it printed; None where it refused them."""


def printed(tables, capsys, statement):
    tables.execute_sql(statement).print()
    return capsys.readouterr().out.rstrip().split("\n")


def environment(mode="streaming"):
    options = {"execution.target": "local", "parallelism.default": "1", "table.local-time-zone": "UTC"}
    builder = EnvironmentSettings.new_instance().with_configuration(Configuration.from_dict(options))
    return TableEnvironment.create(
        (builder.in_batch_mode() if mode == "batch" else builder.in_streaming_mode()).build()
    )


@pytest.mark.parametrize("mode", ["streaming", "batch"])
def test_statements_print_what_flink_prints(mode, capsys):
    tables = environment(mode)
    for case in PRINTS:
        if case["mode"] != mode:
            continue
        if case["printed"] is None:
            with pytest.raises(MillstreamError):
                tables.execute_sql(case["statement"]).print()
            capsys.readouterr()
        else:
            assert printed(tables, capsys, case["statement"]) == case["printed"], case["statement"]


def test_created_table_can_be_created_again_from_what_show_create_says(tables):
    tables.execute_sql(
        "CREATE TABLE t (a INT NOT NULL COMMENT 'x', b AS a + 1, ts TIMESTAMP(3), "
        "WATERMARK FOR ts AS ts - INTERVAL '5' SECOND, PRIMARY KEY (a) NOT ENFORCED) WITH ('connector' = 'print')"
    )

    def text():
        ((found,),) = tables.execute_sql("SHOW CREATE TABLE t").collect()
        return found

    first = text()
    tables.execute_sql("DROP TABLE t")
    tables.execute_sql(first)
    assert text() == first
    assert "WATERMARK FOR `ts` AS `ts` - INTERVAL '5' SECOND" in first


def test_view_means_the_same_whatever_is_current(tables, rows):
    tables.execute_sql("CREATE VIEW v AS SELECT x FROM (VALUES (1), (2)) AS t (x)")
    tables.execute_sql("CREATE VIEW w (y) AS SELECT v.x * 10 FROM v WHERE v.x > 1")
    tables.execute_sql("CREATE DATABASE d")
    tables.execute_sql("USE d")
    assert rows("SELECT * FROM default_database.w") == [(20,)]
    with pytest.raises(ValidationError, match="v"):
        tables.execute_sql("SELECT * FROM v")
    tables.execute_sql("ALTER VIEW default_database.w RENAME TO u")
    assert tables.execute_sql("SHOW VIEWS FROM default_database").collect().next()[0] == "u"


def test_like_takes_over_what_it_is_told_to(tables):
    tables.execute_sql(
        "CREATE TABLE s (a INT, ts TIMESTAMP(3), b AS a + 1, WATERMARK FOR ts AS ts) "
        "WITH ('connector' = 'print', 'print-identifier' = 'p')"
    )
    tables.execute_sql(
        "CREATE TABLE t (c STRING) WITH ('print-identifier' = 'q') LIKE s (EXCLUDING GENERATED)"
    )
    with tables.execute_sql("DESCRIBE t").collect() as found:
        assert [row[0] for row in found] == ["a", "ts", "c"]
    ((text,),) = tables.execute_sql("SHOW CREATE TABLE t").collect()
    assert "'print-identifier' = 'q'" in text and "'connector' = 'print'" in text and "WATERMARK" in text
    with pytest.raises(ValidationError, match='column "a"'):
        tables.execute_sql("CREATE TABLE u (a INT) LIKE s")


def test_create_table_as_fills_the_table(tables, rows, tmp_path):
    tables.execute_sql(
        f"CREATE TABLE t WITH ('connector' = 'filesystem', 'path' = '{tmp_path}/t', 'format' = 'json') "
        "AS SELECT x, x * 2 AS y FROM (VALUES (1), (2)) AS v (x)"
    ).wait()
    assert sorted(rows("SELECT * FROM t")) == [(1, 2), (2, 4)]


def test_alter_table_refuses_what_others_refer_to(tables):
    tables.execute_sql(
        "CREATE TABLE t (a INT, b AS a + 1, ts TIMESTAMP(3), k INT, WATERMARK FOR ts AS ts, "
        "PRIMARY KEY (k) NOT ENFORCED) WITH ('connector' = 'print')"
    )
    for change, words in [
        ("DROP a", 'computed column "b" refers'),
        ("RENAME a TO z", 'computed column "b" refers'),
        ("DROP ts", "the watermark refers"),
        ("DROP k", "the primary key refers"),
        ("DROP nope", 'no column "nope"'),
        ("ADD a INT", "already"),
        ("ADD PRIMARY KEY (a) NOT ENFORCED", "already"),
        ("MODIFY nope INT", 'no column "nope"'),
    ]:
        with pytest.raises(ValidationError, match=words):
            tables.execute_sql(f"ALTER TABLE t {change}")
    tables.execute_sql(
        "ALTER TABLE t MODIFY (a BIGINT AFTER k, WATERMARK FOR ts AS ts - INTERVAL '1' SECOND)"
    )
    with tables.execute_sql("DESCRIBE t").collect() as found:
        assert [tuple(row)[:2] for row in found] == [
            ("b", "BIGINT"),
            ("ts", "TIMESTAMP(3) *ROWTIME*"),
            ("k", "INT"),
            ("a", "BIGINT"),
        ]


def test_statement_set_is_one_job_with_all_its_sinks(tables, rows, tmp_path):
    for name in "ab":
        tables.execute_sql(
            f"CREATE TABLE {name} (x INT) WITH ('connector' = 'filesystem', 'path' = '{tmp_path}/{name}', "
            "'format' = 'json')"
        )
    tables.execute_sql(
        "EXECUTE STATEMENT SET BEGIN INSERT INTO a VALUES (1); INSERT INTO b VALUES (2), (3); END"
    ).wait()
    assert (rows("SELECT * FROM a"), sorted(rows("SELECT * FROM b"))) == ([(1,)], [(2,), (3,)])
    assert len([row for row in rows("SHOW JOBS") if "insert-into" in row[1]]) == 1
    tables.execute_sql("BEGIN STATEMENT SET")
    tables.execute_sql("INSERT INTO a VALUES (4)")
    tables.execute_sql("INSERT INTO b VALUES (5)")
    tables.execute_sql("END").wait()
    assert sorted(rows("SELECT * FROM a")) == [(1,), (4,)]
    with pytest.raises(ValidationError, match="END without"):
        tables.execute_sql("END")
    statements = tables.create_statement_set()
    statements.add_insert_sql("INSERT INTO a VALUES (6)").add_insert("b", tables.sql_query("SELECT 7"))
    statements.execute().wait()
    assert sorted(rows("SELECT * FROM b")) == [(2,), (3,), (5,), (7,)]
    with pytest.raises(ValidationError, match="has no INSERT"):
        statements.execute()


def test_statement_set_reads_a_table_once(tables, rows, tmp_path):
    """Also where its INSERTs read other columns; of another OPTIONS hint it is another table."""
    for place in ("in", "other"):
        (tmp_path / f"{place}.csv").write_text("1,x,10\n2,y,20\n")
    (tmp_path / "other.csv").write_text("7,z,70\n")
    tables.execute_sql(
        "CREATE TABLE source (a INT, b STRING, c INT) WITH "
        f"('connector' = 'filesystem', 'path' = '{tmp_path}/in.csv', 'format' = 'csv')"
    )
    for name, kind in (("first_t", "INT"), ("second_t", "STRING"), ("third_t", "INT")):
        tables.execute_sql(
            f"CREATE TABLE {name} (x {kind}) WITH ('connector' = 'filesystem', 'path' = '{tmp_path}/{name}', "
            "'format' = 'json')"
        )
    environment = tables._executor.jobs._environment
    launched, launch = [], environment._launch

    def noting(name):
        launched.append([each.name for each in environment._transformations])
        return launch(name)

    environment._launch = noting
    hint = f"/*+ OPTIONS('path' = '{tmp_path}/other.csv') */"
    statements = tables.create_statement_set()
    statements.add_insert_sql("INSERT INTO first_t SELECT c FROM source WHERE c > 10")
    statements.add_insert_sql("INSERT INTO second_t SELECT b FROM source")
    statements.add_insert_sql(f"INSERT INTO third_t SELECT a FROM source {hint}")
    statements.execute().wait()
    (names,) = launched
    assert len([name for name in names if name.startswith("source")]) in (2, 4), names
    found = [sorted(rows(f"SELECT * FROM {name}")) for name in ("first_t", "second_t", "third_t")]
    assert found == [[(20,)], [("x",), ("y",)], [(7,)]]


@pytest.mark.parametrize(
    ("statement", "kind", "words"),
    [
        ("CREATE MODEL m INPUT (a INT) OUTPUT (b INT)", NotSupportedError, "MODEL"),
        ("CREATE MATERIALIZED TABLE m AS SELECT 1", NotSupportedError, "MATERIALIZED TABLE"),
        ("DELETE FROM t WHERE a = 1", NotSupportedError, "DELETE"),
        ("SHOW MATERIALIZED TABLES", NotSupportedError, "MATERIALIZED TABLES"),
        ("DROP CONNECTION c", NotSupportedError, "CONNECTION"),
        ("LOAD MODULE hive", NotSupportedError, "hive"),
        ("ADD FILES '/nowhere.py', '/x.py'", ConfigurationError, "'/nowhere.py' of ADD FILE was not found"),
        ("REMOVE FILE '/nowhere.py'", ValidationError, "was not added"),
        ("ADD JAR '/x.jar'", NotSupportedError, "no Java classes"),
        ("CREATE FUNCTION f AS 'org.x.F'", NotSupportedError, "LANGUAGE PYTHON"),
        ("CREATE CATALOG c WITH ('type' = 'hive')", NotSupportedError, "hive"),
        ("CREATE CATALOG c WITH ('type' = 'generic_in_memori')", ConfigurationError, "generic_in_memory"),
        ("CREATE CATALOG c WITH ('typ' = 'x')", ConfigurationError, "no option 'type'"),
        ("CALL sys.p(1)", ValidationError, "procedure"),
        ("USE default_databse", ValidationError, 'Did you mean "default_database"'),
        ("DROP VIEW nope", ValidationError, '"default_catalog.default_database.nope" was not found'),
        ("DROP DATABASE default_database", ValidationError, "in use"),
        ("SET 'table.local-time-zone' = 'Mars/Base'", ConfigurationError, "Mars/Base"),
        ("STOP JOB 'x'", ValidationError, "SHOW JOBS"),
        ("EXECUTE PLAN '/nowhere.json'", ConfigurationError, "nowhere"),
        ("INSERT INTO nope SELECT 1", ValidationError, '"nope" was not found'),
        ("SELECT 1; SELECT 2", SqlError, "second statement"),
        ("", SqlError, "no statement"),
    ],
)
def test_what_is_not_there_says_so(tables, statement, kind, words):
    with pytest.raises(kind) as caught:
        tables.execute_sql(statement)
    assert words in str(caught.value)


def test_options_are_set_shown_and_reset(tables, rows):
    tables.execute_sql("SET 'pipeline.name' = 'mine'")
    assert ("pipeline.name", "mine") in rows("SET")
    tables.execute_sql("RESET 'pipeline.name'")
    assert "pipeline.name" not in dict(rows("SET"))


def test_temporary_table_hides_the_one_of_the_catalog(tables):
    tables.execute_sql("CREATE TABLE t (a INT) WITH ('connector' = 'print')")
    tables.execute_sql("CREATE TEMPORARY TABLE t (b INT) WITH ('connector' = 'print')")
    with tables.execute_sql("DESCRIBE t").collect() as found:
        assert [row[0] for row in found] == ["b"]
    with pytest.raises(ValidationError, match="hides"):
        tables.execute_sql("DROP TABLE t")
    tables.execute_sql("DROP TEMPORARY TABLE t")
    with tables.execute_sql("DESCRIBE t").collect() as found:
        assert [row[0] for row in found] == ["a"]
    assert tables.drop_table("t") and not tables.drop_table("t")


def test_catalog_of_files_keeps_tables_views_and_functions(tmp_path, rows, tables):
    options = f"WITH ('type' = 'file', 'path' = '{tmp_path}/catalog')"

    def begin():
        fresh = environment()
        fresh.execute_sql(f"CREATE CATALOG c {options}")
        fresh.execute_sql("USE CATALOG c")
        return fresh

    first = begin()
    first.execute_sql("CREATE DATABASE `my db` COMMENT 'x'")
    first.execute_sql("USE `my db`")
    first.execute_sql(
        "CREATE TABLE t (a INT NOT NULL, b AS a * 2, PRIMARY KEY (a) NOT ENFORCED) COMMENT 'hello' "
        "WITH ('connector' = 'datagen', 'number-of-rows' = '1', 'fields.a.kind' = 'sequence', "
        "'fields.a.start' = '5', 'fields.a.end' = '5')"
    )
    first.execute_sql("CREATE VIEW v (q) AS SELECT b FROM t")
    first.execute_sql("CREATE FUNCTION f AS 'math.sqrt' LANGUAGE PYTHON")
    second = begin()
    assert second.list_databases() == ["default", "my db"]
    second.use_database("my db")
    assert (second.list_tables(), second.list_views()) == (["t", "v"], ["v"])
    assert second.list_user_defined_functions() == ["f"]
    with second.execute_sql("SELECT * FROM v").collect() as found:
        assert [tuple(row) for row in found] == [(10,)]
    assert (tmp_path / "catalog" / "my%20db" / "t.table.sql").read_text().startswith("CREATE TABLE")
    first.execute_sql("DROP TABLE t")
    assert second.list_tables() == ["v"]
    (tmp_path / "catalog" / "my%20db" / "bad.table.sql").write_text("CREATE TABL x")
    with pytest.raises(ConfigurationError, match="bad.table.sql"):
        second.list_tables()


def test_error_shows_the_line_of_a_longer_text(tables):
    with pytest.raises(SqlError) as caught:
        tables.execute_sql("SELECT\n  1,\n  nope\nFROM (VALUES (1)) AS t (x)")
    assert "(line 3, column 3)" in str(caught.value)
    assert "  nope" in str(caught.value)


def test_analyze_counts_what_the_catalog_then_knows(tmp_path):
    tables = environment("batch")
    tables.execute_sql(
        "CREATE TABLE t (a INT, b STRING, f BOOLEAN, dt STRING) PARTITIONED BY (dt) WITH ("
        f"'connector' = 'filesystem', 'path' = '{tmp_path}/t', 'format' = 'json')"
    )
    tables.execute_sql(
        "INSERT INTO t VALUES (1, 'x', TRUE, 'u'), (5, 'yyy', FALSE, 'u'), (3, CAST(NULL AS STRING), TRUE, 'w')"
    ).wait()
    with pytest.raises(ValidationError, match=r"PARTITION \(dt\)"):
        tables.execute_sql("ANALYZE TABLE t COMPUTE STATISTICS")
    tables.execute_sql("ANALYZE TABLE t PARTITION (dt) COMPUTE STATISTICS FOR ALL COLUMNS")
    catalog = tables.get_catalog("default_catalog")
    path = ObjectPath("default_database", "t")
    part = CatalogPartitionSpec({"dt": "u"})
    assert catalog.get_partition_statistics(path, part).get_row_count() == 2
    counted = catalog.get_partition_column_statistics(path, part).get_column_statistics_data()
    assert counted["a"] == {"null_count": 0, "ndv": 2, "min": 1, "max": 5}
    assert counted["b"] == {"null_count": 0, "ndv": 2, "max_length": 3, "avg_length": 2.0}
    assert counted["f"] == {"null_count": 0, "true_count": 1, "false_count": 1}
    assert catalog.get_table_statistics(path).get_row_count() == -1
    tables.execute_sql("SET 'execution.runtime-mode' = 'streaming'")
    with pytest.raises(ValidationError, match="batch mode"):
        tables.execute_sql("ANALYZE TABLE t PARTITION (dt) COMPUTE STATISTICS")


def test_partitions_are_added_and_dropped(tables, rows, tmp_path):
    assert not (tmp_path / "t").exists()
    tables.execute_sql(
        "CREATE TABLE t (a INT, dt STRING) PARTITIONED BY (dt) WITH ("
        f"'connector' = 'filesystem', 'path' = '{tmp_path}/t', 'format' = 'csv')"
    )
    assert rows("SHOW PARTITIONS t") == []
    tables.execute_sql("ALTER TABLE t ADD PARTITION (dt = 'a b') PARTITION (dt = 'c')")
    assert rows("SHOW PARTITIONS t") == [("dt=a b",), ("dt=c",)]
    with pytest.raises(ValidationError, match="exists already"):
        tables.execute_sql("ALTER TABLE t ADD PARTITION (dt = 'c')")
    tables.execute_sql("ALTER TABLE t ADD IF NOT EXISTS PARTITION (dt = 'c')")
    tables.execute_sql("ALTER TABLE t DROP PARTITION (dt = 'c')")
    assert rows("SHOW PARTITIONS t") == [("dt=a b",)]
    with pytest.raises(ValidationError, match="SHOW PARTITIONS"):
        tables.execute_sql("ALTER TABLE t DROP PARTITION (dt = 'c')")
    with pytest.raises(ValidationError, match='"d" is no partition column'):
        tables.execute_sql("ALTER TABLE t DROP PARTITION (d = 'c')")


def test_procedures_of_a_catalog_are_called(tables, rows):
    def add(left, right=10):
        return [left + right]

    def files(count):
        return [{"name": f"f{number}", "bytes": number * 2} for number in range(count)]

    class WithProcedures(InMemoryCatalog):
        def procedures(self, database):
            return {"add": add, "files": files} if database == "sys" else {}

    catalog = WithProcedures("sys")
    tables._executor.catalogs.register_catalog("c", catalog)
    assert rows("CALL c.sys.`add`(1 + 1, `right` => 5)") == [(7,)]
    assert rows("CALL c.sys.files(2)") == [("f0", 0), ("f1", 2)]
    assert rows("SHOW PROCEDURES FROM c.sys") == [("add",), ("files",)]
    with pytest.raises(ValidationError, match='Did you mean "files"'):
        tables.execute_sql("CALL c.sys.filess(2)")


def test_added_files_are_imported_by_functions_until_they_are_removed(tables, rows, tmp_path, monkeypatch):
    before = list(sys.path)
    path = tmp_path / "added_by_sql.py"
    path.write_text(
        "from millstream.table import DataTypes\nfrom millstream.table.udf import udf\n\n"
        "@udf(result_type=DataTypes.BIGINT())\ndef plus(x):\n    return x + 1\n"
    )
    tables.execute_sql(f"ADD FILE '{path}'")
    assert rows("SHOW FILES") == [(str(path),)]
    tables.execute_sql("CREATE FUNCTION plus AS 'added_by_sql.plus' LANGUAGE PYTHON")
    assert rows("SELECT plus(4)") == [(5,)]
    tables.execute_sql(f"REMOVE FILE '{path}'")
    assert rows("SHOW FILES") == [] and sys.path == before
    monkeypatch.delitem(sys.modules, "added_by_sql")


def test_reset_gives_what_the_session_began_with(tables, rows):
    tables.execute_sql("SET 'execution.target' = 'nowhere'")
    tables.execute_sql("SET 'pipeline.name' = 'mine'")
    tables.execute_sql("RESET")
    found = dict(rows("SET"))
    assert found["execution.target"] == "local" and "pipeline.name" not in found


def test_statement_set_of_a_script_takes_inserts_only(tables):
    tables.execute_sql("BEGIN STATEMENT SET")
    with pytest.raises(ValidationError, match="INSERT only"):
        tables.execute_sql("SELECT 1")

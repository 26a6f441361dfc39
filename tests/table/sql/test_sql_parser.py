"""The parser's trees: written out by hand from Flink's grammar, and read again from their own text."""

from __future__ import annotations

import datetime
import decimal
from decimal import Decimal

import pytest

from millstream.table.sql import ast
from millstream.table.sql import statements_ast as st
from millstream.table.sql.parser import (
    is_complete,
    parse_expression,
    parse_identifier,
    parse_query,
    parse_statement,
    parse_statements,
    parse_type,
)
from millstream.table.sql.unparse import unparse


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("a + b * c", "`a` + `b` * `c`"),
        ("(a + b) * c", "(`a` + `b`) * `c`"),
        ("a - (b - c)", "`a` - (`b` - `c`)"),
        ("- a * b", "-`a` * `b`"),
        ("not a = b and c or d", "NOT `a` = `b` AND `c` OR `d`"),
        ("a = b is null", "`a` = `b` IS NULL"),
        ("a || b = c || d", "`a` || `b` = `c` || `d`"),
        ("x not between 1 and 2 and y", "`x` NOT BETWEEN 1 AND 2 AND `y`"),
        ("x between symmetric 1 and 2", "`x` BETWEEN SYMMETRIC 1 AND 2"),
        ("x in (1, 2) = true", "`x` IN (1, 2) = TRUE"),
        ("x not like 'a%' escape '!'", "`x` NOT LIKE 'a%' ESCAPE '!'"),
        ("a is not distinct from b", "`a` IS NOT DISTINCT FROM `b`"),
        ("a <> b", "`a` <> `b`"),
        ("a != b", "`a` <> `b`"),
        ("case x when 1 then 'a' else 'b' end", "CASE `x` WHEN 1 THEN 'a' ELSE 'b' END"),
        ("cast(a as decimal(10, 2))", "CAST(`a` AS DECIMAL(10, 2))"),
        ("try_cast(a as string)", "TRY_CAST(`a` AS VARCHAR(2147483647))"),
        ("m['k'].f[1]", "`m`['k'].`f`[1]"),
        ("interval '5' second", "INTERVAL '5' SECOND"),
        ("interval '1:30' hour to minute", "INTERVAL '90' MINUTE"),
        ("interval '10' minutes", "INTERVAL '10' MINUTE"),
        ("interval '1-6' year to month", "INTERVAL '18' MONTH"),
        ("extract(year from ts)", "EXTRACT(YEAR FROM `ts`)"),
        ("floor(ts to hour)", "FLOOR(`ts` TO HOUR)"),
        ("trim(leading 'x' from y)", "TRIM(LEADING 'x' FROM `y`)"),
        ("position('a' in b)", "POSITION('a' IN `b`)"),
        ("timestampdiff(day, a, b)", "TIMESTAMPDIFF(DAY, `a`, `b`)"),
        ("count(distinct x) filter (where y > 1)", "COUNT(DISTINCT `x`) FILTER (WHERE `y` > 1)"),
        (
            "sum(x) over (partition by a order by t rows between 2 preceding and current row)",
            "SUM(`x`) OVER (PARTITION BY `a` ORDER BY `t` ROWS BETWEEN 2 PRECEDING AND CURRENT ROW)",
        ),
        ("current_timestamp", "CURRENT_TIMESTAMP"),
        ("array[1, 2]", "ARRAY[1, 2]"),
        ("map['a', 1]", "MAP['a', 1]"),
        ("date '2024-01-31'", "DATE '2024-01-31'"),
        ("x'0aff'", "X'0AFF'"),
        ("'it''s'", "'it''s'"),
        ("1.50", "1.50"),
        ("`a b`.`select`", "`a b`.`select`"),
        (
            "listagg(x, ',') within group (order by y desc)",
            "LISTAGG(`x`, ',') WITHIN GROUP (ORDER BY `y` DESC)",
        ),
        (
            "json_value(j, '$.a' returning int default 0 on empty null on error)",
            "JSON_VALUE(`j`, '$.a' RETURNING INT DEFAULT 0 ON EMPTY NULL ON ERROR)",
        ),
    ],
)
def test_expression_is_read_with_flinks_precedence(text, canonical):
    tree = parse_expression(text)
    assert unparse(tree) == canonical
    assert parse_expression(canonical) == parse_expression(unparse(parse_expression(canonical)))


@pytest.mark.parametrize(
    ("text", "value", "kind"),
    [
        ("1", 1, "INT NOT NULL"),
        ("-2147483648", -2147483648, "INT NOT NULL"),
        ("2147483648", 2147483648, "BIGINT NOT NULL"),
        ("1.50", Decimal("1.50"), "DECIMAL(3, 2) NOT NULL"),
        ("0.01", Decimal("0.01"), "DECIMAL(3, 2) NOT NULL"),
        ("1e3", 1000.0, "DOUBLE NOT NULL"),
        ("'abc'", "abc", "CHAR(3) NOT NULL"),
        ("u&'\\0041'", "A", "CHAR(1) NOT NULL"),
        ("true", True, "BOOLEAN NOT NULL"),
        ("time '01:02:03'", datetime.time(1, 2, 3), "TIME(0) NOT NULL"),
        (
            "timestamp '2020-01-01 10:00:00.123'",
            datetime.datetime(2020, 1, 1, 10, 0, 0, 123000),
            "TIMESTAMP(3) NOT NULL",
        ),
    ],
)
def test_literal_has_its_value_and_type(text, value, kind):
    tree = parse_expression(text)
    assert isinstance(tree, ast.LiteralValue)
    assert (tree.value, type(tree.value), str(tree.type)) == (value, type(value), kind)


@pytest.mark.parametrize(
    "text",
    [
        "INT",
        "DECIMAL(10, 2) NOT NULL",
        "VARCHAR(3)",
        "TIMESTAMP_LTZ(3)",
        "ARRAY<INT NOT NULL>",
        "MAP<STRING, ARRAY<BIGINT>>",
        "ROW<a INT, b STRING NOT NULL>",
    ],
)
def test_type_is_read_as_it_is_written(text):
    assert str(parse_type(text)) == text


def test_other_spellings_of_types_mean_the_same():
    assert parse_type("timestamp(3) with local time zone") == parse_type("TIMESTAMP_LTZ(3)")
    assert parse_type("INTEGER") == parse_type("INT")
    assert parse_type("INT ARRAY") == parse_type("ARRAY<INT>")
    assert parse_type("CHARACTER VARYING (3)") == parse_type("VARCHAR(3)")
    assert parse_type("numeric") == parse_type("DECIMAL(10, 0)")
    assert parse_type("ROW(a INT)") == parse_type("ROW<a INT>")


def test_clauses_of_a_query_stand_where_they_belong():
    query = parse_query(
        "SELECT DISTINCT a, t.*, COUNT(*) AS n FROM s AS t LEFT JOIN u ON t.id = u.id WHERE a > 1 "
        "GROUP BY a HAVING COUNT(*) > 1 ORDER BY n DESC NULLS LAST LIMIT 10 OFFSET 5"
    )
    assert isinstance(query, ast.Select) and query.distinct
    assert query.items[1].expression == ast.Star(("t",))
    assert query.items[2].alias == "n"
    assert isinstance(query.source, ast.JoinRelation) and query.source.kind == "LEFT"
    assert query.source.left == ast.Alias(ast.TableName(("s",)), "t")
    assert query.group == (ast.Column(("a",)),)
    assert query.order[0].descending and query.order[0].nulls_first is False
    assert (query.limit.value, query.offset.value) == (10, 5)


def test_intersect_binds_more_than_union_and_parentheses_more_than_both():
    left = parse_query("SELECT 1 UNION SELECT 2 INTERSECT ALL SELECT 3")
    assert (left.kind, left.right.kind, left.right.all) == ("UNION", "INTERSECT", True)
    other = parse_query("(SELECT 1 UNION SELECT 2) INTERSECT SELECT 3")
    assert (other.kind, other.left.kind) == ("INTERSECT", "UNION")
    minus = parse_query("SELECT 1 EXCEPT SELECT 2 MINUS SELECT 3")
    assert (minus.kind, minus.left.kind) == ("EXCEPT", "EXCEPT")


def test_parenthesis_is_a_query_or_an_expression_by_what_follows():
    sums = parse_query("SELECT ((SELECT 1) + 1), (SELECT 2), ((SELECT 3) UNION (SELECT 4))")
    first, second, third = (item.expression for item in sums.items)
    assert isinstance(first, ast.Operator) and isinstance(first.operands[0], ast.Subquery)
    assert isinstance(second, ast.Subquery)
    assert isinstance(third, ast.Subquery) and third.query.kind == "UNION"


def test_window_table_functions_take_tables_descriptors_and_names():
    query = parse_query(
        "SELECT * FROM TABLE(TUMBLE(DATA => TABLE bid, TIMECOL => DESCRIPTOR(ts), SIZE => INTERVAL '10' MINUTES))"
    )
    call = query.source.call
    assert [each.name for each in call.arguments] == ["DATA", "TIMECOL", "SIZE"]
    assert call.arguments[0].value == ast.TableArgument(ast.TableName(("bid",)))
    assert call.arguments[1].value == ast.Descriptor(("ts",))
    assert call.arguments[2].value == ast.IntervalLiteral(600_000, False, "10")
    session = parse_query(
        "SELECT * FROM SESSION(TABLE bid PARTITION BY a, b, DESCRIPTOR(ts), INTERVAL '1' DAY)"
    ).source.call
    assert session.arguments[0].partition == (ast.Column(("a",)), ast.Column(("b",)))


def test_sources_of_joins_keep_their_kinds():
    query = parse_query(
        "SELECT * FROM o JOIN r FOR SYSTEM_TIME AS OF o.p AS c ON o.k = c.k "
        "CROSS JOIN UNNEST(o.tags) WITH ORDINALITY AS t(tag, n), LATERAL TABLE(f(o.x)) AS g(y)"
    )
    lateral = query.source
    assert isinstance(lateral.right, ast.Alias) and isinstance(lateral.right.relation, ast.Lateral)
    unnest = lateral.left
    assert unnest.kind == "CROSS" and unnest.right.relation == ast.Unnest((ast.Column(("o", "tags")),), True)
    temporal = unnest.left
    assert temporal.right == ast.Alias(ast.TemporalTable(ast.TableName(("r",)), ast.Column(("o", "p"))), "c")


def test_grouping_sets_and_hints_are_kept():
    query = parse_query(
        "SELECT /*+ STATE_TTL('a' = '1d', 'b' = '2d') */ x FROM t /*+ OPTIONS('k' = 'v') */ "
        "GROUP BY GROUPING SETS ((a, b), a, ()), ROLLUP (c)"
    )
    assert query.hints == (("STATE_TTL", (("a", "1d"), ("b", "2d"))),)
    assert query.source == ast.TableName(("t",), (("OPTIONS", (("k", "v"),)),))
    a, b, c = (ast.Column((name,)) for name in "abc")
    assert query.group == (
        ast.GroupingSets("GROUPING SETS", ((a, b), (a,), ())),
        ast.GroupingSets("ROLLUP", ((c,),)),
    )


def test_match_recognize_is_read_with_its_pattern():
    relation = parse_query(
        "SELECT * FROM t MATCH_RECOGNIZE (PARTITION BY s ORDER BY r MEASURES A.p AS p ONE ROW PER MATCH "
        "AFTER MATCH SKIP TO LAST B PATTERN (A B+? (C | D){2,}) WITHIN INTERVAL '1' HOUR DEFINE B AS B.p > A.p) AS m"
    ).source.relation
    assert relation.after_match == ("TO LAST", "B")
    either = ("alternation", (("variable", "C"), ("variable", "D")))
    assert relation.pattern == (
        "sequence",
        (
            ("variable", "A"),
            ("quantified", ("variable", "B"), 1, None, False),
            ("quantified", either, 2, None, True),
        ),
    )
    assert relation.within == ast.IntervalLiteral(3_600_000, False, "1")


def test_create_table_is_read_whole():
    statement = parse_statement(
        "CREATE TEMPORARY TABLE IF NOT EXISTS c.d.t (a INT NOT NULL COMMENT 'the a', b AS a + 1, "
        "m TIMESTAMP(3) METADATA FROM 'timestamp' VIRTUAL, ts TIMESTAMP(3), "
        "WATERMARK FOR ts AS ts - INTERVAL '5' SECOND, PRIMARY KEY (a) NOT ENFORCED) "
        "COMMENT 'x' PARTITIONED BY (a) WITH ('connector' = 'print')"
    )
    assert isinstance(statement, st.CreateTable)
    assert (statement.name, statement.temporary, statement.if_not_exists) == (("c", "d", "t"), True, True)
    a, b, m, ts = statement.columns
    assert (str(a.type), a.comment) == ("INT NOT NULL", "the a")
    assert (b.type, unparse(b.expression), b.expression_text) == (None, "`a` + 1", "a + 1")
    assert (m.metadata, m.metadata_key, m.virtual) == (True, "timestamp", True)
    assert (ts.name, statement.watermark.column) == ("ts", ("ts",))
    assert unparse(statement.watermark.expression) == "`ts` - INTERVAL '5' SECOND"
    assert (statement.primary_key, statement.partition_keys) == (("a",), ("a",))
    assert (statement.options, statement.comment) == ((("connector", "print"),), "x")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("USE CATALOG c", st.Use("CATALOG", ("c",))),
        ("USE a.b", st.Use("DATABASE", ("a", "b"))),
        ("SHOW TABLES FROM c.d NOT LIKE 'x%'", st.Show("TABLES", ("c", "d"), "x%", True, True)),
        ("SHOW DATABASES ILIKE 'X%'", st.Show("DATABASES", (), "X%", False)),
        ("SHOW CREATE TABLE t", st.Show("CREATE TABLE", ("t",))),
        ("SHOW FULL MODULES", st.Show("FULL MODULES")),
        ("DESC t", st.Describe("TABLE", ("t",))),
        ("DESCRIBE CATALOG EXTENDED c", st.Describe("CATALOG", ("c",), True)),
        ("DESCRIBE database", st.Describe("TABLE", ("database",))),
        ("SET 'a.b' = 'c'", st.SetOption("a.b", "c")),
        ("SET a.b = c", st.SetOption("a.b", "c")),
        ("RESET", st.SetOption(reset=True)),
        ("DROP TEMPORARY VIEW IF EXISTS v", st.Drop("VIEW", ("v",), True, True)),
        ("DROP DATABASE d CASCADE", st.Drop("DATABASE", ("d",), cascade=True)),
        ("STOP JOB 'x' WITH SAVEPOINT WITH DRAIN", st.StopJob("x", True, True)),
        ("TRUNCATE TABLE t", st.Truncate(("t",))),
        ("ADD JAR 'x.jar'", st.JarCommand("ADD", "JAR", ("x.jar",))),
        ("CREATE CATALOG c WITH ('type' = 'x')", st.CreateCatalog("c", (("type", "x"),))),
        ("CREATE DATABASE IF NOT EXISTS d COMMENT 'y'", st.CreateDatabase(("d",), (), "y", True)),
        (
            "CREATE FUNCTION f AS 'm.g' LANGUAGE PYTHON",
            st.CreateFunction(("f",), "m.g", "PYTHON"),
        ),
        ("ALTER TABLE t RENAME TO u", st.AlterTable(("t",), st.TableChange("RENAME", names=("u",)))),
        (
            "ALTER TABLE t DROP (a, b)",
            st.AlterTable(("t",), st.TableChange("DROP COLUMN", names=("a", "b"))),
        ),
        ("EXECUTE PLAN '/p.json'", st.ExecutePlan("/p.json")),
        ("ANALYZE TABLE t COMPUTE STATISTICS FOR ALL COLUMNS", st.Analyze(("t",), (), True)),
        ("BEGIN STATEMENT SET", st.StatementSetMark(True)),
        ("CREATE MODEL m INPUT (a INT) OUTPUT (b INT)", st.Unsupported("MODEL")),
    ],
)
def test_statement_is_read(text, expected):
    assert parse_statement(text) == expected


def test_insert_and_statement_sets_keep_columns_partitions_and_conflicts():
    insert = parse_statement(
        "INSERT OVERWRITE t PARTITION (dt = '2024', hr) (a, b) SELECT 1, 2 ON CONFLICT DO NOTHING"
    )
    assert isinstance(insert, st.Insert)
    assert (insert.overwrite, insert.columns, insert.conflict) == (True, ("a", "b"), "NOTHING")
    assert [name for name, _ in insert.partition] == ["dt"]
    both = parse_statement(
        "EXECUTE STATEMENT SET BEGIN INSERT INTO a SELECT 1; INSERT INTO b VALUES (1), (2); END"
    )
    assert [each.target for each in both.statements] == [("a",), ("b",)]


def test_a_text_has_statements_with_their_own_texts_and_places():
    text = "-- first\nSELECT 1; /* none */ ;\n  SHOW TABLES ;"
    first, second = parse_statements(text)
    assert (first.text, second.text) == ("SELECT 1", "SHOW TABLES")
    assert (first.at.line, second.at.line, second.at.column) == (2, 3, 3)


@pytest.mark.parametrize(
    ("text", "complete"),
    [
        ("SELECT 1", False),
        ("SELECT ';'", False),
        ("SELECT 1; -- done", True),
        ("SELECT 'a", False),
        ("EXECUTE STATEMENT SET BEGIN INSERT INTO a SELECT 1;", False),
        ("EXECUTE STATEMENT SET BEGIN INSERT INTO a SELECT 1; END;", True),
        ("/* ;", False),
    ],
)
def test_text_is_complete_behind_its_semicolon(text, complete):
    assert is_complete(text) is complete


def test_names_with_dots_may_be_quoted():
    assert parse_identifier("a.`b.c`.`d``e`") == ("a", "b.c", "d`e")


def test_long_conditions_make_shallow_trees():
    text = " AND ".join(f"a{number} = {number}" for number in range(500))

    def depth(node):
        return 1 + max(map(depth, node.operands)) if isinstance(node, ast.Operator) else 1

    assert depth(parse_expression(text)) < 20


def test_intervals_are_exact_whatever_the_program_has_set_for_its_own_decimals():
    with decimal.localcontext(prec=3):
        assert parse_expression("INTERVAL '1 02:03:04.567' DAY TO SECOND").value == 93_784_567

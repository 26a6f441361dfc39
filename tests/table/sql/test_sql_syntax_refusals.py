"""Wrong texts: each is refused with its place, and with what was meant where that can be told.

All of them are refused by Flink's parser too.
"""

from __future__ import annotations

import pytest

from millstream.table.sql.parser import SqlParseError, parse_statements

# text, line, column, words that the message has
WRONG = [
    ("SELEC 1", 1, 1, 'Did you mean "SELECT"?'),
    ("SELECT a FORM t", 1, 15, 'Did you mean "FROM" instead of "FORM"?'),
    ("SELECT * FRM t", 1, 10, 'Did you mean "FROM"?'),
    ("SELECT", 1, 7, "the end of the text was not expected"),
    ("SELECT FROM t", 1, 8, "an expression"),
    ("SELECT a, FROM t", 1, 11, "Remove the comma"),
    ("SELECT a b c FROM t", 1, 12, "FROM"),
    ("SELECT a FROM", 1, 14, "a table"),
    ("SELECT a FROM t WHERE", 1, 22, "an expression"),
    ("SELECT a FROM t WHERE a =", 1, 26, "an expression"),
    ("SELECT a FROM t WHERE a = = 1", 1, 27, "an expression"),
    ("SELECT a FROM t GROUP a", 1, 17, "followed by BY"),
    ("SELECT a FROM t GROUP BY", 1, 25, "an expression"),
    ("SELECT a FROM t ORDER a", 1, 17, "followed by BY"),
    ("SELECT a FROM t LIMIT x", 1, 23, "a number of rows"),
    ("SELECT a FROM t LIMIT -1", 1, 23, "a number of rows"),
    ("SELECT a FROM t FETCH FIRST 3 ROWS", 1, 35, "ONLY"),
    ("SELECT (a FROM t", 1, 11, '")"'),
    ("SELECT a) FROM t", 1, 9, '")" was not expected'),
    ("SELECT 'a FROM t", 1, 8, "a string is not closed"),
    ("SELECT `a FROM t", 1, 8, "a name in backquotes is not closed"),
    ("SELECT a /* b FROM t", 1, 10, "a comment is not closed"),
    ('SELECT "a" FROM t', 1, 8, "double quote"),
    ("SELECT a # b", 1, 10, "has no meaning"),
    ("SELECT date FROM t", 1, 8, "`date`"),
    ("SELECT a AS value FROM t", 1, 13, "`value`"),
    ("SELECT a FROM table", 1, 20, "a table"),
    ("SELECT a FROM order", 1, 15, "`order`"),
    ("SELECT a FROM t JOIN u", 1, 0, ""),
    ("SELECT a FROM t LEFT JOIN u", 1, 28, "ON"),
    ("SELECT a FROM t LEFT u", 1, 22, "JOIN"),
    ("SELECT a FROM t JOIN ON a = b", 1, 22, "a table"),
    ("SELECT a FROM t UNION", 1, 22, "a query"),
    ("SELECT a FROM t UNION ALL ORDER BY a", 1, 27, "a query"),
    ("SELECT CASE WHEN a THEN b FROM t", 1, 27, "END"),
    ("SELECT CASE a END FROM t", 1, 15, "WHEN"),
    ("SELECT CASE WHEN a b END", 1, 20, "THEN"),
    ("SELECT CAST(a, INT)", 1, 14, "AS"),
    ("SELECT CAST(a AS)", 1, 17, "a type"),
    ("SELECT CAST(a AS INTT)", 1, 18, "Did you mean INT?"),
    ("SELECT CAST(a AS STRNG)", 1, 18, "Did you mean STRING?"),
    ("SELECT CAST(a AS DECIMAL(50, 2))", 1, 18, "DECIMAL(50, 2) does not exist"),
    ("SELECT CAST(a AS TIMESTAMP(12))", 1, 27, "precision of 12"),
    ("SELECT CAST(a AS ARRAY)", 1, 23, '"<"'),
    ("SELECT CAST(a AS MAP<INT>)", 1, 25, '","'),
    ("SELECT CAST(a AS ROW<a INT, a STRING>)", 1, 29, "two fields named"),
    ("SELECT CAST(a AS VARCHAR(0))", 1, 18, "does not exist"),
    ("SELECT a IN 1", 1, 13, '"("'),
    ("SELECT a IN ()", 1, 14, "an expression"),
    ("SELECT a BETWEEN 1", 1, 19, "AND"),
    ("SELECT a NOT 1", 1, 10, "was not expected"),
    ("SELECT a LIKE", 1, 14, "an expression"),
    ("SELECT a IS", 1, 12, "NULL"),
    ("SELECT a IS 5", 1, 13, "NULL"),
    ("SELECT EXISTS a", 1, 15, '"("'),
    ("SELECT COUNT(* FROM t", 1, 0, ""),
    ("SELECT COUNT(a b)", 1, 16, '")"'),
    ("SELECT SUM(DISTINCT) FROM t", 1, 20, "an expression"),
    ("SELECT SUM(a) OVER FROM t", 1, 20, "a window"),
    ("SELECT SUM(a) OVER (PARTITION a) FROM t", 1, 21, "followed by BY"),
    ("SELECT SUM(a) OVER (ORDER BY b ROWS) FROM t", 1, 36, "an expression"),
    ("SELECT SUM(a) OVER (ORDER BY b ROWS 1) FROM t", 1, 38, "PRECEDING"),
    ("SELECT SUM(a) FILTER (a > 1)", 1, 23, "WHERE"),
    ("SELECT EXTRACT(YEER FROM ts)", 1, 16, "a unit of time"),
    ("SELECT EXTRACT(YEAR, ts)", 1, 20, "FROM"),
    ("SELECT FLOOR(ts TO MOON)", 1, 20, "a unit of time"),
    ("SELECT INTERVAL '1'", 1, 20, "DAY"),
    ("SELECT INTERVAL 'x' DAY", 1, 17, "is not an interval of DAY"),
    ("SELECT INTERVAL '100' DAY", 1, 17, "DAY(3)"),
    ("SELECT INTERVAL '1' SECOND TO HOUR", 1, 17, "does not exist"),
    ("SELECT DATE '2024-13-01'", 1, 13, "not a DATE literal"),
    ("SELECT DATE 'today'", 1, 13, "not a DATE literal"),
    ("SELECT TIMESTAMP '2024-01-01'", 1, 18, "not a TIMESTAMP literal"),
    ("SELECT x'0g'", 1, 8, "not a binary string"),
    ("SELECT MAP['a']", 1, 8, "a key without a value"),
    ("SELECT TRIM(BOTH 'a')", 1, 21, "FROM"),
    ("SELECT POSITION('a', b)", 1, 20, "IN"),
    ("SELECT JSON_VALUE(a)", 1, 20, '","'),
    ("WITH x AS SELECT 1 SELECT 2", 1, 11, '"("'),
    ("WITH RECURSIVE x AS (SELECT 1) SELECT 2", 1, 6, "RECURSIVE"),
    ("VALUES", 1, 7, "an expression"),
    ("VALUES (1, )", 1, 12, "an expression"),
    ("CREATE TABLE t", 1, 15, "columns"),
    ("CREATE TABLE t ()", 1, 17, "a column"),
    ("CREATE TABLE (a INT)", 1, 14, "a table"),
    ("CREATE TABLE t (a)", 1, 19, "AS"),
    ("CREATE TABLE t (a INT b STRING)", 1, 23, '","'),
    ("CREATE TABLE t (a INT,)", 1, 23, "a column"),
    ("CREATE TABLE t (a INT, a STRING)", 1, 24, "defined twice"),
    ("CREATE TABLE t (a INTEGR)", 1, 19, "Did you mean INTEGER?"),
    ("CREATE TABLE t (user STRING)", 1, 17, "`user`"),
    ("CREATE TABLE t (a INT, PRIMARY KEY (a))", 1, 24, "NOT ENFORCED"),
    ("CREATE TABLE t (a INT PRIMARY KEY)", 1, 23, "NOT ENFORCED"),
    ("CREATE TABLE t (a INT, PRIMARY (a) NOT ENFORCED)", 1, 32, "KEY"),
    ("CREATE TABLE t (a INT, UNIQUE (a) NOT ENFORCED)", 1, 24, "UNIQUE"),
    ("CREATE TABLE t (a INT, PRIMARY KEY (a, a) NOT ENFORCED)", 1, 24, "names a column twice"),
    ("CREATE TABLE t (a INT, WATERMARK a AS a)", 1, 24, "followed by FOR"),
    ("CREATE TABLE t (a INT, WATERMARK FOR a)", 1, 39, "AS"),
    ("CREATE TABLE t (a INT) WITH (connector = 'x')", 1, 30, "a key in quotes"),
    ("CREATE TABLE t (a INT) WITH ('k')", 1, 33, '"="'),
    ("CREATE TABLE t (a INT) WITH ('k' = v)", 1, 36, "a value in quotes"),
    ("CREATE TABLE t (a INT) WITH ('k' = 'v', 'k' = 'w')", 1, 41, "set twice"),
    ("CREATE TABLE t (a INT) PARTITIONED (a)", 1, 24, "followed by BY"),
    ("CREATE TABLE t LIKE s (INCLUDING EVERYTHING)", 1, 34, "ALL"),
    ("CREATE VIEW v", 1, 14, "AS"),
    ("CREATE VIEW v AS", 1, 17, "SELECT"),
    ("CREATE VIEW v AS INSERT INTO t SELECT 1", 1, 18, "SELECT"),
    ("CREATE FUNCTION f", 1, 18, "AS"),
    ("CREATE FUNCTION f AS 'm.g' LANGUAGE RUBY", 1, 37, "PYTHON"),
    ("CREATE INDEX i ON t (a)", 1, 8, "TABLE"),
    ("CREATE TABEL t (a INT)", 1, 8, 'Did you mean "TABLE"?'),
    ("DROP t", 1, 6, "TABLE"),
    ("DROP TABLE", 1, 11, "a table"),
    ("DROP TABLE IF t", 1, 15, "was not expected"),
    ("ALTER TABLE t", 1, 14, "RENAME"),
    ("ALTER TABLE t RENAME u", 1, 23, "TO"),
    ("ALTER TABLE t ADD a", 1, 20, "a type"),
    ("ALTER TABLE t SET 'a' = 'b'", 1, 19, '"("'),
    ("INSERT t SELECT 1", 1, 8, "INTO"),
    ("INSERT INTO t", 1, 14, "SELECT"),
    ("INSERT INTO t (a, a) SELECT 1, 2", 1, 19, "named twice"),
    ("INSERT INTO SELECT 1", 1, 13, "a table"),
    ("INSERT INTO t VALUES 1,", 1, 24, "an expression"),
    ("EXPLAIN", 1, 8, "SELECT"),
    ("EXPLAIN SHOW TABLES", 1, 9, "INSERT"),
    ("SHOW", 1, 5, "TABLES"),
    ("SHOW TABELS", 1, 6, 'Did you mean "TABLES"?'),
    ("SHOW TABLES LIKE x", 1, 18, "a pattern in quotes"),
    ("SHOW TABLES NOT 'x'", 1, 17, "LIKE"),
    ("SHOW COLUMNS t", 1, 14, "FROM"),
    ("DESCRIBE", 1, 9, "a table"),
    ("USE", 1, 4, "a database"),
    ("USE CATALOG", 1, 12, "a catalog"),
    ("SET 'a'", 1, 8, '"="'),
    ("SET 'a' = b", 1, 11, "a value in quotes"),
    ("STOP JOB x", 1, 10, "the id of a job"),
    ("STOP JOB 'x' WITH DRAIN", 1, 19, "WITH SAVEPOINT"),
    ("EXECUTE STATEMENT SET BEGIN END", 1, 29, "has no statement"),
    ("EXECUTE STATEMENT SET BEGIN INSERT INTO a SELECT 1 END", 1, 52, '"END" was not expected'),
    ("EXECUTE STATEMENT SET BEGIN SELECT 1; END", 1, 29, "INSERT"),
    ("COMPILE PLAN FOR INSERT INTO a SELECT 1", 1, 14, "a file in quotes"),
    ("ANALYZE TABLE t", 1, 16, "COMPUTE"),
    ("SELECT * FROM t MATCH_RECOGNIZE (DEFINE A AS TRUE)", 1, 34, "PATTERN"),
    ("SELECT * FROM t MATCH_RECOGNIZE (PATTERN () DEFINE A AS TRUE)", 1, 43, "a pattern variable"),
    ("SELECT a\nFROM t\nWHERE a >\nGROUP BY a", 4, 1, "an expression"),
    ("SELECT 1 SELECT 2", 1, 10, "SELECT"),
    ("HELLO", 1, 1, "SELECT"),
]
ACCEPTED = {"SELECT a FROM t JOIN u"}
"""Flink's grammar takes a JOIN without ON: the validator refuses it."""


@pytest.mark.parametrize(
    ("text", "line", "column", "words"), [each for each in WRONG if each[0] not in ACCEPTED]
)
def test_wrong_text_is_refused_with_its_place(text, line, column, words):
    with pytest.raises(SqlParseError) as caught:
        parse_statements(text)
    error = caught.value
    assert error.position is not None and error.position.line == line
    if column:
        assert error.position.column == column, str(error)
    assert words in str(error)
    assert f"(line {line}, column" in str(error)
    shown = str(error).splitlines()
    assert any(set(each.strip()) == {"^"} for each in shown), "a caret shows the place"


def test_nesting_has_an_end_that_is_told():
    for text in (
        "(" * 500 + "1" + ")" * 500,
        "NOT " * 3000 + "a",
        "CASE WHEN " * 400 + "a",
        "-" * 3000 + "a",
    ):
        with pytest.raises(SqlParseError, match="nested|was not expected"):
            parse_statements(f"SELECT {text}")

"""Corrupted statements: the parser takes them or refuses them with a place; it neither hangs nor fails otherwise."""

from __future__ import annotations

import os
import random

import pytest

from millstream.table.sql.lexer import TokenKind, tokenize
from millstream.table.sql.parser import SqlParseError, parse_statements

VALID = [
    "SELECT a, b + 1 AS c, COUNT(*) FROM t AS x WHERE a > 1 AND b IS NOT NULL GROUP BY a HAVING COUNT(*) > 1 LIMIT 3",
    "SELECT window_start, SUM(p) FROM TABLE(TUMBLE(TABLE bid, DESCRIPTOR(ts), INTERVAL '10' MINUTE)) GROUP BY 1",
    "SELECT * FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY k ORDER BY p DESC) AS n FROM b) WHERE n <= 10",
    "INSERT INTO s (a, b) SELECT o.a, r.b FROM o LEFT JOIN r FOR SYSTEM_TIME AS OF o.p AS r ON o.k = r.k",
    "CREATE TABLE t (a INT NOT NULL, b AS a + 1, ts TIMESTAMP(3), WATERMARK FOR ts AS ts - INTERVAL '5' SECOND, "
    "PRIMARY KEY (a) NOT ENFORCED) PARTITIONED BY (a) WITH ('connector' = 'print', 'x' = 'y')",
    "WITH x AS (SELECT 1 AS a UNION ALL SELECT 2), y (b) AS (VALUES (1)) SELECT a FROM x WHERE a IN (SELECT b FROM y)",
    "SELECT CASE WHEN a THEN CAST(b AS ARRAY<ROW<x INT>>) ELSE ARRAY[ROW(1)] END, JSON_VALUE(j, '$.a' NULL ON EMPTY)",
    "EXECUTE STATEMENT SET BEGIN INSERT INTO a SELECT 1; INSERT INTO b VALUES (1, 'x'), (2, NULL); END",
    "SELECT T.a FROM e MATCH_RECOGNIZE (PARTITION BY s ORDER BY r MEASURES A.p AS a PATTERN (A B+) DEFINE B AS B.p)",
    "ALTER TABLE t ADD (c STRING COMMENT 'x' FIRST, d AS c || 'y' AFTER a)",
    "SELECT u.a FROM t CROSS JOIN UNNEST(t.tags) AS u (a) WHERE EXISTS (SELECT 1 FROM v WHERE v.k = 1) ORDER BY 1",
    "EXPLAIN CHANGELOG_MODE, PLAN_ADVICE SELECT a, SUM(b) FILTER (WHERE c) FROM t GROUP BY CUBE (a, d)",
]
FRAGMENTS = [
    "SELECT",
    "FROM",
    "(",
    ")",
    ",",
    "'",
    "`",
    "AND",
    "1",
    "x",
    ".",
    ";",
    "[",
    "]",
    "*",
    "AS",
    "/*",
    "<",
    "NOT",
]
COUNT = int(os.environ.get("MILLSTREAM_SQL_CORRUPTIONS", "500"))


def corrupted(source: random.Random) -> str:
    text = source.choice(VALID)
    tokens = [token.text for token in tokenize(text) if token.kind is not TokenKind.END]
    for _ in range(source.randint(1, 3)):
        place = source.randrange(len(tokens))
        action = source.randrange(5)
        if action == 0:
            del tokens[place]
        elif action == 1:
            tokens.insert(place, tokens[place])
        elif action == 2:
            other = source.randrange(len(tokens))
            tokens[place], tokens[other] = tokens[other], tokens[place]
        elif action == 3:
            tokens.insert(place, source.choice(FRAGMENTS))
        else:
            word = tokens[place]
            cut = source.randrange(len(word) + 1)
            tokens[place] = word[:cut] + source.choice(["", "\x00", "é", word[cut:][::-1]])
        if not tokens:
            tokens = ["SELECT"]
    return " ".join(tokens)


@pytest.mark.parametrize("block", range(5))
def test_corrupted_statements_are_taken_or_refused(block):
    source = random.Random(block)
    refused = 0
    for _ in range(COUNT // 5):
        text = corrupted(source)
        try:
            parse_statements(text)
        except SqlParseError as error:
            refused += 1
            assert error.position is not None, text
            assert 1 <= error.position.line <= text.count("\n") + 1, text
            assert 1 <= error.position.column <= len(text) + 1, text
    assert refused > COUNT // 10

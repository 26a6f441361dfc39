"""`?` as drivers of Python write it."""

from __future__ import annotations

import pytest

from millstream.connectors.jdbc.statements import Syntax, count_parameters, translate

SAME = [  # nothing in these is a parameter
    "SELECT 'a?b'",
    "SELECT 'it''s ?'",
    'SELECT "who?" FROM t',
    "SELECT 1 -- why?\n",
    "SELECT 1 /* why?\n? */ + 1",
    "SELECT 'open ?",
    "SELECT /* open ?",
]


@pytest.mark.parametrize("syntax", [Syntax.STANDARD, Syntax.POSTGRES, Syntax.MYSQL])
@pytest.mark.parametrize("sql", SAME)
def test_texts_names_and_comments_are_left_as_they_are(sql, syntax):
    assert translate(sql, syntax, "format") == sql
    assert count_parameters(sql, syntax) == 0


@pytest.mark.parametrize(
    ("sql", "wanted"),
    [
        ("INSERT INTO t VALUES (?,?::jsonb,now())", "INSERT INTO t VALUES (%s,%s::jsonb,now())"),
        ("SELECT E'it\\'s ?', ?", "SELECT E'it\\'s ?', %s"),
        ("SELECT 'C:\\', ?", "SELECT 'C:\\', %s"),  # no escape in a standard text
        ("SELECT $$ ? $$, $a$ ? $$ ? $a$, ?", "SELECT $$ ? $$, $a$ ? $$ ? $a$, %s"),
        ("SELECT a ?? 'k', b ??| ?, c ??& ?", "SELECT a ? 'k', b ?| %s, c ?& %s"),
        ("UPDATE t SET a = a % ? WHERE b LIKE '%?'", "UPDATE t SET a = a %% %s WHERE b LIKE '%%?'"),
    ],
)
def test_postgres(sql, wanted):
    assert translate(sql, Syntax.POSTGRES, "format") == wanted


@pytest.mark.parametrize(
    ("sql", "wanted"),
    [
        ("SELECT 'it\\'s ?', ?", "SELECT 'it\\'s ?', %s"),
        ('SELECT "say \\"?\\"", `a``?`, ?', 'SELECT "say \\"?\\"", `a``?`, %s'),
        ("SELECT ? # why?\n, ?", "SELECT %s # why?\n, %s"),
        ("SELECT 5--?", "SELECT 5--%s"),  # a minus and a minus: a comment has a blank behind
    ],
)
def test_mysql(sql, wanted):
    assert translate(sql, Syntax.MYSQL, "format") == wanted


@pytest.mark.parametrize(
    ("style", "wanted"),
    [
        ("qmark", "VALUES (?, ?) -- 5%"),
        ("format", "VALUES (%s, %s) -- 5%%"),
        ("pyformat", "VALUES (%(p1)s, %(p2)s) -- 5%%"),
        ("named", "VALUES (:p1, :p2) -- 5%"),
        ("numeric", "VALUES (:1, :2) -- 5%"),
        ("dollar", "VALUES ($1, $2) -- 5%"),
    ],
)
def test_styles_of_drivers(style, wanted):
    assert translate("VALUES (?, ?) -- 5%", Syntax.STANDARD, style) == wanted

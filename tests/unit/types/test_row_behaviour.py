"""What PyFlink 2.3's own `pyflink.common.Row` gave for each expression, recorded; errors by the name of their class."""

from __future__ import annotations

import copy
import pickle

import pytest

from millstream.types.row import Row, RowKind

RECORDED = [
    ("Row()", "<Row()>"),
    ('Row("a")', "<Row('a')>"),
    ("P", "<Row('name', 'age')>"),
    ('P("Alan", 41)', "Row(name='Alan', age=41)"),
    ('P("Alan")', "Row(name='Alan')"),
    ('P("Alan", 41, 3)', "!ValueError"),
    ('P("Alan").age', "!AttributeError"),
    ('P("Alan")["age"]', "!KeyError"),
    ('P("Alan").as_dict()', "{'name': 'Alan'}"),
    ('repr(P("Alan"))', "\"Row(name='Alan')\""),
    ("Row(1, a=2)", "!ValueError"),
    ("r.name", "'Ada'"),
    ('r["name"]', "'Ada'"),
    ("r[0]", "'Ada'"),
    ("r[-1]", "36"),
    ("r[0:1]", "['Ada']"),
    ("r[2]", "!IndexError"),
    ('r["x"]', "!ValueError"),
    ("r.x", "!AttributeError"),
    ('u["x"]', "!AttributeError"),
    ("u.x", "!AttributeError"),
    ("u[5]", "!IndexError"),
    ('"name" in r', "True"),
    ('"Ada" in r', "False"),
    ("1 in u", "True"),
    ('"name" in P', "True"),
    ("len(r)", "2"),
    ("list(r)", "['Ada', 36]"),
    ("tuple(u)", "(1, 'x')"),
    ('r == Row(name="Ada", age=36)', "True"),
    ('r == Row(age=36, name="Ada")', "True"),
    ('r == Row("Ada", 36)', "False"),
    ('u == (1, "x")', "False"),
    ('u == Row(1, "x")', "True"),
    ('u == Row.of_kind(RowKind.DELETE, 1, "x")', "False"),
    ('r == Row.of_kind(RowKind.DELETE, name="Ada", age=36)', "False"),
    ("Row(1) == Row(True)", "True"),
    ('hash(u) == hash((1, "x"))', "True"),
    ("hash(Row([1]))", "!TypeError"),
    ("sets(Row(1, 2), (0, 7))", "<Row(7, 2)>"),
    ("sets(Row(1, 2), (-1, 7))", "<Row(1, 7)>"),
    ('sets(Row(a=1, b=2), ("b", 7))', "Row(a=1, b=7)"),
    ("sets(Row(1, 2), (slice(0, 1), [8, 9]))", "<Row(8, 9, 2)>"),
    ("sets(Row(1, 2), (5, 7))", "!IndexError"),
    ('sets(Row(a=1), ("x", 7))', "!ValueError"),
    ('named(Row(1, 2), ["a", "b"])', "Row(a=1, b=2)"),
    ('named(Row(1, 2), ["a", "b"]).b', "2"),
    ('named(Row(1, 2), ["a"])', "Row(a=1)"),
    ('named(Row(1, 2), ["a"]).as_dict()', "{'a': 1}"),
    ('named(Row(a=1), ["z"]).z', "1"),
    ("r.as_dict()", "{'name': 'Ada', 'age': 36}"),
    ("u.as_dict()", "!TypeError"),
    (
        'Row(a=Row(b=1), c=[Row(d=2)], e={"f": Row(g=3)}, h=(Row(i=4),)).as_dict(True)',
        "{'a': {'b': 1}, 'c': [{'d': 2}], 'e': {'f': {'g': 3}}, 'h': (Row(i=4),)}",
    ),
    ("Row(a=Row(b=1)).as_dict()", "{'a': Row(b=1)}"),
    ("Row(a=Row(1)).as_dict(True)", "!TypeError"),
    ('r.get_fields_by_names(["age"])', "[36]"),
    ('r.get_fields_by_names(["age", "name"])', "[36, 'Ada']"),
    ('u.get_fields_by_names(["age"])', "[1, 'x']"),
    ('r.get_fields_by_names(["x"])', "!Exception"),
    ("r.get_row_kind()", "<RowKind.INSERT: 0>"),
    ("Row.of_kind(RowKind.DELETE, a=1).get_row_kind()", "<RowKind.DELETE: 3>"),
    ('Row.of_kind(RowKind.UPDATE_AFTER, "a")(1).get_row_kind()', "<RowKind.UPDATE_AFTER: 2>"),
    ("kind(Row(1), RowKind.UPDATE_BEFORE).get_row_kind()", "<RowKind.UPDATE_BEFORE: 1>"),
    ("repr(kind(Row(1), RowKind.UPDATE_BEFORE))", "'<Row(1)>'"),
    ("pickle.loads(pickle.dumps(r)) == r", "True"),
    ("pickle.loads(pickle.dumps(u)) == u", "True"),
    ("copy.copy(r) == r", "True"),
    ("copy.deepcopy(u) == u", "True"),
    ("[str(k) for k in RowKind]", "['+I', '-U', '+U', '-D']"),
    ('Row(1, "a")', "<Row(1, 'a')>"),
    ('Row(inner=Row("x", ["y"]))', "Row(inner=<Row('x', ['y'])>)"),
    ('Row(**{"with space": 1})["with space"]', "1"),
    ("{Row(1): 2}[Row(1)]", "2"),
    ("[x for x in reversed(list(u))]", "['x', 1]"),
    ('Row("a", 1)(5, 6)', "Row(a=5, 1=6)"),
    ("Row(a=1) != Row(a=1)", "False"),
]


def with_items(row, *pairs):
    for key, value in pairs:
        row[key] = value
    return row


def with_names(row, names):
    row.set_field_names(names)
    return row


def with_kind(row, kind):
    row.set_row_kind(kind)
    return row


@pytest.mark.parametrize(("expression", "expected"), RECORDED)
def test_a_row_does_what_that_of_pyflink_does(expression, expected):
    names = {
        "P": Row("name", "age"),
        "r": Row(name="Ada", age=36),
        "u": Row(1, "x"),
        "sets": with_items,
        "named": with_names,
        "kind": with_kind,
    }
    try:
        seen = repr(
            eval(expression, {"Row": Row, "RowKind": RowKind, "copy": copy, "pickle": pickle, **names})
        )
    except Exception as error:
        classes = {f"!{kind.__name__}" for kind in type(error).__mro__}
        assert expected in classes
    else:
        assert seen == expected

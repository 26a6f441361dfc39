"""Which declared types may take another's place in state."""

from __future__ import annotations

import json

import pytest

from millstream.common import Types
from millstream.types.forms import describe_form, form_of, may_become

L, S, I, D = Types.LONG(), Types.STRING(), Types.INT(), Types.DOUBLE()  # noqa: E741


def row(**fields):
    return Types.ROW_NAMED(list(fields), list(fields.values()))


@pytest.mark.parametrize(
    "declared",
    [
        L,
        Types.SQL_DATE(),
        Types.LIST(Types.MAP(S, L)),
        Types.TUPLE([S, Types.TUPLE([L])]),
        Types.ROW([S, L]),
        row(name=S, inner=row(age=I)),
        Types.PRIMITIVE_ARRAY(D),
        Types.BASIC_ARRAY(S),
        Types.OBJECT_ARRAY(row(a=L)),
    ],
)
def test_a_form_survives_json_and_reads_as_the_type(declared):
    form = json.loads(json.dumps(form_of(declared)))
    assert form == form_of(declared)
    assert describe_form(form) == declared.describe()
    assert may_become(form, form)
    assert may_become(form, form, exactly=True)


def test_what_pickles_has_no_form():
    assert form_of(None) is form_of(Types.PICKLED_BYTE_ARRAY()) is None
    assert form_of(Types.LIST(Types.PICKLED_BYTE_ARRAY())) == ["LIST", None]


@pytest.mark.parametrize(
    ("old", "new", "fits", "exactly"),
    [
        (I, L, True, True),
        (Types.BYTE(), Types.BIG_INT(), True, True),
        (Types.FLOAT(), D, True, True),
        (L, I, False, False),
        (L, S, False, False),
        (L, D, False, False),
        (I, Types.BIG_DEC(), False, False),
        (Types.LIST(I), Types.LIST(L), True, True),
        (Types.LIST(L), Types.LIST(S), False, False),
        (Types.LIST(L), L, False, False),
        (Types.LIST(L), Types.BASIC_ARRAY(L), False, False),
        (Types.MAP(S, L), Types.MAP(L, L), False, False),
        (Types.MAP(S, L), Types.MAP(S, Types.PICKLED_BYTE_ARRAY()), True, True),
        (row(a=S, b=L), row(b=L), True, False),
        (row(a=S), row(b=L, a=S), True, False),
        (row(a=S, b=L), row(b=L, a=S), True, False),
        (row(a=S, b=L), row(a=L), False, False),
        (row(a=row(x=L)), row(a=row(x=L, y=S)), True, False),
        (row(a=row(x=L)), row(a=row(x=S)), False, False),
        (Types.ROW([S]), Types.ROW([S, L]), True, False),
        (Types.ROW([S]), Types.ROW([L]), False, False),
        (Types.TUPLE([S, L]), Types.TUPLE([S]), True, False),
        (Types.TUPLE([S, L]), Types.TUPLE([L, S]), False, False),
        (Types.TUPLE([S]), Types.ROW([S]), False, False),
    ],
)
def test_types_that_go_together(old, new, fits, exactly):
    assert may_become(form_of(old), form_of(new)) is fits
    assert may_become(form_of(old), form_of(new), exactly=True) is exactly
    assert may_become(form_of(old), None)
    assert may_become(None, form_of(new))

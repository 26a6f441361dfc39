import pickle

import pytest

from millstream.common.types import Row, RowKind


def test_a_row_prints_its_kind_and_fields_without_spaces():
    row = Row("a", None, 1.5)
    assert str(row) == "+I[a,null,1.5]"
    row.set_row_kind(RowKind.UPDATE_BEFORE)
    assert str(row) == "-U[a,null,1.5]"


def test_a_row_inside_a_row_prints_likewise():
    assert str(Row(Row(1), "b")) == "+I[+I[1],b]"


def test_a_row_shows_its_names_in_its_repr():
    assert repr(Row(name="Ada", age=36)) == "Row(name='Ada', age=36)"
    assert repr(Row("Ada", 36)) == "Row('Ada', 36)"


def test_a_row_pickles_with_names_and_kind():
    row = Row(a=1)
    row.set_row_kind(RowKind.DELETE)
    assert pickle.loads(pickle.dumps(row)) == row


def test_a_row_refuses_positional_and_named_fields_together():
    with pytest.raises(ValueError, match="not both"):
        Row(1, a=2)

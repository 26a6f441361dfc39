import pickle

import pytest

from millstream.common.types import Row, RowKind


# As PyFlink's own Row gave it.
@pytest.mark.parametrize(
    ("row", "text"),
    [
        (Row(1, "a"), "<Row(1, 'a')>"),
        (Row(name="Ada", age=None), "Row(name='Ada', age=None)"),
        (Row(Row(1), "b"), "<Row(<Row(1)>, 'b')>"),
        (Row(inner=Row("x", ["y"])), "Row(inner=<Row('x', ['y'])>)"),
    ],
)
def test_a_row_is_written_with_its_names_if_it_has_some(row, text):
    assert (str(row), repr(row), f"{row}") == (text, text, text)


def test_a_row_is_written_without_its_kind():
    assert str(Row.of_kind(RowKind.DELETE, 1)) == "<Row(1)>"


def test_a_row_pickles_with_names_and_kind():
    row = Row(a=1)
    row.set_row_kind(RowKind.DELETE)
    assert pickle.loads(pickle.dumps(row)) == row


def test_a_row_refuses_positional_and_named_fields_together():
    with pytest.raises(ValueError, match="not both"):
        Row(1, a=2)

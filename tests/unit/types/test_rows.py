import copy
import pickle

import pytest

from millstream.types import row as types
from millstream.types.row import NoSuchFieldError, Row, RowKind, copy_row, row_maker, rows_of, unpack_rows

DELETED = Row.of_kind(RowKind.DELETE, a=1, b=[2])


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


@pytest.mark.parametrize("protocol", range(6))
@pytest.mark.parametrize("row", [Row(), Row(1, [2]), Row(a=1, b=None), DELETED, Row(a=Row(b=Row(1)))])
def test_a_row_pickles_with_any_protocol(row, protocol):
    (again,) = pickle.loads(pickle.dumps([row], protocol))
    assert again == row
    assert (again._fields, again.get_row_kind(), list(again)) == (row._fields, row.get_row_kind(), list(row))


def test_a_pickle_of_many_rows_has_their_names_once():
    rows = rows_of(("name_of_the_first", "name_of_the_second"), [(i, i) for i in range(100)])
    assert pickle.dumps(rows).count(b"name_of_the_first") == 1


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, lambda row: copy_row(row, row._values)])
def test_setting_a_field_of_a_copy_leaves_the_row_as_it_is(copied):
    row = Row.of_kind(RowKind.DELETE, a=1, b=2)
    other = copied(row)
    other.a = 7
    other["b"] = 8
    other.set_row_kind(RowKind.INSERT)
    assert (list(row), row.get_row_kind()) == ([1, 2], RowKind.DELETE)
    assert (list(other), other.get_row_kind()) == ([7, 8], RowKind.INSERT)


def test_a_deep_copy_has_values_of_its_own():
    row = Row(a=[1])
    copy.deepcopy(row).a.append(2)
    assert row == Row(a=[1])


def test_naming_fields_anew_leaves_other_rows_their_names():
    row, other = Row(a=1), Row(a=2)
    row.set_field_names(["b"])
    assert (row.b, other.a) == (1, 2)
    with pytest.raises(AttributeError):
        row.a


def test_fields_are_attributes_of_rows_that_have_them_only():
    Row(elsewhere=1)
    row = Row(here=1)
    assert not hasattr(row, "elsewhere")
    assert "here" in dir(row)
    assert "elsewhere" not in dir(row)
    with pytest.raises(AttributeError, match="elsewhere"):
        row.elsewhere = 2
    with pytest.raises(AttributeError):
        row.never_a_field_of_any_row = 2


def test_a_field_that_is_not_there_is_named_with_those_that_are():
    with pytest.raises(NoSuchFieldError) as caught:
        Row(a=1, b=2)["c"]
    assert str(caught.value) == "no field 'c'; fields: ['a', 'b']"


@pytest.mark.parametrize(
    "name", ["as_dict", "_values", "_schema", "__len__", "__class__", "mro", "with space", ""]
)
def test_a_field_of_any_name_is_got_by_its_name_and_hurts_no_method(name):
    row = Row(**{name: [7], "other": 1})
    assert row[name] == [7]
    row[name] = [8]
    assert pickle.loads(pickle.dumps(row)).as_dict() == {name: [8], "other": 1}
    assert len(row) == 2


def test_a_field_with_the_name_of_a_type_s_method_is_an_attribute():
    assert Row(mro=1).mro == 1


def test_rows_that_are_equal_have_the_same_hash_whatever_order_their_names_are_in():
    assert hash(Row(b=1, a="x")) == hash(Row(a="x", b=1))
    assert len({Row(b=1, a=2), Row(a=2, b=1), Row(a=1, b=2)}) == 2


def test_rows_without_values_for_all_names_have_a_hash():
    assert len({Row("b", "a")(1), Row("b", "a")(1)}) == 1


def test_a_class_below_row_refuses_attributes_that_would_be_lost_on_the_way():
    class Person(Row):
        pass

    person = Person(name="Ada")
    person.name = "Alan"
    assert person.name == "Alan"
    with pytest.raises(AttributeError):
        person.note = "x"


def test_very_many_names_are_fields_too(monkeypatch):
    monkeypatch.setattr(types, "_MOST_ATTRIBUTES", 0)
    monkeypatch.setattr(types, "_MOST_SCHEMAS", 3)
    try:
        rows = [Row(**{f"one_of_many_{number}": number}) for number in range(20)]
        for number, row in enumerate(rows):
            assert getattr(row, f"one_of_many_{number}") == number
            setattr(row, f"one_of_many_{number}", -number)
            assert row == Row(**{f"one_of_many_{number}": -number})
            assert not hasattr(row, "one_of_none")
            with pytest.raises(AttributeError):
                row.one_of_none = 1
            assert pickle.loads(pickle.dumps(row)) == row
            assert copy.deepcopy(row) == row
    finally:
        del Row.__getattr__, Row.__setattr__


def test_rows_of_the_same_names_and_kind_unpack_to_what_makes_them():
    rows = rows_of(("a", "b"), zip([1, 2], "xy", strict=True), RowKind.DELETE)
    assert rows == [Row.of_kind(RowKind.DELETE, a=1, b="x"), Row.of_kind(RowKind.DELETE, a=2, b="y")]
    assert rows_of(*unpack_rows(rows)) == rows
    assert row_maker(("a", "b"), RowKind.DELETE)(1, "x") == rows[0]


@pytest.mark.parametrize(
    "values",
    [[], [1], [Row(1), 1], [1, Row(1)], [Row(1), Row(a=1)], [Row(1), Row.of_kind(RowKind.DELETE, 1)]],
)
def test_other_values_do_not_unpack(values):
    assert unpack_rows(values) is None

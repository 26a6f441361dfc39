import copy
import datetime
import pickle
import re
from decimal import Decimal

import cloudpickle
import pytest

from millstream.base.errors import ConfigurationError
from millstream.base.time import Instant
from millstream.types.row import Row, RowKind
from millstream.types.typeinfo import BasicType, BasicTypeInfo, ExternalTypeInfo, Types

PERSON = Types.ROW_NAMED(["name", "age"], [Types.STRING(), Types.INT()])
PAIR = Types.TUPLE([Types.STRING(), Types.LONG()])
DAY = datetime.date(2013, 1, 20)
NOON = datetime.datetime(2013, 1, 20, 12)
MOMENT = datetime.datetime(2024, 1, 2, 3, 4, 5)
NESTED = Types.ROW_NAMED(
    ["a", "b", "c", "d"], [Types.STRING(), Types.INT(), Types.DOUBLE(), Types.LIST(Types.STRING())]
)
NESTED_ROW = Row("x", None, 1e7, ["p", "q"])
DOUBLES = Types.LIST(Types.DOUBLE())
NUMBERS = Types.MAP(Types.STRING(), Types.DOUBLE())


class Celsius(float):
    pass


FITS = [
    (Types.STRING(), ["", "ä", None]),
    (Types.BYTE(), [-128, 127]),
    (Types.BOOLEAN(), [True, False]),
    (Types.SHORT(), [-(2**15), 2**15 - 1]),
    (Types.INT(), [-(2**31), 2**31 - 1]),
    (Types.LONG(), [-(2**63), 2**63 - 1]),
    (Types.FLOAT(), [1.5, 2]),
    (Types.DOUBLE(), [float("nan"), Celsius(3.0), 7]),
    (Types.CHAR(), ["a", "ß"]),
    (Types.BIG_INT(), [2**200, None]),
    (Types.BIG_DEC(), [Decimal("1.1"), None]),
    (Types.INSTANT(), [Instant(0, 0), None]),
    (Types.SQL_DATE(), [DAY, NOON, None]),
    (Types.SQL_TIME(), [datetime.time(1), None]),
    (Types.SQL_TIMESTAMP(), [NOON, None]),
    (Types.PICKLED_BYTE_ARRAY(), [object(), None, 1]),
    (PERSON, [Row("Ada", 36), Row(name="Ada", age=None), ("Ada", 36), ["Ada", 36], Row(age=1, name="x")]),
    (Types.ROW([Types.INT()]), [Row(1), Row(x=1), (None,)]),
    (PAIR, [("a", 1), (None, 2)]),
    (Types.PRIMITIVE_ARRAY(Types.INT()), [[1, 2], (), []]),
    (Types.PRIMITIVE_ARRAY(Types.BYTE()), [b"ab", bytearray(b"c"), [1, -1]]),
    (Types.BASIC_ARRAY(Types.INT()), [[1, None]]),
    (Types.OBJECT_ARRAY(PAIR), [[("a", 1), None]]),
    (Types.LIST(Types.STRING()), [["a"], []]),
    (Types.MAP(Types.STRING(), Types.INT()), [{}, {"a": 1, "b": None}]),
    (ExternalTypeInfo(Types.INT()), [1]),
]


@pytest.mark.parametrize(("kind", "values"), FITS, ids=lambda x: re.sub(" at 0x[0-9a-f]+", "", str(x))[:30])
def test_values_of_a_type_fit(kind, values):
    assert kind.find_mismatch(values) is None


MISFITS = [
    (Types.STRING(), ["a", 1], 1),
    (Types.BYTE(), [127, 128, 200], 1),
    (Types.BOOLEAN(), [True, 1], 1),
    (Types.SHORT(), [-(2**15) - 1], 0),
    (Types.INT(), [1, 2, 2**31], 2),
    (Types.INT(), [1, 3.5], 1),
    (Types.INT(), [1, True], 1),
    (Types.INT(), [1, None], 1),
    (Types.INT(), ["x", None], 0),
    (Types.LONG(), [2**63], 0),
    (Types.DOUBLE(), [1.0, "1.0"], 1),
    (Types.DOUBLE(), [True], 0),
    (Types.CHAR(), ["a", "ab"], 1),
    (Types.BIG_INT(), [1, 1.0], 1),
    (Types.BIG_DEC(), [Decimal(1), 1], 1),
    (Types.SQL_TIMESTAMP(), [NOON, DAY], 1),
    (PERSON, [Row("Ada", 36), Row("Ada", "36")], 1),
    (PERSON, [Row("Ada")], 0),
    (PERSON, [Row(name="Ada", years=36)], 0),
    (PERSON, [("Ada", 1), None], 1),
    (PERSON, [("Ada", 1), ("Ada", 1), 3, ("Ada", "x")], 2),
    (PAIR, [("a", 1), ("a", None)], 1),
    (PAIR, [("a", 1), ["a", "b"]], 1),
    (PAIR, [Row("a", 1), ["b", 2], Row("c")], 2),
    (Types.PRIMITIVE_ARRAY(Types.INT()), [[], [1], [1, 2, None]], 2),
    (Types.PRIMITIVE_ARRAY(Types.BYTE()), [b"a", [300]], 1),
    (Types.LIST(Types.STRING()), [["a"], "abc"], 1),
    (Types.MAP(Types.STRING(), Types.INT()), [{"a": 1}, {1: 1}], 1),
    (Types.MAP(Types.STRING(), Types.INT()), [{"a": "x"}], 0),
    (Types.LIST(PERSON), [[("Ada", 1)], [("Ada", 1), ("Ada", 2.5)]], 1),
]


@pytest.mark.parametrize(("kind", "values", "index"), MISFITS, ids=lambda x: str(x)[:30])
def test_the_first_value_that_does_not_fit_is_found(kind, values, index):
    assert kind.find_mismatch(values) == index


@pytest.mark.parametrize("kind", [kind for kind, _ in FITS], ids=str)
def test_an_empty_batch_fits_every_type_and_stays_as_it_is(kind):
    assert kind.find_mismatch([]) is None
    assert kind.conform([]) == []


def test_types_describe_themselves_as_users_write_them():
    assert PERSON.describe() == "ROW<name STRING, age INT>"
    assert Types.ROW([Types.INT(), PAIR]).describe() == "ROW<INT, TUPLE<STRING, LONG>>"
    assert Types.MAP(Types.STRING(), Types.LIST(Types.DOUBLE())).describe() == "MAP<STRING, LIST<DOUBLE>>"


@pytest.mark.parametrize(
    ("kind", "text"),
    [  # what str(...) gives in PyFlink 2.3
        (PERSON, "RowTypeInfo(name: String, age: Integer)"),
        (Types.ROW([Types.INT(), Types.TUPLE([Types.LONG()])]), "RowTypeInfo(Integer, TupleTypeInfo(Long))"),
        (
            Types.MAP(Types.INT(), Types.LIST(Types.BIG_DEC())),
            "MapTypeInfo<Integer, ListTypeInfo<BigDecimal>>",
        ),
        (Types.PRIMITIVE_ARRAY(Types.BYTE()), "PrimitiveArrayTypeInfo<Byte>"),
        (Types.BASIC_ARRAY(Types.STRING()), "BasicArrayTypeInfo<String>"),
        (Types.OBJECT_ARRAY(Types.ROW([Types.CHAR()])), "ObjectArrayTypeInfo<RowTypeInfo(Char)>"),
        (Types.SQL_TIMESTAMP(), "TimestampTypeInfo"),
        (Types.SQL_DATE(), "DateTypeInfo"),
        (Types.INSTANT(), "Instant"),
        (Types.PICKLED_BYTE_ARRAY(), "PickledByteArrayTypeInfo"),
    ],
)
def test_the_text_of_a_type_is_pyflinks(kind, text):
    assert str(kind) == repr(kind) == text


@pytest.mark.parametrize("kind", [kind for kind, _ in FITS], ids=str)
@pytest.mark.parametrize("roundtrip", [lambda x: pickle.loads(pickle.dumps(x)), copy.deepcopy])
def test_types_survive_pickling_and_copying(kind, roundtrip):
    assert roundtrip(kind) == kind
    assert hash(roundtrip(kind)) == hash(kind)


def test_types_with_other_parts_are_not_equal():
    assert Types.INT() != Types.LONG()
    assert Types.LIST(Types.INT()) != Types.BASIC_ARRAY(Types.INT())
    assert Types.ROW_NAMED(["a"], [Types.INT()]) != Types.ROW_NAMED(["b"], [Types.INT()])
    assert Types.ROW([Types.INT()]) == Types.ROW_NAMED(["f0"], [Types.INT()])


def test_a_type_used_in_a_stream_may_be_captured_by_a_function():
    Types.ROW([Types.INT()]).find_mismatch([Row(1)])
    assert cloudpickle.loads(cloudpickle.dumps(lambda: PERSON.describe()))() == PERSON.describe()


def test_rows_read_back_have_the_names_of_their_type():
    rows = PERSON.conform([("Ada", 36), Row("Bob", 1), None, Row(age=2, name="Cy")])
    assert rows == [Row(name="Ada", age=36), Row(name="Bob", age=1), None, Row(name="Cy", age=2)]
    assert Types.ROW([Types.INT()]).conform([Row(1)])[0].f0 == 1
    assert {tuple(row) for row in rows if row is not None} == {("Ada", 36), ("Bob", 1), ("Cy", 2)}
    assert {row._fields for row in rows if row is not None} == {("name", "age")}


def test_rows_of_several_kinds_and_names_get_those_of_their_type():
    given = [
        Row("Ada", 36),
        Row.of_kind(RowKind.DELETE, "Bob", 1),
        Row.of_kind(RowKind.DELETE, age=2, name="Cy"),
    ]
    named = PERSON.conform(given)
    assert [(tuple(row), row._fields, row.get_row_kind()) for row in named] == [
        (("Ada", 36), ("name", "age"), RowKind.INSERT),
        (("Bob", 1), ("name", "age"), RowKind.DELETE),
        (("Cy", 2), ("name", "age"), RowKind.DELETE),
    ]
    assert PERSON.conform(named) is named


def test_naming_a_row_keeps_its_kind_and_leaves_the_given_row_alone():
    given = Row("Ada", 36)
    given.set_row_kind(RowKind.DELETE)
    (named,) = PERSON.conform([given])
    assert named.get_row_kind() is RowKind.DELETE
    assert given == Row.of(None, ["Ada", 36], RowKind.DELETE)


def test_a_batch_that_needs_no_change_is_given_back_itself():
    for kind, values in [
        (PERSON, [Row(name="Ada", age=36)]),
        (PAIR, [("a", 1)]),
        (Types.DOUBLE(), [1.0, 2.0]),
        (Types.TUPLE([Types.DOUBLE()]), [(1.0,)]),
    ]:
        assert kind.conform(values) is values


def test_integers_declared_as_floats_become_floats_at_any_depth():
    kind = Types.ROW_NAMED(
        ["a", "b"], [Types.TUPLE([Types.DOUBLE()]), Types.MAP(Types.STRING(), Types.LIST(Types.DOUBLE()))]
    )
    (row,) = kind.conform([Row((1,), {"x": [1, 2.5]})])
    assert repr(row) == "Row(a=(1.0,), b={'x': [1.0, 2.5]})"


@pytest.mark.parametrize(
    ("kind", "value", "text"),
    [
        (PAIR, ("a", 1), "(a,1)"),
        (PAIR, (None, 1), "(null,1)"),
        (PERSON, Row(name="Ada", age=None), "+I[Ada, null]"),
        (Types.TUPLE([NESTED, Types.INT()]), (NESTED_ROW, 1), "(+I[x, null, 1.0E7, [p, q]],1)"),
        (Types.LIST(NESTED), [NESTED_ROW], "[+I[x, null, 1.0E7, [p, q]]]"),
        (Types.MAP(Types.STRING(), NESTED), {"k": NESTED_ROW}, "{k=+I[x, null, 1.0E7, [p, q]]}"),
        (Types.TUPLE([DOUBLES, NUMBERS]), ([1.0, 1e7], {"a": 1e-4}), "([1.0, 1.0E7],{a=1.0E-4})"),
        (Types.LIST(Types.SQL_TIMESTAMP()), [MOMENT], "[2024-01-02 03:04:05.0]"),
        (Types.SQL_TIMESTAMP(), MOMENT.replace(microsecond=1000), "2024-01-02 03:04:05.001"),
        (Types.TUPLE([Types.SQL_TIMESTAMP()]), (None,), "(null)"),
        (BasicTypeInfo(BasicType.DOUBLE), 1e7, "1.0E7"),
        (Types.ROW([Types.FLOAT()]), Row(0.10000000149011612), "+I[0.1]"),
        (Types.ROW([Types.FLOAT()]), Row(None), "+I[null]"),
        (Types.TUPLE([PAIR, Types.BOOLEAN()]), (("a", 1), True), "((a,1),true)"),
        (Types.LIST(Types.STRING()), ["a", "b"], "[a, b]"),
        (Types.MAP(Types.STRING(), Types.INT()), {"a": 1}, "{a=1}"),
        (Types.STRING(), None, "null"),
    ],
)
def test_values_are_written_as_flink_prints_them(kind, value, text):
    assert kind.to_text(value) == text


@pytest.mark.parametrize(
    ("kind", "value", "text"),
    [
        (NESTED, NESTED_ROW, "+I[x,None,10000000.0,['p', 'q']]"),
        (Types.ROW([NESTED]), Row(Row(a=None)), "+I[Row(a=None)]"),
        (ExternalTypeInfo(NESTED), NESTED_ROW, "+I[x,None,10000000.0,['p', 'q']]"),
        (PERSON, Row.of_kind(RowKind.UPDATE_AFTER, "Ada", 36), "+U[Ada,36]"),
        (Types.ROW([PAIR]), Row(("a", 1)), "+I[('a', 1)]"),
        (PERSON, None, "null"),
        (PAIR, ("a", None), "(a,null)"),
        (Types.DOUBLE(), 1e7, "1.0E7"),
    ],
)
def test_print_writes_fields_of_rows_as_python_does(kind, value, text):
    assert kind.to_printed(value) == text


def test_a_factory_without_brackets_is_refused():
    with pytest.raises(ConfigurationError, match="field 1"):
        Types.ROW([Types.INT(), Types.STRING])


def test_a_row_type_needs_as_many_names_as_types_and_each_once():
    with pytest.raises(ConfigurationError, match="1 field names and 2 types"):
        Types.ROW_NAMED(["a"], [Types.INT(), Types.INT()])
    with pytest.raises(ConfigurationError, match="twice"):
        Types.ROW_NAMED(["a", "a"], [Types.INT(), Types.INT()])


def test_a_row_type_knows_its_fields():
    assert PERSON.get_field_names() == ["name", "age"]
    assert PERSON.get_field_types() == [Types.STRING(), Types.INT()]
    assert (PERSON.get_field_index("age"), PERSON.get_field_index("x")) == (1, -1)
    assert Types.ROW([Types.INT(), Types.INT()]).get_field_names() == ["f0", "f1"]


def test_lists_and_rows_become_the_tuples_that_are_declared():
    # PyFlink 2.3 prints (1, 'a'), (2, 'b') and (3, 'c') for [[1, "a"], (2, "b"), Row(3, "c")] of TUPLE<INT, STRING>.
    kind = Types.TUPLE([Types.INT(), Types.STRING()])
    given = [[1, "a"], (2, "b"), None, Row(3, "c")]
    assert kind.find_mismatch(given, nullable=True) is None
    assert kind.conform(given) == [(1, "a"), (2, "b"), None, (3, "c")]
    same = [(1, "a")]
    assert kind.conform(same) is same
    assert Types.LIST(kind).conform([[[1, "a"]]]) == [[(1, "a")]]

from __future__ import annotations

import array
import collections
import datetime
import decimal
import enum
import fractions
import pathlib
import pickle
import threading
import types
import typing
import uuid
import weakref
from dataclasses import dataclass

import numpy as np
import pytest

from millstream.common import Row, RowKind
from millstream.common.output_tag import OutputTag
from millstream.common.windows import TimeWindow
from millstream.operators.map_loops import map_protected
from millstream.operators.plain_functions import changes_nothing, is_plain, only_reads
from millstream.operators.user_code import attached_element
from millstream.operators.value_kinds import Kind, kind_of
from millstream.operators.values import all_immutable, claim, copies, copy_of, is_immutable, protect, take_all


class Colour(enum.Enum):
    RED = 1


class Pair(typing.NamedTuple):
    a: int
    b: object


@dataclass
class Thing:
    a: object


@dataclass(frozen=True)
class Frozen:
    a: object


@dataclass(frozen=True, slots=True)
class FrozenSlots:
    a: object


class Slotted:
    __slots__ = ("a",)

    def __init__(self, a):
        self.a = a


class Named(int):
    pass


class Only:
    """Has one object, which pickle knows by name."""

    def __reduce__(self):
        return "ONLY"


ONLY = Only()


@pytest.mark.parametrize(
    "value",
    [
        1,
        "a",
        None,
        (1, ("a", b"b")),
        frozenset({1}),
        datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC),
        decimal.Decimal(1),
        fractions.Fraction(1, 2),
        uuid.uuid4(),
        pathlib.Path("/tmp"),
        Colour.RED,
        Pair(1, "b"),
        Frozen((1, 2)),
        FrozenSlots("a"),
        TimeWindow(0, 1),
        OutputTag("side"),
        np.float64(1),
        np.dtype("int64"),
        int,
        len.__class__,
        object(),
        lambda: 1,
        range(3),
    ],
    ids=lambda value: type(value).__name__,
)
def test_what_cannot_change_is_handed_on_as_it_is(value):
    kept = [value]
    assert is_immutable(value)
    assert all_immutable([value, 1])
    assert protect(value) is value
    assert copy_of(value) is value
    assert claim([value, 1])[0] is value
    assert copies([value]) == kept


def changeable():
    """Return makers of one value of each kind that can change, the parts that a function may have kept given."""
    return {
        "list": lambda part: [part],
        "dict": lambda part: {"a": part},
        "tuple": lambda part: (1, part),
        "set": lambda part: {1, 2},
        "row": lambda part: Row(a=part),
        "named tuple": lambda part: Pair(1, part),
        "dataclass": Thing,
        "frozen dataclass": Frozen,
        "frozen with slots": FrozenSlots,
        "slots": Slotted,
        "deque": lambda part: collections.deque([part]),
        "ordered dict": lambda part: collections.OrderedDict(a=part),
        "default dict": lambda part: collections.defaultdict(list, a=part),
        "nested": lambda part: {"a": [({"b": part},)]},
    }


@pytest.mark.parametrize("name", changeable())
def test_a_new_value_that_nobody_else_has_is_handed_on_as_it_is(name):
    value = changeable()[name]([1])
    seen = id(value)
    assert not is_immutable(value)
    value = protect(value)
    assert id(value) == seen


@pytest.mark.parametrize("name", changeable())
def test_a_value_that_somebody_else_has_is_copied(name):
    value = changeable()[name]([1])
    kept = [value]
    given = protect(value)
    assert given is not kept[0]
    assert type(given) is type(value)
    assert pickle.dumps(given) == pickle.dumps(value)


@pytest.mark.parametrize("name", [name for name in changeable() if not name.startswith("set")])
def test_a_value_whose_part_somebody_else_has_is_copied(name):
    part = [1]
    value = changeable()[name](part)
    given = protect(value)
    part.append("late")
    assert "late" not in str(vars(given) if hasattr(given, "__dict__") else getattr(given, "a", given))


@pytest.mark.parametrize(
    "value", [bytearray(b"a"), array.array("q", [1]), np.arange(3), np.array([[1]], dtype=object)]
)
def test_buffers_are_copied_if_somebody_else_has_them(value):
    assert protect(value) is not value


def test_buffers_of_our_own_are_not_copied_but_views_are():
    own = np.arange(3)
    seen = id(own)
    own = protect(own)
    assert id(own) == seen
    view = own[:2]
    given = protect(view)
    own[0] = 7
    assert given.tolist() == [0, 1]
    raw = bytearray(b"abc")
    seen = id(raw)
    raw = protect(raw)
    assert id(raw) == seen


def test_a_weak_reference_is_a_reference():
    value = {1, 2}
    weak = weakref.ref(value)
    assert protect(value) is not weak()


def test_a_value_with_attributes_beside_a_number_can_change():
    value = Named(3)
    kept = [value]
    given = protect(value)
    kept[0].note = "late"
    assert given == 3
    assert not hasattr(given, "note")


def test_objects_that_are_one_within_a_value_are_one_in_its_copy():
    part = [1]
    first, second, third = copy_of((part, [part], Thing(part)))
    assert first is second[0] is third.a
    assert first is not part
    ring = [1]
    ring.append((ring,))
    copied = copy_of(ring)
    assert copied[1][0] is copied
    assert copied is not ring


class Node:
    def __init__(self, following):
        self.following = following


def test_what_is_nested_deeply_is_copied_to_its_end():
    first = end = Node(None)
    for _ in range(5_000):
        first = Node(first)
    copied = copy_of(first)
    while copied.following is not None:
        copied = copied.following
    assert copied is not end
    nested = []
    for _ in range(5_000):
        nested = [nested]
    assert copy_of(nested) is not nested


@pytest.mark.parametrize("kind", [dict, collections.OrderedDict])
@pytest.mark.parametrize(
    "view", [dict.keys, dict.values, dict.items, types.MappingProxyType], ids=lambda view: view.__name__
)
def test_views_of_dicts_are_copied(kind, view):
    content = kind(a=[1])
    emitted = getattr(content, view.__name__, lambda: view(content))()
    before = list(emitted) if view is types.MappingProxyType else repr(emitted)
    copied = protect(emitted)
    content["a"].append(2)
    content["b"] = []
    assert (list(copied) if view is types.MappingProxyType else repr(copied)) == before
    assert type(copied) is type(emitted)


def test_what_pickle_knows_by_name_has_no_copy():
    assert copy_of([ONLY])[0] is ONLY


def test_what_cannot_be_copied_is_handed_on_as_it_is():
    lock = threading.Lock()
    value = {"lock": lock, "list": [1]}
    kept = [value]
    given = protect(value)
    assert given["lock"] is lock
    assert given["list"] is not kept[0]["list"]
    numbers = iter([1, 2]).__iter__()
    generator = (number for number in numbers)
    assert protect(generator) is generator


def taken(produce):
    produced, results = produce(), []
    take_all(produced, results)
    return results


def test_what_is_in_a_list_is_ours_if_the_list_is():
    kept = [[1], [2]]
    seen = []

    def give_away():
        made = [[1], [2]]
        seen.extend(map(id, made))
        return made

    assert [id(result) for result in taken(give_away)] == seen
    assert all(one is not other for one, other in zip(taken(lambda: kept), kept, strict=True))
    assert all(one is not other for one, other in zip(taken(lambda: iter(kept)), kept, strict=True))
    assert all(one is not other for one, other in zip(taken(lambda: tuple(kept)), kept, strict=True))


def test_the_same_object_twice_is_two_results():
    one = [1]
    results = taken(lambda: [one, one])
    results[0].append("late")
    assert results[1] == [1]
    again = taken(lambda: [*[[1]] * 2])
    assert again[0] is not again[1]


def test_side_outputs_are_told():
    tag, tagged = OutputTag("side"), []
    take_all([(tag, 1), (1, 2)], [], tagged)
    assert tagged == [True]


def test_claimed_values_are_ours():
    kept = [1]
    values = [kept, [2], 3, (4, kept)]
    own = id(values[1])
    claim(values)
    kept.append("late")
    assert values == [[1], [2], 3, (4, [1])]
    assert id(values[1]) == own


def test_the_input_of_a_map_is_no_reference_that_counts():
    inputs = [{"a": {"b": number}} for number in range(3)]
    parts = [id(value["a"]) for value in inputs]
    assert [id(result) for result in map_protected(lambda value: value.pop("a"), inputs)] == parts
    inputs = [{"a": number} for number in range(3)]
    own = [id(value) for value in inputs]
    assert [id(result[1]) for result in map_protected(lambda value: (1, value), inputs)] == own


@pytest.mark.parametrize("length", range(10))
def test_tuples_of_any_length_and_shape(length):
    kept = []

    def function(number):
        for one in kept:
            one.append("late")
        kept.append([number])
        made = [
            tuple([number] * length),
            number,
            (*[str(number)] * length,),
            (*[None] * length, kept[-1]),
            kept[-1],
        ]
        return made[number % 5]

    inputs = list(range(20))
    expected = [
        [(n,) * length, n, (str(n),) * length, (*[None] * length, [n]), [n]][n % 5] for n in range(20)
    ]
    assert map_protected(function, inputs) == expected


@pytest.mark.parametrize("length", range(10))
def test_rows_of_any_length_and_shape(length):
    kept, again = [], Row(*[0] * length, -1)

    def function(number):
        for one in kept:
            one[-1] = "late"
        again[-1] = number
        kept.append(Row(*[number] * length, [number]))
        made = [
            Row(*[number] * (length + 1)),
            again,
            Row(*[str(number)] * length, kept[-1]),
            Row(*[None] * (length + 2)),
            kept[-1],
            number,
        ]
        return made[number % 6]

    expected = [
        [
            Row(*[n] * (length + 1)),
            Row(*[0] * length, n),
            Row(*[str(n)] * length, Row(*[n] * length, [n])),
            Row(*[None] * (length + 2)),
            Row(*[n] * length, [n]),
            n,
        ][n % 6]
        for n in range(24)
    ]
    assert map_protected(function, list(range(24))) == expected


def test_a_map_hands_on_its_own_rows_and_copies_those_that_are_kept():
    made, kept = [], Row(a=0)

    def function(row):
        result = kept if row.a == 2 else Row(a=row.a)
        made.append(id(result))
        return result

    seen = map_protected(function, [Row(a=number) for number in range(4)])
    assert [id(row) == one for row, one in zip(seen, made, strict=True)] == [True, True, False, True]
    inputs = [Row(a=number) for number in range(3)]
    own = [id(row) for row in inputs]
    assert [id(row) for row in map_protected(lambda row: row, inputs)] == own


def test_a_row_that_a_function_raises_on_is_the_one_that_is_noted():
    with pytest.raises(ZeroDivisionError) as caught:
        map_protected(lambda n: Row(1 / (3 - n)), list(range(5)))
    assert attached_element(caught.value) == "3"


@pytest.mark.parametrize("kept_one", range(4))
def test_claimed_rows_are_ours(kept_one):
    values = [Row(number, "x") for number in range(4)]
    kept, own = values[kept_one], [id(value) for value in values]
    claim(values)
    kept[0] = "late"
    assert values == [Row(number, "x") for number in range(4)]
    assert [place for place in range(4) if id(values[place]) != own[place]] == [kept_one]


def test_claimed_rows_of_which_another_list_knows_are_ours():
    values = [Row(number) for number in range(4)]
    others = values.copy()
    claim(values)
    others[2][0] = "late"
    assert values[2] == Row(2)


@pytest.mark.parametrize("last", [Row(a=3), Row.of_kind(RowKind.DELETE, b=4), Row([5]), 6, Row(1, 2)])
def test_copies_of_rows_are_rows_of_their_own(last):
    values = [Row(a=1), Row(a=2), last]
    made = copies(values)
    assert made == values
    for copied, value in zip(made, values, strict=True):
        if type(value) is Row:
            assert copied.get_row_kind() is value.get_row_kind()
            copied[0] = "changed"
            assert value[0] != "changed"


def test_a_row_that_holds_itself_is_copied():
    row = Row([])
    row[0].append(row)
    copied = copy_of(row)
    assert copied is not row
    assert copied[0][0] is copied


CONSTANT, SHARED = 3, []


def test_functions_that_only_compute_are_plain():
    number, shared = 3, []

    class Add:
        def map(self, value):
            return value[0], value[1] + 1

        def with_member(self, value):
            return value, self

    def unpack(value):
        first, second = value
        return first if second else (second, len(first))

    def generate(value):
        yield value

    def default(value, other=[]):
        return other

    plain = [
        lambda n: (n % 10, 1, n + CONSTANT, number),
        lambda record: record["a"][0],
        lambda a, b: (a[0], a[1] + b[1]),
        lambda record: {"a": record[0], "b": [f"{record[1]:>3}"]},
        lambda n: n % 2 == 0 and not n is None,  # noqa: E714
        Add().map,
        unpack,
        str,
        len,
    ]
    others = [
        lambda n: (n, SHARED),
        lambda n: shared,
        lambda line: line.split(),
        lambda record: record.name,
        lambda n: print(n),
        Add().with_member,
        generate,
        default,
        SHARED.append,
        Add,
    ]
    assert all(map(is_plain, plain))
    assert not any(map(is_plain, others))
    assert all(map(changes_nothing, plain))
    assert not any(map(changes_nothing, others))


def test_functions_that_add_to_their_arguments_change_something():
    def extend(one, other):
        one += other
        return one

    class Extend:
        def reduce(self, one, other):
            one[0] |= other[0]
            return one

    assert is_plain(extend)
    assert not any(map(changes_nothing, [extend, Extend().reduce]))
    assert changes_nothing(lambda one, other: one + other)


def test_generators_that_only_read_their_arguments_are_told_from_those_that_may_change_them():
    kept = []

    class Reads:
        def pair(self, left, right, ctx):
            if left[0] > 1:
                yield left[0] * right[0]
            yield left, (right, [left])

    def appends(left, right, ctx):
        left.append(1)
        yield left

    def extends(left, right, ctx):
        right += left
        yield right

    def sets(left, right, ctx):
        left[0] = right
        yield left

    def keeps(left, right, ctx):
        kept.append(left)
        yield 1

    def hands_over(left, right, ctx):
        yield from right

    class Members:
        def pair(self, left, right, ctx):
            yield self, left

    assert only_reads(Reads().pair)
    assert only_reads(lambda left, right, ctx: (left, right))
    for function in (appends, extends, sets, keeps, hands_over, Members().pair):
        assert not only_reads(function)
    assert not changes_nothing(Reads().pair)


def test_kinds_of_classes_are_found_by_what_their_objects_hold():
    assert kind_of(np.ndarray) is Kind.ARRAY
    assert kind_of(memoryview) is Kind.OPAQUE
    assert kind_of(type("Sub", (dict,), {})) is Kind.OPEN
    assert kind_of(type("Error", (ValueError,), {})) is Kind.OPAQUE
    assert kind_of(collections.namedtuple("Point", "x y")) is Kind.PARTS

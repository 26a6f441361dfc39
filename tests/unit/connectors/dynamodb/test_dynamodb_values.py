"""Values of Python as attribute values of DynamoDB, and back."""

from __future__ import annotations

import datetime
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as some

from millstream.base.errors import NumberRangeError, TypeMismatchError
from millstream.connectors.dynamodb.connection import TableKeys
from millstream.connectors.dynamodb.requests import DynamoDbWriteRequest, encode, request_of
from millstream.connectors.dynamodb.values import (
    from_attribute,
    item_of,
    size_of_item,
    to_attribute,
    values_of,
)
from millstream.types.row import Row, RowKind

numbers = some.integers(-(10**38) + 1, 10**38 - 1) | some.floats(-1e100, 1e100, allow_subnormal=False).filter(
    lambda value: value == 0 or abs(value) > 1e-100
)
scalars = some.none() | some.booleans() | some.text() | some.binary() | numbers
sets = some.sets(some.text(), min_size=1) | some.sets(some.binary(), min_size=1)
sets |= some.sets(some.integers(-99, 99), min_size=1)
names = some.text(min_size=1)
values = some.recursive(
    scalars | sets, lambda inner: some.lists(inner) | some.dictionaries(names, inner), max_leaves=20
)


def plain(value):
    """Return a value as it is read: numbers are decimals."""
    if isinstance(value, dict):
        return {name: plain(each) for name, each in value.items()}
    if isinstance(value, list):
        return [plain(each) for each in value]
    return Decimal(repr(value)) if isinstance(value, float) else value


@given(some.dictionaries(names, values))
def test_items_come_back(item):
    assert values_of(item_of(item)) == plain(item)


@pytest.mark.parametrize(
    ("value", "attribute"),
    [
        ("", {"S": ""}),
        (datetime.date(2026, 1, 31), {"S": "2026-01-31"}),
        (datetime.datetime(2026, 1, 31, 12, tzinfo=datetime.UTC), {"S": "2026-01-31T12:00:00+00:00"}),
        (True, {"BOOL": True}),
        (10**100, {"N": "1E+100"}),
        (Decimal("1.50"), {"N": "1.50"}),
        (0.1, {"N": "0.1"}),
        (bytearray(b"a"), {"B": b"a"}),
        ({Decimal(2), 1}, {"NS": ["1", "2"]}),
        (frozenset({b"b", b"a"}), {"BS": [b"a", b"b"]}),
        ((1, None), {"L": [{"N": "1"}, {"NULL": True}]}),
        (Row(1, "a"), {"L": [{"N": "1"}, {"S": "a"}]}),
        (Row(a=Row(b=1)), {"M": {"a": {"M": {"b": {"N": "1"}}}}}),
    ],
)
def test_values(value, attribute):
    made = to_attribute(value)
    assert {kind: Decimal(text) if kind == "N" else text for kind, text in made.items()} == {
        kind: Decimal(text) if kind == "N" else text for kind, text in attribute.items()
    }


@pytest.mark.parametrize(
    ("value", "error", "message"),
    [
        (float("nan"), NumberRangeError, "'a.0': nan is no finite number"),
        (float("inf"), NumberRangeError, "inf is no finite number"),
        (Decimal("-Infinity"), NumberRangeError, "no finite number"),
        (Decimal("1." + "3" * 38), NumberRangeError, "more than 38 digits"),
        (10**39 + 1, NumberRangeError, "more than 38 digits"),
        (1e126, NumberRangeError, "not between"),
        (Decimal("1E-131"), NumberRangeError, "not between"),
        (set(), TypeMismatchError, "empty set"),
        ({1, "a"}, TypeMismatchError, "not of one kind"),
        ({True}, TypeMismatchError, "not of one kind"),
        ({1, 2, 3j}, TypeMismatchError, "which no type of DynamoDB holds"),
        ({"b": object()}, TypeMismatchError, "'a.0.b': .* which no type of DynamoDB holds"),
        ({7: 1}, TypeMismatchError, "the name 7 is no text"),
    ],
)
def test_values_that_do_not_fit_are_named(value, error, message):
    with pytest.raises(error, match=message):
        item_of({"a": [value]})


def test_too_deep():
    value: list = []
    for _ in range(40):
        value = [value]
    with pytest.raises(TypeMismatchError, match="32 deep"):
        to_attribute(value)


@pytest.mark.parametrize("record", ["text", ("a", 1), Row(1, 2), None])
def test_records_without_names(record):
    with pytest.raises(TypeMismatchError, match="no names for its fields"):
        item_of(record)


def test_attribute_of_no_type():
    with pytest.raises(TypeMismatchError, match="no attribute value"):
        from_attribute({"X": 1})


def test_sizes_are_those_that_dynamodb_counts():
    item = item_of(
        {"id": "é", "n": Decimal("-12.5"), "l": [True, None], "m": {"k": b"abc"}, "s": {"a", "bc"}}
    )

    # id é │ n, 2 digits in a byte, one more, a sign │ l and 3 for the list, 2 elements of 1 + 1 │ m … │ s, a, bc
    assert size_of_item(item) == (2 + 2) + (1 + 4) + (1 + 3 + 2 * 2) + (1 + 3 + 1 + 1 + 3) + (1 + 3)


class TestRequests:
    KEYS = TableKeys(("id", "n"), ("S", "N"))

    def test_rows_are_written_by_their_kinds(self):
        def written(kind):
            request = request_of(Row.of_kind(kind, id="7", n=1, v=None))
            return None if request is None else encode(request, self.KEYS)[0]

        put = {"PutRequest": {"Item": {"id": {"S": "7"}, "n": {"N": "1"}}}}
        delete = {"DeleteRequest": {"Key": {"id": {"S": "7"}, "n": {"N": "1"}}}}
        assert [written(kind) for kind in RowKind] == [put, None, put, delete]

    def test_deletions_hold_the_key_only(self):
        request = DynamoDbWriteRequest.delete({"v": 5, "n": 1, "id": "7"})
        assert encode(request, self.KEYS)[0] == {"DeleteRequest": {"Key": item_of({"id": "7", "n": 1})}}

    def test_keys_are_the_same_if_their_numbers_are(self):
        identities = {encode(DynamoDbWriteRequest.put({"id": "7", "n": n}), self.KEYS)[2] for n in (1, 1.0)}
        assert len(identities) == 1

    @pytest.mark.parametrize(
        ("item", "message"),
        [
            ({"n": 1}, '(?s)no value of the key attribute "id".*has n; the key is id, n'),
            ({"id": "", "n": 1}, '"id" of a record is empty'),
            ({"id": 7, "n": 1}, '(?s)"id" of a record is of the type N.*Its type in the table is S'),
            ({"id": "k" * 2049, "n": 1}, "(?s)has 2049 bytes.*2048"),
        ],
    )
    def test_keys_that_are_none(self, item, message):
        with pytest.raises(TypeMismatchError, match=message):
            encode(DynamoDbWriteRequest.put(item), self.KEYS)

    def test_keys_of_unknown_types(self):
        keys = TableKeys(("id",))
        assert encode(DynamoDbWriteRequest.put({"id": b"7"}), keys)[2] == (("B", b"7"),)
        with pytest.raises(TypeMismatchError, match="is of the type BOOL"):
            encode(DynamoDbWriteRequest.put({"id": True}), keys)

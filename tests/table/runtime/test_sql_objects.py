"""Aggregates that keep lists of values, statistics, and users' functions."""

from __future__ import annotations

import math
import statistics
from collections import Counter
from decimal import Decimal
from random import Random
from typing import Any

import pytest
from sql_runs import AFTER, BEFORE, DELETE, INSERT, SqlRun, changelog, schema_of

from millstream.base.errors import NotSupportedError
from millstream.table.expressions.errors import EvaluationError
from millstream.table.expressions.rex import AggregateCall, SortKey
from millstream.table.plan.logical import WindowKind
from millstream.table.runtime.specs import GroupAggregateSpec, WindowAggregateSpec
from millstream.table.udf import AggregateFunction, udaf
from millstream.types.datatypes import DataTypes as D
from millstream.types.further_types import MultisetType

SCHEMA = schema_of(D.STRING(), D.BIGINT(), D.STRING(), D.DOUBLE())


def aggregated(call: AggregateCall, changes: list[Any], *, retracts: bool = True) -> Any:
    """Return the result of one aggregate over all rows."""
    run = SqlRun(GroupAggregateSpec(SCHEMA, (0,), (call,), retracts=retracts), [SCHEMA], [(0,)], Random(3))
    rows = run.run([(0, change) for change in changes])
    ((_, result),) = rows
    return result


def row(number: int | None, text: str | None = None, float_: float | None = None) -> tuple[Any, ...]:
    return ("k", number, text, float_)


TEXTS = [
    (INSERT, row(1, "a")),
    (INSERT, row(2, "b")),
    (INSERT, row(3, None)),
    (INSERT, row(4, "a")),
    (DELETE, row(1, "a")),
    (BEFORE, row(2, "b")),
    (AFTER, row(2, "c")),
]


def test_texts_are_joined_in_the_order_in_which_they_came() -> None:
    assert aggregated(AggregateCall("LISTAGG", (2,), D.STRING()), TEXTS) == "a,c"
    assert (
        aggregated(AggregateCall("LISTAGG", (2,), D.STRING(), distinct=True), TEXTS[:4], retracts=False)
        == "a,b"
    )
    ordered = AggregateCall("LISTAGG", (2,), D.STRING(), order=(SortKey(1, descending=True),))
    assert aggregated(ordered, TEXTS[:4], retracts=False) == "a,b,a"


def test_values_are_collected() -> None:
    array = AggregateCall("ARRAY_AGG", (2,), D.ARRAY(D.STRING()))
    assert aggregated(array, TEXTS) == (None, "a", "c")
    multiset = AggregateCall("COLLECT", (2,), MultisetType(D.STRING()))
    assert aggregated(multiset, TEXTS[:4]) == (("a", 2), ("b", 1))


def test_first_and_last_values_may_be_taken_back() -> None:
    assert aggregated(AggregateCall("FIRST_VALUE", (2,), D.STRING()), TEXTS) == "a"
    assert aggregated(AggregateCall("LAST_VALUE", (2,), D.STRING()), TEXTS) == "c"
    assert aggregated(AggregateCall("LAST_VALUE", (1,), D.BIGINT()), TEXTS[:6]) == 4


def test_json_is_made_of_values() -> None:
    array = AggregateCall("JSON_ARRAYAGG", (2,), D.STRING(False))
    assert aggregated(array, TEXTS[:4]) == '["a","b","a"]'
    pairs = AggregateCall("JSON_OBJECTAGG", (2, 1), D.STRING(False))
    assert aggregated(pairs, TEXTS[1:3]) == '{"b":2}'


def test_percentiles_lie_between_values() -> None:
    schema = schema_of(D.STRING(), D.BIGINT(), D.DOUBLE(False))
    call = AggregateCall("PERCENTILE", (1, 2), D.DOUBLE())
    run = SqlRun(GroupAggregateSpec(schema, (0,), (call,)), [schema], [(0,)], Random(0))
    got = run.run([(0, (INSERT, ("k", number, 0.25))) for number in (10, 20, 30, 40)])
    assert got == Counter([("k", 17.5)])


@pytest.mark.parametrize(
    ("function", "oracle"),
    [
        ("VAR_POP", statistics.pvariance),
        ("VAR_SAMP", statistics.variance),
        ("STDDEV_POP", statistics.pstdev),
        ("STDDEV_SAMP", statistics.stdev),
    ],
)
def test_statistics_are_those_of_the_rows_that_are_left(function: str, oracle: Any) -> None:
    random = Random(5)
    changes, left = changelog(random, 60, lambda: row(1, None, float(random.randint(-20, 20))), retracts=True)
    numbers = [each[3] for each in left.elements()]
    got = aggregated(AggregateCall(function, (3,), D.DOUBLE()), changes)
    assert math.isclose(got, oracle(numbers), rel_tol=1e-9)


def test_a_sample_of_one_has_no_variance() -> None:
    assert aggregated(AggregateCall("VAR_SAMP", (3,), D.DOUBLE()), [(INSERT, row(1, None, 2.0))]) is None


class Weighted(AggregateFunction):
    """A sum that can take rows back, of which states can be put together."""

    def create_accumulator(self) -> Any:
        return [0]

    def accumulate(self, accumulator: Any, value: Any) -> None:
        accumulator[0] += value or 0

    def retract(self, accumulator: Any, value: Any) -> None:
        accumulator[0] -= value or 0

    def merge(self, accumulator: Any, accumulators: Any) -> None:
        for other in accumulators:
            accumulator[0] += other[0]

    def get_value(self, accumulator: Any) -> Any:
        return accumulator[0]


class Largest(AggregateFunction):
    """Has no `retract`."""

    def create_accumulator(self) -> Any:
        return [None]

    def accumulate(self, accumulator: Any, value: Any) -> None:
        accumulator[0] = value if accumulator[0] is None else max(accumulator[0], value)

    def get_value(self, accumulator: Any) -> Any:
        return accumulator[0]


def user_call(function: Any, result: Any = None, **settings: Any) -> AggregateCall:
    wrapper = udaf(function, result_type=result or D.BIGINT(), **settings)
    declared = wrapper.declared(())
    return AggregateCall("f", (1,), declared.result_type, user_function=declared)


def test_users_aggregates_are_kept_up_to_date() -> None:
    assert aggregated(user_call(Weighted(), accumulator_type=D.ARRAY(D.BIGINT())), TEXTS) == 9
    assert (
        aggregated(user_call(Largest(), accumulator_type=D.ARRAY(D.BIGINT())), TEXTS[:4], retracts=False) == 4
    )
    mean = user_call(lambda numbers: numbers.mean(), D.DOUBLE(), func_type="pandas")
    assert aggregated(mean, TEXTS) == 3.0


def test_a_function_without_retract_is_named() -> None:
    with pytest.raises(NotSupportedError, match="cannot take rows back"):
        aggregated(user_call(Largest(), accumulator_type=D.ARRAY(D.BIGINT())), TEXTS)


def test_users_aggregates_of_windows_are_put_together() -> None:
    from datetime import datetime, timedelta

    schema = schema_of(D.STRING(), D.BIGINT(), D.TIMESTAMP(3))
    spec = WindowAggregateSpec(
        schema,
        (0,),
        (user_call(Weighted(), accumulator_type=D.ARRAY(D.BIGINT())),),
        WindowKind.HOP,
        2,
        size_ms=2_000,
        slide_ms=1_000,
        properties=("start",),
    )
    start = datetime(2024, 1, 1)
    run = SqlRun(spec, [schema], [(0,)], Random(0))
    rows = [("k", number, start + timedelta(seconds=number)) for number in range(3)]
    got = run.run([(0, (INSERT, each)) for each in rows])
    second = timedelta(seconds=1)
    assert got == Counter(
        [("k", 0, start - second), ("k", 1, start), ("k", 3, start + second), ("k", 2, start + 2 * second)]
    )


def test_a_single_value_is_one_row() -> None:
    call = AggregateCall("SINGLE_VALUE", (1,), D.BIGINT())
    assert aggregated(call, [(INSERT, row(1)), (BEFORE, row(1)), (AFTER, row(2))]) == 2
    assert aggregated(call, [(INSERT, row(None))]) is None
    with pytest.raises(EvaluationError, match="gave 2 rows"):
        aggregated(call, [(INSERT, row(1)), (INSERT, row(2))])


def test_sums_without_values_are_null_or_zero() -> None:
    nothing = [(INSERT, row(None))]
    assert aggregated(AggregateCall("SUM", (1,), D.BIGINT()), nothing) is None
    assert aggregated(AggregateCall("$SUM0", (1,), D.BIGINT(False)), nothing) == 0


def test_statistics_of_decimals_are_decimals() -> None:
    schema = schema_of(D.STRING(), D.DECIMAL(12, 2))
    for function, expected in (("VAR_POP", "0.666667"), ("AVG", "2.000000")):
        call = AggregateCall(function, (1,), D.DECIMAL(38, 6))
        run = SqlRun(GroupAggregateSpec(schema, (0,), (call,)), [schema], [(0,)], Random(0))
        got = run.run([(0, (INSERT, ("k", Decimal(number)))) for number in (1, 2, 3)])
        assert got == Counter([("k", Decimal(expected))])

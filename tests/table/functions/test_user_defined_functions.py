"""Users' functions: declared, called over columns, aggregated."""

from __future__ import annotations

import datetime
import decimal
import pickle
from typing import Any

import cloudpickle
import pyarrow as pa
import pytest

from millstream.base.errors import ConfigurationError, NotSupportedError, TypeMismatchError
from millstream.table import EnvironmentSettings, TableEnvironment
from millstream.table.data_view import ListView, MapView
from millstream.table.errors import ValidationError
from millstream.table.expressions.compiling import ExpressionProgram, Setting
from millstream.table.expressions.rex import AggregateCall, InputRef, RowSchema
from millstream.table.functions.aggregate_calls import user_aggregate
from millstream.table.functions.user import build_user_call
from millstream.table.types import DataTypes, Row
from millstream.table.udf import (
    AggregateFunction,
    FunctionContext,
    ScalarFunction,
    TableAggregateFunction,
    TableFunction,
    udaf,
    udf,
    udtaf,
    udtf,
)

INT, STRING = DataTypes.INT(), DataTypes.STRING()
SCHEMA = RowSchema(("a", "s"), (INT, STRING))
A, S = (InputRef(place, kind) for place, kind in enumerate(SCHEMA.types))
BATCH = pa.record_batch([pa.array([1, None, 3], pa.int32()), pa.array(["x", "yy", None])], ["f0", "f1"])


def compute(function: Any, *operands: Any, setting: Setting | None = None) -> list[Any]:
    declared = cloudpickle.loads(cloudpickle.dumps(function.declared()))
    program = ExpressionProgram([build_user_call(declared, operands)], SCHEMA)
    program.open(setting)
    try:
        return list(program.evaluate(BATCH)[0].to_pylist())
    finally:
        program.close()


def test_a_function_is_called_for_each_row_null_included() -> None:
    show = udf(lambda a, s: f"{a}-{s}", result_type=STRING)
    assert compute(show, A, S) == ["1-x", "None-yy", "3-None"]


def test_types_come_from_annotations() -> None:
    @udf
    def parts(text: str) -> list[int]:
        return [len(text or "")]

    @udf
    def maybe(number: int) -> decimal.Decimal | None:
        return None if number is None else decimal.Decimal(number) / 4

    assert str(parts.result_type()) == "ARRAY<BIGINT>"
    assert compute(parts, S) == [[1], [2], [0]]
    assert compute(maybe, A) == [decimal.Decimal("0.25"), None, decimal.Decimal("0.75")]
    with pytest.raises(ConfigurationError, match="does not say the type"):
        udf(lambda a: a).result_type()


def test_a_result_that_does_not_fit_its_type_is_named() -> None:
    with pytest.raises(TypeMismatchError, match="'x'"):
        compute(udf(lambda s: s, result_type=INT, name="f"), S)


def test_pandas_functions_get_whole_columns() -> None:
    calls: list[int] = []

    @udf(result_type="BIGINT", func_type="pandas")
    def add_one(column: Any) -> Any:
        calls.append(len(column))
        return column.fillna(0) + 1

    program = ExpressionProgram([build_user_call(add_one.declared(), [A])], SCHEMA)
    assert program.evaluate(BATCH)[0].to_pylist() == [2, 1, 4]
    assert calls == [3]


def test_arrow_functions_get_arrays() -> None:
    import pyarrow.compute as pc

    double = udf(lambda column: pc.multiply(column, 2), result_type=INT, func_type="arrow")
    assert compute(double, A) == [2, None, 6]
    short = udf(lambda column: column.slice(0, 1), result_type=INT, func_type="arrow")
    with pytest.raises(TypeMismatchError, match="1 values for 3 rows"):
        compute(short, A)


def test_async_functions_wait_for_all_rows_and_keep_their_order() -> None:
    @udf(result_type=INT)
    async def twice(number: int) -> int | None:
        return None if number is None else number * 2

    assert compute(twice, A) == [2, None, 6]


def test_a_class_is_opened_and_closed_once() -> None:
    class Named(ScalarFunction):
        def __init__(self) -> None:
            self.log: list[str] = []

        def open(self, function_context: FunctionContext) -> None:
            self.log.append("open " + function_context.get_job_parameter("k", "none"))

        def eval(self, number: int) -> str:
            return f"{len(self.log)}"

        def close(self) -> None:
            self.log.append("close")

    named = Named()
    program = ExpressionProgram([build_user_call(udf(named, result_type=STRING).declared(), [A])], SCHEMA)
    program.open(Setting(functions=FunctionContext(None, {"k": "v"})))
    assert program.evaluate(BATCH)[0].to_pylist() == ["1", "1", "1"]
    program.close()
    assert named.log == ["open v", "close"]


def test_the_number_of_arguments_is_checked_before_the_job_starts() -> None:
    with pytest.raises(ValidationError, match="2 arguments"):
        build_user_call(udf(lambda a: a, result_type=INT, name="f").declared(), [A, S])
    with pytest.raises(ValidationError, match="takes 1 arguments"):
        build_user_call(udf(lambda a: a, input_types=[INT], result_type=INT).declared(), [A, S])


def test_rows_and_times_are_what_pyflink_gives() -> None:
    row_type = DataTypes.ROW([DataTypes.FIELD("t", DataTypes.TIMESTAMP(3)), DataTypes.FIELD("n", INT)])

    @udf(result_type=row_type)
    def make(number: int) -> Row:
        return Row(datetime.datetime(2024, 1, 1, 12), number)

    assert compute(make, A)[0] == {"t": datetime.datetime(2024, 1, 1, 12), "n": 1}


def test_table_functions_give_rows_with_the_place_of_their_input() -> None:
    class Split(TableFunction):
        def eval(self, text: str) -> Any:
            for char in text or "":
                yield char, 1

    split = udtf(Split(), result_types=[STRING, INT])
    call = build_user_call(split.declared(), [S])
    places, (chars, ones) = split.declared().table_kernel(call, Setting()).evaluate([BATCH.column(1)], 3)
    assert (places.to_pylist(), chars.to_pylist(), ones.to_pylist()) == (
        [0, 1, 1],
        ["x", "y", "y"],
        [1, 1, 1],
    )
    single = udtf(lambda text: [len(text or "")], result_types=INT)
    kernel = single.declared().table_kernel(build_user_call(single.declared(), [S]), Setting())
    assert kernel.evaluate([BATCH.column(1)], 3)[1][0].to_pylist() == [1, 2, 0]


def test_what_a_function_gave_and_changes_later_stays_as_it_was() -> None:
    """Rows are as they were when they were given, whatever the function does with its own list or Row."""
    numbers: list[int] = []
    growing = udf(lambda a: numbers.append(a or 0) or numbers, result_type=DataTypes.ARRAY(INT))
    assert compute(growing, A) == [[1], [1, 0], [1, 0, 3]]

    class Prefixes(TableFunction):
        def eval(self, text: str) -> Any:
            row, chars = Row("", []), []
            for char in text or "":
                chars.append(char)
                row[0], row[1] = char, chars
                yield row

    prefixes = udtf(Prefixes(), result_types=[STRING, DataTypes.ARRAY(STRING)])
    kernel = prefixes.declared().table_kernel(build_user_call(prefixes.declared(), [S]), Setting())
    _, (chars, lists) = kernel.evaluate([pa.array(["xy"])], 1)
    assert (chars.to_pylist(), lists.to_pylist()) == (["x", "y"], [["x"], ["x", "y"]])


class Seen(AggregateFunction):
    """Gives its accumulator itself."""

    def create_accumulator(self) -> list[int]:
        return []

    def accumulate(self, accumulator: list[int], *args: Any) -> None:
        accumulator.append(args[0])

    def get_value(self, accumulator: list[int]) -> list[int]:
        return accumulator


def test_an_aggregate_that_gives_its_accumulator_gives_it_as_it_was() -> None:
    wrapper = udaf(Seen(), result_type=DataTypes.ARRAY(INT), accumulator_type=DataTypes.ARRAY(INT))
    aggregate = _aggregate(wrapper, INT)
    state = aggregate.accumulate(aggregate.create(), (1,))
    values = [aggregate.value(state)]
    values.append(aggregate.value(aggregate.accumulate(state, (2,))))
    assert aggregate.results(values).to_pylist() == [[1], [1, 2]]


class Average(AggregateFunction):
    def create_accumulator(self) -> Row:
        return Row(0, 0)

    def accumulate(self, accumulator: Row, *args: Any) -> None:
        accumulator[0] += args[0]
        accumulator[1] += 1

    def retract(self, accumulator: Row, *args: Any) -> None:
        accumulator[0] -= args[0]
        accumulator[1] -= 1

    def get_value(self, accumulator: Row) -> float:
        return accumulator[0] / accumulator[1]


def _aggregate(wrapper: Any, *kinds: Any) -> Any:
    call = AggregateCall(
        "f", tuple(range(len(kinds))), wrapper.result_type(), user_function=wrapper.declared()
    )
    return user_aggregate(call, kinds)


def test_aggregates_add_and_take_back_rows_in_states_that_pickle() -> None:
    average = _aggregate(udaf(Average(), accumulator_type="ROW<f0 BIGINT, f1 BIGINT>"), INT)
    state = average.create()
    for row in average.rows_of([pa.array([1, 2, 6], pa.int32())], 3):
        state = average.accumulate(state, row)
    state = pickle.loads(pickle.dumps(state))
    state = average.retract(state, (1,))
    assert average.value(state) == 4.0
    assert average.results([average.value(state)]).to_pylist() == [4.0]
    assert average.retracts and not average.merges
    with pytest.raises(NotSupportedError, match="merge"):
        average.merge(state, [])


def test_aggregates_keep_views() -> None:
    class Distinct(AggregateFunction):
        def create_accumulator(self) -> list[Any]:
            return [ListView(), MapView()]

        def accumulate(self, accumulator: list[Any], *args: Any) -> None:
            if not accumulator[1].contains(args[0]):
                accumulator[0].add(args[0])
            accumulator[1][args[0]] = True

        def get_value(self, accumulator: list[Any]) -> str:
            return ",".join(accumulator[0])

    distinct = _aggregate(udaf(Distinct()), STRING)
    state = distinct.create()
    for row in (("a",), ("b",), ("a",)):
        state = distinct.accumulate(state, row)
    assert distinct.value(pickle.loads(pickle.dumps(state))) == "a,b"


def test_pandas_aggregates_get_all_rows_of_a_group() -> None:
    mean = _aggregate(udaf(lambda v: v.mean(), result_type=DataTypes.DOUBLE(), func_type="pandas"), INT)
    state = mean.create()
    for row in ((1,), (2,), (6,), (9,)):
        state = mean.accumulate(state, row)
    state = mean.retract(state, (9,))
    assert mean.value(state) == 3.0
    assert mean.value_of([pa.array([4, 6], pa.int32())]) == 5.0


def test_table_aggregates_give_rows() -> None:
    class Top2(TableAggregateFunction):
        def create_accumulator(self) -> list[int]:
            return []

        def accumulate(self, accumulator: list[int], *args: Any) -> None:
            accumulator.append(args[0])
            accumulator.sort(reverse=True)
            del accumulator[2:]

        def emit_value(self, accumulator: list[int]) -> Any:
            for value in accumulator:
                yield Row(value)

        def get_result_type(self) -> Any:
            return "ROW<v BIGINT>"

    top = _aggregate(udtaf(Top2()), INT)
    state = top.create()
    for row in ((1,), (5,), (3,)):
        state = top.accumulate(state, row)
    assert top.gives_rows and top.rows(state) == [Row(5), Row(3)]


def test_wrong_declarations_are_refused() -> None:
    with pytest.raises(TypeError):
        udf(3, result_type=INT)
    with pytest.raises(TypeError):
        udf(Average, result_type=INT)
    with pytest.raises(ValueError, match="func_type"):
        udf(lambda a: a, result_type=INT, func_type="rows")
    with pytest.raises(TypeError, match="AggregateFunction"):
        udaf(lambda a: a, result_type=INT)


def test_a_function_that_stands_alone_in_from_has_names_for_its_columns() -> None:
    words = udtf(lambda text: [(word, len(word)) for word in text.split()], result_types=[STRING, INT])
    t_env = TableEnvironment.create(EnvironmentSettings.in_batch_mode())
    t_env.create_temporary_function("words", words)
    schema = t_env.sql_query("SELECT w.* FROM TABLE(words('to do')) AS w(word, size)").get_schema()
    assert (schema.get_field_names(), schema.get_field_data_types()) == (["word", "size"], [STRING, INT])
    array = t_env.sql_query("SELECT number FROM UNNEST(ARRAY[7, 8]) AS numbers(number)")
    assert array.get_schema().get_field_names() == ["number"]

"""Programs of expressions: what is computed for which rows, shared, pickled, refused."""

from __future__ import annotations

import decimal
import pickle
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pytest

from millstream.base.clock import ManualClock
from millstream.table.errors import ValidationError
from millstream.table.expressions.compiling import ExpressionProgram, Setting, constant_value
from millstream.table.expressions.errors import EvaluationError
from millstream.table.expressions.rex import InputRef, Literal, RowExpression, RowSchema
from millstream.table.functions.registry import build_call, build_cast
from millstream.table.functions.types import arrow_schema
from millstream.table.functions.user import build_user_call
from millstream.table.udf import udf
from millstream.types.further_types import DataTypes

INT, STRING = DataTypes.INT(), DataTypes.STRING()
SCHEMA = RowSchema(("a", "b", "s"), (INT, INT, STRING))
A, B, S = (InputRef(place, kind) for place, kind in enumerate(SCHEMA.types))


def literal(value: Any) -> Literal:
    kinds = {int: DataTypes.INT(False), str: DataTypes.STRING(False), bool: DataTypes.BOOLEAN(False)}
    return Literal(value, kinds[type(value)])


def rows(*values: tuple[Any, Any, Any]) -> pa.RecordBatch:
    columns = list(zip(*values, strict=True)) or [(), (), ()]
    schema = arrow_schema(SCHEMA)
    return pa.record_batch([pa.array(c, f.type) for c, f in zip(columns, schema, strict=True)], schema=schema)


def compute(expressions: Sequence[RowExpression], batch: pa.RecordBatch, **setting: Any) -> list[list[Any]]:
    program = ExpressionProgram(expressions, SCHEMA)
    program.open(Setting(**setting))
    results = program.evaluate(batch)
    assert all(len(each) == batch.num_rows for each in results)
    return [each.to_pylist() for each in results]


def test_case_divides_only_where_its_condition_holds() -> None:
    quotient = build_call("/", [A, B])
    guarded = build_call("CASE", [build_call("<>", [B, literal(0)]), quotient, literal(-1)])
    batch = rows((10, 2, ""), (1, 0, ""), (None, 3, ""), (7, None, ""))
    assert compute([guarded], batch) == [[5, -1, None, -1]]
    with pytest.raises(EvaluationError, match="division by zero"):
        compute([quotient], batch)


def test_zero_divides_null_without_an_error() -> None:
    assert compute([build_call("/", [A, B])], rows((None, 0, ""))) == [[None]]


def test_and_ends_where_its_first_operand_is_false() -> None:
    large = build_call(">", [build_call("/", [A, B]), literal(1)])
    both = build_call("AND", [build_call("<>", [B, literal(0)]), large])
    batch = rows((10, 2, ""), (1, 0, ""), (1, 2, ""), (None, 2, ""), (5, None, ""))
    assert compute([both], batch) == [[True, False, False, None, None]]


def test_or_ends_where_its_first_operand_is_true() -> None:
    either = build_call(
        "OR", [build_call("=", [B, literal(0)]), build_call(">", [build_call("/", [A, B]), literal(1)])]
    )
    assert compute([either], rows((1, 0, ""), (9, 3, ""), (None, 1, ""))) == [[True, True, None]]


def test_coalesce_casts_texts_only_where_nothing_was_found() -> None:
    whole = build_call("COALESCE", [A, build_cast(S, INT)])
    assert compute([whole], rows((1, 0, "x"), (None, 0, "7"), (None, 0, None))) == [[1, 7, None]]


def test_a_cast_that_fails_names_the_text() -> None:
    with pytest.raises(EvaluationError, match="'x y'") as caught:
        compute([build_cast(S, INT)], rows((1, 0, "x y")))
    assert "TRY_CAST" in str(caught.value)


def test_random_numbers_of_two_calls_differ_and_equal_calls_of_others_are_one() -> None:
    first, second = build_call("RAND", []), build_call("RAND", [])
    left, right = compute([first, second], rows(*[(1, 1, "")] * 5))
    assert left != right and len(set(left)) == 5
    computed = compute([build_call("+", [A, B]), build_call("+", [A, B])], rows((1, 2, "")))
    assert computed == [[3], [3]]


def test_all_expressions_see_one_time() -> None:
    clock = ManualClock()
    stamps = [build_call(name, []) for name in ("CURRENT_TIMESTAMP", "NOW", "LOCALTIMESTAMP")]
    moment, now, local = compute(
        stamps, rows((1, 1, "")), clock=clock, zone="Asia/Tokyo", now_ms=1_700_000_000_123
    )
    assert moment == now
    assert moment[0].timestamp() == 1_700_000_000.123
    assert (local[0].hour, local[0].microsecond) == (7, 123_000)


def test_programs_pickle_opened_or_not() -> None:
    program = ExpressionProgram([build_call("+", [A, literal(1)])], SCHEMA)
    program.open()
    copy = pickle.loads(pickle.dumps(program))
    assert copy.evaluate(rows((1, 0, "")))[0].to_pylist() == [2]


def test_empty_batches_give_empty_columns_of_the_right_types() -> None:
    program = ExpressionProgram([build_call("UPPER", [S]), literal(1), build_call("/", [A, B])], SCHEMA)
    results = program.evaluate(rows())
    assert [(len(each), each.type) for each in results] == [
        (0, pa.string()),
        (0, pa.int32()),
        (0, pa.int32()),
    ]


def test_constants_are_folded_with_the_same_kernels() -> None:
    assert constant_value(build_call("+", [literal(2**31 - 1), literal(1)])) == -(2**31)
    assert constant_value(build_cast(literal(" 7 "), INT)) == 7


def test_decimals_that_overflow_are_null() -> None:
    kind = DataTypes.DECIMAL(38, 0)
    largest = Literal(decimal.Decimal("9" * 38), kind)
    assert constant_value(build_call("+", [largest, largest])) is None


def test_the_least_integer_divided_by_minus_one_wraps() -> None:
    schema = RowSchema(("a", "b"), (INT, INT))
    program = ExpressionProgram([build_call("/", [InputRef(0, INT), InputRef(1, INT)])], schema)
    batch = pa.record_batch(
        [pa.array([-(2**31), 6], pa.int32()), pa.array([-1, -2], pa.int32())], ["f0", "f1"]
    )
    assert program.evaluate(batch)[0].to_pylist() == [-(2**31), -3]


def test_functions_that_do_not_exist_are_refused_with_a_suggestion() -> None:
    with pytest.raises(ValidationError, match="SUBSTRNG") as caught:
        build_call("SUBSTRNG", [S])
    assert 'Did you mean "SUBSTRING"?' in str(caught.value)


def test_arguments_that_do_not_fit_are_named_with_what_the_function_takes() -> None:
    with pytest.raises(ValidationError) as caught:
        build_call("LEFT", [A, S])
    assert "(INT, STRING)" in str(caught.value)
    assert "LEFT(<CHARACTER>, <INTEGER>)" in str(caught.value)
    with pytest.raises(ValidationError):
        build_call("+", [S, literal(1)])
    with pytest.raises(ValidationError, match="cast of type INT to type DATE"):
        build_cast(A, DataTypes.DATE())


def test_aggregates_are_refused_where_a_row_is_computed() -> None:
    with pytest.raises(ValidationError, match="SUM"):
        build_call("SUM", [A])


@pytest.mark.parametrize("count", [1, 50])
def test_functions_of_constants_and_of_columns_agree(count: int) -> None:
    """Arrow's ways for constants and Python's for columns give the same."""
    text = "aé,b,,c"
    calls = [
        ("SUBSTRING", [text, 2, 3]),
        ("LPAD", [text, 10, "x"]),
        ("SPLIT_INDEX", [text, ",", 1]),
        ("REPLACE", [text, ",", ";"]),
        ("REGEXP_REPLACE", [text, "[a-b]", "#"]),
        ("REGEXP_EXTRACT", [text, "(é),(b)", 2]),
        ("POSITION", ["b", text]),
        ("TRANSLATE", [text, "ab", "x"]),
        ("LEFT", [text, 2]),
        ("RIGHT", [text, 2]),
        ("BTRIM", [text, "ac"]),
        ("STARTSWITH", [text, "aé"]),
        ("LIKE", [text, "a%,c"]),
        ("REGEXP_COUNT", [text, ","]),
    ]
    for name, values in calls:
        types = tuple(DataTypes.STRING() if isinstance(each, str) else INT for each in values)
        schema = RowSchema(tuple(f"c{place}" for place in range(len(values))), types)
        columns = [
            pa.array([each] * count, field.type)
            for each, field in zip(values, arrow_schema(schema), strict=True)
        ]
        batch = pa.record_batch(columns, schema=arrow_schema(schema))
        references = [InputRef(place, kind) for place, kind in enumerate(types)]
        subject = 1 if name == "POSITION" else 0
        mixed: list[RowExpression] = [literal(each) for each in values]
        mixed[subject] = references[subject]
        results = [
            ExpressionProgram([build_call(name, operands)], schema).evaluate(batch)[0].to_pylist()
            for operands in (references, mixed, [literal(each) for each in values])
        ]
        assert results[0] == results[1] == results[2], name


def kept(program: ExpressionProgram, batch: pa.RecordBatch) -> tuple[list[list[Any]], list[bool] | None]:
    values, mask = program.evaluate_kept(batch.columns, batch.num_rows)
    return [each.to_pylist() for each in values], None if mask is None else mask.tolist()


def test_what_a_condition_has_computed_is_not_computed_again_for_the_rows_that_it_keeps() -> None:
    seen: list[int] = []

    def doubled(a: int) -> int:
        seen.append(a)
        return 2 * a

    call = build_user_call(udf(doubled, result_type=INT).declared(), [A])
    program = ExpressionProgram(
        [call, build_call("+", [call, B])], SCHEMA, build_call(">", [call, literal(4)])
    )
    assert kept(program, rows((1, 10, ""), (3, 10, ""), (2, 10, ""), (4, 10, ""))) == (
        [[6, 8], [16, 18]],
        [False, True, False, True],
    )
    assert seen == [1, 3, 2, 4]
    assert kept(program, rows((5, 1, ""))) == ([[10], [11]], None)
    assert kept(program, rows((1, 1, ""), (2, 1, ""))) == ([[], []], [False, False])


def test_expressions_of_rows_that_a_condition_drops_do_not_fail() -> None:
    program = ExpressionProgram([build_call("/", [A, B]), A], SCHEMA, build_call("<>", [B, literal(0)]))
    assert kept(program, rows((8, 2, ""), (1, 0, ""), (1, None, ""))) == ([[4], [8]], [True, False, False])


def test_a_branch_takes_what_was_computed_for_all_rows() -> None:
    seen: list[int] = []

    def checked(b: int) -> int:
        seen.append(b)
        return b

    call = build_user_call(udf(checked, result_type=INT).declared(), [B])
    quotient = build_call("/", [A, call])
    guarded = build_call("CASE", [build_call("<>", [call, literal(0)]), quotient, literal(-1)])
    assert compute([guarded], rows((8, 2, ""), (1, 0, ""), (9, 3, ""))) == [[4, -1, 3]]
    assert seen == [2, 0, 3]

"""Arithmetic of DECIMALs of all precisions and scales, against exact arithmetic rounded half up."""

from __future__ import annotations

import decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from millstream.table.expressions.compiling import ExpressionProgram
from millstream.table.expressions.rex import InputRef, RowSchema
from millstream.table.functions.registry import build_call
from millstream.table.functions.types import arrow_type
from millstream.types.datatypes import DecimalType

EXACT = decimal.Context(prec=200, rounding=decimal.ROUND_HALF_UP)
OPERATIONS = {
    "+": EXACT.add,
    "-": EXACT.subtract,
    "*": EXACT.multiply,
    "/": EXACT.divide,
    "%": EXACT.remainder,
}


@st.composite
def numbers(draw: Any) -> tuple[DecimalType, decimal.Decimal]:
    precision = draw(st.integers(1, 38))
    scale = draw(st.integers(0, precision))
    largest = 10**precision - 1
    unscaled = draw(st.integers(-largest, largest) | st.sampled_from([1, -1, 5, 7]))
    return DecimalType(precision, scale), decimal.Decimal(unscaled or 1).scaleb(-scale, EXACT)


@pytest.mark.parametrize("name", list(OPERATIONS))
@settings(max_examples=50, deadline=None, derandomize=True)
@given(numbers(), numbers())
def test_results_are_exact_results_rounded_half_up(
    name: str, left: tuple[DecimalType, decimal.Decimal], right: tuple[DecimalType, decimal.Decimal]
) -> None:
    (kind_a, a), (kind_b, b) = left, right
    call = build_call(name, [InputRef(0, kind_a), InputRef(1, kind_b)])
    columns = [pa.array([a, None], arrow_type(kind_a)), pa.array([b, b], arrow_type(kind_b))]
    program = ExpressionProgram([call], RowSchema(("a", "b"), (kind_a, kind_b)))
    found, missing = program.evaluate(pa.record_batch(columns, ["f0", "f1"]))[0].to_pylist()
    exact = OPERATIONS[name](a, b)
    if isinstance(call.type, DecimalType):
        unit = decimal.Decimal(1).scaleb(-call.type.scale)
        rounded = exact.quantize(unit, context=EXACT)
        fits = not rounded or len(rounded.as_tuple().digits) <= call.type.precision
        assert found == (rounded if fits else None)
    else:
        assert found == exact
    assert missing is None

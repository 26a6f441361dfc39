"""Values and types of expressions, as Flink 2.3 gives them (recorded in `truth/`).

Of a `lifted` one every operand was a nullable value of a row, not a literal; results were cast to STRING by Flink.
"""

from __future__ import annotations

import importlib.util
import json
from collections import defaultdict
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from millstream.base.errors import MillstreamError
from millstream.table.expressions.compiling import ExpressionProgram, Setting
from millstream.table.expressions.rex import RowSchema
from millstream.table.functions.kernels.typeof import type_text
from millstream.table.functions.registry import build_cast
from millstream.table.plan.bind.expressions import ExpressionBinder, Extension
from millstream.table.plan.bind.scope import Scope
from millstream.table.plan.context import PlanContext
from millstream.table.sql.parser import parse_expression
from millstream.types.datatypes import IntType, VarCharType

HERE = Path(__file__).parent
_specification = importlib.util.spec_from_file_location("expression_lifting", HERE / "lifting.py")
assert _specification is not None and _specification.loader is not None
_lifting = importlib.util.module_from_spec(_specification)
_specification.loader.exec_module(_lifting)

TRUTH = [
    json.loads(line)
    for name in ("expressions.jsonl", "further_expressions.jsonl")
    for line in (HERE / "truth" / name).read_text("utf-8").splitlines()
]
SCHEMA = RowSchema(("z",), (IntType(),))

# What differs, and why.
_BEFORE_1970 = "Flink cuts negative times towards zero: it has second -1 before 1970"
DIFFERENT: dict[str, str] = {
    "MINUTE(TIMESTAMP '1969-12-31 23:59:58.5')": _BEFORE_1970,
    "SECOND(TIMESTAMP '1969-12-31 23:59:58.5')": _BEFORE_1970,
}


def evaluate(text: str, rows: int = 1) -> tuple[Any, str]:
    """Return the value as text and the type of an expression over `rows` rows with z = 0, the same in each."""
    binder = ExpressionBinder(PlanContext(), Scope.of(SCHEMA), Extension("SELECT"))
    bound = binder.bind(parse_expression(text))
    program = ExpressionProgram([build_cast(bound, VarCharType())], SCHEMA)
    program.open(Setting(zone="UTC"))
    (column,) = program.evaluate(pa.record_batch([pa.array([0] * rows, pa.int32())], names=["f0"]))
    values = column.to_pylist()
    assert len(values) == rows and len({repr(value) for value in values}) == 1, values
    return values[0], type_text(bound.type)


def difference(case: dict[str, Any], rows: int = 1) -> str | None:
    text = _lifting.lift(case["x"]) if case["lifted"] else case["x"]
    try:
        value, kind = evaluate(text, rows)
    except (MillstreamError, pa.ArrowException) as error:
        return None if "err" in case else f"{case['x']}: failed: {error}"
    if "err" in case:
        return f"{case['x']}: gave {value!r} where Flink fails: {case['err']}"
    if value != case["v"]:
        return f"{case['x']}: value {value!r}, Flink's {case['v']!r}"
    if kind != case["t"]:
        return f"{case['x']}: type {kind}, Flink's {case['t']}"
    return None


def _families() -> dict[str, list[dict[str, Any]]]:
    found = defaultdict(list)
    for case in TRUTH:
        found[case["f"]].append(case)
    return found


@pytest.mark.parametrize("family", sorted(_families()))
def test_expressions_give_flinks_values_and_types(family: str) -> None:
    cases = _families()[family]
    wrong = [found for case in cases if case["x"] not in DIFFERENT and (found := difference(case))]
    assert not wrong, "\n".join(wrong)


def test_columns_of_many_rows_give_what_one_row_gives() -> None:
    cases = [case for case in TRUTH if case["x"] not in DIFFERENT][::3]
    wrong = [found for case in cases if (found := difference(case, rows=40))]
    assert not wrong, "\n".join(wrong)


def test_what_differs_is_listed_truthfully() -> None:
    assert len(DIFFERENT) <= len(TRUTH) // 100
    by_text = {case["x"]: case for case in TRUTH}
    assert all(difference(by_text[text]) is not None for text in DIFFERENT)

"""Result types of operators, COALESCE and aggregates over all pairs of types: what Flink 2.3 gives."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from millstream.table.errors import ValidationError
from millstream.table.expressions.rex import InputRef, Literal
from millstream.table.functions.registry import aggregate_type, build_call, is_aggregate
from millstream.types.datatypes import DataType
from millstream.types.further_types import DataTypes

TRUTH: list[tuple[list[str], str]] = json.loads(
    (Path(__file__).parent / "truth" / "arithmetic_types.json").read_text("utf-8")
)


def _type(text: str) -> DataType:
    found = re.fullmatch(r"DECIMAL\((\d+),\s*(\d+)\)", text)
    if found:
        return DataTypes.DECIMAL(int(found[1]), int(found[2]))
    made: DataType = getattr(DataTypes, text)()
    return made


def _given(row: list[Any]) -> str:
    try:
        if len(row) == 2:
            return str(aggregate_type(row[0], [_type(row[1])]))
        if row[0] in ("COALESCE", "ROUND"):
            name, first, second = row
        else:
            first, name, second = row
        operands = [InputRef(0, _type(first)), _operand(second)]
        return str(build_call(name, operands).type)
    except ValidationError:
        return "ERR"


def _operand(second: str | int) -> Any:
    if isinstance(second, int):
        return Literal(second, DataTypes.INT(False))
    return InputRef(1, _type(second))


@pytest.mark.parametrize(
    "name", sorted({row[1] if row[1] in "+-*/%" else row[0] for row, _ in TRUTH if len(row) == 3} - {"ROUND"})
)
def test_operators_give_flinks_types(name: str) -> None:
    rows = [(row, want) for row, want in TRUTH if len(row) == 3 and name in (row[0], row[1])]
    assert rows
    assert {str(row): _given(row) for row, _ in rows} == {str(row): want for row, want in rows}


def test_aggregates_give_flinks_types() -> None:
    rows = [(row, want) for row, want in TRUTH if len(row) == 2]
    assert len(rows) > 60 and all(is_aggregate(row[0]) for row, _ in rows)
    assert {str(row): _given(row) for row, _ in rows} == {str(row): want for row, want in rows}

"""All functions that Flink documents are there, and so is their page."""

from __future__ import annotations

import json
from pathlib import Path

from millstream.table.functions.kernels.table import has_kernel
from millstream.table.functions.reference import with_functions
from millstream.table.functions.registry import built_in_functions, find_function
from millstream.table.functions.signatures import Category

ROOT = Path(__file__).parents[3]
NAMES = json.loads((Path(__file__).parent / "truth" / "documented_functions.json").read_text("utf-8"))

# Spellings of the Table API, clauses, and what belongs to relations: not functions of the registry.
ELSEWHERE = {
    "ANY.as", "BOOLEAN.?", "CAST", "CEIL TO", "CUMULATE", "DESCRIPTOR", "EXISTS", "FIELD.sum0", "FIRST", "FLOOR TO",
    "FROM_CHANGELOG", "GROUPING", "GROUP_ID", "HOP", "HOP_END", "HOP_PROCTIME", "HOP_ROWTIME", "HOP_START", "LAST",
    "MATCH_PROCTIME", "MATCH_ROWTIME", "ML_PREDICT", "NUMERIC.day", "NUMERIC.hour", "NUMERIC.milli", "NUMERIC.minute",
    "NUMERIC.month", "NUMERIC.quarter", "NUMERIC.rows", "NUMERIC.second", "NUMERIC.week", "NUMERIC.year", "SESSION",
    "SESSION_END", "SESSION_PROCTIME", "SESSION_ROWTIME", "SESSION_START", "TO_CHANGELOG", "TRY_CAST", "TUMBLE",
    "TUMBLE_END", "TUMBLE_PROCTIME", "TUMBLE_ROWTIME", "TUMBLE_START", "UNNEST", "VECTOR_SEARCH", "array[]", "callSql",
    "field access", "literal", "map[]", "value1.between", "value1.notBetween", "variant[]",
}  # fmt: skip
PLANNED = {"SOURCE_WATERMARK"}  # replaced before anything runs


def test_all_documented_functions_are_there() -> None:
    assert len(NAMES) > 250
    assert {name for name in NAMES if find_function(name) is None} == ELSEWHERE & set(NAMES)


def test_every_function_of_a_row_is_computed() -> None:
    missing = {
        each.name
        for each in built_in_functions()
        if each.category == Category.SCALAR and each.bind is None and not has_kernel(each.name)
    }
    assert missing == PLANNED


def test_the_page_of_functions_is_up_to_date() -> None:
    page = (ROOT / "docs" / "sql" / "functions.md").read_text("utf-8")
    assert with_functions(page) == page, "run `make docs`"

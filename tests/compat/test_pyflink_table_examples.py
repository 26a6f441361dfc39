"""The Table API examples of the apache-flink wheel, unmodified, against what PyFlink 2.3 printed (`expected/table/`).

Order is no part of it. Changes of a key within an epoch are netted here, so that of `word_count` the last row of each
word counts. Sums of FLOAT depend on the order of additions in their last digits.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from flink_wheel import run

EXPECTED = Path(__file__).parent / "expected" / "table"

BOUNDED = [
    "multi_sink",
    "process_json_data",
    "process_json_data_with_udf",
    "word_count",
    "pandas/pandas_udaf",
    "windowing/over_window",
    "windowing/session_window",
    "windowing/sliding_window",
    "windowing/tumble_window",
]
# They print random numbers, so many lines.
RANDOM = {
    "mixing_use_of_datastream_and_table": 10,
    "pandas/conversion_from_dataframe": 14,
    "async/async_scalar_function": 34,
}
# It has no end.
UNBOUNDED = ["streaming_word_count"]
# It fails in PyFlink, too: `from pyflink.table.expressions import *` hides the module json that it imported.
BROKEN = ["basic_operations"]

_CHANGE = re.compile(r"([+-][IUD])\[(.*), (\d+)\]")


def comparable(lines: list[str]) -> list[str]:
    plain = [re.sub(r"^\d+> ", "", line) for line in lines]
    return sorted(re.sub(r"\d+\.\d+", lambda found: f"{float(found[0]):.4g}", line) for line in plain)


def last_rows(lines: list[str]) -> list[str]:
    """Return the last row of each word, as an insert, and lines that are no rows."""
    counts, others = {}, []
    for line in lines:
        change = _CHANGE.fullmatch(re.sub(r"^\d+> ", "", line))
        if change is None:
            others.append(line)
        elif change[1] in ("+I", "+U"):
            counts[change[2]] = change[3]
    return [*others, *(f"+I[{word}, {count}]" for word, count in counts.items())]


def test_every_table_example_of_the_wheel_is_in_one_of_the_lists(table_examples):
    found = {str(path.relative_to(table_examples).with_suffix("")) for path in table_examples.rglob("*.py")}
    assert {name for name in found if not name.endswith("__init__")} == {
        *BOUNDED,
        *RANDOM,
        *UNBOUNDED,
        *BROKEN,
    }


@pytest.mark.slow
@pytest.mark.parametrize("name", BOUNDED)
def test_bounded_table_example_prints_what_pyflink_prints(table_examples, name, tmp_path):
    expected = (EXPECTED / f"{Path(name).name}.txt").read_text().splitlines()
    printed = run(table_examples / f"{name}.py", cwd=tmp_path)
    assert comparable(last_rows(printed) if name == "word_count" else printed) == comparable(expected)


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.parametrize("name", RANDOM)
def test_table_example_of_random_numbers_runs(table_examples, name, tmp_path):
    assert len(run(table_examples / f"{name}.py", cwd=tmp_path)) == RANDOM[name]

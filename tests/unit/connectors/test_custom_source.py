"""A source of one's own, as in docs/sources.md: positions are in checkpoints, so a replay is exact."""

from __future__ import annotations

import re
import runpy
from collections import Counter
from pathlib import Path

import pytest

from millstream.common import WatermarkStrategy
from millstream.testing import SourceRun

DOCS = Path(__file__).parents[3] / "docs"


def example(tmp_path, page, heading):
    """Return the names that the code below a heading defines."""
    text = (DOCS / page).read_text().split(f"## {heading}\n", 1)[1].split("\n## ", 1)[0]
    code = tmp_path / "example.py"
    code.write_text("\n".join(re.findall(r"```python\n(.*?)```", text, flags=re.DOTALL)))
    return runpy.run_path(str(code))


@pytest.fixture
def folder(tmp_path):
    directory = tmp_path / "in"
    directory.mkdir()
    for number in range(3):
        lines = [f"{number}:{line}\n" for line in range(40)]
        (directory / f"{number}.txt").write_text("".join(lines))
    return directory


@pytest.mark.parametrize("parallelism", [1, 2])
@pytest.mark.parametrize("skips", [(), (0,), (50, 90)])
def test_source_of_the_documentation_is_read_exactly_once(
    tmp_path, folder, restarting, faults, parallelism, skips
):
    source = example(tmp_path, "sources.md", "A source of your own")["LinesOfFolder"](str(folder))
    for place, skip in zip("ab", skips, strict=False):
        faults.arm(place, skip=skip)

    def failing(value, faults=faults):
        for place in "ab":
            faults.hit(place)
        return value

    environment = restarting(parallelism)
    stream = environment.from_source(source, WatermarkStrategy.no_watermarks(), "lines").map(failing)
    expected = Counter(f"{number}:{line}" for number in range(3) for line in range(40))
    assert Counter(stream.execute_and_collect()) == expected
    assert faults.armed() == []


def test_enumerator_goes_on_from_its_snapshot_at_another_parallelism(tmp_path, folder):
    source = example(tmp_path, "sources.md", "A source of your own")["LinesOfFolder"](str(folder))
    first = SourceRun(source, 1, budget=7)
    for _ in range(5):
        first.epoch()
    read = [value for values in first.read for value in values]
    rest = SourceRun(source, 3, budget=11, restored=first.snapshot()).run()
    assert Counter(read + rest) == Counter(f"{number}:{line}" for number in range(3) for line in range(40))


def test_sink_of_the_documentation_is_exactly_once(tmp_path, restarting, faults):
    import sqlite3

    names = example(tmp_path, "sinks.md", "Two-phase commit")
    database = str(tmp_path / "target.db")
    faults.arm("a", skip=33)

    def failing(value, faults=faults):
        faults.hit("a")
        return value

    environment = restarting(2)
    stream = environment.from_collection([(f"k{n}", n) for n in range(80)]).map(failing)
    stream.sink_to(names["SqliteSink"](database))
    environment.execute()
    with sqlite3.connect(database) as connection:
        rows = connection.execute("select word, count from counts").fetchall()
    assert Counter(rows) == Counter((f"k{n}", n) for n in range(80))
    assert faults.armed() == []

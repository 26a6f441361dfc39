"""Programs of `examples/` print what is stored beside them, on the local executor and on Spark."""

import contextlib
import io
import re
import runpy
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"
STORED = sorted((EXAMPLES / "expected").glob("*.txt"))


def printed(program: Path) -> list[str]:
    """Run a program, and return its lines; what several subtasks print is in any order, with their numbers in front."""
    output = io.StringIO()
    with contextlib.redirect_stdout(output):
        runpy.run_path(str(program), run_name="__main__")
    return sorted(re.sub(r"^\d+> ", "", line) for line in output.getvalue().splitlines())


@pytest.mark.parametrize(
    "target", ["local", pytest.param("local[2]", marks=[pytest.mark.spark, pytest.mark.long])]
)
@pytest.mark.parametrize("stored", STORED, ids=lambda path: path.stem)
def test_example_prints_what_is_stored(stored, target, monkeypatch, tmp_path):
    monkeypatch.setenv("MILLSTREAM_CONFIG", f'{{"execution.target": "{target}"}}')
    monkeypatch.chdir(tmp_path)
    assert printed(EXAMPLES / f"{stored.stem}.py") == sorted(stored.read_text().splitlines())


def test_every_example_is_in_the_list_of_examples():
    listed = set(re.findall(r"\]\((\w+)\.py\)", (EXAMPLES / "README.md").read_text()))
    assert listed >= {path.stem for path in STORED}

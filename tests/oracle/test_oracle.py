"""Forty programs of PyFlink, unmodified, against what PyFlink itself printed once (`README.md`).

Order is no part of it, nor is which subtask a line comes from (`2> `), which depends on how keys are hashed. Each
program runs on the local executor in this process, with epochs cut in several places, its batches in rows, in columns
and in a mixture of both, and once on Spark.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from pathlib import Path

import pytest

from batch_forms import FORMS, in_form
from millstream.base.pyflink_names import install, uninstall
from millstream.cli.script import run_program

HERE = Path(__file__).parent
PROGRAMS = sorted((HERE / "programs").glob("*.py"))
EPOCHS = [1, 3, 1000]
# Flink's periodic watermarks come by the clock, ours at the end of each epoch's range of a source: programs in which
# they come between records are recorded with one after each, which is what epochs of one record give.
WATERMARK_AFTER_EACH = "oracle: watermark after each record"

# Known to differ, with the reason; strict, so that whoever mends one takes it out.
DIFFER: dict[str, str] = {}


def marks(program):
    reason = DIFFER.get(program.stem)
    return [] if reason is None else [pytest.mark.xfail(reason=reason, strict=True, raises=AssertionError)]


def epochs(program):
    return [1] if WATERMARK_AFTER_EACH in program.read_text() else EPOCHS


CASES = [
    pytest.param(
        program,
        epoch_records,
        "local",
        form,
        id=f"{program.stem}-{epoch_records}-{form}",
        marks=marks(program),
    )
    for program in PROGRAMS
    for epoch_records in epochs(program)
    for form in FORMS
]
# Small epochs cost Spark a job each, and show nothing that the local executor does not.
CASES += [
    pytest.param(
        program,
        epochs(program)[-1],
        "local[2]",
        "rows",
        id=f"{program.stem}-spark",
        marks=[*marks(program), pytest.mark.spark],
    )
    for program in PROGRAMS
]


@pytest.fixture
def pyflink():
    install()
    yield
    uninstall()


def comparable(lines):
    return sorted(re.sub(r"^(\S.*?:|)\d+> ", _without_subtask, line) for line in lines)


def _without_subtask(prefix):
    """`OUT:2> ` is `OUT> `, `2> ` nothing."""
    return f"{prefix[1][:-1]}> " if prefix[1] else ""


def expected(program):
    lines = (HERE / "expected" / f"{program.stem}.txt").read_text("utf-8").splitlines()
    return [line for line in lines if not line.startswith("#")]


def test_every_program_is_recorded():
    recorded = {path.stem for path in (HERE / "expected").glob("*.txt")}
    assert len(PROGRAMS) >= 40
    assert recorded == {program.stem for program in PROGRAMS}
    assert all(expected(program) for program in PROGRAMS)


@pytest.mark.parametrize(
    ("line", "without"), [("2> a", "a"), ("OUT:1> a", "OUT> a"), ("OUT> 1> a", "OUT> 1> a"), ("a:b", "a:b")]
)
def test_comparable_lines_do_not_tell_subtasks(line, without):
    assert comparable([line]) == [without]


@pytest.mark.parametrize(("program", "epoch_records", "target", "form"), CASES)
def test_program_prints_what_pyflink_printed(
    program, epoch_records, target, form, pyflink, monkeypatch, capfd
):
    options = {"execution.target": target, "millstream.epoch.fixed-records": str(epoch_records)}
    monkeypatch.setenv("MILLSTREAM_CONFIG", json.dumps(options))
    with in_form(form) as emitted:
        code = run_program(str(program), [])
    printed = capfd.readouterr()
    again = f"MILLSTREAM_CONFIG='{json.dumps(options)}' python -m millstream.compat {program}"
    assert code == 0, f"{again}\n{printed.err}"
    ours, theirs = Counter(comparable(printed.out.splitlines())), Counter(comparable(expected(program)))
    assert {"too much": ours - theirs, "missing": theirs - ours} == {"too much": {}, "missing": {}}, again
    assert form != "columns" or emitted["columns"], "none of its batches were columns"

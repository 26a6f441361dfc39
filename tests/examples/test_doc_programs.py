"""Pages that are read from top to bottom run from top to bottom.

The blocks of such a page share one namespace, in a directory of their own, on the local executor. A block of Python
runs as part of a program. A block of SQL runs statement by statement in `t_env`, made at need. A block of text right
behind one of them is what it prints: in the same order, or, where it says `text unordered`, in any.
"""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from doc_pages import ROOT, Step, is_program, steps_of

DOCS = ROOT / "docs"
PAGES = [page for page in sorted((DOCS).rglob("*.md")) if is_program(page) and steps_of(page)]


def run(step: Step, names: dict, page: Path) -> None:
    if step.language == "python":
        # Lines of the page, so that a traceback leads there.
        code = compile("\n" * (step.line - 1) + step.text, str(page), "exec")
        exec(code, names)
        return
    from millstream.table import EnvironmentSettings, TableEnvironment
    from millstream.table.sql.parser import split_statements

    if "t_env" not in names:
        names["t_env"] = TableEnvironment.create(EnvironmentSettings.in_streaming_mode())
    for statement in split_statements(step.text):
        names["t_env"].execute_sql(statement).print()


def lines_of(text: str) -> list[str]:
    return [line.rstrip() for line in text.strip().splitlines()]


@pytest.fixture(autouse=True)
def loggers_as_before():
    """Undo what a page sets of the logger of metrics."""
    logger = logging.getLogger("millstream.metrics")
    level, handlers = logger.level, logger.handlers[:]
    yield
    logger.setLevel(level)
    logger.handlers[:] = handlers


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(DOCS)))
def test_page_runs_and_prints_what_it_says(page, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MILLSTREAM_CONFIG", '{"execution.target": "local"}')
    names: dict = {"__name__": "__main__"}
    for step in steps_of(page):
        capsys.readouterr()
        run(step, names, page)
        printed = lines_of(capsys.readouterr().out)
        if step.expected is not None:
            expected = lines_of(step.expected)
            assert (printed if step.ordered else sorted(printed)) == (
                expected if step.ordered else sorted(expected)
            ), f"{page}:{step.line}"

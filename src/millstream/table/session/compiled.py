"""COMPILE PLAN and EXECUTE PLAN: a plan as a file."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from millstream.base.errors import ConfigurationError
from millstream.table.result import TableResult
from millstream.table.sql import statements_ast as st

if TYPE_CHECKING:
    from millstream.table.session.executor import StatementExecutor

__all__ = ["compile_to_file", "execute_file"]


def compile_to_file(executor: StatementExecutor, statement: st.CompilePlan) -> TableResult:
    """Execute COMPILE [AND EXECUTE] PLAN.

    Raises:
        ConfigurationError: If the file is there already, or cannot be written.
    """
    from millstream.table.plan.compiled import dump_plan

    there = os.path.exists(statement.path)
    if there and not statement.if_not_exists and not statement.execute:
        raise ConfigurationError(
            f"file {statement.path!r} of a plan exists already", hint="Write IF NOT EXISTS."
        )
    if not there:
        inner = statement.statement
        inserts = inner.statements if isinstance(inner, st.StatementSet) else (inner,)
        planned, targets = executor.plan_inserts(inserts)
        text = dump_plan(planned, targets)
        temporary = f"{statement.path}.tmp"
        with open(temporary, "w", encoding="utf-8") as file:
            file.write(text)
        os.replace(temporary, statement.path)
    return _run(executor, statement.path) if statement.execute else TableResult.ok()


def execute_file(executor: StatementExecutor, statement: st.ExecutePlan) -> TableResult:
    """Execute EXECUTE PLAN.

    Raises:
        ConfigurationError: If there is no such file.
    """
    return _run(executor, statement.path)


def _run(executor: StatementExecutor, path: str) -> TableResult:
    from millstream.table.plan.compiled import load_plan

    try:
        with open(path, encoding="utf-8") as file:
            text = file.read()
    except OSError as error:
        raise ConfigurationError(f"file {path!r} of a plan cannot be read: {error}") from error
    planned, targets = load_plan(text, executor.context())
    return executor.run_inserts(planned, targets)

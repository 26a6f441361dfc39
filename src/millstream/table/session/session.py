"""A session of SQL texts, as the shell and scripts have it: statements one after the other, and what they print."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from millstream.base.errors import ConfigurationError, MillstreamError
from millstream.table.errors import SqlError
from millstream.table.session.tableau import print_line
from millstream.table.sql import statements_ast as st
from millstream.table.sql.parser import parse_statements

if TYPE_CHECKING:
    from millstream.table.environment import TableEnvironment

__all__ = ["SqlSession", "read_script"]

_RESULT_MODE = "sql-client.execution.result-mode"


def read_script(path: str) -> str:
    """Return the text of a script; `-` is standard input.

    Raises:
        ConfigurationError: If it cannot be read, or is not UTF-8.
    """
    if path == "-":
        return sys.stdin.read()
    try:
        with open(path, encoding="utf-8") as file:
            return file.read()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"script {path!r} cannot be read: {error}") from error


class SqlSession:
    """Executes texts in one table environment.

    Args:
        say: Prints a line.
        show_live: Shows a query's result as a table that changes; None prints rows as they come.
    """

    def __init__(
        self, say: Callable[[str], None] = print_line, show_live: Callable[[Any], None] | None = None
    ) -> None:
        self._say = say
        self._show_live = show_live
        self._environment: TableEnvironment | None = None

    @property
    def environment(self) -> TableEnvironment:
        """The table environment, made when it is first needed."""
        if self._environment is None:
            from millstream.table.environment import TableEnvironment

            self._environment = TableEnvironment.create()
        return self._environment

    def run_text(self, text: str, *, echo: bool = False, name: str | None = None) -> None:
        """Execute all statements of a text.

        All of it is parsed before the first one is executed.

        Args:
            text: Statements, with semicolons between.
            echo: Whether each is printed before it is executed.
            name: Of the script, for errors.

        Raises:
            MillstreamError: If a statement fails; those before it were executed.
        """
        try:
            for statement in parse_statements(text):
                if echo:
                    self._say(f"> {statement.text};")
                self.run_statement(statement, text)
        except SqlError as error:
            error.in_text(text)
            if name is not None and error.position is not None:
                error.message = f"{name}: {error.message}"
            raise

    def run_statement(self, statement: st.Statement, text: str) -> None:
        """Execute one statement and print what it gives."""
        executor = self.environment._executor
        result = executor.execute(statement, text)
        if isinstance(statement, (st.Insert, st.StatementSet)) and result.get_job_client() is not None:
            client = result.get_job_client()
            assert client is not None
            self._say(f"[INFO] The job was submitted. Job ID: {client.get_job_id()}")
            return
        if isinstance(statement, st.SetOption) and not statement.key and not statement.reset:
            for key, value in sorted(executor.config.to_map().items()):
                self._say(f"'{key}' = '{value}'")
            return
        if isinstance(statement, st.Show) and statement.kind.startswith("CREATE "):
            for _, batch in result.collect_batches():
                self._say(batch.column(0)[0].as_py().rstrip("\n"))
            return
        mode = executor.config.get(_RESULT_MODE, "tableau").lower()
        if mode not in ("tableau", "table", "changelog"):
            raise ConfigurationError(
                f"option '{_RESULT_MODE}' is '{mode}'", detail="It is one of: tableau, table, changelog."
            )
        if isinstance(statement, st.QueryStatement) and mode == "table" and self._show_live is not None:
            self._show_live(result)
            return
        result.print()

    def running_jobs(self) -> list[Any]:
        """Return the jobs of the session that have not ended."""
        if self._environment is None:
            return []
        records = self._environment._executor.jobs.records
        return [each for each in records if not each.client.get_job_status().result().is_terminal_state()]

    def wait_for_jobs(self) -> None:
        """Wait until all jobs of the session have ended.

        Raises:
            JobExecutionError: If one fails.
        """
        if self._environment is None:
            return
        for record in self._environment._executor.jobs.records:
            record.client.get_job_execution_result().result()

    def names(self) -> Iterator[str]:
        """Yield names that a statement may use: tables, columns, functions."""
        if self._environment is None:
            return
        executor = self._environment._executor
        manager = executor.catalogs
        yield from manager.catalogs()
        yield from manager.catalog(manager.current_catalog).databases()
        for name in manager.names():
            yield name
            try:
                entry = manager.find((name,))
                if entry is not None and hasattr(entry, "columns"):
                    columns = [getattr(each, "name", each) for each in entry.columns]
                    yield from map(str, columns)
            except MillstreamError:
                continue  # a table that does not resolve has no columns to propose
        yield from (each.upper() for each in executor.function_names())


def history_path() -> str:
    """Return the file that the shell's history is kept in."""
    state = os.environ.get("XDG_STATE_HOME") or os.path.join(os.path.expanduser("~"), ".local", "state")
    return os.path.join(state, "millstream", "sql_history")

"""The shell of `millstream sql`: reads statements, executes them, shows results.

The prompt is there before the planner is: it is imported on a thread of its own while the first statement is typed.
"""

from __future__ import annotations

import logging
import os
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

from millstream.base.errors import MillstreamError
from millstream.table.session.session import SqlSession, history_path, read_script
from millstream.table.session.tableau import print_line
from millstream.table.sql.reserved import words

__all__ = ["Shell"]

log = logging.getLogger(__name__)

PROMPT = "millstream> "
CONTINUED = "          > "
_KEYWORDS = words(
    """
    ADD ALTER ANALYZE AS BEGIN BETWEEN BY CALL CASE CAST CATALOG CATALOGS COMPUTE CREATE CROSS CURRENT DATABASE
    DATABASES DESCRIBE DISTINCT DROP ELSE END EXECUTE EXISTS EXPLAIN FILE FROM FULL FUNCTION FUNCTIONS GROUP HAVING IF
    IN INNER INSERT INTERVAL INTO IS JOBS JOIN LEFT LIKE LIMIT NOT NULL ON OR ORDER OVER OVERWRITE PARTITION
    PARTITIONED PARTITIONS PRIMARY KEY REMOVE RESET RIGHT SELECT SET SHOW STATEMENT STATISTICS STOP TABLE TABLES
    TEMPORARY THEN TRUNCATE TUMBLE HOP CUMULATE DESCRIPTOR UNION USE VALUES VIEW VIEWS WATERMARK WHEN WHERE WITH AND
    QUIT EXIT HELP CLEAR SOURCE
    """
)
HELP = """\
Statements end with a semicolon and may take several lines. Beside Flink's SQL there are:
  HELP                    this text
  SOURCE 'file.sql'       executes a script
  SET; SET 'k' = 'v';     lists or sets options; RESET 'k';
  CLEAR                   clears the screen
  QUIT, EXIT              ends the shell (Ctrl-D does too)
Results: SET 'sql-client.execution.result-mode' = 'tableau' (rows as they come) or 'table' (the table as it changes).
         SET 'execution.runtime-mode' = 'batch' gives final results once.
Tab completes words, tables, columns and functions; Ctrl-C ends a query or drops what was typed.
"""


class Shell:
    """An interactive session.

    Args:
        session: What executes statements.
        read: Reads a line after a prompt; raises EOFError at the end.
        say: Prints a line.
    """

    def __init__(
        self,
        session: SqlSession | None = None,
        read: Callable[[str], str] | None = None,
        say: Callable[[str], None] = print_line,
    ) -> None:
        self._say = say
        self._session = session or SqlSession(say, self._live if sys.stdout.isatty() else None)
        self._read = read or input
        self._reads_terminal = read is None
        self._warm: threading.Thread | None = None

    def run(self, init: str | None = None) -> int:
        """Read and execute until the end; returns the exit code.

        Args:
            init: A script that is executed first.
        """
        if init is not None and not self._guarded(
            lambda: self._session.run_text(read_script(init), name=init)
        ):
            return 1
        if self._reads_terminal:
            self._begin_terminal()
        while True:
            try:
                text = self._statement()
            except EOFError:
                break
            except KeyboardInterrupt:
                self._say("")
                continue
            if text is None:
                break
            if text:
                self._guarded(lambda text=text: self._session.run_text(text))  # type: ignore[misc]
        self._end()
        return 0

    def _statement(self) -> str | None:
        """Read one statement, over several lines; None to end, "" if there is nothing to execute."""
        lines: list[str] = []
        while True:
            line = self._read(CONTINUED if lines else PROMPT)
            if not lines:
                word = line.strip().rstrip(";").strip()
                handled = self._command(word)
                if handled is not None:
                    return None if handled == "end" else ""
                if not word:
                    return ""
            lines.append(line)
            text = "\n".join(lines)
            if self._is_complete(text):
                return text
            if self._is_blank(text):  # comments only
                return ""

    def _is_complete(self, text: str) -> bool:
        from millstream.table.sql.parser import is_complete  # not needed for the prompt

        return is_complete(text)

    def _is_blank(self, text: str) -> bool:
        from millstream.table.sql.errors import SqlParseError  # not needed for the prompt
        from millstream.table.sql.lexer import TokenKind, tokenize

        try:
            return all(token.kind is TokenKind.END for token in tokenize(text))
        except SqlParseError:
            return False

    def _command(self, word: str) -> str | None:
        """Execute what is the shell's own; None if it is not."""
        first = word.split(" ", 1)[0].upper()
        if first in ("QUIT", "EXIT") and word.upper() == first:
            return "end"
        if word.upper() == "HELP":
            self._say(HELP)
            return "done"
        if word.upper() == "CLEAR":
            self._say("\x1b[H\x1b[2J")
            return "done"
        if first == "SOURCE" and " " in word:
            path = word.split(" ", 1)[1].strip().strip("'")
            self._guarded(lambda: self._session.run_text(read_script(path), echo=True, name=path))
            return "done"
        return None

    def _guarded(self, action: Callable[[], None]) -> bool:
        """Do something; what goes wrong is printed. Returns whether it went well."""
        from millstream.base.error_display import describe_error  # not needed for the prompt

        self._finish_warming()
        try:
            action()
        except KeyboardInterrupt:
            self._say("[INFO] The query was cancelled.")
            return False
        except Exception as error:  # noqa: BLE001 - a statement may raise anything, and the shell goes on
            self._say(f"[ERROR] {describe_error(error)}")
            return False
        return True

    def _end(self) -> None:
        running = self._session.running_jobs()
        for record in running:
            self._say(f'[INFO] Job {record.job_id} "{record.name}" ends with the shell.')
            record.client.cancel()
        for record in running:
            _wait(record)

    # --- the terminal

    def _begin_terminal(self) -> None:
        self._warm = threading.Thread(target=_import_planner, name="sql-warm-up", daemon=True)
        try:
            import readline
        except ImportError:  # a Python without it has no history and no completion
            self._warm.start()
            return
        path = history_path()
        try:
            os.makedirs(os.path.dirname(path), exist_ok=True)
            if os.path.exists(path):
                readline.read_history_file(path)
            readline.set_history_length(2000)
            import atexit

            atexit.register(_write_history, path)
        except OSError as error:
            self._say(f"[WARN] The history is not kept: {error}")
        readline.set_completer_delims(" \t\n,()=<>+-*/%;'`.")
        readline.set_completer(Completer(self._session).complete)
        readline.parse_and_bind("tab: complete")
        self._say("millstream SQL. HELP tells what there is; QUIT ends.")
        self._warm.start()

    def _finish_warming(self) -> None:
        if self._warm is not None:
            self._warm.join()
            self._warm = None

    def _live(self, result: Any) -> None:
        from millstream.table.session.live import show_live

        show_live(result)


class Completer:
    """Completes the word that is typed.

    Args:
        session: Knows tables, columns and functions.
    """

    def __init__(self, session: SqlSession) -> None:
        self._session = session
        self._found: list[str] = []

    def complete(self, text: str, state: int) -> str | None:
        """Return the completion of a number, as readline asks for them; None behind the last."""
        if state == 0:
            self._found = list(self._options(text))
            if len(self._found) == 1:
                self._found = [f"{self._found[0]} "]  # it is whole: the next word may follow
        return self._found[state] if state < len(self._found) else None

    def _options(self, text: str) -> Iterator[str]:
        begun = text.upper()
        lower = text.islower()
        seen: set[str] = set()
        for word in sorted(_KEYWORDS):
            if word.startswith(begun):
                seen.add(word)
                yield word.lower() if lower else word
        for name in self._session.names():
            if name.upper().startswith(begun) and name not in seen:
                seen.add(name)
                yield name.lower() if lower and name.isupper() else name


def _import_planner() -> None:
    import millstream.table.environment
    import millstream.table.plan.translate
    import millstream.table.session.values  # noqa: F401


def _write_history(path: str) -> None:
    import readline

    try:
        readline.write_history_file(path)
    except OSError as error:
        print_line(f"[WARN] The history was not kept: {error}")


def _wait(record: Any) -> None:
    """Wait until a job that was cancelled has ended; that it was cancelled is no news."""
    try:
        record.client.get_job_execution_result().result()
    except MillstreamError as error:
        log.info("job ended with the shell", extra={"job": record.job_id, "error": str(error)})

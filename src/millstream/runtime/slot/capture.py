"""Catches what user code prints and logs in a slot, line by line, with the operator it came from."""

from __future__ import annotations

import io
import logging
import sys

from millstream.runtime.protocol.report import LogLine
from millstream.runtime.task.origin import ORIGIN

__all__ = ["capture_output"]

_LIMIT = 10_000


class _Lines(io.TextIOBase):
    """A text stream that turns lines into `LogLine`s."""

    def __init__(self, lines: list[LogLine], slot: int, level: int | None) -> None:
        self._lines = lines
        self._slot = slot
        self._level = level
        self._rest = ""

    def writable(self) -> bool:
        return True

    def write(self, text: str) -> int:
        *whole, self._rest = (self._rest + text).split("\n")
        for line in whole:
            _append(self._lines, LogLine(_origin(self._slot), line, self._level))
        return len(text)


class _Handler(logging.Handler):
    def __init__(self, lines: list[LogLine], slot: int) -> None:
        super().__init__()
        self._lines = lines
        self._slot = slot

    def emit(self, record: logging.LogRecord) -> None:
        text = f"{record.name}: {self.format(record)}"
        _append(self._lines, LogLine(_origin(self._slot), text, record.levelno))


def _append(lines: list[LogLine], line: LogLine) -> None:
    if len(lines) < _LIMIT:
        lines.append(line)
    elif len(lines) == _LIMIT:
        lines.append(
            LogLine(
                line.origin, f"more than {_LIMIT} lines in one epoch; the rest is left out", logging.WARNING
            )
        )


def _origin(slot: int) -> str:
    return f"{ORIGIN.operator or 'slot'}#{slot}"


def capture_output(slot: int) -> list[LogLine]:
    """Catch standard output, standard error and logging of this process from now on; return where lines gather."""
    lines: list[LogLine] = []
    sys.stdout = _Lines(lines, slot, None)
    sys.stderr = _Lines(lines, slot, logging.ERROR)
    root = logging.getLogger()
    root.addHandler(_Handler(lines, slot))
    root.setLevel(logging.INFO)
    return lines

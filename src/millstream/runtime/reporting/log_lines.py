"""How what is logged is written: as text, or as one JSON object in a line, either without secrets.

A JSON line has `timestamp`, `level`, `logger` and `message`; `job`, `job_name`, `attempt`, `operator` and `subtask`
where they are known; `exception` (type, message, traceback); and what the call of the logger had as `extra`.
"""

from __future__ import annotations

import json
import logging
import re
import sys
import traceback
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any, TextIO

from millstream.base.log_context import LOG_CONTEXT
from millstream.config.configuration import Configuration
from millstream.config.options_file_systems import is_secret
from millstream.config.options_operating import LOG_FORMAT, LOG_LEVEL
from millstream.runtime.task.origin import ORIGIN

__all__ = ["JsonFormatter", "TextFormatter", "keep_secret", "set_up_logging", "without_secrets"]

_TEXT = "%(asctime)s %(levelname)s %(name)s: %(message)s"
_MASK = "***"
_SHORTEST_SECRET = 6
"""Shorter ones are left: words that happen to hold them would be cut to pieces."""
_PASSWORD_IN_ADDRESS = re.compile(r"(?<=://)([^\s/:@]*):([^\s/@]+)@")
_BEARER = re.compile(r"\b(Bearer|Basic)\s+[A-Za-z0-9+/=._~-]{6,}", re.IGNORECASE)
_OF_RECORDS = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}

_secrets: set[str] = set()  # of the process, as logging is


def keep_secret(configuration: Configuration) -> None:
    """Have values of secret options never logged by our formatters."""
    for key, value in configuration.to_dict().items():
        if is_secret(key) and not key.endswith("file"):
            _secrets.update(_parts(value))


def _parts(value: Any) -> Iterable[str]:
    text = str(value).strip()
    return (each for each in {text, *text.split()} if len(each) >= _SHORTEST_SECRET)


def without_secrets(text: str) -> str:
    """Return a text without the values of secret options, and without passwords in addresses.

    >>> without_secrets("cannot reach postgres://shop:s3cret@db/orders, Authorization: Bearer abcdef123")
    'cannot reach postgres://shop:***@db/orders, Authorization: Bearer ***'
    """
    for secret in sorted(_secrets, key=len, reverse=True):
        text = text.replace(secret, _MASK)
    text = _PASSWORD_IN_ADDRESS.sub(rf"\1:{_MASK}@", text)
    return _BEARER.sub(rf"\1 {_MASK}", text)


class TextFormatter(logging.Formatter):
    """Time, level, logger and message, and a traceback behind them."""

    def __init__(self) -> None:
        super().__init__(_TEXT)

    def format(self, record: logging.LogRecord) -> str:
        """Return the record as text."""
        return without_secrets(super().format(record))


class JsonFormatter(logging.Formatter):
    """One JSON object in a line."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the record as JSON."""
        at = datetime.fromtimestamp(record.created, UTC)
        fields: dict[str, Any] = {
            "timestamp": f"{at:%Y-%m-%dT%H:%M:%S}.{at.microsecond // 1000:03d}Z",
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
            **_context(),
            **{name: value for name, value in vars(record).items() if name not in _OF_RECORDS},
        }
        if record.exc_info and record.exc_info[1] is not None:
            error = record.exc_info[1]
            fields["exception"] = {
                "type": type(error).__name__,
                "message": str(error),
                "traceback": "".join(traceback.format_exception(error)),
            }
        if record.stack_info:
            fields["stack"] = record.stack_info
        return json.dumps(_clean(fields), ensure_ascii=False, default=str)


def _context() -> dict[str, Any]:
    """Return what this thread works for; with the local executor operators run on the job's thread."""
    fields = dict(LOG_CONTEXT.get())
    if fields and ORIGIN.operator:
        fields |= {"operator": ORIGIN.operator, "subtask": ORIGIN.subtask}
    return fields


def _clean(value: Any) -> Any:
    """Return plain data without secrets; what JSON does not have as text, as Python writes it."""
    if isinstance(value, dict):
        return {
            str(key): _MASK if is_secret(str(key)) and key != "message" else _clean(each)
            for key, each in value.items()
        }
    if isinstance(value, (list, tuple)):
        return [_clean(each) for each in value]
    if value is None or isinstance(value, (bool, int)):
        return value
    if isinstance(value, float):
        return value if value == value and abs(value) != float("inf") else str(value)
    return without_secrets(str(value))


def set_up_logging(configuration: Configuration, stream: TextIO | None = None) -> None:
    """Have all that this process logs written as the options say; for processes that are our own.

    Args:
        configuration: The options.
        stream: Where to write; None for standard error.
    """
    keep_secret(configuration)
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(JsonFormatter() if configuration.get(LOG_FORMAT) == "json" else TextFormatter())
    root = logging.getLogger()
    root.addHandler(handler)
    root.setLevel(configuration.get(LOG_LEVEL))

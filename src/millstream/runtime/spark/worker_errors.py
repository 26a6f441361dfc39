"""What Spark tells when its Python workers do not do what they should, without the JVM's frames."""

from __future__ import annotations

import re
import textwrap

from millstream.base.errors import InterpreterError, SlotLostError

__all__ = ["describe_failed_start", "first_line", "worker_words"]

_MOST_LINES = 6
# What comes again with the same interpreter; all else may be the machine's trouble.
_LASTING = re.compile(
    r"\b(ModuleNotFoundError|ImportError|SyntaxError|AttributeError|PYTHON_VERSION_MISMATCH|No module named|"
    r"No such file|Permission denied|Exec format error)\b"
)


def describe_failed_start(text: str, python: str) -> InterpreterError | SlotLostError:
    """Return the error for a Spark job that was to start slots and failed.

    Args:
        text: What Spark said.
        python: The interpreter of Spark's workers.
    """
    words = worker_words(text)
    if words is None:
        return SlotLostError(
            f"Spark could not start the slots: {first_line(text)}",
            hint="An executor or a Python worker was lost; run with --verbose to see what Spark says.",
        )
    if _LASTING.search(words) is None:
        return SlotLostError(f"Spark's Python workers could not start the slots: {words}")
    return InterpreterError(
        f'interpreter "{python}" of Spark\'s workers cannot start slots',
        detail=f"It said: {words}",
        hint="PYSPARK_PYTHON or spark.pyspark.python names it: let it be, on every host, a Python of the program's "
        "version with the same millstream and what that needs (pip install millstream), or unset it.",
    )


def worker_words(text: str) -> str | None:
    """Return what a Python worker said last, or why there is none; None if it is not about one.

    >>> worker_words("An exception was thrown from the Python worker: Traceback (most recent call last):\\n"
    ...     "  File 'a', line 1\\nKeyError: 1\\n SQLSTATE: 38000")
    'KeyError: 1'
    """
    text = text.strip()
    if (found := re.search(r"Cannot run program .*", text)) is not None:
        return found[0]
    if (
        found := re.search(r"Error from python worker:\n(.*?)\nPYTHONPATH was:", text, re.DOTALL)
    ) is not None:
        return _last_words(textwrap.dedent(found[1]))
    if "Python worker: Traceback" in text:
        return _last_words(text.partition("Python worker: ")[2].partition("\n SQLSTATE:")[0])
    return None


def first_line(text: str) -> str:
    """Return the first line that says something."""
    return next(iter(text.strip().splitlines()), "nothing")


def _last_words(text: str) -> str:
    """Return a traceback's last part, the error itself; of other text the last lines."""
    lines = text.strip().splitlines()
    frames = [number for number, line in enumerate(lines) if line.startswith((" ", "Traceback"))]
    told = lines[frames[-1] + 1 :] if frames else lines
    return "\n".join((told or lines)[:_MOST_LINES])

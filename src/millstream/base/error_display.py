"""What a user reads of an error that ended a program: the user's own frames and what is to be done, not our inside.

The same text comes from `millstream run`, from `python job.py` and `python -i` (by `sys.excepthook`, if nobody else has
set it) and from notebooks (IPython asks an error for `_render_traceback_`). With `millstream.verbose` all is shown.
"""

from __future__ import annotations

import sys
import sysconfig
import traceback
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from types import TracebackType

from millstream.base.errors import JobExecutionError, MillstreamError

__all__ = ["describe_error", "is_our_file", "show_uncaught_errors"]

_PACKAGE = str(Path(__file__).parents[1])
_NOT_OURS = str(Path(_PACKAGE, "examples"))
_LIBRARIES = tuple({sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")})
_DIRECT = "\nThe above exception was the direct cause of the following exception:\n"
_DURING = "\nDuring handling of the above exception, another exception occurred:\n"

_wants_all: Callable[[], bool] = bool


def is_our_file(filename: str) -> bool:
    """Return whether a file is part of millstream, and not one of its examples."""
    return filename.startswith(_PACKAGE) and not filename.startswith(_NOT_OURS)


def describe_error(error: BaseException, program: str | None = None, *, verbose: bool = False) -> str:
    """Return what a user is to read about an error that nobody caught.

    Errors of a user's function begin with that function's traceback; of frames, only the user's are shown, and no
    cause of an error of millstream's own, which says all there is to say.

    Args:
        error: What was raised.
        program: Path of the program, if millstream ran it: what called it is left out.
        verbose: Show everything, as Python does.
    """
    if verbose:
        return "".join(traceback.format_exception(error)).rstrip("\n")
    return "\n".join(_parts(error, program, set()))


def show_uncaught_errors(wants_all: Callable[[], bool]) -> None:
    """Have errors with millstream in them shown by `describe_error` if nothing catches them.

    An `excepthook` that somebody else has set stays; other errors are shown as ever.

    Args:
        wants_all: Tells whether to show everything; asked when there is an error.
    """
    global _wants_all
    _wants_all = wants_all
    if sys.excepthook is sys.__excepthook__:
        sys.excepthook = _show


def render_lines(error: BaseException) -> list[str]:
    """Return the lines for a notebook."""
    return describe_error(error, verbose=_wants_all()).splitlines()


def _show(kind: type[BaseException], error: BaseException, frames: TracebackType | None) -> None:
    if not isinstance(error, Exception) or not _concerns_us(error) or _wants_all():
        sys.__excepthook__(kind, error, frames)
        return
    print(describe_error(error), file=sys.stderr, flush=True)  # noqa: T201 - what an excepthook is for


def _concerns_us(error: BaseException) -> bool:
    return any(
        isinstance(each, MillstreamError)
        or any(is_our_file(frame.filename) for frame in traceback.extract_tb(each.__traceback__))
        for each in _chain(error)
    )


def _chain(error: BaseException) -> Iterator[BaseException]:
    """Return an error and what is shown as its causes."""
    seen: set[int] = set()
    current: BaseException | None = error
    while current is not None and id(current) not in seen:
        seen.add(id(current))
        yield current
        current = _shown_cause(current)


def _shown_cause(error: BaseException) -> BaseException | None:
    if error.__cause__ is not None:
        return error.__cause__
    return None if error.__suppress_context__ else error.__context__


def _parts(error: BaseException, program: str | None, seen: set[int]) -> Iterator[str]:
    seen.add(id(error))
    if isinstance(error, JobExecutionError):
        yield _describe_failed_job(error)
        yield from _notes(error)
        return
    if isinstance(error, MillstreamError):
        yield f"{error}{_place(error)}"
        yield from _notes(error)
        return
    cause = _shown_cause(error)
    if cause is not None and id(cause) not in seen:
        yield from _parts(cause, program, seen)
        yield _DIRECT if error.__cause__ is not None else _DURING
    yield _own_text(error, program)


def _own_text(error: BaseException, program: str | None) -> str:
    described = traceback.TracebackException.from_exception(error)
    hidden = _hide_our_frames(described, program)
    text = "".join(described.format(chain=False)).rstrip("\n")
    if not hidden:
        return text
    what = "1 frame of millstream is" if hidden == 1 else f"{hidden} frames of millstream are"
    return f"{text}\n({what} not shown; --verbose, or millstream.verbose, shows all)"


def _hide_our_frames(described: traceback.TracebackException, program: str | None) -> int:
    """Leave out frames, also in the members of a group; returns how many there were behind the user's first."""
    frames = list(described.stack)
    starts = [number for number, frame in enumerate(frames) if frame.filename == program]
    if program is not None:
        frames = frames[starts[0] :] if starts else []
    kept = list(_without_ours(frames))
    hidden = len(frames) - len(kept)
    described.stack = traceback.StackSummary.from_list(kept) if kept else None  # type: ignore[assignment]
    for each in described.exceptions or ():
        hidden += _hide_our_frames(each, program if program is None or _has(each, program) else None)
    return hidden


def _without_ours(frames: Iterable[traceback.FrameSummary]) -> Iterator[traceback.FrameSummary]:
    """Return the frames that are neither ours nor of libraries that we call."""
    inside = False
    for frame in frames:
        inside = is_our_file(frame.filename) or (inside and _is_library(frame.filename))
        if not inside:
            yield frame


def _is_library(filename: str) -> bool:
    return filename.startswith((*_LIBRARIES, "<frozen "))


def _has(described: traceback.TracebackException, program: str) -> bool:
    return any(frame.filename == program for frame in described.stack)


def _describe_failed_job(error: JobExecutionError) -> str:
    cause = error.__cause__
    # What the job's error says in detail is its cause, which is shown in full.
    parts = [str(error) if cause is None else f"[{error.code}] {error.message}"]
    while cause is not None:
        text = str(cause) if isinstance(cause, MillstreamError) else f"{type(cause).__name__}: {cause}"
        if not any(text in part for part in parts):
            parts.insert(0, "\n".join([text, *_notes(cause)]))
        # A millstream error says all there is to say; what is below it is for --verbose.
        cause = None if isinstance(cause, MillstreamError) else cause.__cause__
    return "\n".join(parts)


def _notes(error: BaseException) -> Iterator[str]:
    yield from map(str, getattr(error, "__notes__", ()))


def _place(error: BaseException) -> str:
    """Return the user's line that led to the error, as a further line of its message."""
    frames = traceback.extract_tb(error.__traceback__)
    lines = [frame for frame in frames if not is_our_file(frame.filename) and not _is_library(frame.filename)]
    if not lines:
        return ""
    source = f": {lines[-1].line}" if lines[-1].line else ""
    return f"\nProgram: {lines[-1].filename}, line {lines[-1].lineno}{source}"

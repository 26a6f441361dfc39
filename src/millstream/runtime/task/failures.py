"""What went wrong in a subtask, in the user's words: operator, subtask, element, the user's own traceback."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Any

from millstream.base.error_display import is_our_file
from millstream.base.errors import MillstreamError, UserFunctionError
from millstream.base.interrupts import is_interruption
from millstream.operators.user_code import attached_element
from millstream.runtime.task.origin import ORIGIN

__all__ = ["describe_failure", "describing", "guarded", "user_frames"]

_OPERATOR = "__millstream_operator__"


def guarded(handler: Callable[..., Any], operator: str) -> Callable[..., Any]:
    """Return `handler` with the operator's name noted on whatever it raises, prints and logs.

    Of nested operators the innermost is noted.
    """

    def call(*args: Any, **kwargs: Any) -> Any:
        outer = ORIGIN.operator
        ORIGIN.operator = operator
        try:
            return handler(*args, **kwargs)
        except BaseException as error:
            if not hasattr(error, _OPERATOR):
                setattr(error, _OPERATOR, operator)
            raise
        finally:
            ORIGIN.operator = outer

    return call


class describing:
    """Turns whatever is raised within into the error to report for it, `sys.exit()` too; interruptions pass.

    No generator: one that is given a StopIteration, and raises another error because of it, is not heard.

    Args:
        subtask: Where it is raised.
    """

    def __init__(self, subtask: int) -> None:
        self._subtask = subtask

    def __enter__(self) -> None:
        pass

    def __exit__(
        self, _kind: type[BaseException] | None, error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        if error is None or is_interruption(error):
            return
        described = describe_failure(error, self._subtask)
        if described is not error:
            raise described from error


def describe_failure(error: BaseException, subtask: int) -> MillstreamError:
    """Return the error to report for what was raised in a subtask."""
    operator = getattr(error, _OPERATOR, "?")
    if isinstance(error, MillstreamError):
        return error.at(operator, subtask)
    return UserFunctionError(
        f"{type(error).__name__} was raised",
        user_traceback=_user_traceback(error),
        element=attached_element(error),
    ).at(operator, subtask)


def _user_traceback(error: BaseException) -> str:
    described = traceback.TracebackException.from_exception(error)
    pending: list[traceback.TracebackException | None] = [described]
    while pending:
        one = pending.pop()
        if one is not None:
            one.stack = traceback.StackSummary.from_list(user_frames(one.stack))
            pending += [one.__cause__, one.__context__]
    return "".join(described.format())


def user_frames(frames: Sequence[traceback.FrameSummary]) -> Sequence[traceback.FrameSummary]:
    """Return the frames of a stack that are not millstream's; all of them if there are no others."""
    return [frame for frame in frames if not is_our_file(frame.filename)] or frames

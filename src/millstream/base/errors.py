"""The exceptions of millstream.

::

    MillstreamError
    |-- ConfigurationError (ValueError)      an option or argument does not fit
    |   `-- InterpreterError                 a Python that is to run functions cannot
    |-- TypeMismatchError (TypeError)        a value does not fit its declared type
    |-- NumberRangeError (OverflowError)     a result is larger than its type holds
    |-- StateAccessError (RuntimeError)      state or a timer used where there is no key
    |   `-- StateQueryError                  somebody asked for state that is not there
    |-- NotSupportedError (NotImplementedError)  Flink has it, millstream does not (yet)
    |-- JobDefinitionError (ValueError)      the program does not describe a job that can run
    |-- NotSerializableError (TypeError)     a function or record cannot be pickled
    |-- RecordTooLargeError (OverflowError)  a record is too large to be sent to another subtask
    |-- SourceError (RuntimeError)           a source could not be read
    |   `-- MalformedRecordError (ValueError)   a record in it does not parse
    |-- SinkError (RuntimeError)             a sink could not be written
    |-- UserFunctionError (RuntimeError)     a user's function raised
    |-- CheckpointStorageError (RuntimeError)  a checkpoint's file could not be written or read
    |-- CheckpointDamagedError (RuntimeError)  a checkpoint's file is missing, cut or altered
    |-- StateIncompatibleError (RuntimeError)  a checkpoint's state does not fit the program
    |-- SlotLostError (ConnectionError)      a slot died or did not answer
    |-- StaleAttemptError (RuntimeError)     a request of an attempt that has ended
    |-- DriverSupersededError (RuntimeError) another driver has taken the job over
    `-- JobExecutionError (RuntimeError)     a job failed; its cause is chained
        `-- JobRequestError                  a running job refused what it was asked

Errors cross process boundaries, so every class pickles by its attributes.
"""

from __future__ import annotations

from typing import Any, ClassVar, Literal

__all__ = [
    "CheckpointDamagedError",
    "CheckpointStorageError",
    "ConfigurationError",
    "DriverSupersededError",
    "InterpreterError",
    "JobDefinitionError",
    "JobExecutionError",
    "JobRequestError",
    "LostInputError",
    "LostOutputError",
    "MalformedRecordError",
    "MillstreamError",
    "NotSerializableError",
    "NotSupportedError",
    "NumberRangeError",
    "RecordTooLargeError",
    "SessionLostError",
    "SinkError",
    "SlotLostError",
    "SourceError",
    "StaleAttemptError",
    "StateAccessError",
    "StateIncompatibleError",
    "StateQueryError",
    "TypeMismatchError",
    "UserFunctionError",
    "shorten",
]

Domain = Literal["user", "external", "internal"]


def shorten(value: object, limit: int = 200) -> str:
    """Return `repr(value)`, cut to about `limit` characters; never raises.

    >>> shorten("x" * 300, limit=20)
    "'xxxxxxxx … 302 chars"
    """
    try:
        text = repr(value)
    except Exception as error:  # noqa: BLE001 - a value's own __repr__ may raise anything
        return f"<{type(value).__name__} whose repr raised {type(error).__name__}>"
    if len(text) <= limit:
        return text
    return f"{text[: max(limit - 11, 1)]} … {len(text)} chars"


class MillstreamError(Exception):
    """Root of all errors that millstream raises on purpose.

    Attributes:
        message: The fact, lower case, with the value that was seen.
        detail: The limit or rule that was broken; None if the message says it all.
        hint: What to do next; None if there is nothing to advise.
        operator: Name of the operator it happened in; added on the way up.
        subtask: Index of the subtask it happened in; added on the way up.
    """

    code: ClassVar[str] = "MILLSTREAM"
    domain: ClassVar[Domain] = "internal"
    retryable: ClassVar[bool] = False

    def __init__(self, message: str, *, detail: str | None = None, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.detail = detail
        self.hint = hint
        self.operator: str | None = None
        self.subtask: int | None = None

    def at(self, operator: str, subtask: int) -> MillstreamError:
        """Name where the error happened, unless that is known already; returns itself."""
        if self.operator is None:
            self.operator, self.subtask = operator, subtask
        return self

    def summary(self) -> str:
        """Return what happened and where, as another error's detail: `str(error)` without hint and traceback."""
        return self._fact() if self.detail is None else f"{self._fact()}. {self.detail}"

    def _fact(self) -> str:
        where = "" if self.operator is None else f' in operator "{self.operator}", subtask {self.subtask}'
        return f"[{self.code}] {self.message}{where}"

    def __str__(self) -> str:
        lines = [self._fact()]
        if self.detail:
            lines.append(f"Detail: {self.detail}")
        if self.hint:
            lines.append(f"Hint: {self.hint}")
        return "\n".join(lines)

    def _render_traceback_(self) -> list[str]:
        """Return what IPython shows if nothing catches the error."""
        from millstream.base.error_display import render_lines  # it knows the classes of this module

        return render_lines(self)

    def __reduce__(self) -> tuple[Any, ...]:
        return _restore_error, (type(self), self.args, self.__dict__)


def _restore_error(
    kind: type[MillstreamError], args: tuple[Any, ...], state: dict[str, Any]
) -> MillstreamError:
    error = kind.__new__(kind, *args)
    Exception.__init__(error, *args)
    error.__dict__.update(state)
    return error


class ConfigurationError(MillstreamError, ValueError):
    """An option or an argument has a value that does not fit."""

    code = "CONFIGURATION"
    domain = "user"


class InterpreterError(ConfigurationError):
    """A Python interpreter that is to run functions cannot: it is not there, or lacks what that takes."""

    code = "INTERPRETER"


class TypeMismatchError(MillstreamError, TypeError):
    """A value does not fit the type declared for it."""

    code = "TYPE_MISMATCH"
    domain = "user"


class NumberRangeError(MillstreamError, OverflowError):
    """A result is larger than the type of its column holds."""

    code = "NUMBER_RANGE"
    domain = "user"


class StateAccessError(MillstreamError, RuntimeError):
    """Keyed state or a timer was used where there is no current key."""

    code = "STATE_ACCESS"
    domain = "user"


class StateQueryError(StateAccessError):
    """A running job was asked for state that it does not have."""

    code = "STATE_QUERY"


class NotSupportedError(MillstreamError, NotImplementedError):
    """A feature that Flink has and this version of millstream does not."""

    code = "NOT_SUPPORTED"
    domain = "user"


class JobDefinitionError(MillstreamError, ValueError):
    """The program does not describe a job that can run."""

    code = "JOB_DEFINITION"
    domain = "user"


class NotSerializableError(MillstreamError, TypeError):
    """A function or a record cannot be pickled, so it cannot travel to another process."""

    code = "NOT_SERIALIZABLE"
    domain = "user"


class RecordTooLargeError(MillstreamError, OverflowError):
    """What one record takes does not fit into a message to another subtask."""

    code = "RECORD_TOO_LARGE"
    domain = "user"


class SourceError(MillstreamError, RuntimeError):
    """A source could not be read.

    Example:
        >>> from millstream.datastream.connectors.base import SourceError
        >>> raise SourceError("the file ended in the middle of a record", hint="Copy it again.")
        Traceback (most recent call last):
        ...
        millstream.base.errors.SourceError: [SOURCE] the file ended in the middle of a record
        Hint: Copy it again.
    """

    code = "SOURCE"
    domain: ClassVar[Domain] = "external"


class MalformedRecordError(SourceError, ValueError):
    """A record in a source does not parse.

    Example:
        >>> from millstream.datastream.connectors.base import MalformedRecordError
        >>> raise MalformedRecordError("the message is no JSON", hint="Set a malformed policy.")
        Traceback (most recent call last):
        ...
        millstream.base.errors.MalformedRecordError: [MALFORMED_RECORD] the message is no JSON
        Hint: Set a malformed policy.
    """

    code = "MALFORMED_RECORD"
    domain = "user"


class SinkError(MillstreamError, RuntimeError):
    """A sink could not be written.

    Example:
        >>> from millstream.datastream.connectors.base import SinkError
        >>> raise SinkError("the server refused the batch", hint="Look at its log.")
        Traceback (most recent call last):
        ...
        millstream.base.errors.SinkError: [SINK] the server refused the batch
        Hint: Look at its log.
    """

    code = "SINK"
    domain = "external"


class UserFunctionError(MillstreamError, RuntimeError):
    """A user's function raised.

    Attributes:
        user_traceback: The Python traceback of the user's code, formatted, frames of millstream left out.
        element: The shortened element that was being processed; None outside of elements.
    """

    code = "USER_FUNCTION"
    domain = "user"

    def __init__(self, message: str, *, user_traceback: str, element: str | None = None) -> None:
        super().__init__(message)
        self.user_traceback = user_traceback
        self.element = element

    def summary(self) -> str:
        """Return operator, subtask, class and message of what was raised."""
        return f"{super().summary()}:\n{_raised(self.user_traceback)}"

    def __str__(self) -> str:
        head = self.user_traceback.rstrip("\n")
        element = "" if self.element is None else f"\nElement: {self.element}"
        return f"{head}\n{super().__str__()}{element}"


def _raised(formatted_traceback: str) -> str:
    """Return what follows the last frame of a formatted traceback: class and message, of any number of lines.

    >>> _raised('Traceback (most recent call last):\\n  File "job.py", line 1, in f\\n    g()\\nValueError: a')
    'ValueError: a'
    """
    lines = formatted_traceback.rstrip("\n").split("\n")
    frames = [number for number, line in enumerate(lines) if line.startswith('  File "')]
    after = lines[frames[-1] + 1 :] if frames else lines
    while len(after) > 1 and after[0].startswith("  "):  # source, marks below it, repetitions
        del after[0]
    return "\n".join(after)


class SlotLostError(MillstreamError, ConnectionError):
    """A slot died or did not answer within its timeout."""

    code = "SLOT_LOST"
    domain = "external"
    retryable = True


class SessionLostError(MillstreamError, ConnectionError):
    """A Spark session that the program opened is gone or was stopped: only the program can open another."""

    code = "SESSION_LOST"
    domain = "external"


class CheckpointStorageError(MillstreamError, RuntimeError):
    """A checkpoint's file cannot be written, read or removed."""

    code = "CHECKPOINT_STORAGE"
    domain = "external"


class CheckpointDamagedError(MillstreamError, RuntimeError):
    """A checkpoint is not what was written: a file is missing, cut or altered."""

    code = "CHECKPOINT_DAMAGED"
    domain = "external"


class LostOutputError(SinkError, CheckpointDamagedError):
    """What a checkpoint holds of a sink's staged output is not where it was staged."""

    code = "LOST_OUTPUT"
    domain = "external"


class LostInputError(SourceError, CheckpointDamagedError):
    """What a checkpoint holds of a source's received records is not where they were kept."""

    code = "LOST_INPUT"
    domain = "external"


class StateIncompatibleError(MillstreamError, RuntimeError):
    """The state of a checkpoint does not fit the program that is to go on with it."""

    code = "STATE_INCOMPATIBLE"
    domain = "user"


class StaleAttemptError(MillstreamError, RuntimeError):
    """A request carried the number of an attempt that has ended: a zombie, refused."""

    code = "STALE_ATTEMPT"
    domain = "internal"


class DriverSupersededError(MillstreamError, RuntimeError):
    """Another driver has taken the job over: this one publishes nothing any more, and ends."""

    code = "DRIVER_SUPERSEDED"
    domain = "external"


class JobExecutionError(MillstreamError, RuntimeError):
    """A job failed; the cause is chained (`__cause__`)."""

    code = "JOB_FAILED"
    domain = "user"


class JobRequestError(JobExecutionError):
    """A running job refused what it was asked by another process.

    Attributes:
        reason: Code of the job's error.
    """

    code = "JOB_REQUEST"

    def __init__(
        self, message: str, *, reason: str | None = None, detail: str | None = None, hint: str | None = None
    ) -> None:
        super().__init__(message, detail=detail, hint=hint)
        self.reason = reason or self.code

    def __str__(self) -> str:
        return super().__str__().replace(f"[{self.code}]", f"[{self.reason}]", 1)

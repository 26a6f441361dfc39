"""What a job can be told from outside: frozen dataclasses of plain data.

Each names in `outcome` what comes of it. The job master takes commands up between two epochs.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

__all__ = [
    "Cancel",
    "Command",
    "QueryState",
    "StateAnswer",
    "Stop",
    "TriggerCheckpoint",
    "TriggerSavepoint",
]


@dataclass(frozen=True, slots=True)
class Command:
    """Base of all commands.

    Attributes:
        outcome: Type of what comes of it.
        ends_job: Whether the job ends by it: who sent it through a socket is answered when it has.
    """

    outcome: ClassVar[type[Any]]
    ends_job: ClassVar[bool] = False


@dataclass(frozen=True, slots=True)
class Cancel(Command):
    """Stop at once; what is not committed is removed. The outcome is the job's last status."""

    outcome: ClassVar[type[Any]] = str
    ends_job: ClassVar[bool] = True


@dataclass(frozen=True, slots=True)
class Stop(Command):
    """Make a savepoint and end behind it. The outcome is the savepoint's path.

    Attributes:
        directory: Where to; None for the configured directory.
        drain: Whether the job is to come to its end before: windows and timers fire, for good.
    """

    outcome: ClassVar[type[Any]] = str
    ends_job: ClassVar[bool] = True
    directory: str | None = None
    drain: bool = False


@dataclass(frozen=True, slots=True)
class TriggerSavepoint(Command):
    """Make a savepoint and go on. The outcome is its path.

    Attributes:
        directory: Where to; None for the configured directory.
    """

    outcome: ClassVar[type[Any]] = str
    directory: str | None = None


@dataclass(frozen=True, slots=True)
class TriggerCheckpoint(Command):
    """Make a checkpoint now, of a job that makes checkpoints. The outcome is its path."""

    outcome: ClassVar[type[Any]] = str


@dataclass(frozen=True, slots=True)
class StateAnswer:
    """What a key has in a state.

    Attributes:
        value: As Python writes it.
        type: Its class.
    """

    value: str
    type: str


@dataclass(frozen=True, slots=True)
class QueryState(Command):
    """Tell what a key has in a keyed state, as of the last epoch that has ended. The outcome is a `StateAnswer`.

    Attributes:
        uid: The operator's uid, or its id; its name if it has neither.
        state: The state's name.
        key: The key as Python writes it; any other text stands for itself.
        window: Start and end in epoch milliseconds, if it is asked for the state of a window.
    """

    outcome: ClassVar[type[Any]] = StateAnswer
    uid: str
    state: str
    key: str
    window: tuple[int, int] | None = None

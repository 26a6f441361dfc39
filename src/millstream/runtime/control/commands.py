"""What a job can be told from outside: frozen dataclasses of plain data.

Each names in `outcome` what comes of it. The job master takes commands up between two epochs.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar

__all__ = [
    "Cancel",
    "Command",
    "KeyPage",
    "KeyValue",
    "ListKeys",
    "ListStates",
    "OperatorStates",
    "QueryState",
    "Rescale",
    "Rescaled",
    "StateAnswer",
    "StateName",
    "StateNames",
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
class Rescaled:
    """How parallel a job is.

    Attributes:
        before: Its greatest parallelism so far.
        parallelism: Its greatest parallelism as it was asked for.
        checkpoint: What it goes on from; None if nothing had to change, or it was not waited for.
    """

    before: int
    parallelism: int
    checkpoint: str | None = None


@dataclass(frozen=True, slots=True)
class Rescale(Command):
    """Make a checkpoint and go on from it with another parallelism. The outcome is a `Rescaled`.

    Operators keep a parallelism that the user gave them or that they always have, unless their vertex is named.

    Attributes:
        parallelism: Of the operators that have none of their own; None leaves it.
        vertices: The parallelism of all operators of vertices, by vertex id.
        waits: Whether the outcome comes when the job goes on; else when it has agreed to do so.
    """

    outcome: ClassVar[type[Any]] = Rescaled
    parallelism: int | None = None
    vertices: dict[str, int] = field(default_factory=dict)
    waits: bool = True


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


@dataclass(frozen=True, slots=True)
class StateName:
    """A keyed state.

    Attributes:
        name: The state's name.
        kind: What it holds: "value state of LONG".
    """

    name: str
    kind: str


@dataclass(frozen=True, slots=True)
class OperatorStates:
    """The keyed states of an operator.

    Attributes:
        operator: What `QueryState` and `ListKeys` call it.
        name: Its name, for users.
        parallelism: In how many subtasks keys are.
        states: Those that are known: a state is once a function has asked for it.
    """

    operator: str
    name: str
    parallelism: int
    states: tuple[StateName, ...]


@dataclass(frozen=True, slots=True)
class StateNames:
    """The keyed states of a job.

    Attributes:
        operators: Those with keyed input.
    """

    operators: tuple[OperatorStates, ...]


@dataclass(frozen=True, slots=True)
class ListStates(Command):
    """Tell which operators have which keyed states. The outcome is a `StateNames`."""

    outcome: ClassVar[type[Any]] = StateNames


@dataclass(frozen=True, slots=True)
class KeyValue:
    """What a key has in a state.

    Attributes:
        key: As Python writes it; cut if it is long.
        namespace: The window or the like, as Python writes it; None for the key as a whole.
        value: As Python writes it; cut if it is long.
        type: The value's class.
    """

    key: str
    namespace: str | None
    value: str
    type: str


@dataclass(frozen=True, slots=True)
class KeyPage:
    """Some keys of a state in one subtask.

    Attributes:
        keys: In the order in which they are kept.
        more: Whether others follow.
        limited: Whether those that follow are behind the last that can be listed.
    """

    keys: tuple[KeyValue, ...]
    more: bool = False
    limited: bool = False


@dataclass(frozen=True, slots=True)
class ListKeys(Command):
    """Tell some keys of a state in one subtask, as of the last epoch that has ended. The outcome is a `KeyPage`.

    Attributes:
        uid: The operator's uid, or its id; its name if it has neither.
        state: The state's name.
        subtask: Whose keys.
        offset: How many are left out.
        limit: How many are told at most.
    """

    outcome: ClassVar[type[Any]] = KeyPage
    uid: str
    state: str
    subtask: int = 0
    offset: int = 0
    limit: int = 50

"""Kinds of state, and the checks that a descriptor, a getter and a name fit together."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from millstream.base.errors import (
    ConfigurationError,
    StateAccessError,
    StateIncompatibleError,
    shorten,
)
from millstream.common.state import (
    AggregatingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    StateDescriptor,
    ValueStateDescriptor,
)
from millstream.types.forms import TypeForm, describe_form

__all__ = [
    "NO_KEY",
    "StateKind",
    "StateSchema",
    "check_descriptor",
    "incompatible_state",
    "kind_of",
    "no_key_error",
]


class _NoKey:
    def __repr__(self) -> str:
        return "no key"


NO_KEY = _NoKey()
"""The current key while there is none: in `open`, in `close`, between batches."""


class StateKind(Enum):
    """What a state holds for each key; the value is how messages name it."""

    VALUE = "value"
    LIST = "list"
    MAP = "map"
    REDUCING = "reducing"
    AGGREGATING = "aggregating"
    TABLE = "internal"


_KINDS: dict[type[StateDescriptor], StateKind] = {
    ValueStateDescriptor: StateKind.VALUE,
    ListStateDescriptor: StateKind.LIST,
    MapStateDescriptor: StateKind.MAP,
    ReducingStateDescriptor: StateKind.REDUCING,
    AggregatingStateDescriptor: StateKind.AGGREGATING,
}


@dataclass(frozen=True, slots=True)
class StateSchema:
    """What has to stay the same for a state's entries to be read.

    Attributes:
        kind: What it holds for each key.
        timed: Whether entries carry the time of their last access.
        type_form: The declared type (of lists and maps as a whole); None if none is. It may change, within limits,
            so it does not make schemas differ.
    """

    kind: StateKind
    timed: bool = False
    type_form: TypeForm | None = field(default=None, compare=False)

    def describe(self) -> str:
        """Return it for messages.

        >>> StateSchema(StateKind.LIST, timed=True).describe()
        'list state with a time to live'
        >>> StateSchema(StateKind.VALUE, type_form="LONG").describe()
        'value state of LONG'
        """
        kind = f"{self.kind.value} state"
        if self.type_form is not None:
            kind += f" of {describe_form(self.type_form)}"
        return f"{kind}{' with a time to live' if self.timed else ''}"


def kind_of(descriptor: StateDescriptor, operator: str) -> StateKind:
    """Return the kind of state that a descriptor describes.

    Raises:
        ConfigurationError: If it describes none.
    """
    for base in type(descriptor).__mro__:
        if base in _KINDS:
            return _KINDS[base]
    raise ConfigurationError(
        f'operator "{operator}" asked for state with {shorten(descriptor)}, which describes no kind of state',
        hint="Use ValueStateDescriptor, ListStateDescriptor, MapStateDescriptor, ReducingStateDescriptor or "
        "AggregatingStateDescriptor.",
    )


def check_descriptor(descriptor: Any, wanted: type[StateDescriptor], getter: str, operator: str) -> None:
    """Check that a getter was given its kind of descriptor.

    Raises:
        ConfigurationError: If it was not; names getter, descriptor, state and operator.
    """
    if isinstance(descriptor, wanted):
        return
    named = f' for state "{descriptor.name}"' if isinstance(descriptor, StateDescriptor) else ""
    raise ConfigurationError(
        f'{getter} was given a {type(descriptor).__name__}{named} in operator "{operator}"',
        hint=f"Give it a {wanted.__name__}.",
    )


def incompatible_state(
    name: str, operator: str, uid: str | None, *, old: str, new: str
) -> StateIncompatibleError:
    """Return the error for a state that is asked for as something else than it was restored as.

    Args:
        name: The state's name.
        operator: The operator's name.
        uid: The operator's uid; None if it has none.
        old: What it was restored as, as `StateSchema.describe` says it.
        new: What it was asked for as.
    """
    named = f'"{operator}" (uid "{uid}")' if uid is not None else f'"{operator}"'
    return StateIncompatibleError(
        f'state "{name}" of operator {named} was restored as {old} and was asked for as {new}',
        detail="Numbers may become wider, rows and tuples may gain and lose fields; state without a declared type "
        "takes anything.",
        hint="Give the state another name, or the operator another uid and drop its state: "
        "--allow-non-restored-state.",
    )


def no_key_error(name: str, operator: str) -> StateAccessError:
    """Return the error for keyed state used while no record or timer is processed."""
    return StateAccessError(
        f'state "{name}" of operator "{operator}" was used while there is no current key',
        detail="Keyed state is there while a record or timer is processed, not in open() or close().",
        hint="Get the state in open(), use it in process_element() or on_timer(); in process_batch() choose the key "
        "before: ctx.set_current_key(key), or ctx.values(state, keys).",
    )

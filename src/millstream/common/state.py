"""Kinds of state and their descriptors (PyFlink's `pyflink.datastream.state`)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from millstream.common.errors import ConfigurationError

if TYPE_CHECKING:
    from millstream.common.typeinfo import TypeInformation

__all__ = ["State", "StateDescriptor", "ValueState", "ValueStateDescriptor"]

T = TypeVar("T")


class State(ABC):
    """State of one key; scoped to the key of the record or timer that is being processed."""

    @abstractmethod
    def clear(self) -> None:
        """Remove the value under the current key."""


class ValueState(State, Generic[T]):
    """One value for each key."""

    @abstractmethod
    def value(self) -> T | None:
        """Return the current key's value, None if there is none."""

    @abstractmethod
    def update(self, value: T | None) -> None:
        """Set the current key's value; None clears it."""


class StateDescriptor(ABC):
    """Names a state and gives the type of its values.

    Descriptors with the same name within one operator are one state.

    Raises:
        ConfigurationError: If `name` is empty.
    """

    def __init__(self, name: str, type_info: TypeInformation | None = None) -> None:
        if not name:
            raise ConfigurationError("the name of a state descriptor is empty")
        self.name = name
        self.type_info = type_info

    def get_name(self) -> str:
        """Return the state's name."""
        return self.name

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r})"


class ValueStateDescriptor(StateDescriptor):
    """Describes a `ValueState`."""

    def __init__(self, name: str, value_type_info: TypeInformation | None = None) -> None:
        super().__init__(name, value_type_info)


AnyState = Any

"""Collections inside accumulators (PyFlink's `pyflink.table.data_view`)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from typing import Any, Generic, TypeVar

__all__ = ["DataView", "ListView", "MapView"]

T = TypeVar("T")
K = TypeVar("K")
V = TypeVar("V")


class DataView(ABC):
    """A collection in an accumulator."""

    @abstractmethod
    def clear(self) -> None:
        """Remove everything."""


class ListView(DataView, Generic[T]):
    """A list in an accumulator."""

    def __init__(self) -> None:
        self._list: list[T] = []

    def get(self) -> Iterable[T]:
        """Return the elements in order."""
        return self._list

    def add(self, value: T) -> None:
        """Append an element."""
        self._list.append(value)

    def add_all(self, values: list[T]) -> None:
        """Append elements."""
        self._list.extend(values)

    def clear(self) -> None:
        """Remove all elements."""
        self._list = []

    def __eq__(self, other: Any) -> bool:
        return isinstance(other, ListView) and list(self.get()) == list(other.get())

    def __hash__(self) -> int:
        return hash(tuple(self._list))

    def __iter__(self) -> Iterator[T]:
        return iter(self._list)


class MapView(Generic[K, V]):
    """A map in an accumulator."""

    def __init__(self) -> None:
        self._dict: dict[K, V] = {}

    def get(self, key: K) -> V:
        """Return the value of a key.

        Raises:
            KeyError: If there is none.
        """
        return self._dict[key]

    def put(self, key: K, value: V) -> None:
        """Set the value of a key."""
        self._dict[key] = value

    def put_all(self, dict_value: dict[K, V]) -> None:
        """Set the values of keys."""
        self._dict.update(dict_value)

    def remove(self, key: K) -> None:
        """Remove a key.

        Raises:
            KeyError: If it is not there.
        """
        del self._dict[key]

    def contains(self, key: K) -> bool:
        """Return whether a key is there."""
        return key in self._dict

    def items(self) -> Iterable[tuple[K, V]]:
        """Return keys with values."""
        return self._dict.items()

    def keys(self) -> Iterable[K]:
        """Return the keys."""
        return self._dict.keys()

    def values(self) -> Iterable[V]:
        """Return the values."""
        return self._dict.values()

    def is_empty(self) -> bool:
        """Return whether there is no key."""
        return not self._dict

    def clear(self) -> None:
        """Remove all keys."""
        self._dict.clear()

    def __eq__(self, other: Any) -> bool:
        return isinstance(other, MapView) and dict(self.items()) == dict(other.items())

    __hash__ = None  # type: ignore[assignment]

    def __getitem__(self, key: K) -> V:
        return self.get(key)

    def __setitem__(self, key: K, value: V) -> None:
        self.put(key, value)

    def __delitem__(self, key: K) -> None:
        self.remove(key)

    def __contains__(self, key: K) -> bool:
        return self.contains(key)

    def __iter__(self) -> Iterator[K]:
        return iter(self.keys())

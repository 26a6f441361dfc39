"""Records of state on disk: what is written under a key, and how it is read.

A record is a pickled value, led by `K` if the key, namespace and user key are in it as well (where they cannot
be told from the record's key), and by `P` if classes or functions are referred to by number (where they
cannot be imported, as those of the main script in a slot).
"""

from __future__ import annotations

import io
import pickle
from types import FunctionType
from typing import Any

from millstream.base.errors import NotSerializableError, shorten

__all__ = ["RecordCodec"]

_WITH_KEY = 0x4B  # K
_NUMBERED = 0x50  # P
_PROTOCOL = 5


class _NumberingPickler(pickle.Pickler):
    """Writes numbers for classes and functions of this process that cannot be imported."""

    def __init__(self, file: io.BytesIO, known: list[Any]) -> None:
        super().__init__(file, protocol=_PROTOCOL)
        self._known = known

    def persistent_id(self, obj: Any) -> int | None:
        if not isinstance(obj, (type, FunctionType)) or _importable(obj):
            return None
        for number, known in enumerate(self._known):
            if known is obj:
                return number
        self._known.append(obj)
        return len(self._known) - 1


class _NumberingUnpickler(pickle.Unpickler):
    def __init__(self, file: io.BytesIO, known: list[Any]) -> None:
        super().__init__(file)
        self._known = known

    def persistent_load(self, pid: Any) -> Any:
        return self._known[pid]


def _importable(obj: Any) -> bool:
    try:
        pickle.dumps(obj, protocol=_PROTOCOL)
    except (pickle.PicklingError, AttributeError, TypeError):
        return False
    return True


class RecordCodec:
    """Encodes and decodes the records of one backend; they are read in the process that wrote them.

    Args:
        operator: The operator's name, for messages.
    """

    def __init__(self, operator: str) -> None:
        self._operator = operator
        self._known: list[Any] = []

    def encode(self, name: str, value: Any, keys: tuple[Any, Any, Any], *, with_keys: bool) -> bytes:
        """Return the record of a value.

        Args:
            name: The state's name, for messages.
            value: The value.
            keys: Key, namespace and user key.
            with_keys: Whether they have to be in the record.

        Raises:
            NotSerializableError: If it cannot be pickled; names state, operator and key.
        """
        try:
            if with_keys:
                return b"K" + self._dump((*keys, value))
            return self._dump(value)
        except Exception as error:
            raise NotSerializableError(
                f'state "{name}" of operator "{self._operator}" has a value of type {type(value).__name__} that '
                f"cannot be pickled: {type(error).__name__}: {error}",
                detail=f"It is the value of key {shorten(keys[0])}; values are pickled to be written to disk.",
                hint="Keep plain data in state, or use the hashmap state backend.",
            ) from error

    def dump(self, name: str, key: Any, value: Any) -> bytes:
        """Return the record of a value without keys: the short way of `encode` for nearly all records."""
        try:
            return pickle.dumps(value, _PROTOCOL)
        except Exception:  # noqa: BLE001 - any object may refuse to be pickled in any way; the long way says how
            return self.encode(name, value, (key, None, None), with_keys=False)

    def decode(self, record: Any) -> Any:
        """Return the value of a record (bytes or a memoryview)."""
        first = record[0]
        if first == _WITH_KEY:
            return self._load(record[1:])[3]
        return pickle.loads(record) if first != _NUMBERED else self._load(record)

    def decode_keys(self, record: Any) -> tuple[Any, Any, Any] | None:
        """Return key, namespace and user key if the record has them."""
        if record[0] != _WITH_KEY:
            return None
        key, namespace, user_key, _ = self._load(record[1:])
        return key, namespace, user_key

    def _dump(self, value: Any) -> bytes:
        try:
            return pickle.dumps(value, protocol=_PROTOCOL)
        except (pickle.PicklingError, AttributeError, TypeError):
            file = io.BytesIO()
            _NumberingPickler(file, self._known).dump(value)
            return b"P" + file.getvalue()

    def _load(self, data: Any) -> Any:
        if data[0] == _NUMBERED:
            return _NumberingUnpickler(io.BytesIO(bytes(data[1:])), self._known).load()
        return pickle.loads(data)

"""Modules of functions (PyFlink's `pyflink.table.module`): there is the module core only."""

from __future__ import annotations

from millstream.base.errors import NotSupportedError

__all__ = ["HiveModule", "Module", "ModuleEntry"]


class Module:
    """A set of functions; other modules than core cannot be loaded."""


class HiveModule(Module):
    """The functions of Hive; they are Java.

    Raises:
        NotSupportedError: Always.
    """

    def __init__(self, hive_version: str | None = None) -> None:
        raise NotSupportedError(
            "the module hive holds functions of Hive, which are Java: millstream runs no Java classes",
            hint="Use Flink's functions of the module core, or write what is missing with udf(...).",
        )


class ModuleEntry:
    """A module's name, and whether it is in use.

    >>> entry = ModuleEntry("core", True)
    >>> entry.name(), entry.used()
    ('core', True)
    """

    def __init__(self, name: str, used: bool) -> None:
        self._name, self._used = name, used

    def name(self) -> str:
        """Return the module's name."""
        return self._name

    def used(self) -> bool:
        """Return whether it is in use."""
        return self._used

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ModuleEntry) and (self._name, self._used) == (other._name, other._used)

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __lt__(self, other: ModuleEntry) -> bool:
        return (self._name, self._used) < (other._name, other._used)

    def __hash__(self) -> int:
        return hash((self._name, self._used))

    def __repr__(self) -> str:
        return f"ModuleEntry{{name='{self._name}', used={str(self._used).lower()}}}"

"""Modules of functions (PyFlink's `pyflink.table.module`): there is the module core only."""

from __future__ import annotations

from dataclasses import dataclass

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


@dataclass(frozen=True, order=True)
class ModuleEntry:
    """A module's name, and whether it is in use.

    >>> entry = ModuleEntry("core", True)
    >>> entry.name(), entry.used()
    ('core', True)
    """

    _name: str
    _used: bool

    def name(self) -> str:
        """Return the module's name."""
        return self._name

    def used(self) -> bool:
        """Return whether it is in use."""
        return self._used

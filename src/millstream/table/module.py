"""Modules of functions (PyFlink's `pyflink.table.module`): there is the module core only."""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["Module", "ModuleEntry"]


class Module:
    """A set of functions; other modules than core cannot be loaded."""


class ModuleEntry(NamedTuple):
    """A module's name, and whether it is in use.

    >>> ModuleEntry("core", True)
    ModuleEntry(name='core', used=True)
    """

    name: str
    used: bool

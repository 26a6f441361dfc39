"""Packages that only some programs need: the extras of the wheel."""

from __future__ import annotations

import importlib
import importlib.util
import os
import sys
from contextlib import suppress
from typing import Any

from millstream.base.errors import ConfigurationError

__all__ = ["load_package"]


def load_package(module: str, *, extra: str, what: str) -> Any:
    """Return a module of a package that is installed with an extra of millstream.

    Args:
        module: Its name: `confluent_kafka`.
        extra: The extra that brings it: `kafka`.
        what: Who needs it, for the message, in the plural: `Kafka sources and sinks`.

    Raises:
        ConfigurationError: If it is not installed, or cannot be imported, or the program has its name.
    """
    package = module.partition(".")[0]
    if package not in sys.modules:
        _refuse_program(package, what)
    try:
        return importlib.import_module(module)
    except ImportError as error:
        is_missing = (
            isinstance(error, ModuleNotFoundError) and (error.name or "").partition(".")[0] == package
        )
        raise ConfigurationError(
            f"{what} need the package {package}, which "
            + ("is not installed" if is_missing else f"cannot be imported: {error}"),
            hint=f'Install the extra, here and where slots run: pip install "millstream[{extra}]".',
        ) from error


def _refuse_program(package: str, what: str) -> None:
    """Refuse a program that would be imported, and run once more, in the place of a package."""
    if _is_program(package):
        raise ConfigurationError(
            f'{what} need the package {package}, but the program "{sys.argv[0]}" has its name',
            detail="Python looks for packages in the program's directory first.",
            hint="Give the program another name.",
        )


def _is_program(package: str) -> bool:
    with suppress(ImportError, ValueError, OSError, IndexError):  # it is not there, or importing it says more
        found = importlib.util.find_spec(package)
        if found is not None and found.origin is not None:
            return os.path.samefile(found.origin, sys.argv[0])
    return False

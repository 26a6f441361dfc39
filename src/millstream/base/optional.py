"""Packages that only some programs need: the extras of the wheel."""

from __future__ import annotations

import importlib
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
        ConfigurationError: If it is not installed, or cannot be imported.
    """
    try:
        return importlib.import_module(module)
    except ImportError as error:
        package = module.partition(".")[0]
        is_missing = (
            isinstance(error, ModuleNotFoundError) and (error.name or "").partition(".")[0] == package
        )
        raise ConfigurationError(
            f"{what} need the package {package}, which "
            + ("is not installed" if is_missing else f"cannot be imported: {error}"),
            hint=f'Install the extra, here and where slots run: pip install "millstream[{extra}]".',
        ) from error

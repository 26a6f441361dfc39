"""pyiceberg, which is optional."""

from __future__ import annotations

from typing import Any

from millstream.base.optional import load_package

__all__ = ["load_pyiceberg"]

_WHAT = "Iceberg tables"


def load_pyiceberg(module: str) -> Any:
    """Return a module of pyiceberg.

    Raises:
        ConfigurationError: If it, or pyarrow, is not installed.
    """
    load_package("pyarrow", extra="iceberg", what=_WHAT)
    return load_package(f"pyiceberg.{module}", extra="iceberg", what=_WHAT)

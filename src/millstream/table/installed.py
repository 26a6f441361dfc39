"""What SQL and tables need besides the package itself."""

from __future__ import annotations

from importlib.util import find_spec

from millstream.base.errors import ConfigurationError

__all__ = ["check_installed"]

_NEEDED = ("pyarrow", "numpy")


def check_installed() -> None:
    """Raise if a library is missing that tables are computed with.

    Raises:
        ConfigurationError: If one is; it says how to install both.
    """
    missing = [name for name in _NEEDED if find_spec(name) is None]
    if missing:
        raise ConfigurationError(
            f"tables need {' and '.join(missing)}, which {'are' if len(missing) > 1 else 'is'} not installed",
            hint='Install the extra, where the driver runs and for the slots: pip install "millstream[sql]".',
        )

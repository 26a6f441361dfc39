"""Files that a job takes along (Java's `DistributedCache`; PyFlink registers them but cannot read them)."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from millstream.base.errors import ConfigurationError

__all__ = ["DistributedCache"]


class DistributedCache:
    """The files registered with `register_cached_file`, as copies on this host.

    Args:
        files: Paths by name.
    """

    def __init__(self, files: Mapping[str, str]) -> None:
        self._files = dict(files)

    def get_file(self, name: str) -> Path:
        """Return the path of the copy; it lives as long as the attempt.

        Raises:
            ConfigurationError: If no file was registered under the name.
        """
        try:
            return Path(self._files[name])
        except KeyError:
            raise ConfigurationError(
                f'no file is registered as "{name}"',
                detail=f"Registered are: {', '.join(sorted(self._files)) or 'none'}.",
                hint="Call env.register_cached_file(path, name) before the job is executed.",
            ) from None

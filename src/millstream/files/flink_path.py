"""Paths as Flink's `Path` writes them: without empty parts and without a slash at the end."""

from __future__ import annotations

import re

from millstream.base.errors import ConfigurationError

__all__ = ["flink_path", "local_path"]

_PARTS = re.compile(r"(?:(?P<scheme>[^:/]+):)?(?://(?P<authority>[^/]*))?(?P<path>.*)", re.DOTALL)


def flink_path(text: str) -> str:
    """Return a path or URI in the form in which Flink gives it back.

    >>> [flink_path(text) for text in ("file:///tmp/a//b/", "s3://bucket/a/", "/tmp/a/", "file:///")]
    ['file:/tmp/a/b', 's3://bucket/a', '/tmp/a', 'file:/']
    """
    scheme, authority, path = _split(text)
    beginning = f"{scheme}:" if scheme else ""
    return f"{beginning}//{authority}{path}" if authority else f"{beginning}{path}"


def local_path(text: str) -> str:
    """Return the path of a local directory, without scheme and host.

    >>> local_path("file:///var/state/"), local_path("/var/state")
    ('/var/state', '/var/state')

    Raises:
        ConfigurationError: If it is relative, or of another file system.
    """
    scheme, _, path = _split(text)
    if scheme not in (None, "file") or not path.startswith("/"):
        raise ConfigurationError(
            f'directory "{text}" is not one of the local file system',
            detail="State on disk lies in directories of each host, given by absolute paths.",
        )
    return path


def _split(text: str) -> tuple[str | None, str | None, str]:
    """Return scheme, authority and the normalised path."""
    match = _PARTS.fullmatch(text)
    assert match is not None, text  # every part may be missing
    path = re.sub("/+", "/", match["path"])
    return match["scheme"], match["authority"], path.rstrip("/") or path

"""Data files and logs, opened where they are: in directories or in object stores."""

from __future__ import annotations

from collections.abc import Iterable
from typing import BinaryIO

from millstream.base.errors import SourceError
from millstream.files.paths import open_file
from millstream.files.remote import with_parameters

__all__ = ["open_below"]


def open_below(path: str, roots: Iterable[str]) -> BinaryIO:
    """Open a file, buffered and seekable.

    Args:
        path: Without parameters.
        roots: Paths and URIs that files are below, with what they say of how to reach them.

    Raises:
        FileNotFoundError: If it is not there.
        SourceError: If it cannot be opened.
    """
    try:
        return open_file(with_parameters(path, roots), decompress=False)
    except SourceError as error:
        if isinstance(error.__cause__, FileNotFoundError):
            raise FileNotFoundError(path) from None
        raise

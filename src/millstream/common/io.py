"""Input formats (PyFlink's `pyflink.common.io`)."""

from __future__ import annotations

from typing import Any

from millstream.base.errors import NotSupportedError
from millstream.spi.source import Source

__all__ = ["InputFormat"]


class InputFormat:
    """What `create_input` reads; those of PyFlink wrap Java classes, of which there are none here.

    Raises:
        NotSupportedError: Always; a format that can be read, such as AvroInputFormat, is a class of its own.
    """

    def __init__(self, j_input_format: Any) -> None:
        raise NotSupportedError(
            "an input format written in Java was given",
            hint="Use a Source, such as FileSource or NumberSequenceSource.",
        )

    def to_source(self) -> Source:
        """Return the source that reads it."""
        raise NotSupportedError(f"{type(self).__name__} cannot be read")

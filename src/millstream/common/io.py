"""Input formats (PyFlink's `pyflink.common.io`)."""

from __future__ import annotations

from typing import Any

from millstream.base.errors import NotSupportedError

__all__ = ["InputFormat"]


class InputFormat:
    """An input format written in Java: there is none here.

    Raises:
        NotSupportedError: Always.
    """

    def __init__(self, j_input_format: Any) -> None:
        raise NotSupportedError(
            "an input format written in Java was given",
            hint="Use a Source, such as FileSource or NumberSequenceSource.",
        )

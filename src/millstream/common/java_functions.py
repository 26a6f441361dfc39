"""Source functions, which in PyFlink only wrap Java classes (`pyflink.datastream.functions.SourceFunction`)."""

from __future__ import annotations

from typing import Any

from millstream.common.errors import NotSupportedError
from millstream.common.functions import Function

__all__ = ["SourceFunction"]


class SourceFunction(Function):
    """A source written in Java, by the name of its class.

    Raises:
        NotSupportedError: Always.
    """

    def __init__(self, source_func: Any) -> None:
        raise NotSupportedError(
            f"a source function written in Java was given: {source_func!r}",
            hint="Use from_source(...) with a Source, or from_collection(...).",
        )

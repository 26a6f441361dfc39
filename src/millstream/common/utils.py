"""What PyFlink wraps objects of Java in (`pyflink.common.utils`), for programs that derive from it or name it."""

from __future__ import annotations

from typing import Any

__all__ = ["JavaObjectWrapper"]


class JavaObjectWrapper:
    """Holds an object; nothing of millstream is one, as there are no objects of Java."""

    def __init__(self, j_object: Any) -> None:
        self._j_object = j_object

    def get_java_object(self) -> Any:
        """Return the object."""
        return self._j_object

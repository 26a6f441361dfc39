"""Sees that a host has the versions with which the driver pickled what it sends."""

from __future__ import annotations

import platform
import sys

from millstream.base.errors import InterpreterError
from millstream.version import __version__

__all__ = ["find_mismatch"]


def find_mismatch(python_version: tuple[int, int], millstream_version: str) -> InterpreterError | None:
    """Return what is to be told if this interpreter cannot run what the driver sends; None if it can.

    Asked before anything of the job is unpickled.

    Args:
        python_version: The driver's, major and minor: functions are pickled as byte code, which loads in no other.
        millstream_version: The driver's: its operators are pickled by the names of their classes and fields.

    >>> import sys
    >>> print(find_mismatch(sys.version_info[:2], "0.0.0").message.replace(__version__, "VERSION"))
    the program runs with millstream 0.0.0, its functions would run with VERSION
    """
    if sys.version_info[:2] != python_version:
        what, wanted, found = "Python", ".".join(map(str, python_version)), platform.python_version()
        hint = (
            f"Have Python {wanted} there, too, and name it by python.executable, spark.pyspark.python or "
            "PYSPARK_PYTHON; or run the program with the Python that is there."
        )
    elif millstream_version != __version__:
        what, wanted, found = "millstream", millstream_version, __version__
        hint = (
            f"Install it there ({sys.executable} -m pip install millstream=={wanted}), or ship an environment that "
            "has it (docs/deploy/dependencies.md)."
        )
    else:
        return None
    return InterpreterError(
        f"the program runs with {what} {wanted}, its functions would run with {found}",
        detail=f"That is what {sys.executable} on {platform.node()} has.",
        hint=hint,
    )

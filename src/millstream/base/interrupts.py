"""What leaves user code without being an error of it: everything else that a function raises is its own error.

`sys.exit()`, `KeyboardInterrupt`, `asyncio.CancelledError` or `GeneratorExit` raised by a user's function fail the job
like any other error. Only the following pass through: what derives from `Interruption`, and the Ctrl-C of a job that
runs on the main thread (`--debug`).
"""

from __future__ import annotations

import signal
import threading

__all__ = ["Interruption", "JobInterrupted", "is_interruption"]


class Interruption(BaseException):
    """Raised by millstream itself to leave whatever runs; not an `Exception`, so functions do not catch it."""


class JobInterrupted(Interruption):
    """Raised in the thread that runs a job's functions, because the job is cancelled."""


def is_interruption(error: BaseException) -> bool:
    """Return whether what left a function is not its own error.

    >>> is_interruption(JobInterrupted()), is_interruption(SystemExit(1))
    (True, False)
    """
    if isinstance(error, KeyboardInterrupt):
        return _ctrl_c_raises_here()
    return isinstance(error, Interruption)


def _ctrl_c_raises_here() -> bool:
    """Return whether Ctrl-C raises `KeyboardInterrupt` in this thread; a slot's main thread has another handler."""
    if threading.current_thread() is not threading.main_thread():
        return False
    handler = signal.getsignal(signal.SIGINT)
    # PySpark's, which is there as long as a session is, raises it as well.
    return handler is signal.default_int_handler or getattr(handler, "__module__", "").startswith("pyspark.")

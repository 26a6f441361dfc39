"""Results to come (PyFlink's `pyflink.common.completable_future`)."""

from __future__ import annotations

from collections.abc import Callable
from threading import Lock
from typing import Generic, TypeVar

__all__ = ["CompletableFuture"]

T = TypeVar("T")


class CompletableFuture(Generic[T]):
    """A result that may still have to be waited for; any thread may ask.

    Args:
        wait: Waits for the result and returns it, or raises; called once, by whoever asks first.
        is_ready: Tells without waiting whether `wait` would return at once.

    Example:
        >>> from millstream.common import CompletableFuture
        >>> asked = CompletableFuture(lambda: 6 * 7)
        >>> asked.done(), asked.result(), asked.done()
        (True, 42, True)
    """

    def __init__(self, wait: Callable[[], T], is_ready: Callable[[], bool] = lambda: True) -> None:
        self._wait = wait
        self._is_ready = is_ready
        self._lock = Lock()
        self._outcome: tuple[T] | None = None
        self._error: BaseException | None = None

    @staticmethod
    def completed(value: T) -> CompletableFuture[T]:
        """Make a future whose result is there."""
        return CompletableFuture(lambda: value)

    def cancel(self) -> bool:
        """Return False: what is waited for cannot be called off here, see `JobClient.cancel`."""
        return False

    def cancelled(self) -> bool:
        """Return False: it cannot be cancelled."""
        return False

    def done(self) -> bool:
        """Return whether asking for the result returns at once."""
        return self._outcome is not None or self._error is not None or self._is_ready()

    def result(self) -> T:
        """Wait for the result.

        Raises:
            Exception: What became of it instead of a result.
        """
        with self._lock:
            if self._error is not None:
                raise self._error
            if self._outcome is None:
                try:
                    self._outcome = (self._wait(),)
                except Exception as error:
                    self._error = error
                    raise
            return self._outcome[0]

    def exception(self) -> BaseException | None:
        """Wait for the end and return the error, None if there was none."""
        try:
            self.result()
        except Exception as error:  # noqa: BLE001 - it is returned
            return error
        return None

    def __str__(self) -> str:
        return f"CompletableFuture({'done' if self.done() else 'pending'})"

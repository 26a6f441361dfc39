"""What is common to all calls of user code: naming the failing element, checking declared types."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from operator import length_hint
from typing import Any

from millstream.base.errors import TypeMismatchError, shorten
from millstream.operators.field_functions import getter_of
from millstream.types.typeinfo import TypeInformation

__all__ = [
    "apply_to_each",
    "attach_element",
    "attached_element",
    "check_results",
    "check_type",
    "fit",
    "stopped_early",
]

_ATTRIBUTE = "__millstream_element__"


def attach_element(error: BaseException, element: object) -> None:
    """Note on an error which element was being processed; the innermost operator's note stays."""
    if not hasattr(error, _ATTRIBUTE):
        setattr(error, _ATTRIBUTE, shorten(element))


def attached_element(error: BaseException) -> str | None:
    """Return the shortened element noted on an error, or None."""
    return getattr(error, _ATTRIBUTE, None)


def apply_to_each(
    function: Callable[..., Any],
    values: list[Any],
    *others: Iterable[Any],
    remaining: Iterator[Any] | None = None,
) -> list[Any]:
    """Return what a function gives for each value; the failing one is noted on an error.

    Args:
        function: Called with a value, and what the others have in its place.
        values: A batch.
        others: Further arguments, at least as many of each as there are values.
        remaining: The iterator over `values` that is to be used up, if the function looks at it.

    Raises:
        BaseException: What the function raised; RuntimeError for a StopIteration, which `map` takes for the end.
    """
    getter = getter_of(function, 1 + len(others))
    if getter is not None:
        try:
            return list(map(getter, values))
        except Exception:  # noqa: BLE001 - the function itself says what is wrong, in its own lines
            pass
    remaining = iter(values) if remaining is None else remaining
    try:
        results = list(map(function, remaining, *others))
        if len(results) != len(values):
            raise stopped_early()
    except BaseException as error:
        # An exhausted list iterator gives 0 whichever way it ended, so the index is right for the last value too.
        attach_element(error, values[len(values) - length_hint(remaining) - 1])
        raise
    return results


def stopped_early() -> RuntimeError:
    """Return the error of a function that raised StopIteration, which would end a loop over records unseen."""
    return RuntimeError("the function raised StopIteration, as next() does at the end of an iterator")


def check_results(what: str, results: object, element: object) -> None:
    """Check what a function returned as its results; called when taking them has failed.

    Raises:
        TypeMismatchError: If it is something that has no elements.
    """
    if results is None or isinstance(results, Iterable):
        return
    error = TypeMismatchError(
        f"{what} returned {shorten(results)} of type {type(results).__name__}, not its results",
        hint="Yield them, or return a list of them.",
    )
    attach_element(error, element)
    raise error


def check_type(values: list[Any], declared: TypeInformation | None) -> None:
    """Check a batch against the type declared for it.

    Raises:
        TypeMismatchError: At the first value that does not fit; names both.
    """
    if declared is None:
        return
    index = declared.find_mismatch(values)
    if index is not None:
        value = values[index]
        raise TypeMismatchError(
            f"value {shorten(value)} of type {type(value).__name__} does not fit the declared type "
            f"{declared.describe()}",
            hint="Return a value of the declared type, or declare the type that is returned (output_type).",
        )


def fit(values: list[Any], declared: TypeInformation | None) -> list[Any]:
    """Check a batch against its declared type, and return it as the type gives it back.

    Raises:
        TypeMismatchError: At the first value that does not fit.
    """
    if declared is None:
        return values
    check_type(values, declared)
    return declared.conform(values)

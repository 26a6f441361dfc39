"""Conditions: what an event has to be to belong to a part of a pattern."""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from typing import Any, Generic

from millstream.base.errors import TypeMismatchError, shorten
from millstream.base.type_variables import IN
from millstream.common.functions import RuntimeContext
from millstream.operators.patterns.parts import Condition

__all__ = [
    "AnyCondition",
    "IterativeCondition",
    "RichIterativeCondition",
    "SimpleCondition",
    "all_of",
    "any_of",
    "as_condition",
    "of_type",
]


class IterativeCondition(ABC, Generic[IN]):
    """A condition that may look at the events that the partial match has so far.

    It is asked for each partial match; it must depend on nothing but its arguments.

    Example:
        >>> from millstream.cep import CEP, IterativeCondition, Pattern
        >>> from millstream.testing import OperatorHarness
        >>> class Rising(IterativeCondition):
        ...     def filter(self, value, ctx):
        ...         return all(value > before for before in ctx.get_events_for_pattern("price"))
        >>> pattern = Pattern.begin("price").where(Rising()).times(3).consecutive()
        >>> harness = OperatorHarness(
        ...     lambda ns: CEP.pattern(ns.key_by(lambda n: 0), pattern).select(lambda match: match["price"])
        ... )
        >>> for time, price in enumerate((5, 3, 4, 6)):
        ...     harness.push(price, timestamp=time)
        >>> harness.push_watermark(4)
        >>> harness.take()
        [[3, 4, 6]]
    """

    class Context(ABC):
        """What a condition may ask about the partial match and time."""

        @abstractmethod
        def get_events_for_pattern(self, name: str) -> Iterable[Any]:
            """Return the events that the match has so far under the name of a part, in order; none is no error."""

        @abstractmethod
        def timestamp(self) -> int:
            """Return the time of the event: its timestamp, or processing time; epoch milliseconds."""

        @abstractmethod
        def current_processing_time(self) -> int:
            """Return processing time, epoch milliseconds."""

    @abstractmethod
    def filter(self, value: IN, ctx: IterativeCondition.Context) -> bool:
        """Return whether the event fits."""


class SimpleCondition(ABC, Generic[IN]):
    """A condition of the event alone; it is asked once for each event.

    Example:
        >>> from millstream.cep import SimpleCondition
        >>> class Large(SimpleCondition):
        ...     def filter(self, value):
        ...         return value["amount"] > 100
        >>> Large().filter({"amount": 200}), SimpleCondition.of(lambda n: n > 3).filter(2)
        (True, False)
    """

    @abstractmethod
    def filter(self, value: IN) -> bool:
        """Return whether the event fits."""

    @staticmethod
    def of(function: Callable[[IN], Any]) -> SimpleCondition[IN]:
        """Make a condition of a callable."""
        return _Simple(function)


class RichIterativeCondition(IterativeCondition[IN]):
    """An iterative condition with a life: opened in each subtask before the first event, closed at the end.

    Example:
        >>> from millstream.cep import CEP, Pattern, RichIterativeCondition
        >>> from millstream.testing import OperatorHarness
        >>> class Watched(RichIterativeCondition):
        ...     def open(self, runtime_context):
        ...         self.watched = {"eve"}  # such as a file or a connection
        ...     def filter(self, value, ctx):
        ...         return value in self.watched
        >>> seen = Pattern.begin("seen").where(Watched())
        >>> harness = OperatorHarness(
        ...     lambda names: CEP.pattern(names.key_by(lambda name: 0), seen).select(lambda m: m["seen"][0])
        ... )
        >>> harness.push("ann", timestamp=1); harness.push("eve", timestamp=2)
        >>> harness.push_watermark(2)
        >>> harness.take()
        ['eve']
    """

    _runtime_context: RuntimeContext | None = None

    def open(self, runtime_context: RuntimeContext) -> None:
        """Start; called once."""

    def close(self) -> None:
        """Stop; called once."""

    def set_runtime_context(self, runtime_context: RuntimeContext) -> None:
        """Be told where it runs; called before `open`."""
        self._runtime_context = runtime_context

    def get_runtime_context(self) -> RuntimeContext:
        """Return where it runs.

        Raises:
            TypeMismatchError: If it does not run yet.
        """
        if self._runtime_context is None:
            raise TypeMismatchError(
                f"{type(self).__name__} was asked for its runtime context before it was opened",
                hint="Ask in open(...) or later.",
            )
        return self._runtime_context


AnyCondition = IterativeCondition[Any] | SimpleCondition[Any] | Callable[..., Any]
"""What `where` and the like take: a callable takes the event, or the event and the context."""


class _Simple(SimpleCondition[IN]):
    def __init__(self, function: Callable[[IN], Any]) -> None:
        self._function = function

    def filter(self, value: IN) -> bool:
        return bool(self._function(value))


class _Opened:
    """Opens a rich condition as the operator does functions."""

    def __init__(self, condition: RichIterativeCondition[Any]) -> None:
        self._condition = condition

    def open(self, runtime_context: RuntimeContext) -> None:
        self._condition.set_runtime_context(runtime_context)
        self._condition.open(runtime_context)

    def close(self) -> None:
        self._condition.close()


def as_condition(method: str, condition: object) -> Condition:
    """Return what a program gave as a condition.

    Raises:
        TypeMismatchError: If it is no condition.
    """
    if isinstance(condition, RichIterativeCondition):
        return Condition(condition.filter, True, (_Opened(condition),))
    if isinstance(condition, IterativeCondition):
        return Condition(condition.filter, True)
    if isinstance(condition, _Simple):
        return Condition(condition._function)
    if isinstance(condition, SimpleCondition):
        return Condition(condition.filter)
    if isinstance(condition, type) and issubclass(condition, (IterativeCondition, SimpleCondition)):
        raise TypeMismatchError(
            f"{method} was given the class {condition.__name__}",
            hint=f"Give it an instance: {condition.__name__}().",
        )
    if callable(condition):
        return Condition(condition, _takes_context(condition))
    raise TypeMismatchError(
        f"{method} was given {shorten(condition)} of type {type(condition).__name__}, not a condition",
        detail="A condition is a SimpleCondition, an IterativeCondition, or a callable of the event, or of the event "
        "and a context.",
    )


def _takes_context(function: Callable[..., Any]) -> bool:
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):  # built in, and says nothing
        return False
    positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    required = [each for each in parameters if each.kind in positional and each.default is each.empty]
    return len(required) == 2


class _Both:
    """Both conditions are true; the second one is asked only if the first one is."""

    def __init__(self, first: Callable[[Any], Any], second: Callable[[Any], Any]) -> None:
        self._tests = first, second

    def __call__(self, value: Any) -> bool:
        first, second = self._tests
        return bool(first(value) and second(value))


class _Either:
    """One of the conditions is true; the second one is asked only if the first one is not."""

    def __init__(self, first: Callable[[Any], Any], second: Callable[[Any], Any]) -> None:
        self._tests = first, second

    def __call__(self, value: Any) -> bool:
        first, second = self._tests
        return bool(first(value) or second(value))


class _LookingBack:
    """As `_Both` and `_Either`, where a condition looks at the match."""

    def __init__(self, first: Condition, second: Condition, *, both: bool) -> None:
        self._conditions = first, second
        self._both = both

    def __call__(self, value: Any, context: Any) -> bool:
        first, second = self._conditions
        says = first.test(value, context) if first.looks_back else first.test(value)
        if bool(says) is not self._both:
            return bool(says)
        return bool(second.test(value, context) if second.looks_back else second.test(value))


class _InstanceOf:
    def __init__(self, kind: type | tuple[type, ...]) -> None:
        self._kind = kind

    def __call__(self, value: Any) -> bool:
        return isinstance(value, self._kind)


def of_type(kind: type) -> Condition:
    """Return the condition that an event is of a class.

    Raises:
        TypeMismatchError: If it is no class.
    """
    if not isinstance(kind, type):
        raise TypeMismatchError(f"subtype was given {shorten(kind)}, not a class")
    return Condition(_InstanceOf(kind))


def all_of(first: Condition, second: Condition) -> Condition:
    """Return the condition that both are true."""
    return _combine(first, second, both=True)


def any_of(first: Condition, second: Condition) -> Condition:
    """Return the condition that one of them is true."""
    return _combine(first, second, both=False)


def _combine(first: Condition, second: Condition, *, both: bool) -> Condition:
    opened = first.opened + second.opened
    if first.looks_back or second.looks_back:
        return Condition(_LookingBack(first, second, both=both), True, opened)
    return Condition((_Both if both else _Either)(first.test, second.test), False, opened)

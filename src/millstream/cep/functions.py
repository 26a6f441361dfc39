"""What programs do with matches (Java Flink's `org.apache.flink.cep.functions`)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from typing import Any, Generic

from millstream.base.type_variables import IN, OUT
from millstream.common.functions import Function
from millstream.common.output_tag import OutputTag

__all__ = [
    "EventComparator",
    "Match",
    "PatternFlatSelectFunction",
    "PatternFlatTimeoutFunction",
    "PatternProcessFunction",
    "PatternSelectFunction",
    "PatternTimeoutFunction",
    "SelectingFunction",
    "TimedOutSelectingFunction",
    "TimedOutPartialMatchHandler",
]

Match = dict[str, list[Any]]
"""Events by the name of their part, names in the order of their first events."""


class PatternProcessFunction(Function, Generic[IN, OUT]):
    """Makes results of matches.

    Example:
        >>> from millstream.cep import CEP, Pattern, PatternProcessFunction
        >>> from millstream.testing import OperatorHarness
        >>> class Alert(PatternProcessFunction):
        ...     def process_match(self, match, ctx):
        ...         yield ctx.timestamp(), [event["amount"] for event in match["large"]]
        >>> large = Pattern.begin("large").where(lambda event: event["amount"] > 100).times(2).consecutive()
        >>> harness = OperatorHarness(
        ...     lambda paid: CEP.pattern(paid.key_by(lambda event: event["card"]), large).process(Alert())
        ... )
        >>> harness.push({"card": 7, "amount": 200}, timestamp=1_000)
        >>> harness.push({"card": 7, "amount": 300}, timestamp=2_000)
        >>> harness.push_watermark(2_000)
        >>> harness.take()
        [(2000, [200, 300])]
    """

    class Context(ABC):
        """What a match comes with."""

        @abstractmethod
        def timestamp(self) -> int:
            """Return the match's time: of the event that completes it, or when time did; epoch milliseconds."""

        @abstractmethod
        def get_current_key(self) -> Any:
            """Return the key of the match's events."""

    @abstractmethod
    def process_match(
        self, match: dict[str, list[IN]], ctx: PatternProcessFunction.Context
    ) -> Iterable[OUT | tuple[OutputTag, Any]] | None:
        """Yield results, or `(OutputTag, result)` for a side output.

        Args:
            match: Events by the name of their part; the function's own.
            ctx: Time and key.
        """


class TimedOutPartialMatchHandler(ABC, Generic[IN]):
    """A PatternProcessFunction that is one of these too is given partial matches whose time is up.

    Example:
        >>> from millstream.cep import CEP, Pattern, PatternProcessFunction, TimedOutPartialMatchHandler
        >>> from millstream.common import Time
        >>> from millstream.testing import OperatorHarness
        >>> class Paid(PatternProcessFunction, TimedOutPartialMatchHandler):
        ...     def process_match(self, match, ctx):
        ...         yield "paid"
        ...     def process_timed_out_match(self, match, ctx):
        ...         yield "not paid"
        >>> paid = Pattern.begin("order").where(lambda text: text == "order")
        >>> paid = paid.next("payment").where(lambda text: text == "payment").within(Time.seconds(60))
        >>> harness = OperatorHarness(
        ...     lambda events: CEP.pattern(events.key_by(lambda event: 0), paid).process(Paid())
        ... )
        >>> harness.push("order", timestamp=0)
        >>> harness.push_watermark(60_000)
        >>> harness.take()
        ['not paid']
    """

    @abstractmethod
    def process_timed_out_match(
        self, match: dict[str, list[IN]], ctx: PatternProcessFunction.Context
    ) -> Iterable[Any] | None:
        """Yield results as `process_match` does; the context's time is when the time was up.

        Args:
            match: Events so far, by the name of their part; the function's own.
            ctx: Time and key.
        """


class PatternSelectFunction(Function, Generic[IN, OUT]):
    """Makes one result of each match.

    Example:
        >>> from millstream.cep import CEP, Pattern, PatternSelectFunction
        >>> from millstream.testing import OperatorHarness
        >>> class Jump(PatternSelectFunction):
        ...     def select(self, pattern):
        ...         return pattern["high"][0] - pattern["low"][0]
        >>> jump = Pattern.begin("low").where(lambda n: n < 10).next("high").where(lambda n: n > 90)
        >>> harness = OperatorHarness(lambda ns: CEP.pattern(ns.key_by(lambda n: 0), jump).select(Jump()))
        >>> harness.push(5, timestamp=1); harness.push(95, timestamp=2)
        >>> harness.push_watermark(2)
        >>> harness.take()
        [90]
    """

    @abstractmethod
    def select(self, pattern: dict[str, list[IN]]) -> OUT:
        """Return the result."""


class PatternFlatSelectFunction(Function, Generic[IN, OUT]):
    """Makes any number of results of each match.

    Example:
        >>> from millstream.cep import CEP, Pattern, PatternFlatSelectFunction
        >>> from millstream.testing import OperatorHarness
        >>> class Each(PatternFlatSelectFunction):
        ...     def flat_select(self, pattern):
        ...         yield from pattern["large"]
        >>> large = Pattern.begin("large").where(lambda n: n > 100).times(2).consecutive()
        >>> harness = OperatorHarness(
        ...     lambda ns: CEP.pattern(ns.key_by(lambda n: 0), large).flat_select(Each())
        ... )
        >>> harness.push(200, timestamp=1); harness.push(300, timestamp=2)
        >>> harness.push_watermark(2)
        >>> harness.take()
        [200, 300]
    """

    @abstractmethod
    def flat_select(self, pattern: dict[str, list[IN]]) -> Iterable[OUT] | None:
        """Yield the results."""


class PatternTimeoutFunction(Function, Generic[IN, OUT]):
    """Makes one result of each partial match whose time is up.

    Example:
        >>> from millstream.cep import CEP, Pattern, PatternTimeoutFunction
        >>> from millstream.common import Time
        >>> from millstream.datastream import OutputTag
        >>> from millstream.testing import OperatorHarness
        >>> class Unpaid(PatternTimeoutFunction):
        ...     def timeout(self, pattern, timeout_timestamp):
        ...         return "not paid by", timeout_timestamp
        >>> late = OutputTag("late")
        >>> paid = Pattern.begin("order").where(lambda text: text == "order")
        >>> paid = paid.next("payment").where(lambda text: text == "payment").within(Time.seconds(60))
        >>> harness = OperatorHarness(
        ...     lambda events: CEP.pattern(events.key_by(lambda event: 0), paid).select(
        ...         late, Unpaid(), lambda match: match["payment"][0]
        ...     )
        ... )
        >>> harness.push("order", timestamp=0)
        >>> harness.push_watermark(60_000)
        >>> harness.take_side(late)
        [('not paid by', 60000)]
    """

    @abstractmethod
    def timeout(self, pattern: dict[str, list[IN]], timeout_timestamp: int) -> OUT:
        """Return the result."""


class PatternFlatTimeoutFunction(Function, Generic[IN, OUT]):
    """Makes any number of results of each partial match whose time is up.

    Example:
        >>> from millstream.cep import CEP, Pattern, PatternFlatTimeoutFunction
        >>> from millstream.common import Time
        >>> from millstream.datastream import OutputTag
        >>> from millstream.testing import OperatorHarness
        >>> class Unpaid(PatternFlatTimeoutFunction):
        ...     def timeout(self, pattern, timeout_timestamp):
        ...         yield f"{pattern['order'][0]} by {timeout_timestamp}"
        >>> late = OutputTag("late")
        >>> paid = Pattern.begin("order").where(lambda text: text == "order")
        >>> paid = paid.next("payment").where(lambda text: text == "payment").within(Time.seconds(60))
        >>> harness = OperatorHarness(
        ...     lambda events: CEP.pattern(events.key_by(lambda event: 0), paid).flat_select(
        ...         late, Unpaid(), lambda match: [match["payment"][0]]
        ...     )
        ... )
        >>> harness.push("order", timestamp=0)
        >>> harness.push_watermark(60_000)
        >>> harness.take_side(late)
        ['order by 60000']
    """

    @abstractmethod
    def timeout(self, pattern: dict[str, list[IN]], timeout_timestamp: int) -> Iterable[OUT] | None:
        """Yield the results."""


class EventComparator(ABC, Generic[IN]):
    """Orders events of the same time.

    Example:
        >>> from millstream.cep import EventComparator
        >>> class ByNumber(EventComparator):
        ...     def compare(self, first, second):
        ...         return first["number"] - second["number"]
        >>> ByNumber().compare({"number": 7}, {"number": 3}) > 0  # the first comes behind the second
        True
    """

    @abstractmethod
    def compare(self, first: IN, second: IN) -> int:
        """Return a number below 0 if the first event comes first, above 0 if the second one does, else 0."""


class SelectingFunction(PatternProcessFunction[Any, Any]):
    """A selecting function as one that processes.

    Args:
        function: What the program gave; opened and closed.
        select: Gives the results of a match.
        flat: Whether these are several.
    """

    def __init__(self, function: Any, select: Callable[..., Any], *, flat: bool) -> None:
        self._functions = [function]
        self._select = select
        self._flat = flat

    def open(self, runtime_context: Any) -> None:
        """Open the program's functions."""
        for function in self._functions:
            if isinstance(function, Function):
                function.open(runtime_context)

    def close(self) -> None:
        """Close the program's functions."""
        for function in self._functions:
            if isinstance(function, Function):
                function.close()

    def process_match(self, match: Match, ctx: Any) -> Iterable[Any] | None:
        """Return the results of a match."""
        selected = self._select(match)
        if self._flat:
            return selected  # type: ignore[no-any-return]
        return (selected,)


class TimedOutSelectingFunction(SelectingFunction, TimedOutPartialMatchHandler[Any]):
    """The same, with what the program does with partial matches whose time is up.

    Args:
        function: Selects of matches.
        select: Gives the results of a match.
        timed_out: Selects of partial matches.
        timeout: Gives the results of one.
        tag: Where those go.
        flat: Whether results are several.
    """

    def __init__(
        self,
        function: Any,
        select: Callable[..., Any],
        timed_out: Any,
        timeout: Callable[..., Any],
        tag: OutputTag,
        *,
        flat: bool,
    ) -> None:
        super().__init__(function, select, flat=flat)
        self._functions = [timed_out, function]
        self._timeout = timeout
        self._tag = tag

    def process_timed_out_match(self, match: Match, ctx: PatternProcessFunction.Context) -> Iterable[Any]:
        """Yield the results of a partial match, each for the side output."""
        selected = self._timeout(match, ctx.timestamp())
        if not self._flat:
            selected = (selected,)
        for each in () if selected is None else selected:
            yield self._tag, each

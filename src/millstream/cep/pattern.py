"""Building patterns (Flink's `Pattern`)."""

from __future__ import annotations

from datetime import timedelta
from enum import Enum
from typing import Any, Generic, Self

from millstream.base.errors import TypeMismatchError, shorten
from millstream.base.time import Duration, Time, to_milliseconds
from millstream.base.type_variables import T
from millstream.cep.conditions import AnyCondition, all_of, any_of, as_condition, of_type
from millstream.cep.errors import MalformedPatternError
from millstream.cep.skip_strategy import AfterMatchSkipStrategy
from millstream.operators.patterns.parts import Condition, Contiguity

__all__ = ["GroupPattern", "Length", "Pattern", "WithinType"]

Length = Duration | Time | timedelta | int


class WithinType(Enum):
    """Between which events the time of `within` is.

    Example:
        >>> from millstream.cep import Pattern, WithinType
        >>> from millstream.common import Time
        >>> steps = Pattern.begin("step").times(3).within(Time.seconds(10), WithinType.PREVIOUS_AND_CURRENT)
        >>> [within.name for within in WithinType]
        ['FIRST_AND_LAST', 'PREVIOUS_AND_CURRENT']
    """

    FIRST_AND_LAST = 0
    PREVIOUS_AND_CURRENT = 1


class Pattern(Generic[T]):
    """A part of a pattern, with the parts before it; `Pattern.begin` makes the first one.

    `next` and the like append a part and return it; all other methods say something about the part, and return it too.

    Example:
        >>> from millstream.cep import Pattern
        >>> from millstream.common import Time
        >>> pattern = (
        ...     Pattern.begin("login").where(lambda event: event["type"] == "login")
        ...     .followed_by("tries").where(lambda event: event["type"] == "wrong pin").times(3)
        ...     .not_followed_by("logout").where(lambda event: event["type"] == "logout")
        ...     .within(Time.minutes(5))
        ... )
        >>> pattern.get_name(), pattern.get_previous().get_name()
        ('logout', 'tries')
    """

    def __init__(
        self,
        name: str,
        previous: Pattern[Any] | None,
        contiguity: Contiguity,
        *,
        skip: AfterMatchSkipStrategy | None = None,
        group: Pattern[Any] | None = None,
        forbidden: bool = False,
        at_once: bool = False,
    ) -> None:
        self._name = name
        self._previous = previous
        self._contiguity = contiguity
        self._skip: AfterMatchSkipStrategy | None = skip if previous is None else previous._skip
        self._group = group
        self._forbidden = forbidden
        self._at_once = at_once
        self._condition: Condition | None = None
        self._until: Condition | None = None
        self._times: tuple[int, int | None] | None = None
        self._times_gap_ms: int | None = None
        self._optional = False
        self._greedy = False
        self._inner = Contiguity.RELAXED
        self._within_ms: int | None = None
        self._gap_ms: int | None = None

    def __repr__(self) -> str:
        names = [part._label() for part in self._chain()]
        return f"Pattern({' '.join(names)})"

    def _label(self) -> str:
        return (
            self._name
            if self._group is None
            else f"({' '.join(each._label() for each in self._group._chain())})"
        )

    def _chain(self) -> list[Pattern[Any]]:
        """Return the parts from the first one to this one."""
        parts: list[Pattern[Any]] = []
        part: Pattern[Any] | None = self
        while part is not None:
            parts.append(part)
            part = part._previous
        return parts[::-1]

    # Parts

    @staticmethod
    def begin(
        name: str | Pattern[Any], after_match_skip_strategy: AfterMatchSkipStrategy | None = None
    ) -> Pattern[Any]:
        """Begin a pattern.

        Args:
            name: The name of its first part; or a pattern, which becomes a group.
            after_match_skip_strategy: Which other matches a match rules out; None for none.

        Raises:
            TypeMismatchError: If an argument is something else.
            MalformedPatternError: If the name is empty.
        """
        if after_match_skip_strategy is not None and not isinstance(
            after_match_skip_strategy, AfterMatchSkipStrategy
        ):
            raise TypeMismatchError(
                f"begin was given {shorten(after_match_skip_strategy)}, not an AfterMatchSkipStrategy"
            )
        return _new_part("begin", name, None, Contiguity.STRICT, after_match_skip_strategy)

    def next(self, name: str | Pattern[Any]) -> Pattern[Any]:
        """Append a part, or a group, whose event comes right behind the last one."""
        return _new_part("next", name, self, Contiguity.STRICT)

    def followed_by(self, name: str | Pattern[Any]) -> Pattern[Any]:
        """Append a part, or a group, whose event is the next one that fits; others may lie between."""
        return _new_part("followed_by", name, self, Contiguity.RELAXED)

    def followed_by_any(self, name: str | Pattern[Any]) -> Pattern[Any]:
        """Append a part, or a group, whose event is any later one that fits: one match for each."""
        return _new_part("followed_by_any", name, self, Contiguity.ANY)

    def not_next(self, name: str) -> Pattern[Any]:
        """Append what must not come right behind the last event.

        Raises:
            MalformedPatternError: If the part before is optional.
        """
        return self._not("not_next", name, at_once=True)

    def not_followed_by(self, name: str) -> Pattern[Any]:
        """Append what must not come until the next part's event does; at the end, until the time of `within` is up.

        Raises:
            MalformedPatternError: If the part before is optional.
        """
        return self._not("not_followed_by", name, at_once=False)

    def _not(self, method: str, name: str, *, at_once: bool) -> Pattern[Any]:
        _check_name(method, name)
        if self._ends_optional():
            raise MalformedPatternError(
                f'{method}("{name}") comes behind the optional part "{self._label()}"',
                detail="Whether the part is there decides between which events it must not be.",
                hint="Make two patterns of it: one with the part, one without.",
            )
        return Pattern(name, self, Contiguity.RELAXED, forbidden=True, at_once=at_once)

    def _ends_optional(self) -> bool:
        return self._optional or (self._group is not None and self._group._ends_optional())

    # Conditions

    def where(self, condition: AnyCondition) -> Self:
        """Require that events of the part fit a condition, beside those that it has.

        Args:
            condition: A SimpleCondition, an IterativeCondition, or a callable of the event, or of the event and a
                context.

        Raises:
            TypeMismatchError: If it is no condition.
        """
        return self._with("where", as_condition("where", condition), all_of)

    def or_(self, condition: AnyCondition) -> Self:
        """Let events fit that a condition is true for, beside those that fit already; takes what `where` takes."""
        return self._with("or_", as_condition("or_", condition), any_of)

    def subtype(self, subtype_class: type) -> Self:
        """Require that events of the part are of a class.

        Raises:
            TypeMismatchError: If it is no class.
        """
        return self._with("subtype", of_type(subtype_class), all_of)

    def _with(self, method: str, condition: Condition, combine: Any) -> Self:
        if self._group is not None:
            raise MalformedPatternError(
                f"{method} was called on the group {self._label()}",
                hint="Give conditions to the parts of the group.",
            )
        self._condition = condition if self._condition is None else combine(self._condition, condition)
        return self

    def until(self, until_condition: AnyCondition) -> Self:
        """End a part that loops: no event from the one that fits on belongs to it.

        Raises:
            TypeMismatchError: If it is no condition.
            MalformedPatternError: If the part does not loop, or has such a condition.
        """
        if self._until is not None:
            raise MalformedPatternError(f'part "{self._label()}" has an until condition already')
        if self._times is None or self._times[1] is not None:
            raise MalformedPatternError(
                f'until was called on part "{self._label()}", which does not loop',
                hint="Call one_or_more() or times_or_more(n) first.",
            )
        self._until = as_condition("until", until_condition)
        return self

    # Quantities

    def optional(self) -> Self:
        """Let the part be left out.

        Raises:
            MalformedPatternError: If it is optional already, must not be there, or comes behind a greedy part.
        """
        self._check_wanted("optional()")
        if self._optional:
            raise MalformedPatternError(f'part "{self._label()}" is optional already')
        if self._previous is not None and self._previous._greedy:
            raise MalformedPatternError(
                f'the optional part "{self._label()}" comes behind the greedy part "{self._previous._label()}"',
                detail="Which events the greedy part leaves to others depends on the part behind it.",
                hint="Make two patterns of it: one with the part, one without.",
            )
        self._optional = True
        return self

    def one_or_more(self, window_time: Length | None = None) -> Self:
        """Let the part have any number of events, at least one.

        Args:
            window_time: Two of them are less than this apart.

        Raises:
            MalformedPatternError: If the part has a quantity, or must not be there.
        """
        return self._quantify("one_or_more", 1, None, window_time)

    def times_or_more(self, times: int, window_time: Length | None = None) -> Self:
        """Let the part have so many events or more.

        Args:
            times: At least so many, from 1.
            window_time: Two of them are less than this apart.

        Raises:
            MalformedPatternError: If the part has a quantity, or must not be there, or the number is not positive.
        """
        return self._quantify("times_or_more", times, None, window_time)

    def times(
        self, from_times: int, to_times: int | Length | None = None, window_time: Length | None = None
    ) -> Self:
        """Let the part have so many events, or a number of them in a range.

        Args:
            from_times: How many; 0 with a second number makes the part optional.
            to_times: At most so many; None for exactly the first number. A length of time is the next argument.
            window_time: Two of them are less than this apart.

        Raises:
            MalformedPatternError: If the part has a quantity, or must not be there, or no number fits.
        """
        if to_times is not None and not isinstance(to_times, int):
            to_times, window_time = None, to_times
        most = from_times if to_times is None else to_times
        if from_times == 0 and to_times is not None:
            self._quantify("times", 1, most, window_time)
            return self.optional()
        return self._quantify("times", from_times, most, window_time)

    def _quantify(self, method: str, least: int, most: int | None, window_time: Length | None) -> Self:
        self._check_wanted(f"{method}(...)")
        if self._times is not None:
            raise MalformedPatternError(
                f'{method}(...) was called on part "{self._label()}", which has a quantity',
                hint="Call one of times, one_or_more and times_or_more.",
            )
        for number in (least, most):
            if number is not None and (not isinstance(number, int) or isinstance(number, bool)):
                raise TypeMismatchError(f"{method} was given {shorten(number)}, not a whole number")
        if least < 1 or (most is not None and most < least):
            seen = f"{least}" if most in (least, None) else f"{least} to {most}"
            raise MalformedPatternError(
                f'{method}(...) of part "{self._label()}" asks for {seen} events',
                detail="At least one event is asked for, and the second number is not below the first.",
                hint="optional() lets a part be left out.",
            )
        self._times = (least, most)
        self._times_gap_ms = None if window_time is None else _check_length(method, window_time)
        return self

    def greedy(self) -> Self:
        """Give the part all events that fit it, before the next part has any.

        Raises:
            MalformedPatternError: If it is a group, has one event, allows combinations, or must not be there.
        """
        self._check_wanted("greedy()")
        if self._group is not None:
            raise MalformedPatternError(
                f"greedy() was called on the group {self._label()}",
                detail="A greedy part has all events that fit its condition, and a group has none of its own.",
                hint="Call greedy() on a part inside the group, for example its last one, which has several events.",
            )
        if self._times is None:
            raise MalformedPatternError(
                f'greedy() was called on part "{self._label()}", which has one event',
                hint="Call times, one_or_more or times_or_more first.",
            )
        if self._inner is Contiguity.ANY:
            raise self._both_greedy_and_free()
        self._greedy = True
        return self

    def consecutive(self) -> Self:
        """Let nothing lie between the events of a part that has several.

        Raises:
            MalformedPatternError: If it has one event only, or allows combinations.
        """
        return self._between("consecutive()", Contiguity.STRICT)

    def allow_combinations(self) -> Self:
        """Let events that fit be left out between those of a part that has several: one match for each combination.

        Raises:
            MalformedPatternError: If it has one event only, or has them consecutive.
        """
        return self._between("allow_combinations()", Contiguity.ANY)

    def _between(self, method: str, inner: Contiguity) -> Self:
        if self._times is None:
            raise MalformedPatternError(
                f'{method} was called on part "{self._label()}", which has one event',
                hint="Call times, one_or_more or times_or_more first.",
            )
        if self._inner is not Contiguity.RELAXED:
            raise MalformedPatternError(
                f'{method} was called on part "{self._label()}", which has been told what lies between its events',
                hint="Call one of consecutive and allow_combinations, once.",
            )
        if self._greedy and inner is Contiguity.ANY:
            raise self._both_greedy_and_free()
        self._inner = inner
        return self

    def _both_greedy_and_free(self) -> MalformedPatternError:
        return MalformedPatternError(
            f'part "{self._label()}" is to be greedy and to allow combinations',
            detail="A greedy part has all events that fit it; of combinations some have fewer.",
            hint="Call one of greedy and allow_combinations.",
        )

    def _check_wanted(self, method: str) -> None:
        if self._forbidden:
            raise MalformedPatternError(
                f'{method} was called on part "{self._name}", which must not be there'
            )

    # Time

    def within(self, window_time: Length, within_type: WithinType = WithinType.FIRST_AND_LAST) -> Self:
        """Bound the time that a match takes.

        Args:
            window_time: Less than this passes; a number is milliseconds.
            within_type: Between the first and the last event of the whole match (of several such bounds the least
                counts), or between the event before and that of this part.

        Raises:
            TypeMismatchError: If it is no length of time.
            MalformedPatternError: If it is not positive.
        """
        if not isinstance(within_type, WithinType):
            raise TypeMismatchError(f"within was given {shorten(within_type)}, not a WithinType")
        length_ms = _check_length("within", window_time)
        if within_type is WithinType.FIRST_AND_LAST:
            self._within_ms = length_ms
        else:
            self._gap_ms = length_ms
        return self

    # What Flink's has to ask

    def get_name(self) -> str:
        """Return the part's name; empty for a group."""
        return self._name

    def get_previous(self) -> Pattern[Any] | None:
        """Return the part before; None for the first one."""
        return self._previous

    def get_after_match_skip_strategy(self) -> AfterMatchSkipStrategy:
        """Return which other matches a match rules out."""
        return self._skip or AfterMatchSkipStrategy.no_skip()


class GroupPattern(Pattern[T]):
    """A group of parts.

    Example:
        >>> from millstream.cep import CEP, Pattern
        >>> from millstream.testing import OperatorHarness
        >>> up_down = Pattern.begin("up").where(lambda n: n > 0).next("down").where(lambda n: n < 0)
        >>> twice = Pattern.begin(up_down).times(2).consecutive()
        >>> harness = OperatorHarness(
        ...     lambda steps: CEP.pattern(steps.key_by(lambda n: 0), twice).select(lambda match: match["up"])
        ... )
        >>> for time, step in enumerate((3, -1, 4, -1)):
        ...     harness.push(step, timestamp=time)
        >>> harness.push_watermark(4)
        >>> harness.take()
        [[3, 4]]
    """


def _new_part(
    method: str,
    name: str | Pattern[Any],
    previous: Pattern[Any] | None,
    contiguity: Contiguity,
    skip: AfterMatchSkipStrategy | None = None,
) -> Pattern[Any]:
    if isinstance(name, Pattern):
        return GroupPattern("", previous, contiguity, skip=skip, group=name)
    _check_name(method, name)
    return Pattern(name, previous, contiguity, skip=skip)


def _check_name(method: str, name: object) -> None:
    if not isinstance(name, str):
        raise TypeMismatchError(
            f"{method} was given {shorten(name)} of type {type(name).__name__}, not a name"
        )
    if not name:
        raise MalformedPatternError(
            f"{method} was given an empty name", hint="Matches have their events by name."
        )


def _check_length(method: str, length: object) -> int:
    if not isinstance(length, (Duration, Time, timedelta, int)) or isinstance(length, bool):
        raise TypeMismatchError(
            f"{method} was given {shorten(length)} of type {type(length).__name__}, not a length of time",
            hint="Give it a Duration, a Time, a timedelta, or milliseconds.",
        )
    length_ms = to_milliseconds(length)
    if length_ms <= 0:
        raise MalformedPatternError(
            f"{method} was given {length_ms} ms", detail="A length of time is positive."
        )
    return length_ms

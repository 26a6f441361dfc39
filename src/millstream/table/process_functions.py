"""Process table functions: tables in, a table out, with state by key, timers and changes (Flink's
`org.apache.flink.table.functions.ProcessTableFunction` in Python).

`eval` has, in this order: a `ProcessTableFunction.Context` if wanted, state entries, tables and values. Annotations say
which is which::

    class Greeting(ProcessTableFunction[str]):
        def eval(
            self,
            ctx: ProcessTableFunction.Context,
            count: Annotated[Row, StateHint(type="ROW<n BIGINT>")],
            input: Annotated[Row, ArgumentHint(ArgumentTrait.SET_SEMANTIC_TABLE)],
            word: str,
        ): ...

What PyFlink 2.3 does not have in Python is spelled here as PyFlink spells Java's names.
"""

from __future__ import annotations

import abc
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, Generic, TypeAlias, TypeVar

from millstream.table.changelog_mode import ChangelogMode
from millstream.table.udf import UserDefinedFunction
from millstream.types.datatypes import DataType

__all__ = [
    "ArgumentHint",
    "ArgumentTrait",
    "ChangelogFunction",
    "ProcessTableFunction",
    "SortDirection",
    "StateHint",
    "TableSemantics",
]

T = TypeVar("T")


class ArgumentTrait(Enum):
    """What an argument of `eval` is, and what it needs.

    Attributes:
        SCALAR: A value; the default.
        ROW_SEMANTIC_TABLE: A table whose rows have nothing to do with each other.
        SET_SEMANTIC_TABLE: A table whose rows belong together by PARTITION BY; state and timers are by its key.
        OPTIONAL_PARTITION_BY: PARTITION BY may be left out: all rows are one set, on one subtask.
        PASS_COLUMNS_THROUGH: All columns of the table come before what the function gives, not only its key.
        SUPPORT_UPDATES: The table may have updates and deletes; `Row.get_row_kind()` tells.
        REQUIRE_UPDATE_BEFORE: Updates come as -U and +U, not as +U by key.
        REQUIRE_FULL_DELETE: Rows of -D have all columns, not only the key.
        REQUIRE_ON_TIME: The call needs `on_time`.

    Example:
        >>> from millstream.table.process_functions import ArgumentTrait
        >>> ArgumentTrait.SET_SEMANTIC_TABLE.is_root, ArgumentTrait.SUPPORT_UPDATES.is_root
        (True, False)
    """

    SCALAR = "SCALAR"
    ROW_SEMANTIC_TABLE = "ROW_SEMANTIC_TABLE"
    SET_SEMANTIC_TABLE = "SET_SEMANTIC_TABLE"
    OPTIONAL_PARTITION_BY = "OPTIONAL_PARTITION_BY"
    PASS_COLUMNS_THROUGH = "PASS_COLUMNS_THROUGH"
    SUPPORT_UPDATES = "SUPPORT_UPDATES"
    REQUIRE_UPDATE_BEFORE = "REQUIRE_UPDATE_BEFORE"
    REQUIRE_FULL_DELETE = "REQUIRE_FULL_DELETE"
    REQUIRE_ON_TIME = "REQUIRE_ON_TIME"

    @property
    def is_root(self) -> bool:
        """Whether it says what an argument is; the others say more of a table."""
        return self in (self.SCALAR, self.ROW_SEMANTIC_TABLE, self.SET_SEMANTIC_TABLE)


@dataclass(frozen=True, init=False)
class ArgumentHint:
    """Says of an argument of `eval` what its annotation does not.

    Args:
        traits: What it is.
        name: Its name in calls; that of the parameter by default.
        type: Its type, or its text; of a table a ROW, any columns by default.
        is_optional: Whether a call may leave it out: it is None then, or the parameter's default.

    Example:
        >>> from typing import Annotated
        >>> from millstream.table import ArgumentHint, ArgumentTrait, ProcessTableFunction, Row
        >>> class Totals(ProcessTableFunction[int]):
        ...     def eval(
        ...         self,
        ...         orders: Annotated[Row, ArgumentHint(ArgumentTrait.ROW_SEMANTIC_TABLE)],
        ...         factor: Annotated[int, ArgumentHint(type="INT")],
        ...     ):
        ...         yield orders["amount"] * factor
    """

    traits: tuple[ArgumentTrait, ...]
    name: str
    type: DataType | str | None
    is_optional: bool

    def __init__(
        self,
        *traits: ArgumentTrait,
        name: str = "",
        type: DataType | str | None = None,
        is_optional: bool = False,
    ) -> None:
        for each in traits:
            if not isinstance(each, ArgumentTrait):
                raise TypeError(f"a trait is an ArgumentTrait, not {each!r}")
        object.__setattr__(self, "traits", traits)
        object.__setattr__(self, "name", name)
        object.__setattr__(self, "type", type)
        object.__setattr__(self, "is_optional", is_optional)


@dataclass(frozen=True)
class StateHint:
    """Says that a parameter of `eval` is a state entry.

    Attributes:
        name: Its name for `clear_state`, and in checkpoints; that of the parameter by default.
        type: Of a `Row`: its ROW type, or its text.
        ttl: How long it is kept when it does not change (`"1 day"`, milliseconds as a number); None as
            `table.exec.state.ttl` says, "0" for ever.

    Example:
        >>> from typing import Annotated
        >>> from millstream.table import ArgumentHint, ArgumentTrait, ProcessTableFunction, Row, StateHint
        >>> class Counts(ProcessTableFunction[int]):
        ...     def eval(
        ...         self,
        ...         count: Annotated[Row, StateHint(type="ROW<n BIGINT>", ttl="1 day")],
        ...         orders: Annotated[Row, ArgumentHint(ArgumentTrait.SET_SEMANTIC_TABLE)],
        ...     ):
        ...         count["n"] = (count["n"] or 0) + 1
        ...         yield count["n"]
    """

    name: str = ""
    type: DataType | str | None = None
    ttl: str | int | None = None


class SortDirection(Enum):
    """How ORDER BY sorts by a column.

    Example:
        >>> from millstream.table.process_functions import SortDirection
        >>> SortDirection.DESC_NULLS_LAST.name  # of ORDER BY ts DESC, in TableSemantics.order_by_directions()
        'DESC_NULLS_LAST'
    """

    ASC_NULLS_FIRST = "ASC_NULLS_FIRST"
    ASC_NULLS_LAST = "ASC_NULLS_LAST"
    DESC_NULLS_FIRST = "DESC_NULLS_FIRST"
    DESC_NULLS_LAST = "DESC_NULLS_LAST"


@dataclass(frozen=True)
class TableSemantics:
    """What a function may know of a table that it was called with.

    Example:
        >>> from typing import Annotated
        >>> from millstream.table import ArgumentHint, ArgumentTrait, ProcessTableFunction, Row
        >>> class Keys(ProcessTableFunction[str]):
        ...     def eval(
        ...         self,
        ...         ctx: ProcessTableFunction.Context,
        ...         input: Annotated[Row, ArgumentHint(ArgumentTrait.SET_SEMANTIC_TABLE)],
        ...     ):
        ...         places = ctx.table_semantics_for("input").partition_by_columns()
        ...         yield ", ".join(str(input[place]) for place in places)
    """

    _data_type: DataType
    _partition_by: tuple[int, ...] = ()
    _order_by: tuple[int, ...] = ()
    _directions: tuple[SortDirection, ...] = ()
    _time_column: int = -1
    _changelog_mode: ChangelogMode | None = None

    def data_type(self) -> DataType:
        """Return the ROW type of its columns."""
        return self._data_type

    def partition_by_columns(self) -> list[int]:
        """Return the places of the PARTITION BY columns, from 0."""
        return list(self._partition_by)

    def order_by_columns(self) -> list[int]:
        """Return the places of the ORDER BY columns, from 0."""
        return list(self._order_by)

    def order_by_directions(self) -> list[SortDirection]:
        """Return how each ORDER BY column is sorted."""
        return list(self._directions)

    def time_column(self) -> int:
        """Return the place of the column that `on_time` names, -1 if it names none."""
        return self._time_column

    def changelog_mode(self) -> ChangelogMode | None:
        """Return which kinds of change its rows have; None while the call is planned."""
        return self._changelog_mode


class TimeContext(abc.ABC, Generic[T]):
    """Time and timers of the row or timer that is processed. Times are of the class given to `time_context`."""

    @abc.abstractmethod
    def time(self) -> T | None:
        """Return the row's time by `on_time`, or the timer's; None of a row of a table without such a column."""

    @abc.abstractmethod
    def table_watermark(self) -> T | None:
        """Return the watermark of the row's table; None before the first one, and for timers."""

    @abc.abstractmethod
    def current_watermark(self) -> T | None:
        """Return the watermark of all tables together; None before the first one."""

    @abc.abstractmethod
    def register_on_time(self, name_or_time: str | T, time: T | None = None) -> None:
        """Have `on_timer` called: `register_on_time(time)`, or `register_on_time(name, time)`.

        A timer of a name replaces that of the same name. One whose time has passed fires with the next watermark.

        Raises:
            StateAccessError: If the call has no `on_time`, passes columns through, or the function has no `on_timer`.
        """

    @abc.abstractmethod
    def clear_timer(self, name_or_time: str | T) -> None:
        """Remove the timer of a name, or the one without a name at a time; nothing happens if there is none."""

    @abc.abstractmethod
    def clear_all_timers(self) -> None:
        """Remove all timers of the key."""


class Context(abc.ABC):
    """What `eval` may ask; `ctx` of its first parameter. It is of the row that is processed, and not to be kept."""

    @abc.abstractmethod
    def time_context(self, time_type: type[T] = int) -> TimeContext[T]:  # type: ignore[assignment]
        """Return time and timers.

        Args:
            time_type: Which times it takes and gives: `int` (epoch milliseconds), `datetime.datetime` (without a
                zone, as a TIMESTAMP has it) or `Instant`.
        """

    @abc.abstractmethod
    def table_semantics_for(self, arg_name: str) -> TableSemantics:
        """Return what is known of a table argument.

        Raises:
            ConfigurationError: If there is none of that name.
        """

    @abc.abstractmethod
    def clear_state(self, state_name: str) -> None:
        """Empty a state entry of the key; what the call still does to it does not count.

        Raises:
            ConfigurationError: If there is none of that name.
        """

    @abc.abstractmethod
    def clear_all_state(self) -> None:
        """Empty all state entries of the key."""

    @abc.abstractmethod
    def clear_all_timers(self) -> None:
        """Remove all timers of the key."""

    @abc.abstractmethod
    def clear_all(self) -> None:
        """Empty all state entries and remove all timers of the key."""

    @abc.abstractmethod
    def get_changelog_mode(self) -> ChangelogMode:
        """Return which kinds of change the function's rows have at this place of the query."""


class OnTimerContext(Context):
    """What `on_timer` may ask; `ctx` of its first parameter."""

    @abc.abstractmethod
    def current_timer(self) -> str | None:
        """Return the name of the timer that fires; None if it has none."""


class ProcessTableFunction(UserDefinedFunction, Generic[T]):
    """Base of process table functions; one thread calls an instance.

    The type of a row is said by the class's parameter (`ProcessTableFunction[str]`), or by `get_result_type`. `eval`
    hands on rows by `collect`, or yields them; so does `on_timer`.

    Example:
        >>> from typing import Annotated
        >>> from millstream.table import ArgumentHint, ArgumentTrait, ProcessTableFunction, Row, StateHint
        >>> class Greeting(ProcessTableFunction[str]):
        ...     def eval(
        ...         self,
        ...         visits: Annotated[Row, StateHint(type="ROW<n BIGINT>")],
        ...         input: Annotated[Row, ArgumentHint(ArgumentTrait.SET_SEMANTIC_TABLE)],
        ...     ):
        ...         visits["n"] = (visits["n"] or 0) + 1
        ...         self.collect(f"Hello {input['name']}, visit {visits['n']}")
        >>> greeting = Greeting()  # names.partition_by(col("name")).process(greeting)
        >>> greeting.set_collector(print)  # for a test: a job does this itself, and keeps the state
        >>> visits = Row(n=None)
        >>> greeting.eval(visits, Row(name="Bob"))
        Hello Bob, visit 1
        >>> greeting.eval(visits, Row(name="Bob"))
        Hello Bob, visit 2
    """

    Context: TypeAlias = Context
    OnTimerContext: TypeAlias = OnTimerContext
    TimeContext: TypeAlias = TimeContext

    eval: Any
    """Called for each row; not overloaded. See the module."""

    __collected: Any = None

    def collect(self, record: T) -> None:
        """Hand on a row: a tuple or `Row` of all fields, or the bare value of the only one.

        Raises:
            RuntimeError: If it is called outside of `eval` and `on_timer`.
        """
        if self.__collected is None:
            raise RuntimeError("collect() was called outside of eval() and on_timer()")
        self.__collected(record)

    def set_collector(self, collect: Any) -> None:
        """Be told where rows go; called by who runs the function, before the first row."""
        self.__collected = collect

    def get_result_type(self) -> DataType | str | None:
        """Return the type of a row, a ROW or that of its only field; None: as the class's parameter says."""
        return None


class ChangelogContext(abc.ABC):
    """What `get_changelog_mode` may ask while a query is planned."""

    @abc.abstractmethod
    def get_table_changelog_mode(self, pos: int) -> ChangelogMode | None:
        """Return which kinds of change a table has; None if the argument at this place is no table."""

    @abc.abstractmethod
    def get_required_changelog_mode(self) -> ChangelogMode:
        """Return which kinds of change whoever reads the function's rows needs: with -U or without."""

    @abc.abstractmethod
    def get_argument_value(self, pos: int) -> Any:
        """Return the value of a scalar argument; None if it is no literal."""

    @abc.abstractmethod
    def get_table_semantics(self, pos: int) -> TableSemantics | None:
        """Return what is known of a table argument; None if the argument at this place is no table."""


class ChangelogFunction(abc.ABC):
    """Mixed into a `ProcessTableFunction` whose rows are not only inserts: they say their kind, `Row.set_row_kind`.

    Of upserts the key is that of PARTITION BY. Such functions take tables of set semantics, and no `on_time`.

    Example:
        >>> from millstream.common import RowKind
        >>> from millstream.table.process_functions import ChangelogFunction
        >>> from typing import Annotated
        >>> from millstream.table import ArgumentHint, ArgumentTrait, ChangelogMode, ProcessTableFunction, Row
        >>> class Latest(ProcessTableFunction[int], ChangelogFunction):
        ...     def get_changelog_mode(self, changelog_context):
        ...         return ChangelogMode.upsert()
        ...     def eval(self, input: Annotated[Row, ArgumentHint(ArgumentTrait.SET_SEMANTIC_TABLE)]):
        ...         row = Row(input["value"])
        ...         row.set_row_kind(RowKind.UPDATE_AFTER)
        ...         yield row
    """

    ChangelogContext: TypeAlias = ChangelogContext

    @abc.abstractmethod
    def get_changelog_mode(self, changelog_context: ChangelogContext) -> ChangelogMode:
        """Return which kinds of change the rows have; called several times while a query is planned."""


def kinds_of_traits(traits: Sequence[ArgumentTrait]) -> tuple[ArgumentTrait, frozenset[ArgumentTrait]]:
    """Return what an argument is, and what more is said of it.

    Raises:
        ValueError: If they do not fit together.
    """
    roots = [each for each in traits if each.is_root]
    rest = frozenset(traits) - set(roots)
    if len(set(roots)) > 1:
        raise ValueError(f"has the traits {' and '.join(each.value for each in roots)}")
    root = roots[0] if roots else ArgumentTrait.SCALAR
    if root is ArgumentTrait.SCALAR and rest:
        raise ValueError(f"has {sorted(each.value for each in rest)[0]} and is no table")
    keyed = {ArgumentTrait.OPTIONAL_PARTITION_BY}
    if root is ArgumentTrait.ROW_SEMANTIC_TABLE and rest & keyed:
        raise ValueError("has OPTIONAL_PARTITION_BY, which belongs to SET_SEMANTIC_TABLE")
    updates = {ArgumentTrait.REQUIRE_UPDATE_BEFORE, ArgumentTrait.REQUIRE_FULL_DELETE}
    if rest & updates and ArgumentTrait.SUPPORT_UPDATES not in rest:
        raise ValueError(f"has {sorted(each.value for each in rest & updates)[0]} without SUPPORT_UPDATES")
    return root, rest

"""Users' functions of the Table API and SQL (PyFlink's `pyflink.table.udf`)."""

from __future__ import annotations

import abc
import functools
import inspect
from collections.abc import Callable, Iterable
from typing import Any, ClassVar, Generic, TypeVar

from millstream.metrics.metricbase import MetricGroup
from millstream.table.functions.hints import declared_type, needs_type, result_hint, row_hint
from millstream.table.functions.user import FunctionKind, UserFunction
from millstream.types.datatypes import DataType, MapType, RowField, RowType

__all__ = [
    "AggregateFunction",
    "AsyncScalarFunction",
    "FunctionContext",
    "ImperativeAggregateFunction",
    "ScalarFunction",
    "TableAggregateFunction",
    "TableFunction",
    "UserDefinedAggregateFunctionWrapper",
    "UserDefinedAsyncScalarFunctionWrapper",
    "UserDefinedFunction",
    "UserDefinedFunctionWrapper",
    "UserDefinedScalarFunctionWrapper",
    "UserDefinedTableFunctionWrapper",
    "udaf",
    "udf",
    "udtaf",
    "udtf",
]

T = TypeVar("T")
ACC = TypeVar("ACC")
_Types = DataType | str | Iterable[DataType | str] | None


class FunctionContext:
    """What a function may ask when it is opened.

    Example:
        >>> from millstream.table.udf import FunctionContext, ScalarFunction
        >>> class Prefixed(ScalarFunction):
        ...     def open(self, function_context):
        ...         self.prefix = function_context.get_job_parameter("prefix", "no.")
        ...     def eval(self, number):
        ...         return f"{self.prefix} {number}"
        >>> function = Prefixed()
        >>> function.open(FunctionContext(None, {"prefix": "order"}))  # the job does this, before the first row
        >>> function.eval(7)
        'order 7'
    """

    def __init__(
        self,
        base_metric_group: Any,
        job_parameters: Any,
        task_name: Any = None,
        task_name_with_subtasks: Any = None,
        number_of_parallel_subtasks: Any = None,
        max_number_of_parallel_subtasks: Any = None,
        index_of_this_subtask: Any = None,
        attempt_number: Any = None,
    ) -> None:
        self._metrics = base_metric_group
        self._parameters = job_parameters or {}
        self._task_name = task_name
        self._task_name_with_subtasks = task_name_with_subtasks
        self._parallelism = number_of_parallel_subtasks
        self._max_parallelism = max_number_of_parallel_subtasks
        self._subtask = index_of_this_subtask
        self._attempt = attempt_number

    def get_metric_group(self) -> MetricGroup:
        """Return the group that the function makes its metrics in."""
        if self._metrics is None:
            raise RuntimeError("metrics are off: set python.metric.enabled to true")
        group: MetricGroup = self._metrics
        return group

    def get_job_parameter(self, key: str, default_value: str) -> str:
        """Return a global job parameter."""
        value: str = self._parameters.get(key, default_value)
        return value

    def get_task_name(self) -> str:
        """Return the operator's name."""
        return str(self._task_name)

    def get_task_name_with_subtasks(self) -> str:
        """Return the operator's name with `(index+1/parallelism)`."""
        return str(self._task_name_with_subtasks)

    def get_number_of_parallel_subtasks(self) -> int:
        """Return the operator's parallelism."""
        return int(self._parallelism)

    def get_max_number_of_parallel_subtasks(self) -> int:
        """Return the number of key groups."""
        return int(self._max_parallelism)

    def get_index_of_this_subtask(self) -> int:
        """Return the subtask's index, from 0."""
        return int(self._subtask)

    def get_attempt_number(self) -> int:
        """Return the attempt's number, from 0."""
        return int(self._attempt)


class UserDefinedFunction(abc.ABC):
    """Base of all users' functions; one thread calls an instance.

    Example:
        >>> import random
        >>> from millstream.table.udf import ScalarFunction
        >>> class Dice(ScalarFunction):
        ...     def open(self, function_context):
        ...         self.random = random.Random()
        ...     def eval(self):
        ...         return self.random.randint(1, 6)
        ...     def is_deterministic(self):
        ...         return False
    """

    def open(self, function_context: FunctionContext) -> None:
        """Called once before the first row."""

    def close(self) -> None:
        """Called once after the last row."""

    def is_deterministic(self) -> bool:
        """Return whether equal arguments always give equal results."""
        return True


class ScalarFunction(UserDefinedFunction):
    """A value for each row.

    Example:
        >>> from millstream.table.udf import ScalarFunction, udf
        >>> class Shout(ScalarFunction):
        ...     def eval(self, text):
        ...         return text.upper() + "!"
        >>> Shout().eval("hi")
        'HI!'
        >>> shout = udf(Shout(), result_type="STRING")
        >>> # t_env.create_temporary_function("shout", shout); t_env.execute_sql("SELECT shout(name) FROM people")
    """

    @abc.abstractmethod
    def eval(self, *args: Any) -> Any:
        """Return the value for a row's arguments."""


class AsyncScalarFunction(UserDefinedFunction):
    """A value for each row, waited for together with those of other rows.

    Example:
        >>> import asyncio
        >>> from millstream.table.udf import AsyncScalarFunction, udf
        >>> class Price(AsyncScalarFunction):
        ...     async def eval(self, product):
        ...         await asyncio.sleep(0)  # ask a service
        ...         return {"tea": 3}.get(product)
        >>> price = udf(Price(), result_type="INT")  # t_env.create_temporary_function("price", price)
    """

    @abc.abstractmethod
    async def eval(self, *args: Any) -> Any:
        """Return the value for a row's arguments."""


class TableFunction(UserDefinedFunction):
    """Any number of rows for each row.

    Example:
        >>> from millstream.table.udf import TableFunction, udtf
        >>> class Words(TableFunction):
        ...     def eval(self, text):
        ...         for word in text.split():
        ...             yield word, len(word)
        >>> list(Words().eval("to do"))
        [('to', 2), ('do', 2)]
        >>> words = udtf(Words(), result_types=["STRING", "INT"])
        >>> # SELECT word, size FROM texts, LATERAL TABLE(words(text)) AS w(word, size)
    """

    @abc.abstractmethod
    def eval(self, *args: Any) -> Any:
        """Return or yield the rows for a row's arguments: tuples, Rows, or bare values of one column."""


_M = TypeVar("_M", bound=Callable[..., Any])


def _missing(method: _M) -> _M:
    method.__millstream_missing__ = True  # type: ignore[attr-defined]
    return method


class ImperativeAggregateFunction(UserDefinedFunction, Generic[T, ACC]):
    """Base of functions that aggregate rows.

    Example:
        >>> from millstream.table.udf import AggregateFunction
        >>> class Total(AggregateFunction):
        ...     def create_accumulator(self):
        ...         return [0]
        ...     def accumulate(self, accumulator, number):
        ...         accumulator[0] += number
        ...     def retract(self, accumulator, number):  # for input with updates
        ...         accumulator[0] -= number
        ...     def merge(self, accumulator, accumulators):  # for session windows
        ...         for other in accumulators:
        ...             accumulator[0] += other[0]
        ...     def get_value(self, accumulator):
        ...         return accumulator[0]
    """

    @abc.abstractmethod
    def create_accumulator(self) -> ACC:
        """Return the accumulator of a group without rows."""

    @abc.abstractmethod
    def accumulate(self, accumulator: ACC, *args: Any) -> Any:
        """Add a row's arguments to an accumulator, in place."""

    @_missing
    def retract(self, accumulator: ACC, *args: Any) -> Any:
        """Take back a row's arguments that were added before; needed if the input has updates."""
        raise RuntimeError("Method retract is not implemented")

    @_missing
    def merge(self, accumulator: ACC, accumulators: Any) -> Any:
        """Add other accumulators to one; needed for session windows."""
        raise RuntimeError("Method merge is not implemented")

    def get_result_type(self) -> DataType | str:
        """Return the type of the result, unless the decorator says it."""
        raise RuntimeError("Method get_result_type is not implemented")

    def get_accumulator_type(self) -> DataType | str:
        """Return the type of the accumulator, unless the decorator says it."""
        raise RuntimeError("Method get_accumulator_type is not implemented")


class AggregateFunction(ImperativeAggregateFunction[T, ACC]):
    """A value of many rows.

    Example:
        >>> from millstream.table.udf import AggregateFunction, udaf
        >>> class Longest(AggregateFunction):
        ...     def create_accumulator(self):
        ...         return [""]
        ...     def accumulate(self, accumulator, text):
        ...         accumulator[0] = max(accumulator[0], text, key=len)
        ...     def get_value(self, accumulator):
        ...         return accumulator[0]
        >>> function = Longest()
        >>> accumulator = function.create_accumulator()
        >>> for word in ("a", "bcd", "ef"):
        ...     function.accumulate(accumulator, word)
        >>> function.get_value(accumulator)
        'bcd'
        >>> longest = udaf(Longest(), result_type="STRING", accumulator_type="ARRAY<STRING>")
        >>> # t_env.create_temporary_function("longest", longest); SELECT longest(word) FROM words
    """

    @abc.abstractmethod
    def get_value(self, accumulator: ACC) -> T:
        """Return the result for an accumulator."""


class TableAggregateFunction(ImperativeAggregateFunction[T, ACC]):
    """Any number of rows of many rows.

    Example:
        >>> from millstream.table.udf import TableAggregateFunction, udtaf
        >>> class TopTwo(TableAggregateFunction):
        ...     def create_accumulator(self):
        ...         return []
        ...     def accumulate(self, accumulator, number):
        ...         accumulator[:] = sorted([*accumulator, number], reverse=True)[:2]
        ...     def emit_value(self, accumulator):
        ...         yield from accumulator
        >>> function = TopTwo()
        >>> accumulator = function.create_accumulator()
        >>> for number in (1, 3, 2):
        ...     function.accumulate(accumulator, number)
        >>> list(function.emit_value(accumulator))
        [3, 2]
        >>> top = udtaf(TopTwo(), result_type="BIGINT", accumulator_type="ARRAY<BIGINT>").alias("n")
        >>> # numbers.group_by(col("k")).flat_aggregate(top(col("v"))).select(col("k"), col("n"))
    """

    @abc.abstractmethod
    def emit_value(self, accumulator: ACC) -> Iterable[T]:
        """Yield the result rows for an accumulator."""


class UserDefinedFunctionWrapper:
    """A function as `udf` and the others give it: callable on expressions, registrable under a name.

    Example:
        >>> from millstream.table.expressions import col
        >>> from millstream.table.udf import udf
        >>> @udf
        ... def twice(number: int) -> int:
        ...     return 2 * number
        >>> twice.result_type()
        BIGINT
        >>> twice(col("n"))  # an expression, for table.select
        twice(n)
    """

    kind: ClassVar[FunctionKind] = FunctionKind.SCALAR

    def __init__(
        self, func: Any, input_types: _Types, func_type: str, deterministic: Any = None, name: Any = None
    ) -> None:
        if inspect.isclass(func) or not (isinstance(func, UserDefinedFunction) or callable(func)):
            raise TypeError(f"a function is a callable or an object of a function's class, not {func!r}")
        self._func = func
        self._input_types = _type_list(input_types)
        self._func_type = func_type
        self._name: str = name or getattr(func, "__name__", type(func).__name__)
        said = func.is_deterministic() if isinstance(func, UserDefinedFunction) else None
        if deterministic is not None and said is not None and deterministic != said:
            raise ValueError(f"deterministic is {deterministic}, but is_deterministic() gives {said}")
        self._deterministic: bool = next((each for each in (deterministic, said) if each is not None), True)
        self._takes_row_as_input = False
        self._alias_names: tuple[str, ...] = ()
        self._declared: UserFunction | None = None

    def __call__(self, *args: Any) -> Any:
        """Return the expression of a call: of columns, expressions or values."""
        from millstream.table.expressions import call  # the DSL builds on functions, not they on it

        return call(self, *args)

    def alias(self, *alias_names: str) -> UserDefinedFunctionWrapper:
        """Name the columns of a function that gives rows; returns itself."""
        self._alias_names, self._declared = alias_names, None
        return self

    def _set_takes_row_as_input(self) -> UserDefinedFunctionWrapper:
        self._takes_row_as_input, self._declared = True, None
        return self

    def result_type(self) -> DataType:
        """Return the type of the result.

        Raises:
            ConfigurationError: If neither the declaration nor annotations say it.
        """
        raise NotImplementedError

    def accumulator_type(self) -> DataType | None:
        """Return the type of the accumulator; None if it was not said."""
        return None

    def declared(self, row_names: tuple[str, ...] = ()) -> UserFunction:
        """Return the function as plans hold it.

        Args:
            row_names: Names of the arguments, if it takes them as one row.
        """
        if self._declared is not None and not row_names:
            return self._declared
        inputs = None
        if self._input_types is not None:
            inputs = tuple(kind for each in self._input_types if (kind := declared_type(each)) is not None)
        made = UserFunction(
            self._name,
            self.kind,
            self._func,
            self._named(self.result_type()),
            inputs,
            self.accumulator_type(),
            self._func_type,
            self._deterministic,
            self._takes_row_as_input,
            row_names,
        )
        if not row_names:
            self._declared = made  # the same for each call, so that equal calls are seen to be equal
        return made

    def _named(self, kind: DataType) -> DataType:
        if not self._alias_names or not isinstance(kind, RowType) or len(kind) != len(self._alias_names):
            return kind
        pairs = zip(self._alias_names, kind.field_types(), strict=True)
        return RowType([RowField(name, each) for name, each in pairs], kind.nullable)


def _type_list(said: _Types) -> list[DataType | str] | None:
    if said is None:
        return None
    if isinstance(said, RowType):
        return list(said.field_types())
    listed = [said] if isinstance(said, DataType | str) else list(said)
    for each in listed:
        if not isinstance(each, DataType | str):
            raise TypeError(f"a type is a DataType or a str, not {each!r}")
    return listed


def _check_type(said: Any, what: str) -> None:
    if said is not None and not isinstance(said, DataType | str):
        raise TypeError(f"{what} is a DataType or a str, not {said!r}")


class UserDefinedScalarFunctionWrapper(UserDefinedFunctionWrapper):
    """What `udf` gives.

    Example:
        >>> from millstream.table.udf import udf
        >>> udf(lambda cents: cents / 100, result_type="DOUBLE").result_type()
        DOUBLE
    """

    def __init__(
        self, func: Any, input_types: Any, result_type: Any, func_type: Any, deterministic: Any, name: Any
    ) -> None:
        super().__init__(func, input_types, func_type, deterministic, name)
        _check_type(result_type, "result_type")
        self._result_type = result_type

    def result_type(self) -> DataType:
        """Return the declared type, or the annotation's."""
        found = declared_type(self._result_type) or result_hint(self._func)
        if found is None:
            raise needs_type(f'function "{self._name}"')
        return found


class UserDefinedAsyncScalarFunctionWrapper(UserDefinedScalarFunctionWrapper):
    """What `udf` gives of an `AsyncScalarFunction` or an `async def`.

    Example:
        >>> from millstream.table.udf import udf
        >>> @udf
        ... async def price(product: str) -> int:
        ...     return {"tea": 3}[product]  # or what a service answers
        >>> type(price).__name__
        'UserDefinedAsyncScalarFunctionWrapper'
    """

    kind = FunctionKind.ASYNC_SCALAR


class UserDefinedTableFunctionWrapper(UserDefinedFunctionWrapper):
    """What `udtf` gives.

    Example:
        >>> from millstream.table.udf import udtf
        >>> @udtf(result_types=["STRING", "INT"])
        ... def words(text):
        ...     for word in text.split():
        ...         yield word, len(word)
        >>> words.alias("word", "size").result_type().names
        ['f0', 'f1']
    """

    kind = FunctionKind.TABLE

    def __init__(
        self, func: Any, input_types: Any, result_types: Any, deterministic: Any = None, name: Any = None
    ) -> None:
        super().__init__(func, input_types, "general", deterministic, name)
        if not isinstance(result_types, RowType | str):
            _type_list(result_types)
        self._result_types = result_types

    def result_type(self) -> DataType:
        """Return a ROW of the columns; they are named f0, f1, ... unless declared otherwise."""
        said = self._result_types
        if said is None:
            said = row_hint(self._func)
            if said is None:
                raise needs_type(f'table function "{self._name}"')
        if isinstance(said, str):
            said = declared_type(said)
        if isinstance(said, RowType):
            return said
        kinds = [kind for each in _type_list(said) or () if (kind := declared_type(each)) is not None]
        return RowType([RowField(f"f{place}", each) for place, each in enumerate(kinds)])


class UserDefinedAggregateFunctionWrapper(UserDefinedFunctionWrapper):
    """What `udaf` and `udtaf` give.

    Example:
        >>> from millstream.table.udf import udaf
        >>> @udaf(result_type="DOUBLE", func_type="pandas")
        ... def average(numbers):
        ...     return numbers.mean()
        >>> average.result_type()
        DOUBLE
    """

    def __init__(
        self,
        func: Any,
        input_types: Any,
        result_type: Any,
        accumulator_type: Any,
        func_type: Any,
        deterministic: Any,
        name: Any,
        is_table_aggregate: bool = False,
    ) -> None:
        super().__init__(func, input_types, func_type, deterministic, name)
        if func_type == "general" and not isinstance(func, ImperativeAggregateFunction):
            raise TypeError(f"a row-wise aggregate is an object of AggregateFunction, not {func!r}")
        _check_type(result_type, "result_type")
        _check_type(accumulator_type, "accumulator_type")
        if func_type == "pandas" and isinstance(result_type, MapType):
            raise TypeError(f"a pandas aggregate has no result of type {result_type}")
        self._result_type = result_type
        self._accumulator_type = accumulator_type
        self._is_table_aggregate = is_table_aggregate
        self.kind = FunctionKind.TABLE_AGGREGATE if is_table_aggregate else FunctionKind.AGGREGATE  # type: ignore[misc]

    def result_type(self) -> DataType:
        """Return the declared type, or that of `get_result_type`, or the annotation's."""
        said = self._result_type
        if said is None and isinstance(self._func, ImperativeAggregateFunction):
            said = _said(self._func, "get_result_type")
        function = self._func.get_value if isinstance(self._func, AggregateFunction) else self._func
        found = declared_type(said) or result_hint(function)
        if found is None:
            raise needs_type(f'aggregate function "{self._name}"')
        return found

    def _named(self, kind: DataType) -> DataType:
        if self._is_table_aggregate and len(self._alias_names) == 1 and not isinstance(kind, RowType):
            kind = RowType([RowField(self._alias_names[0], kind)])
        return super()._named(kind)

    def accumulator_type(self) -> DataType | None:
        """Return the declared type, or that of `get_accumulator_type`; None if neither is there."""
        said = self._accumulator_type
        if said is None and isinstance(self._func, ImperativeAggregateFunction):
            said = _said(self._func, "get_accumulator_type")
        return declared_type(said)


def _said(function: ImperativeAggregateFunction[Any, Any], name: str) -> Any:
    if getattr(type(function), name) is getattr(ImperativeAggregateFunction, name):
        return None
    return getattr(function, name)()


def _check_func_type(func_type: str, allowed: tuple[str, ...]) -> None:
    if func_type not in allowed:
        raise ValueError(f"The func_type must be one of '{', '.join(allowed)}', got {func_type}.")


def _make_udf(
    f: Any, input_types: Any, result_type: Any, func_type: str, deterministic: Any, name: Any
) -> UserDefinedScalarFunctionWrapper:
    called = getattr(f, "__call__", f)  # noqa: B004 - an object may have an async __call__
    if isinstance(f, AsyncScalarFunction) or any(map(inspect.iscoroutinefunction, (f, called))):
        if func_type != "general":
            raise ValueError("an async function takes rows: func_type is 'general'")
        return UserDefinedAsyncScalarFunctionWrapper(
            f, input_types, result_type, func_type, deterministic, name
        )
    return UserDefinedScalarFunctionWrapper(f, input_types, result_type, func_type, deterministic, name)


def udf(
    f: Any = None,
    input_types: _Types = None,
    result_type: DataType | str | None = None,
    deterministic: bool | None = None,
    name: str | None = None,
    func_type: str = "general",
    udf_type: str | None = None,
) -> Any:
    """Make a scalar function of a callable or a `ScalarFunction`; also a decorator.

    Args:
        f: The function; None makes a decorator.
        input_types: Arguments are cast to them; None leaves them as they come.
        result_type: None takes the return annotation.
        deterministic: None asks the function.
        name: None takes the function's.
        func_type: `general`: called for each row; `pandas`: with a Series for each argument; `arrow`: with arrays.
        udf_type: The old name of `func_type`.
    """
    func_type = udf_type or func_type
    _check_func_type(func_type, ("general", "pandas", "arrow"))
    if f is None:
        return functools.partial(
            _make_udf,
            input_types=input_types,
            result_type=result_type,
            func_type=func_type,
            deterministic=deterministic,
            name=name,
        )
    return _make_udf(f, input_types, result_type, func_type, deterministic, name)


def udtf(
    f: Any = None,
    input_types: _Types = None,
    result_types: _Types = None,
    deterministic: bool | None = None,
    name: str | None = None,
) -> Any:
    """Make a table function of a callable or a `TableFunction`; also a decorator."""
    if f is None:
        return functools.partial(
            UserDefinedTableFunctionWrapper,
            input_types=input_types,
            result_types=result_types,
            deterministic=deterministic,
            name=name,
        )
    return UserDefinedTableFunctionWrapper(f, input_types, result_types, deterministic, name)


def udaf(
    f: Any = None,
    input_types: _Types = None,
    result_type: DataType | str | None = None,
    accumulator_type: DataType | str | None = None,
    deterministic: bool | None = None,
    name: str | None = None,
    func_type: str = "general",
) -> Any:
    """Make an aggregate function of an `AggregateFunction`, or of a callable of whole columns; also a decorator."""
    _check_func_type(func_type, ("general", "pandas", "arrow"))
    if f is None:
        return functools.partial(
            UserDefinedAggregateFunctionWrapper,
            input_types=input_types,
            result_type=result_type,
            accumulator_type=accumulator_type,
            func_type=func_type,
            deterministic=deterministic,
            name=name,
        )
    return UserDefinedAggregateFunctionWrapper(
        f, input_types, result_type, accumulator_type, func_type, deterministic, name
    )


def udtaf(
    f: Any = None,
    input_types: _Types = None,
    result_type: DataType | str | None = None,
    accumulator_type: DataType | str | None = None,
    deterministic: bool | None = None,
    name: str | None = None,
    func_type: str = "general",
) -> Any:
    """Make a table aggregate function of a `TableAggregateFunction`; also a decorator."""
    _check_func_type(func_type, ("general",))
    if f is None:
        return functools.partial(
            UserDefinedAggregateFunctionWrapper,
            input_types=input_types,
            result_type=result_type,
            accumulator_type=accumulator_type,
            func_type=func_type,
            deterministic=deterministic,
            name=name,
            is_table_aggregate=True,
        )
    return UserDefinedAggregateFunctionWrapper(
        f, input_types, result_type, accumulator_type, func_type, deterministic, name, True
    )

"""What a process table function's `eval` says: its state entries and arguments, with names, types and traits."""

from __future__ import annotations

import dataclasses
import inspect
import sys
import typing
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Any

from millstream.config.option_types import parse_duration_ms
from millstream.table.data_view import ListView, MapView
from millstream.table.errors import ValidationError
from millstream.table.functions.hints import declared_type, type_of_hint
from millstream.table.process_functions import (
    ArgumentHint,
    ArgumentTrait,
    ChangelogFunction,
    Context,
    OnTimerContext,
    ProcessTableFunction,
    StateHint,
    kinds_of_traits,
)
from millstream.types.datatypes import DataType, RowField, RowType
from millstream.types.row import Row

__all__ = [
    "IMPLICIT",
    "Argument",
    "ProcessSignature",
    "StateEntry",
    "StateForm",
    "row_type_of",
    "signature_of",
]

IMPLICIT = ("on_time", "uid")
"""Arguments that every function has behind its own."""

_CONTEXT_NAMES = ("ctx", "context")
_WHERE = "See docs/sql/process-table-functions.md."


class StateForm(Enum):
    """How a state entry is kept."""

    OBJECT = "object"
    ROW = "row"
    LIST = "list"
    MAP = "map"


@dataclass(frozen=True)
class StateEntry:
    """A state entry.

    Attributes:
        name: Its name.
        form: How it is kept.
        make: Of OBJECT what makes an empty one; of ROW the names of its fields.
        ttl_ms: How long it is kept, 0 for ever; None as the session says.
    """

    name: str
    form: StateForm
    make: Any = None
    ttl_ms: int | None = None


@dataclass(frozen=True)
class Argument:
    """An argument of a call.

    Attributes:
        name: Its name in calls.
        kind: SCALAR, ROW_SEMANTIC_TABLE or SET_SEMANTIC_TABLE.
        traits: What more is said of a table.
        type: Of a value; of a table a ROW, None for any columns.
        optional: Whether it may be left out.
        default: What `eval` gets then.
        model: The class whose instances `eval` gets for rows; None for `Row`.
    """

    name: str
    kind: ArgumentTrait
    traits: frozenset[ArgumentTrait] = frozenset()
    type: DataType | None = None
    optional: bool = False
    default: Any = None
    model: Any = None

    @property
    def is_table(self) -> bool:
        """Whether it is a table."""
        return self.kind is not ArgumentTrait.SCALAR

    @property
    def is_set(self) -> bool:
        """Whether it is a table of set semantics."""
        return self.kind is ArgumentTrait.SET_SEMANTIC_TABLE

    def has(self, trait: ArgumentTrait) -> bool:
        """Whether it has a trait."""
        return trait in self.traits

    @property
    def text(self) -> str:
        """What a call has to give, for messages."""
        if not self.is_table:
            return f"{self.name} => {self.type}"
        words = "TABLE" if not self.is_set else "TABLE ... PARTITION BY ..."
        return f"{self.name} => {words}"


@dataclass(frozen=True)
class ProcessSignature:
    """What a function's `eval` and `on_timer` take.

    Attributes:
        takes_context: Whether `eval` begins with a context.
        states: Its state entries, in order.
        arguments: Its arguments, in order.
        has_timers: Whether there is an `on_timer`.
        timer_context: Whether `on_timer` begins with a context.
        is_changelog: Whether it says which kinds its rows have.
    """

    takes_context: bool
    states: tuple[StateEntry, ...]
    arguments: tuple[Argument, ...]
    has_timers: bool = False
    timer_context: bool = False
    is_changelog: bool = False

    @property
    def tables(self) -> tuple[Argument, ...]:
        """The arguments that are tables."""
        return tuple(each for each in self.arguments if each.is_table)

    @property
    def text(self) -> str:
        """How it is called, for messages."""
        return ", ".join([*(each.text for each in self.arguments), "on_time => DESCRIPTOR", "uid => STRING"])


def signature_of(function: ProcessTableFunction[Any], name: str) -> ProcessSignature:
    """Return what a function's methods take.

    Raises:
        ValidationError: If its methods are not as they have to be; says which parameter, and how it should be.
    """
    method = getattr(function, "eval", None)
    if not callable(method):
        raise ValidationError(f'process table function "{name}" has no method eval', hint=_WHERE)
    hints = _annotations(method, name)
    takes_context = False
    states: list[StateEntry] = []
    arguments: list[Argument] = []
    for place, parameter in enumerate(_parameters(method, name, "eval")):
        annotation = hints.get(parameter.name, parameter.annotation)
        if not place and _is_context(parameter, annotation):
            takes_context = True
            continue
        what = f'parameter "{parameter.name}" of process table function "{name}"'
        base, hint = _hint_of(annotation, what)
        if isinstance(hint, StateHint):
            if arguments:
                raise ValidationError(
                    f"{what} is a state entry behind an argument",
                    detail="eval has a context first, then state entries, then arguments.",
                )
            states.append(_state(parameter, base, hint, what))
        else:
            arguments.append(_argument(parameter, base, hint, what))
    _check_names(states, arguments, name)
    timers, timer_context = _on_timer(function, name, len(states))
    made = ProcessSignature(
        takes_context,
        tuple(states),
        tuple(arguments),
        timers,
        timer_context,
        isinstance(function, ChangelogFunction),
    )
    _check(made, name)
    return made


def row_type_of(function: ProcessTableFunction[Any], name: str) -> RowType:
    """Return the columns that a function gives.

    Raises:
        ValidationError: If it does not say them.
    """
    said: Any = function.get_result_type()
    found = declared_type(said) if isinstance(said, (DataType, str)) else None
    if found is None:
        for base in _bases(type(function)):
            if typing.get_origin(base) is ProcessTableFunction:
                (parameter,) = typing.get_args(base)
                found = type_of_hint(parameter) or _type_of_class(parameter)
    if found is None:
        raise ValidationError(
            f'process table function "{name}" does not say the type of its rows',
            hint="Write class F(ProcessTableFunction[str]), or a method get_result_type that returns a DataType or its "
            'text: "ROW<a INT, b STRING>".',
        )
    if isinstance(found, RowType):
        return found
    return RowType([RowField("EXPR$0", found)])


def _bases(cls: type) -> typing.Iterator[Any]:
    for each in cls.__mro__:
        yield from getattr(each, "__orig_bases__", ())


def _type_of_class(cls: Any) -> DataType | None:
    """Return a dataclass as a ROW; None if it is none, or a field says no type."""
    if not (inspect.isclass(cls) and dataclasses.is_dataclass(cls)):
        return None
    try:
        hints = typing.get_type_hints(cls, include_extras=True)
    except NameError:
        return None
    kinds = [(each.name, type_of_hint(hints[each.name])) for each in dataclasses.fields(cls)]
    if any(kind is None for _, kind in kinds):
        return None
    return RowType([RowField(name, kind) for name, kind in kinds if kind is not None])


# --- parameters


def _parameters(method: Callable[..., Any], name: str, what: str) -> list[inspect.Parameter]:
    found = list(inspect.signature(method).parameters.values())
    for each in found:
        if each.kind not in (each.POSITIONAL_ONLY, each.POSITIONAL_OR_KEYWORD):
            raise ValidationError(
                f'{what} of process table function "{name}" has the parameter {each}',
                detail="It has a fixed number of parameters by position.",
            )
    return found


_understood: weakref.WeakKeyDictionary[type, dict[str, dict[str, Any]]] = weakref.WeakKeyDictionary()
"""Annotations by class and method. A class that went to a slot and back by value has lost what its texts name."""


def _annotations(method: Callable[..., Any], name: str) -> dict[str, Any]:
    """Return the annotations of a method."""
    known = _understood.setdefault(type(getattr(method, "__self__", None)), {})
    if method.__name__ not in known:
        known[method.__name__] = _understand(method, name)
    return known[method.__name__]


def _understand(method: Callable[..., Any], name: str) -> dict[str, Any]:
    """Return the annotations; names in texts are looked up where the class is, and where it was made."""
    raw = getattr(method, "__annotations__", {})
    if not any(isinstance(each, str) for each in raw.values()):
        return dict(raw)
    function = getattr(method, "__func__", method)
    module = sys.modules.get(getattr(function, "__module__", ""), None)
    around: dict[str, Any] = dict(vars(module)) if module is not None else {}
    around |= getattr(function, "__globals__", {})
    owner = getattr(method, "__self__", None)
    local: dict[str, Any] = {}
    for cls in reversed(type(owner).__mro__):
        local |= vars(cls)
    closure = inspect.getclosurevars(function)
    local |= dict(closure.nonlocals)
    found = {}
    for parameter, text in raw.items():
        if not isinstance(text, str):
            found[parameter] = text
            continue
        try:
            found[parameter] = eval(text, around, local)
        except NameError as error:
            raise ValidationError(
                f'the annotation {text} of parameter "{parameter}" of process table function "{name}" was not '
                f"understood: {error}",
                hint="Define what it names at the top of the module, or leave out from __future__ import annotations.",
            ) from error
    return found


def _is_context(parameter: inspect.Parameter, annotation: Any) -> bool:
    if annotation is inspect.Parameter.empty:
        return parameter.name in _CONTEXT_NAMES
    return inspect.isclass(annotation) and issubclass(annotation, Context)


def _hint_of(annotation: Any, what: str) -> tuple[Any, ArgumentHint | StateHint | None]:
    """Return the annotated class and the hint."""
    if isinstance(annotation, (ArgumentHint, StateHint)):
        return None, annotation
    if inspect.isclass(annotation) and issubclass(annotation, (ArgumentHint, StateHint)):
        return None, annotation()
    if isinstance(annotation, ArgumentTrait):
        return None, ArgumentHint(annotation)
    if annotation is inspect.Parameter.empty:
        raise ValidationError(
            f"{what} is not annotated",
            hint="Write Annotated[Row, ArgumentHint(ArgumentTrait.SET_SEMANTIC_TABLE)] for a table, "
            "Annotated[S, StateHint()] for a state entry, or the type of a value.",
        )
    if typing.get_origin(annotation) is not typing.Annotated:
        return annotation, None
    base, *marks = typing.get_args(annotation)
    marks = [each() if each in (StateHint, ArgumentHint) else each for each in marks]
    traits = tuple(each for each in marks if isinstance(each, ArgumentTrait))
    if traits:
        return base, ArgumentHint(*traits)
    for each in marks:
        if isinstance(each, (ArgumentHint, StateHint)):
            return base, each
    types = [each for each in marks if isinstance(each, DataType)]
    return base, ArgumentHint(type=types[0]) if types else None


def _state(parameter: inspect.Parameter, base: Any, hint: StateHint, what: str) -> StateEntry:
    name = hint.name or parameter.name
    ttl = None
    if hint.ttl is not None:
        try:
            ttl = parse_duration_ms(hint.ttl)
        except (ValueError, TypeError) as error:
            raise ValidationError(f"{what} has the time to live {hint.ttl!r}: {error}") from error
    origin = typing.get_origin(base) or base
    if origin in (ListView, MapView):
        return StateEntry(name, StateForm.LIST if origin is ListView else StateForm.MAP, None, ttl)
    if base is Row or base is None:
        kind = declared_type(hint.type)
        if not isinstance(kind, RowType):
            raise ValidationError(
                f"{what} is a state entry that is a Row without a type",
                hint='Write StateHint(type="ROW<n BIGINT, last STRING>"), or use a class with fields.',
            )
        return StateEntry(name, StateForm.ROW, tuple(kind.field_names()), ttl)
    if not inspect.isclass(base) or base in (int, str, float, bool, bytes, list, dict, tuple, set):
        raise ValidationError(
            f"{what} is a state entry of {base!r}",
            detail="A state entry is a class with fields that can be made without arguments, a Row with a type, a "
            "ListView or a MapView.",
        )
    try:
        base()
    except TypeError as error:
        raise ValidationError(
            f"{what} is a state entry of {base.__qualname__}, which cannot be made without arguments: {error}",
            hint="Give its fields defaults.",
        ) from error
    return StateEntry(name, StateForm.OBJECT, base, ttl)


def _argument(parameter: inspect.Parameter, base: Any, hint: ArgumentHint | None, what: str) -> Argument:
    hint = hint or ArgumentHint()
    try:
        kind, traits = kinds_of_traits(hint.traits)
    except ValueError as error:
        raise ValidationError(f"{what} {error}", hint=_WHERE) from error
    name = hint.name or parameter.name
    if name.lower() in IMPLICIT:
        raise ValidationError(f'{what} is called "{name}", as an argument that every function has')
    has_default = parameter.default is not inspect.Parameter.empty
    default = parameter.default if has_default else None
    said = declared_type(hint.type)
    if kind is ArgumentTrait.SCALAR:
        found = said or type_of_hint(base)
        if found is None:
            raise ValidationError(
                f"{what} says no type",
                hint='Annotate it: n: int, or Annotated[int, ArgumentHint(type="INT")].',
            )
        return Argument(name, kind, traits, found, hint.is_optional or has_default, default)
    if hint.is_optional or has_default:
        raise ValidationError(
            f"{what} is a table that may be left out", detail="Only values may be left out."
        )
    model = base if inspect.isclass(base) and base is not Row else None
    if model is not None:
        said = said or _type_of_class(model)
        if said is None:
            raise ValidationError(
                f"{what} is a table of {model.__qualname__}",
                detail="Rows come as Row, or as instances of a dataclass whose fields have types of SQL.",
            )
    if said is not None and not isinstance(said, RowType):
        raise ValidationError(f"{what} is a table of {said}, which is no ROW")
    return Argument(name, kind, traits, said, model=model)


def _check_names(states: list[StateEntry], arguments: list[Argument], name: str) -> None:
    for what, names in (
        ("state entries", [each.name for each in states]),
        ("arguments", [each.name for each in arguments]),
    ):
        twice = [each for each in names if names.count(each) > 1]
        if twice:
            raise ValidationError(f'process table function "{name}" has two {what} "{twice[0]}"')


def _on_timer(function: Any, name: str, states: int) -> tuple[bool, bool]:
    method = getattr(function, "on_timer", None)
    if method is None:
        return False, False
    parameters = _parameters(method, name, "on_timer")
    context = len(parameters) == states + 1
    if len(parameters) not in (states, states + 1):
        raise ValidationError(
            f'on_timer of process table function "{name}" has {len(parameters)} parameters',
            detail=f"It has an OnTimerContext if wanted, then the {states} state entries of eval.",
        )
    if context and parameters:
        annotation = _annotations(method, name).get(parameters[0].name)
        if inspect.isclass(annotation) and not issubclass(OnTimerContext, annotation):
            raise ValidationError(
                f'on_timer of process table function "{name}" begins with a {annotation.__qualname__}',
                detail="It begins with an OnTimerContext, or with the first state entry.",
            )
    return True, context


def _check(made: ProcessSignature, name: str) -> None:
    what = f'process table function "{name}"'
    tables = made.tables
    sets = [each for each in tables if each.is_set]
    if len(tables) > 1 and len(sets) < len(tables):
        raise ValidationError(
            f"{what} has {len(tables)} tables, not all of set semantics",
            detail="All of several tables have set semantics.",
        )
    if made.states and not sets:
        raise ValidationError(
            f"{what} has state entries and no table of set semantics",
            detail="State is by the key of PARTITION BY.",
        )
    if made.has_timers and not sets:
        raise ValidationError(
            f"{what} has on_timer and no table of set semantics",
            detail="Timers are by the key of PARTITION BY.",
        )
    if made.is_changelog and not sets:
        raise ValidationError(
            f"{what} is a ChangelogFunction and has no table of set semantics",
            detail="Its changes are by the key of PARTITION BY.",
        )
    passed = [each for each in tables if each.has(ArgumentTrait.PASS_COLUMNS_THROUGH)]
    if passed and len(tables) > 1:
        raise ValidationError(
            f"{what} has {len(tables)} tables and passes columns of one through",
            detail="PASS_COLUMNS_THROUGH is for functions of one table.",
        )
    if passed and made.is_changelog:
        raise ValidationError(f"{what} is a ChangelogFunction and passes columns through")

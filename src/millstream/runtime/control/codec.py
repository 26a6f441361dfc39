"""Commands and views as JSON, and back: the only place where they have names of their own.

A request is `{"view": "job"}` or `{"command": "stop", "directory": …, "drain": …}`; fields that are left out have
their defaults, and fields that are not known are left out, so that neighbouring versions understand each other.
"""

from __future__ import annotations

from dataclasses import fields
from typing import Any, TypeVar

import msgspec

from millstream.base.errors import JobRequestError
from millstream.runtime.control import views
from millstream.runtime.control.commands import (
    Cancel,
    Command,
    ListKeys,
    ListStates,
    QueryState,
    Rescale,
    Stop,
    TriggerCheckpoint,
    TriggerSavepoint,
)

__all__ = [
    "COMMANDS",
    "KEPT_VIEWS",
    "VIEWS",
    "decode",
    "encode",
    "read_command",
    "to_plain",
    "view_name",
    "write_command",
]

T = TypeVar("T")

VIEWS: dict[str, type[Any]] = {
    "job": views.JobView,
    "checkpoints": views.CheckpointsView,
    "exceptions": views.ExceptionsView,
    "watermarks": views.WatermarksView,
    "epochs": views.EpochsView,
    "metrics": views.MetricsView,
    "accumulators": views.AccumulatorsView,
    "config": views.ConfigView,
    "threads": views.ThreadsView,
}
"""All views that can be asked for, by name."""

KEPT_VIEWS = {name: kind for name, kind in VIEWS.items() if kind is not views.ThreadsView}
"""Those that are kept of a job that has ended."""

COMMANDS: dict[str, type[Command]] = {
    "cancel": Cancel,
    "stop": Stop,
    "savepoint": TriggerSavepoint,
    "checkpoint": TriggerCheckpoint,
    "query": QueryState,
    "states": ListStates,
    "keys": ListKeys,
    "rescale": Rescale,
}
"""All commands, by name."""

_VIEW_NAMES = {kind: name for name, kind in VIEWS.items()}
_COMMAND_NAMES = {kind: name for name, kind in COMMANDS.items()}


def encode(value: Any) -> bytes:
    """Return a view, an outcome or plain data as JSON."""
    return msgspec.json.encode(value)


def decode(raw: bytes, kind: type[T]) -> T:
    """Return what `encode` made of a value of that type.

    Raises:
        JobRequestError: If it is none.
    """
    try:
        return msgspec.json.decode(raw, type=kind)
    except (msgspec.ValidationError, msgspec.DecodeError) as error:
        raise JobRequestError(
            f"{kind.__name__} was expected, and something else came: {error}",
            hint="The job may run with another version of millstream.",
        ) from error


def to_plain(value: Any) -> Any:
    """Return a view as dicts, lists, strings and numbers."""
    return msgspec.to_builtins(value)


def view_name(kind: type[Any]) -> str:
    """Return a view's name.

    Raises:
        JobRequestError: If it is no view that can be asked for.
    """
    name = _VIEW_NAMES.get(kind)
    if name is None:
        raise JobRequestError(f"a job was asked for {kind.__name__}, which is no view of a job")
    return name


def write_command(command: Command) -> dict[str, Any]:
    """Return a command as a request.

    >>> write_command(Stop("/s"))
    {'command': 'stop', 'directory': '/s', 'drain': False}
    """
    plain = {each.name: getattr(command, each.name) for each in fields(command)}
    return {"command": _COMMAND_NAMES[type(command)], **plain}


def read_command(request: dict[str, Any]) -> Command:
    """Return the command of a request.

    Raises:
        JobRequestError: If it is not known, or its fields do not fit.
    """
    name = request.get("command")
    kind = COMMANDS.get(name) if isinstance(name, str) else None
    if kind is None:
        raise JobRequestError(f'a job was sent the command "{name}", which it does not know')
    try:
        return msgspec.convert({key: value for key, value in request.items() if key != "command"}, kind)
    except msgspec.ValidationError as error:
        raise JobRequestError(f'command "{name}" was sent with fields that do not fit: {error}') from error

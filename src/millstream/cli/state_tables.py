"""What `millstream state` prints: tables for people, JSON for programs."""

from __future__ import annotations

import dataclasses
import datetime
import enum
import json
import math
import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from millstream.base.errors import ConfigurationError, MillstreamError, shorten
from millstream.files.stores import FileStore, open_store
from millstream.runtime.checkpoint.manifest import Manifest, age_of_checkpoint, read_manifest
from millstream.state_processor.diff import StateChange
from millstream.state_processor.keys import KeyText
from millstream.state_processor.reader import SavepointReader, StateInfo, Timer
from millstream.types.row import Row

__all__ = ["show_differences", "show_listing", "show_operator"]

TIMERS = "timers"
_WIDTH = 200
_VALUE_CHARS = 2_000
_WORDS = ("split", "time")
"""Columns whose cells are names, not values."""


# Listing


def show_listing(reader: SavepointReader, path: str, *, as_json: bool) -> None:
    """Print the operators of a checkpoint, and the checkpoints beside it if the path is a job's directory."""
    manifest = reader.saved.manifest
    operators = [
        {
            "uid": each.uid,
            "name": each.name,
            "id": each.operator_id,
            "kind": each.kind,
            "parallelism": each.parallelism,
            "max_parallelism": each.max_parallelism,
            "size_bytes": each.size_bytes,
            "states": [dataclasses.asdict(state) for state in reader.states(each.operator_id)],
            "timers": sum(1 for _ in reader.timers(each.operator_id)),
        }
        for each in reader.operators()
    ]
    checkpoints = list(_checkpoints_beside(reader, path))
    if as_json:
        _print_json(
            {
                "path": reader.path,
                **_head(manifest),
                "size_bytes": manifest.size(),
                "files": len(manifest.files()),
                "operators": operators,
                "checkpoints": checkpoints,
            }
        )
        return
    console = _console()
    if checkpoints:
        table = _table("checkpoint", "made", "epoch", "size", "files")
        for each in checkpoints:
            if "damage" in each:
                _row(table, each["name"], each["damage"], "", "", "")
            else:
                made = _format_time(each["created_ms"])
                _row(
                    table, each["name"], made, each["epoch"], _format_size(each["size_bytes"]), each["files"]
                )
        console.print(table)
        console.print()
    deltas = sum(each.is_delta for each in manifest.state)
    console.print(Text(f"{manifest.kind} {reader.path}"))
    console.print(
        Text(
            f'number {manifest.checkpoint_id} of job "{manifest.job_name}" ({manifest.job_id}), epoch {manifest.epoch},'
            f" made {_format_time(manifest.created_ms)}, {_format_size(manifest.size())} in "
            f"{len(manifest.files())} files{f', {deltas} of them changes' if deltas else ''}"
        )
    )
    console.print()
    table = _table("uid", "name", "id", "parallelism", "state", "kind", "keys", "entries", "size")
    for operator in operators:
        for row in _operator_rows(operator):
            _row(table, *row)
    console.print(table)


def _operator_rows(operator: dict[str, Any]) -> Iterator[Sequence[Any]]:
    """Yield a row for each state; what is of the operator stands in the first."""
    states: list[Sequence[Any]] = [
        (state["name"], state["kind"], "-" if state["keys"] is None else state["keys"], state["entries"])
        for state in operator["states"]
    ]
    if operator["timers"]:
        states.append((TIMERS, "timers", "-", operator["timers"]))
    head = (
        operator["uid"] or "-",
        operator["name"],
        operator["id"],
        f"{operator['parallelism']} of {operator['max_parallelism']}",
    )
    size = _format_size(operator["size_bytes"]) if operator["size_bytes"] else "-"
    for place, state in enumerate(states or [("-", "", "", "")]):
        yield (*(head if place == 0 else ("",) * 4), *state, size if place == 0 else "")


def _checkpoints_beside(reader: SavepointReader, path: str) -> Iterator[dict[str, Any]]:
    """Yield the checkpoints of a job's directory, the newest first; nothing for other paths."""
    path = re.sub(r"(/_metadata)?/*$", "", path)
    store = open_store(path)
    if reader.saved.manifest.is_savepoint or store.location != reader.saved.store.location:
        return
    ages = {name: age for name in store.names("") if (age := age_of_checkpoint(name)) is not None}
    for name in sorted(ages, key=ages.__getitem__, reverse=True):
        yield _checkpoint(store, name)


def _checkpoint(store: FileStore, name: str) -> dict[str, Any]:
    try:
        manifest = read_manifest(store, name)
    except MillstreamError as error:
        return {"name": name, "damage": error.message}
    if manifest is None:
        return {"name": name, "damage": "it was never completed: there is no _metadata"}
    return {
        "name": name,
        **_head(manifest),
        "size_bytes": manifest.size(),
        "files": len(manifest.files()),
    }


def _head(manifest: Manifest) -> dict[str, Any]:
    return {
        "kind": manifest.kind,
        "checkpoint_id": manifest.checkpoint_id,
        "job_id": manifest.job_id,
        "job_name": manifest.job_name,
        "epoch": manifest.epoch,
        "created_ms": manifest.created_ms,
    }


# One operator


def show_operator(
    reader: SavepointReader, uid: str, state: str | None, *, key: KeyText | None, limit: int, as_json: bool
) -> None:
    """Print what an operator has, or one of its states.

    Raises:
        ConfigurationError: If there is no such operator or state.
    """
    operator = reader.operator(uid)
    infos = reader.states(uid)
    timers = list(reader.timers(uid))
    if state is not None and state != TIMERS and all(info.name != state for info in infos):
        known = ", ".join(
            [*(f'"{info.name}" ({info.kind})' for info in infos), *([TIMERS] if timers else [])]
        )
        raise ConfigurationError(
            f'operator "{operator.label}" has no state "{state}" in "{reader.path}"',
            detail=f"It has: {known or 'none'}.",
        )
    sections = [
        _state_section(reader, uid, info, key=key, limit=limit)
        for info in infos
        if state in (None, info.name)
    ]
    if timers and state in (None, TIMERS):
        sections.append(_timer_section(timers, key=key, limit=limit))
    if state is None and key is None:
        sections += _sections_without_keys(reader, uid, limit=limit)
    if as_json:
        _print_json(
            {
                "uid": operator.uid,
                "name": operator.name,
                "id": operator.operator_id,
                "states": [section.to_json() for section in sections],
            }
        )
        return
    console = _console()
    console.print(Text(f'operator "{operator.name}", uid {operator.uid or "-"}, id {operator.operator_id}'))
    for section in sections:
        section.print(console)
    if not sections:
        console.print("It has no state.")


@dataclasses.dataclass(slots=True)
class _Section:
    """A table: one state, or the like."""

    name: str
    kind: str
    columns: tuple[str, ...]
    rows: list[tuple[Any, ...]]
    more: int

    def print(self, console: Console) -> None:
        console.print()
        console.print(Text(f"{self.name} ({self.kind})"))
        table = _table(*self.columns)
        for row in self.rows:
            cells = zip(self.columns, row, strict=True)
            _row(table, *(cell if column in _WORDS else Text(_quoted(cell)) for column, cell in cells))
        console.print(table)
        if self.more:
            console.print(Text(f"... and {self.more} more; --limit shows them"))

    def to_json(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "kind": self.kind,
            "entries": [
                {column: _plain(cell) for column, cell in zip(self.columns, row, strict=True)}
                for row in self.rows
            ],
            "more": self.more,
        }


def _section(
    name: str, kind: str, columns: tuple[str, ...], rows: Iterable[tuple[Any, ...]], limit: int
) -> _Section:
    rows = iter(rows)
    shown = list(islice(rows, limit))
    return _Section(name, kind, columns, shown, sum(1 for _ in rows))


def _state_section(
    reader: SavepointReader, uid: str, info: StateInfo, *, key: KeyText | None, limit: int
) -> _Section:
    if info.keys is not None:
        entries = (
            entry for entry in reader.keyed_state(uid, info.name) if key is None or key.matches(entry[0])
        )
        return _section(info.name, info.kind, ("key", "namespace", "value"), entries, limit)
    contents = reader.operator_state(uid, info.name)
    rows = (
        (subtask, *entry)
        for subtask, part in sorted(contents.parts.items())
        for entry in (part.items() if isinstance(part, dict) else enumerate(part))
        if key is None or (isinstance(part, dict) and key.matches(entry[0]))
    )
    column = "key" if contents.mode == "broadcast" else "place"
    return _section(info.name, info.kind, ("subtask", column, "value"), rows, limit)


def _timer_section(timers: Sequence[Timer], *, key: KeyText | None, limit: int) -> _Section:
    rows = (
        (timer.key, timer.namespace, timer.timestamp_ms, "event" if timer.event_time else "processing")
        for timer in timers
        if key is None or key.matches(timer.key)
    )
    return _section(TIMERS, "timers", ("key", "namespace", "timestamp_ms", "time"), rows, limit)


def _sections_without_keys(reader: SavepointReader, uid: str, *, limit: int) -> list[_Section]:
    sections = []
    positions = reader.source_positions(uid)
    if positions is not None:
        rows = positions.items() if isinstance(positions, dict) else [("all", positions)]
        sections.append(_section("positions", "of the source", ("split", "position"), rows, limit))
    committables = list(enumerate(reader.committables(uid)))
    if committables:
        sections.append(_section("committables", "staged", ("place", "committable"), committables, limit))
    watermarks = sorted(reader.watermarks(uid).items())
    if watermarks:
        sections.append(_section("watermarks", "event time", ("subtask", "watermark_ms"), watermarks, limit))
    return sections


# Differences


def show_differences(changes: Iterable[StateChange], *, limit: int, as_json: bool) -> None:
    """Print differences, at most `limit` of each state, and how many there are."""
    shown: list[StateChange] = []
    counts: dict[tuple[str, str], dict[str, int]] = {}
    for change in changes:
        count = counts.setdefault((change.operator, change.state), {"added": 0, "removed": 0, "changed": 0})
        if sum(count.values()) < limit:
            shown.append(change)
        count[change.change] += 1
    if as_json:
        _print_json(
            {
                "counts": [
                    {"operator": operator, "state": state, **count}
                    for (operator, state), count in counts.items()
                ],
                "changes": [
                    {name: _plain(getattr(change, name)) for name in StateChange.__slots__}
                    for change in shown
                ],
            }
        )
        return
    console = _console()
    if not counts:
        console.print("no differences")
        return
    for (operator, state), count in counts.items():
        total = ", ".join(f"{number} {what}" for what, number in count.items() if number)
        console.print(Text(f"{operator}: {state}: {total}"))
        table = _table("", "key", "namespace", "before", "after")
        of_state = [change for change in shown if (change.operator, change.state) == (operator, state)]
        for change in of_state:
            _row(
                table,
                Text({"added": "+", "removed": "-", "changed": "~"}[change.change]),
                Text(_quoted(change.key)),
                Text(_quoted(change.namespace)),
                "" if change.change == "added" else Text(shorten(change.before, _VALUE_CHARS)),
                "" if change.change == "removed" else Text(shorten(change.after, _VALUE_CHARS)),
            )
        console.print(table)
        more = sum(count.values()) - len(of_state)
        if more:
            console.print(Text(f"... and {more} more; --limit shows them"))
        console.print()


# Cells


def _console() -> Console:
    console = Console(highlight=False)
    # What is read by programs or kept in files is not to be cut to the width of a terminal that is not there.
    return console if console.is_terminal else Console(highlight=False, width=_WIDTH)


def _table(*columns: str) -> Table:
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False)
    for column in columns:
        table.add_column(column, overflow="fold")
    return table


def _row(table: Table, *cells: Any) -> None:
    table.add_row(*(cell if isinstance(cell, Text) else Text(_text(cell)) for cell in cells))


def _text(cell: Any) -> str:
    """Return a cell as text; headings and names come as text already."""
    if cell is None:
        return "-"
    return cell if isinstance(cell, str) else shorten(cell, _VALUE_CHARS)


def _quoted(cell: Any) -> str:
    """Return a key or value as Python writes it: 17 and '17' are two keys."""
    return "-" if cell is None else shorten(cell, _VALUE_CHARS)


def _format_time(time_ms: int) -> str:
    moment = datetime.datetime.fromtimestamp(time_ms / 1000, datetime.UTC)
    return moment.strftime("%Y-%m-%d %H:%M:%S UTC")


def _format_size(size_bytes: float) -> str:
    """Return a size in words.

    >>> _format_size(999), _format_size(1_536)
    ('999 B', '1.5 KB')
    """
    for unit in ("B", "KB", "MB"):
        if size_bytes < 1024:
            return f"{size_bytes:.0f} {unit}" if unit == "B" else f"{size_bytes:.1f} {unit}"
        size_bytes /= 1024
    return f"{size_bytes:.1f} GB"


def _print_json(document: Any) -> None:
    print(json.dumps(document, indent=2, ensure_ascii=False))


def _plain(value: Any) -> Any:
    """Return what JSON has for a value: objects by their fields, else text as `repr` gives it."""
    if value is None or isinstance(value, (bool, str)) or type(value) is int:
        return value
    if type(value) is float and math.isfinite(value):
        return value
    if isinstance(value, Row):
        fields = value._fields
        return [_plain(each) for each in value._values] if fields is None else _plain(value.as_dict())
    if isinstance(value, (list, tuple)):
        return [_plain(each) for each in value]
    if isinstance(value, dict):
        if all(isinstance(key, str) for key in value):
            return {key: _plain(each) for key, each in value.items()}
        return [[_plain(key), _plain(each)] for key, each in value.items()]
    if isinstance(value, enum.Enum):
        return value.name
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: _plain(getattr(value, field.name, None)) for field in dataclasses.fields(value)}
    return repr(value)

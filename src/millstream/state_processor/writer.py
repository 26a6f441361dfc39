"""Writes savepoints: new ones, from which a job begins with state that was made elsewhere, and changed ones."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from millstream.base.clock import SystemClock
from millstream.base.errors import ConfigurationError
from millstream.base.ids import new_id
from millstream.files.stores import FileStore, open_store
from millstream.graph.operator_ids import operator_id_of_uid
from millstream.runtime.checkpoint.manifest import MANIFEST, Manifest, OperatorEntry, write_manifest
from millstream.runtime.checkpoint.state_file import ChunkKind, StateFileWriter
from millstream.runtime.protocol.orders import StateFile
from millstream.state.keys import original_key
from millstream.state.kinds import StateKind, StateSchema
from millstream.state_processor.bootstrap import (
    Bootstrap,
    BroadcastBootstrap,
    KeyedBootstrap,
    ListBootstrap,
    OperatorStates,
)
from millstream.state_processor.reader import SavepointReader, untimed

__all__ = ["SavepointWriter"]

Change = Callable[[Any, Any, Any], Any]
"""Key, namespace and value give a new value; None removes the entry."""

_KEYED_KINDS = {
    "process": "KeyedProcessSpec",
    "co_process": "KeyedCoProcessSpec",
    "broadcast_process": "KeyedBroadcastProcessSpec",
}
_OTHER_KINDS = {
    "map": "MapSpec",
    "flat_map": "FlatMapSpec",
    "filter": "FilterSpec",
    "process": "ProcessSpec",
    "co_process": "CoProcessSpec",
    "broadcast_process": "BroadcastProcessSpec",
    "sink": "SinkFunctionSpec",
}


@dataclass(slots=True)
class _Planned:
    """An operator of the savepoint that is to be written.

    Attributes:
        entry: What the manifest says of it.
        bootstraps: Its state, if it is new.
        copied_from: Its id in the savepoint that it is copied from; None if it is new.
        changes: What becomes of its keyed states, by name.
    """

    entry: OperatorEntry
    bootstraps: tuple[Bootstrap, ...] = ()
    copied_from: str | None = None
    changes: dict[str, Change] = field(default_factory=dict)


class SavepointWriter:
    """Collects the operators of a savepoint, then writes it; methods return the writer, so calls can be chained.

    Made by `new` or `from_existing`.

    Example:
        >>> import tempfile
        >>> from millstream.common.state import ValueStateDescriptor
        >>> from millstream.state_processor import KeyedBootstrap, SavepointReader, SavepointWriter
        >>> accounts = [{"id": 1, "balance": 10}, {"id": 2, "balance": 5}]
        >>> balance = ValueStateDescriptor("balance")
        >>> writer = SavepointWriter.new(128).with_operator(
        ...     "accounts", KeyedBootstrap(accounts, "id", {"balance": (balance, "balance")})
        ... )
        >>> with tempfile.TemporaryDirectory() as directory:
        ...     path = writer.write(f"{directory}/accounts")
        ...     entries = SavepointReader.read(path).keyed_state("accounts", "balance")
        ...     sorted((key, value) for key, namespace, value in entries)
        [(1, 10), (2, 5)]
    """

    def __init__(self, max_parallelism: int, source: SavepointReader | None = None) -> None:
        if not 1 <= max_parallelism <= 32_768:
            raise ConfigurationError(
                f"the maximum parallelism is {max_parallelism}", detail="It is between 1 and 32768."
            )
        self._max_parallelism = max_parallelism
        self._source = source
        self._operators: dict[str, _Planned] = {}
        if source is not None:
            for entry in source.saved.manifest.operators:
                self._operators[entry.operator_id] = _Planned(entry, copied_from=entry.operator_id)

    @staticmethod
    def new(max_parallelism: int = 128) -> SavepointWriter:
        """Begin a savepoint without anything.

        Args:
            max_parallelism: Number of key groups; the job's has to be the same.

        Raises:
            ConfigurationError: If it is not within 1 and 32768.
        """
        return SavepointWriter(max_parallelism)

    @staticmethod
    def from_existing(path: str, *, python_path: Sequence[str] = ()) -> SavepointWriter:
        """Begin with all that is in a checkpoint or savepoint, which itself stays as it is.

        Args:
            path: As for `SavepointReader.read`.
            python_path: Directories in which the program's modules are looked for, where state is changed.

        Raises:
            CheckpointStorageError: If there is none.
            CheckpointDamagedError: If it is damaged; names the damaged file.
        """
        reader = SavepointReader.read(path, python_path=python_path, strict=True)
        counts = [entry.max_parallelism for entry in reader.saved.manifest.operators]
        return SavepointWriter(max(counts, default=128), reader)

    def with_operator(
        self, uid: str, *bootstraps: Bootstrap, used_by: str | None = None, name: str | None = None
    ) -> SavepointWriter:
        """Add an operator.

        Args:
            uid: Its uid in the job.
            bootstraps: Its state: a KeyedBootstrap, ListBootstraps, a BroadcastBootstrap.
            used_by: Which kind of operator it is, by the method that makes it: "process" (also map, flat_map and
                filter of keyed streams), "co_process" (also map and flat_map of connected streams),
                "broadcast_process"; without keys also "map", "flat_map", "filter", "sink". None for
                "broadcast_process" where there is broadcast state, else "process".
            name: Shown to users; the uid if there is none.

        Raises:
            ConfigurationError: If it is there already, or the parts do not go together.
        """
        operator_id = operator_id_of_uid(uid)
        if operator_id in self._operators:
            raise ConfigurationError(
                f'the savepoint has an operator with uid "{uid}" already',
                hint="Remove it first: remove_operator(uid).",
            )
        entry = OperatorEntry(
            operator_id=operator_id,
            uid=uid,
            name=name or uid,
            kind=_kind(uid, bootstraps, used_by),
            parallelism=1,
            max_parallelism=self._max_parallelism,
        )
        self._operators[operator_id] = _Planned(entry, bootstraps=_gathered(bootstraps))
        return self

    def remove_operator(self, uid: str) -> SavepointWriter:
        """Leave an operator out.

        Raises:
            ConfigurationError: If there is none.
        """
        del self._operators[self._planned(uid).entry.operator_id]
        return self

    def change_uid(self, uid: str, new_uid: str) -> SavepointWriter:
        """Give an operator another uid; `uid` may be its id or name, if it has no uid.

        Raises:
            ConfigurationError: If there is none, or the new uid is another's.
        """
        planned = self._planned(uid)
        operator_id = operator_id_of_uid(new_uid)
        if operator_id in self._operators:
            raise ConfigurationError(f'the savepoint has an operator with uid "{new_uid}" already')
        del self._operators[planned.entry.operator_id]
        planned.entry = replace(planned.entry, operator_id=operator_id, uid=new_uid)
        self._operators[operator_id] = planned
        return self

    def change_state(self, uid: str, name: str, change: Change) -> SavepointWriter:
        """Change the values of a keyed state of an operator that comes from an existing savepoint.

        Args:
            uid: The operator's uid.
            name: The state's name.
            change: Called with key, namespace and value as a program sees them (a list, a dict, a value); returns the
                new value, or None to remove the entry.

        Raises:
            ConfigurationError: If there is no such operator or keyed state.
        """
        planned = self._planned(uid)
        if planned.copied_from is None or self._source is None:
            raise ConfigurationError(
                f'operator "{uid}" is new in this savepoint', hint="Give it other rows instead."
            )
        self._source.check_keyed_state(planned.copied_from, name)
        planned.changes[name] = change
        return self

    def write(self, path: str) -> str:
        """Write the savepoint; it is there when this returns.

        Args:
            path: A directory, or a URI that pyarrow knows; nothing may be there.

        Returns:
            The path, to restore from.

        Raises:
            ConfigurationError: If there is a savepoint or checkpoint already.
            CheckpointStorageError: If it cannot be written.
        """
        store = open_store(path)
        if store.read_if_there(MANIFEST) is not None:
            raise ConfigurationError(
                f'there is a savepoint already at "{path}"', hint="Write to another place."
            )
        source = None if self._source is None else self._source.saved.manifest
        files: list[StateFile] = []
        states: dict[str, dict[str, str]] = {}
        slots = {0} | (set() if self._source is None else set(self._source.files()))
        for slot in sorted(slots):
            writer = StateFileWriter()
            for planned in self._operators.values():
                self._add(writer, planned, slot, states)
            name = f"files/{slot}-{new_id()[:8]}"
            files.append(StateFile(writer.write_to(store, name), slot))
        manifest = Manifest(
            checkpoint_id=1 if source is None else source.checkpoint_id,
            kind="savepoint",
            job_id=new_id() if source is None else source.job_id,
            job_name="bootstrap" if source is None else source.job_name,
            epoch=0 if source is None else source.epoch,
            created_ms=SystemClock().now_ms(),
            operators=tuple(self._entry(store, planned, states) for planned in self._operators.values()),
            state=tuple(files),
        )
        write_manifest(store, "", manifest)
        return store.describe("").rstrip("/")

    # Internals

    def _planned(self, uid: str) -> _Planned:
        for planned in self._operators.values():
            if uid in (planned.entry.uid, planned.entry.operator_id):
                return planned
        named = [planned for planned in self._operators.values() if planned.entry.name == uid]
        if len(named) == 1:
            return named[0]
        known = ", ".join(
            f'"{planned.entry.uid or planned.entry.name}"' for planned in self._operators.values()
        )
        raise ConfigurationError(
            f'the savepoint has no operator with uid "{uid}"', detail=f"It has: {known or 'none'}."
        )

    def _add(
        self, writer: StateFileWriter, planned: _Planned, slot: int, states: dict[str, dict[str, str]]
    ) -> None:
        entry = planned.entry
        if planned.copied_from is not None:
            self._copy(writer, planned, slot)
        elif slot == 0:
            kinds = states.setdefault(entry.operator_id, {})
            for bootstrap in planned.bootstraps:
                kinds |= bootstrap.add_to(
                    writer, entry.operator_id, operator=entry.name, max_parallelism=entry.max_parallelism
                )

    def _copy(self, writer: StateFileWriter, planned: _Planned, slot: int) -> None:
        assert self._source is not None
        assert planned.copied_from is not None
        files = self._source.files().get(slot, ())
        if len(files) == 1 and not planned.changes:
            for chunk in files[0].chunks:
                if chunk.operator_id == planned.copied_from:
                    copied = files[0].raw(chunk)
                    writer.add_pickled(planned.entry.operator_id, chunk.kind, copied, chunk.key_group)
            return
        chain = self._source.chains().get(slot)
        if chain is None:
            return
        schemas: dict[str, StateSchema] = {}
        for kind in _WHOLE_KINDS:
            for group, content in chain.read(planned.copied_from, kind):
                if kind is ChunkKind.SCHEMAS:
                    schemas |= content
                if kind is ChunkKind.KEYED:
                    content = _changed(content, planned.changes, schemas)
                writer.add(planned.entry.operator_id, kind, content, group)

    def _entry(
        self, store: FileStore, planned: _Planned, states: Mapping[str, dict[str, str]]
    ) -> OperatorEntry:
        entry = planned.entry
        if planned.copied_from is None:
            return replace(entry, states=states[entry.operator_id])
        if entry.driver is None or self._source is None:
            return entry
        data = self._source.saved.store.read(entry.driver)
        return replace(entry, driver=store.write(f"files/driver-{entry.operator_id}-{new_id()[:8]}", data))


_WHOLE_KINDS = (
    ChunkKind.SCHEMAS,
    ChunkKind.KEYED,
    ChunkKind.TIMERS,
    ChunkKind.OPERATOR,
    ChunkKind.OWN,
    ChunkKind.ENTRIES,
    ChunkKind.WATERMARKS,
    ChunkKind.INPUT,
)
"""All kinds of parts that a file without changes has; schemas before entries."""


def _kind(uid: str, bootstraps: Sequence[Bootstrap], used_by: str | None) -> str:
    """Return the class of the operator's declaration: at a restore the job's has to be the same."""
    keyed = sum(each.is_keyed for each in bootstraps)
    if not bootstraps or keyed > 1:
        raise ConfigurationError(
            f'operator "{uid}" was given {len(bootstraps)} bootstraps, {keyed} of them keyed',
            detail="It takes at least one, and one KeyedBootstrap at most.",
        )
    if used_by is None:
        used_by = "broadcast_process" if any(each.is_broadcast for each in bootstraps) else "process"
    kinds = _KEYED_KINDS if keyed else _OTHER_KINDS
    if used_by not in kinds:
        raise ConfigurationError(
            f'operator "{uid}" {"with" if keyed else "without"} keyed state is used by "{used_by}"',
            detail=f"It may be one of {', '.join(kinds)}.",
        )
    return kinds[used_by]


def _gathered(bootstraps: Sequence[Bootstrap]) -> tuple[Bootstrap, ...]:
    """Return the parts with all operator state in one: that is how files hold it."""
    keyed = [each for each in bootstraps if isinstance(each, KeyedBootstrap)]
    others = tuple(each for each in bootstraps if isinstance(each, (ListBootstrap, BroadcastBootstrap)))
    return (*keyed, OperatorStates(others)) if others else tuple(keyed)


def _changed(
    states: Mapping[str, list[tuple[Any, Any, Any]]],
    changes: Mapping[str, Change],
    schemas: Mapping[str, StateSchema],
) -> dict[str, list[tuple[Any, Any, Any]]]:
    result: dict[str, list[tuple[Any, Any, Any]]] = {}
    for name, entries in states.items():
        change = changes.get(name)
        if change is None:
            result[name] = entries
            continue
        schema = schemas[name]
        result[name] = [
            (namespace, key, _retimed(schema, entry, value))
            for namespace, key, entry in entries
            if (value := change(original_key(key), namespace, untimed(schema, entry))) is not None
        ]
    return result


def _retimed(schema: StateSchema, before: Any, value: Any) -> Any:
    """Return a new value with the time of the last access to the one before, where it carries one."""
    if not schema.timed:
        return value
    if schema.kind is StateKind.LIST:
        last = max(time for time, _ in before)
        return [(last, element) for element in value]
    if schema.kind is StateKind.MAP:
        last = max(time for time, _ in before.values())
        return {key: (before[key][0] if key in before else last, each) for key, each in value.items()}
    return before[0], value

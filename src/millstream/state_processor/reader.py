"""Reads all that is in a checkpoint or savepoint, without the program that made it.

What a checkpoint holds of an operator, and how it is read::

    keyed state, reducing and aggregating too   keyed_state(uid, name)       (key, namespace, value)
    contents of windows, buffers of joins       keyed_state(uid, "window-contents" | "join-left" | "join-right")
    timers                                      timers(uid)
    lists, union lists, broadcast maps          operator_state(uid, name)    by subtask
    positions of a source                       source_positions(uid)
    what a sink has staged, not yet published   committables(uid)
    anything else that the operator keeps       own_state(uid)               by subtask
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from millstream.base.errors import CheckpointDamagedError, ConfigurationError
from millstream.runtime.checkpoint.chain import StateChain
from millstream.runtime.checkpoint.manifest import OperatorEntry
from millstream.runtime.checkpoint.restore import Saved, find_saved
from millstream.runtime.checkpoint.state_file import ChunkKind
from millstream.state.keys import canonical_key, original_key
from millstream.state.kinds import StateKind, StateSchema
from millstream.state.operator_state import OperatorStateMode
from millstream.state_processor.frames import to_pandas, to_spark
from millstream.state_processor.standins import Modules, TolerantStateFile, load_tolerantly
from millstream.state_processor.windows import OWN_NAMES, own_entries

if TYPE_CHECKING:
    from pyspark.sql import DataFrame as SparkFrame
    from pyspark.sql import SparkSession

__all__ = ["OperatorInfo", "OperatorStateContents", "SavepointReader", "StateInfo", "Timer", "untimed"]

Entry = tuple[Any, Any, Any]
"""Key, namespace (None for the key as a whole, else a window or the like), value."""


@dataclass(frozen=True, slots=True)
class StateInfo:
    """One state of an operator.

    Attributes:
        name: Its name.
        kind: What it is, in words.
        entries: How many entries it has: keys with their namespaces, elements of lists, entries of maps.
        keys: How many keys it has; None if it is not keyed.

    Example:
        >>> import tempfile
        >>> from millstream.common.state import ValueStateDescriptor
        >>> from millstream.state_processor import KeyedBootstrap, SavepointReader, SavepointWriter
        >>> states = {"balance": (ValueStateDescriptor("balance"), "balance")}
        >>> accounts = KeyedBootstrap([{"id": 1, "balance": 10}, {"id": 2, "balance": 5}], "id", states)
        >>> with tempfile.TemporaryDirectory() as directory:
        ...     path = SavepointWriter.new(128).with_operator("accounts", accounts).write(f"{directory}/accounts")
        ...     SavepointReader.read(path).states("accounts")
        [StateInfo(name='balance', kind='value state', entries=2, keys=2)]
    """

    name: str
    kind: str
    entries: int
    keys: int | None = None


@dataclass(frozen=True, slots=True)
class OperatorInfo:
    """One operator in a checkpoint.

    Attributes:
        operator_id: 32 hexadecimal digits.
        uid: The user's name for it; None if it has none.
        name: Shown to users.
        kind: Class of its declaration.
        parallelism: Number of subtasks that wrote it.
        max_parallelism: Number of key groups.
        state_names: Names of its states that are declared, with their kinds in words.
        size_bytes: What it takes in the checkpoint's files; with changes to earlier checkpoints, those too.

    Example:
        >>> import tempfile
        >>> from millstream.common.state import ValueStateDescriptor
        >>> from millstream.state_processor import KeyedBootstrap, SavepointReader, SavepointWriter
        >>> states = {"balance": (ValueStateDescriptor("balance"), "balance")}
        >>> accounts = KeyedBootstrap([{"id": 1, "balance": 10}], "id", states)
        >>> with tempfile.TemporaryDirectory() as directory:
        ...     path = SavepointWriter.new(128).with_operator("accounts", accounts).write(f"{directory}/accounts")
        ...     for operator in SavepointReader.read(path).operators():
        ...         print(operator.label, operator.max_parallelism, dict(operator.state_names))
        accounts 128 {'balance': 'value state'}
    """

    operator_id: str
    uid: str | None
    name: str
    kind: str
    parallelism: int
    max_parallelism: int
    state_names: Mapping[str, str]
    size_bytes: int

    @property
    def label(self) -> str:
        """What to call it by: its uid, else its id."""
        return self.uid or self.operator_id


@dataclass(frozen=True, slots=True)
class Timer:
    """A timer that waits.

    Attributes:
        key: Its key.
        namespace: The window it belongs to; None for timers of functions.
        timestamp_ms: When it is due, epoch milliseconds.
        event_time: Whether it waits for the watermark (or for the clock).

    Example:
        >>> import tempfile
        >>> from millstream.state_processor import KeyedBootstrap, SavepointReader, SavepointWriter
        >>> rows = KeyedBootstrap([{"id": 1, "due": 60_000}], "id", {}, event_timers="due")
        >>> with tempfile.TemporaryDirectory() as directory:
        ...     path = SavepointWriter.new(128).with_operator("reminders", rows).write(f"{directory}/reminders")
        ...     list(SavepointReader.read(path).timers("reminders"))
        [Timer(key=1, namespace=None, timestamp_ms=60000, event_time=True)]
    """

    key: Any
    namespace: Any
    timestamp_ms: int
    event_time: bool


@dataclass(slots=True)
class OperatorStateContents:
    """One operator state, by subtask.

    Attributes:
        mode: How it is dealt out at a restore: "list", "union list" or "broadcast".
        parts: What each subtask holds, a list or, for broadcast state, a dict; by the index of the subtask.

    Example:
        >>> from millstream.state_processor import OperatorStateContents
        >>> OperatorStateContents("list", {0: ["a"], 1: ["b", "c"]}).elements
        ['a', 'b', 'c']
    """

    mode: str
    parts: dict[int, Any] = field(default_factory=dict)

    @property
    def elements(self) -> Any:
        """Return everything: the elements of all subtasks in their order, or the broadcast map."""
        if self.mode == OperatorStateMode.BROADCAST.value:
            return next(iter(self.parts.values()), {})
        return [element for _, part in sorted(self.parts.items()) for element in part]


class SavepointReader:
    """What is in a checkpoint or savepoint; made by `read`.

    Values are as they were written. With a time to live, what has expired may still be there, and the time of the
    last access is left out. Aggregating state gives accumulators.

    Attributes:
        path: Where it is.

    Example:
        >>> import tempfile
        >>> from millstream.common.state import ValueStateDescriptor
        >>> from millstream.state_processor import KeyedBootstrap, SavepointReader, SavepointWriter
        >>> states = {"balance": (ValueStateDescriptor("balance"), "balance")}
        >>> accounts = KeyedBootstrap([{"id": 1, "balance": 10}], "id", states)
        >>> with tempfile.TemporaryDirectory() as directory:
        ...     path = SavepointWriter.new(128).with_operator("accounts", accounts).write(f"{directory}/accounts")
        ...     list(SavepointReader.read(path).keyed_state("accounts", "balance"))
        [(1, None, 10)]
    """

    def __init__(self, saved: Saved, *, modules: Modules | None = None, strict: bool = False) -> None:
        self.saved = saved
        self.path = saved.path
        self._modules = modules or {}
        self._strict = strict
        self._chains: dict[int, StateChain] | None = None
        self._files: dict[int, list[TolerantStateFile]] = {}
        self._sizes: dict[str, int] = {}

    @staticmethod
    def read(
        path: str,
        *,
        python_path: Sequence[str] = (),
        modules: Modules | None = None,
        strict: bool = False,
    ) -> SavepointReader:
        """Open a checkpoint or savepoint; all of its files are checked.

        Args:
            path: Its directory, its `_metadata` file, or the directory of a job's checkpoints for the newest.
            python_path: Directories in which the program's modules are looked for, from now on.
            modules: Modules to use in place of those of some names, such as the program's in place of `__main__`.
            strict: Whether a class that is missing is an error; otherwise a `StandIn` is in its place.

        Raises:
            CheckpointStorageError: If there is none.
            CheckpointDamagedError: If it is damaged; names the damaged file.
        """
        for directory in python_path:
            if directory not in sys.path:
                sys.path.insert(0, directory)
        return SavepointReader(find_saved(path), modules=modules, strict=strict)

    # What is there

    def operators(self) -> list[OperatorInfo]:
        """Return all operators, those without state too."""
        self._open()
        return [
            OperatorInfo(
                operator_id=entry.operator_id,
                uid=entry.uid,
                name=entry.name,
                kind=entry.kind,
                parallelism=entry.parallelism,
                max_parallelism=entry.max_parallelism,
                state_names=dict(entry.states),
                size_bytes=self._sizes.get(entry.operator_id, 0)
                + (entry.driver.size if entry.driver is not None else 0),
            )
            for entry in self.saved.manifest.operators
        ]

    def operator(self, uid: str) -> OperatorInfo:
        """Return an operator by its uid, its id, or its name if no other has it.

        Raises:
            ConfigurationError: If there is none; lists those that there are.
        """
        operator_id = self._entry(uid).operator_id
        return next(each for each in self.operators() if each.operator_id == operator_id)

    def states(self, uid: str) -> list[StateInfo]:
        """Return the states of an operator with their sizes, timers too; reads all of them.

        Raises:
            ConfigurationError: If there is no such operator.
        """
        entry = self._entry(uid)
        counts: dict[str, int] = {}
        keys: dict[str, set[Any]] = {}
        for name, key, _, _ in self._keyed_entries(entry):
            counts[name] = counts.get(name, 0) + 1
            keys.setdefault(name, set()).add(canonical_key(key))
        kinds = {name: schema.describe() for name, schema in self._schemas(entry).items()}
        infos = [
            StateInfo(name, kinds.get(name, "kept by the operator"), count, len(keys[name]))
            for name, count in counts.items()
        ]
        infos += [StateInfo(name, kind, 0, 0) for name, kind in kinds.items() if name not in counts]
        for name in self._operator_state_names(entry):
            contents = self.operator_state(uid, name)
            infos.append(StateInfo(name, f"{contents.mode} state", len(contents.elements)))
        return sorted(infos, key=lambda info: info.name)

    # State by key

    def keyed_state(self, uid: str, name: str) -> Iterator[Entry]:
        """Yield (key, namespace, value) of a keyed state, by subtask and key group.

        Args:
            uid: The operator's uid.
            name: The state's name; "window-contents" for what windows hold, "join-left" and "join-right" for
                what an interval join does.

        Raises:
            ConfigurationError: If there is no such operator or state; lists those that there are.
        """
        entry = self._entry(uid)
        self.check_keyed_state(uid, name)
        return (
            (original_key(key), namespace, value)
            for found, key, namespace, value in self._keyed_entries(entry, name)
            if found == name
        )

    def timers(self, uid: str) -> Iterator[Timer]:
        """Yield the timers of an operator.

        Raises:
            ConfigurationError: If there is no such operator.
        """
        entry = self._entry(uid)
        of_windows = entry.kind == "WindowSpec"
        return (
            Timer(original_key(key), namespace, timestamp_ms, event_time)
            for chain in self._open().values()
            for _, timers in chain.read(entry.operator_id, ChunkKind.TIMERS)
            for event_time, waiting in ((True, timers.event), (False, timers.processing))
            for timestamp_ms, timer in waiting
            for key, namespace in ((timer if of_windows and _is_pair(timer) else (timer, None)),)
        )

    # State by subtask

    def operator_state(self, uid: str, name: str) -> OperatorStateContents:
        """Return an operator state: a list, a union list or a broadcast map.

        Raises:
            ConfigurationError: If there is no such operator or state; lists those that there are.
        """
        entry = self._entry(uid)
        found: OperatorStateContents | None = None
        for slot, snapshot in self._by_slot(entry, ChunkKind.OPERATOR):
            if name in snapshot.modes:
                mode = snapshot.modes[name]
                found = found or OperatorStateContents(mode.value)
                held = snapshot.maps if mode is OperatorStateMode.BROADCAST else snapshot.lists
                found.parts[slot] = held[name]
        if found is None:
            raise self._no_state(entry, name, "operator state")
        return found

    def own_state(self, uid: str) -> dict[int, Any]:
        """Return what an operator keeps in a form of its own, by subtask; empty if it does not.

        Raises:
            ConfigurationError: If there is no such operator.
        """
        return dict(self._by_slot(self._entry(uid), ChunkKind.OWN))

    def watermarks(self, uid: str) -> dict[int, int]:
        """Return how far event time had come in each subtask, epoch milliseconds; without those it had not begun in.

        Raises:
            ConfigurationError: If there is no such operator.
        """
        return dict(self._by_slot(self._entry(uid), ChunkKind.WATERMARKS))

    # What the driver keeps

    def source_positions(self, uid: str) -> Any:
        """Return how far a source had been read, in the form of its own enumerator; None if it is no source.

        Raises:
            ConfigurationError: If there is no such operator.
        """
        entry = self._entry(uid)
        return self._driver(entry) if entry.kind == "SourceSpec" else None

    def committables(self, uid: str) -> list[Any]:
        """Return what a sink had staged and the checkpoint was to publish; empty if it is no such sink.

        Raises:
            ConfigurationError: If there is no such operator.
        """
        entry = self._entry(uid)
        kept = self._driver(entry) if entry.kind != "SourceSpec" else None
        return [] if kept is None else list(kept)

    # Frames

    def to_pandas(self, uid: str, name: str) -> Any:
        """Return a keyed state as a pandas frame with the columns key, namespace and value; needs pandas.

        Raises:
            ConfigurationError: If there is no such operator or state, or pandas is not installed.
        """
        return to_pandas(self.keyed_state(uid, name))

    def to_spark(self, spark_session: SparkSession, uid: str, name: str) -> SparkFrame:
        """Return a keyed state as a Spark DataFrame with the columns key, namespace and value.

        Rows, dataclasses and tuples become structs where all have the same; what has no type in Spark becomes
        text, as `repr` gives it. All of it goes through this process's memory.

        Raises:
            ConfigurationError: If there is no such operator or state.
        """
        frame: SparkFrame = to_spark(spark_session, self.keyed_state(uid, name))
        return frame

    # Internals

    def entry_of(self, uid: str) -> OperatorEntry:
        """Return an operator's entry in the manifest.

        Raises:
            ConfigurationError: If there is none.
        """
        return self._entry(uid)

    def check_keyed_state(self, uid: str, name: str) -> None:
        """Check that an operator has a keyed state.

        Raises:
            ConfigurationError: If there is no such operator or state; lists those that there are.
        """
        entry = self._entry(uid)
        if name in self._schemas(entry) or name in OWN_NAMES.get(entry.kind, ()):
            return
        if not any(name in states for _, states in self._by_slot(entry, ChunkKind.ENTRIES)):
            raise self._no_state(entry, name, "keyed state")

    def chains(self) -> Mapping[int, StateChain]:
        """Return the state files by slot, read as one, changes applied."""
        return self._open()

    def files(self) -> Mapping[int, Sequence[TolerantStateFile]]:
        """Return the state files by slot, each for itself."""
        self._open()
        return self._files

    def _entry(self, uid: str) -> OperatorEntry:
        entries = self.saved.manifest.operators
        for matches in (
            [entry for entry in entries if entry.uid == uid],
            [entry for entry in entries if entry.operator_id == uid],
            [entry for entry in entries if entry.name == uid],
        ):
            if len(matches) == 1:
                return matches[0]
        known = ", ".join(f'"{entry.uid}"' for entry in entries if entry.uid is not None) or "none"
        without = ", ".join(f'"{entry.name}" ({entry.operator_id})' for entry in entries if entry.uid is None)
        raise ConfigurationError(
            f'{self.saved.manifest.kind} "{self.path}" has no operator with uid "{uid}"',
            detail=f"Operators with a uid: {known}."
            + (f" Without one, by name and id: {without}." if without else ""),
        )

    def _no_state(self, entry: OperatorEntry, name: str, what: str) -> ConfigurationError:
        states = [f'"{each.name}" ({each.kind})' for each in self.states(entry.operator_id)]
        return ConfigurationError(
            f'operator "{entry.uid or entry.name}" has no {what} "{name}" in "{self.path}"',
            detail=f"It has: {', '.join(states)}." if states else "It has no state.",
        )

    def _open(self) -> dict[int, StateChain]:
        if self._chains is None:
            store, files = self.saved.store, self._files
            for each in self.saved.manifest.state:
                file = TolerantStateFile.open(store, each.file, self._modules, strict=self._strict)
                files.setdefault(each.slot, []).append(file)
                for chunk in file.chunks:
                    self._sizes[chunk.operator_id] = self._sizes.get(chunk.operator_id, 0) + chunk.length
            self._chains = {slot: StateChain(chain) for slot, chain in sorted(files.items())}
        return self._chains

    def _by_slot(self, entry: OperatorEntry, kind: ChunkKind) -> Iterator[tuple[int, Any]]:
        for slot, chain in self._open().items():
            for _, content in chain.read(entry.operator_id, kind):
                yield slot, content

    def _schemas(self, entry: OperatorEntry) -> dict[str, StateSchema]:
        schemas: dict[str, StateSchema] = {}
        for _, part in self._by_slot(entry, ChunkKind.SCHEMAS):
            schemas |= part
        return schemas

    def _operator_state_names(self, entry: OperatorEntry) -> list[str]:
        return list(
            dict.fromkeys(
                name for _, snapshot in self._by_slot(entry, ChunkKind.OPERATOR) for name in snapshot.modes
            )
        )

    def _keyed_entries(
        self, entry: OperatorEntry, only: str | None = None
    ) -> Iterator[tuple[str, Any, Any, Any]]:
        """Yield (name, key, namespace, value) of all that an operator has by key, changes applied."""
        schemas = self._schemas(entry)
        for chain in self._open().values():
            for _, states in chain.read(entry.operator_id, ChunkKind.KEYED):
                for name, entries in states.items():
                    if only is None or name == only:
                        schema = schemas.get(name)
                        for namespace, key, value in entries:
                            yield name, key, namespace, untimed(schema, value)
        for _, states in self._by_slot(entry, ChunkKind.ENTRIES):
            yield from own_entries(states)

    def _driver(self, entry: OperatorEntry) -> Any:
        if entry.driver is None:
            return None
        data = self.saved.store.read(entry.driver)
        try:
            return load_tolerantly(data, self._modules)
        except EOFError as error:
            raise CheckpointDamagedError(
                f'file "{self.saved.store.describe(entry.driver.path)}" does not hold what it should'
            ) from error


def _is_pair(timer: Any) -> bool:
    return isinstance(timer, tuple) and len(timer) == 2


def untimed(schema: StateSchema | None, entry: Any) -> Any:
    """Return an entry as programs see it, without the times of its last access."""
    if schema is None or not schema.timed:
        return entry
    if schema.kind is StateKind.LIST:
        return [value for _, value in entry]
    if schema.kind is StateKind.MAP:
        return {key: value for key, (_, value) in entry.items()}
    return entry[1]

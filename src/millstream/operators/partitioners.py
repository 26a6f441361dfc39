"""How records are dealt to the subtasks of the next operator.

The declared half, a `Partitioning`, stands on an edge of the graph. The running half, a `ChannelSelector`,
lives with the sending subtask and cuts each batch into one batch for each target.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Any

from millstream.base.errors import ConfigurationError
from millstream.common.functions import Partitioner
from millstream.operators.keys import key_fields, key_list
from millstream.operators.plain_functions import is_plain
from millstream.operators.values import claim
from millstream.spi.batch import Columns, Rows, column_of
from millstream.state.key_groups import KeyGroupMemo, key_groups_of_columns
from millstream.types.typeinfo import TypeInformation

__all__ = [
    "Broadcast",
    "ChannelSelector",
    "ColumnSelector",
    "CustomPartitioning",
    "Forward",
    "Global",
    "KeyGroups",
    "Partitioning",
    "Rebalance",
    "Rescale",
    "Shuffle",
]

Parts = list[tuple[int, Rows]]
"""Target subtask and its part: only targets that get something."""

ColumnParts = list[tuple[int, Columns]]
"""The same of columns."""


class ChannelSelector(ABC):
    """Cuts batches by target; one thread calls it."""

    @abstractmethod
    def split(self, batch: Rows) -> Parts:
        """Return the batch's parts, order kept within each."""


class ColumnSelector(ChannelSelector):
    """Cuts columns as they are, too; for other selectors they are made rows before."""

    @abstractmethod
    def split_columns(self, batch: Columns) -> ColumnParts:
        """Return the parts of columns, order kept within each."""


@dataclass(frozen=True)
class Partitioning(ABC):
    """Declares how an edge deals its records."""

    @property
    def name(self) -> str:
        """The name that plans show."""
        return type(self).__name__.upper()

    @abstractmethod
    def targets(self, sender: int, senders: int, receivers: int) -> range | list[int]:
        """Return the receiving subtasks that `sender` may send to: the channels of the edge."""

    @abstractmethod
    def build(self, sender: int, senders: int, receivers: int, max_parallelism: int) -> ChannelSelector:
        """Make the running half for one sending subtask."""


class _One(ColumnSelector):
    def __init__(self, target: int) -> None:
        self._target = target

    def split(self, batch: Rows) -> Parts:
        return [(self._target, batch)]

    def split_columns(self, batch: Columns) -> ColumnParts:
        return [(self._target, batch)]


class _RoundRobin(ColumnSelector):
    """Deals records in turn, by slices; goes on where the last batch ended."""

    def __init__(self, targets: list[int], first: int) -> None:
        self._targets = targets
        self._next = first % len(targets)

    def split(self, batch: Rows) -> Parts:
        values, timestamps = batch.values, batch.timestamps
        count = len(self._targets)
        parts: Parts = []
        for offset in range(min(count, len(values))):
            target = self._targets[(self._next + offset) % count]
            stamps = None if timestamps is None else timestamps[offset::count]
            parts.append((target, Rows(values[offset::count], stamps)))
        self._next = (self._next + len(values)) % count
        return parts

    def split_columns(self, batch: Columns) -> ColumnParts:
        """Deal consecutive records to each target: as many as in turn, without a copy."""
        count, total, start = len(self._targets), len(batch), 0
        parts: ColumnParts = []
        for offset in range(min(count, total)):
            stop = start + total // count + (offset < total % count)
            parts.append((self._targets[(self._next + offset) % count], batch.slice(start, stop)))
            start = stop
        self._next = (self._next + total) % count
        return parts


def _deal(values: list[Any], timestamps: list[int] | None, targets: list[int], receivers: int) -> Parts:
    if timestamps is None:
        cut: list[list[Any]] = [[] for _ in range(receivers)]
        append = [part.append for part in cut]
        for value, target in zip(values, targets, strict=True):
            append[target](value)
        return [(target, Rows(part)) for target, part in enumerate(cut) if part]
    stamped: list[tuple[list[Any], list[int]]] = [([], []) for _ in range(receivers)]
    for value, stamp, target in zip(values, timestamps, targets, strict=True):
        part, stamps = stamped[target]
        part.append(value)
        stamps.append(stamp)
    return [(target, Rows(part, stamps)) for target, (part, stamps) in enumerate(stamped) if part]


def _deal_columns(batch: Columns, targets: Any, receivers: int) -> ColumnParts:
    """Sort records by target, and cut that: one copy for all parts."""
    # Whoever has columns has numpy; jobs without columns never import it.
    import numpy as np

    narrow = np.asarray(targets, np.uint16 if receivers < 1 << 16 else np.int64)  # few bits sort faster
    counts = np.bincount(narrow, minlength=receivers).tolist()
    if max(counts) == len(batch):
        return [(counts.index(len(batch)), batch)] if len(batch) else []
    ordered = batch.take(np.argsort(narrow, kind="stable"))
    parts: ColumnParts = []
    start = 0
    for target, count in enumerate(counts):
        if count:
            parts.append((target, ordered.slice(start, start + count)))
        start += count
    return parts


@dataclass(frozen=True)
class Forward(Partitioning):
    """Subtask i sends to subtask i."""

    def targets(self, sender: int, senders: int, receivers: int) -> list[int]:
        """Return the sender's own index."""
        return [sender]

    def build(self, sender: int, senders: int, receivers: int, max_parallelism: int) -> ChannelSelector:
        """Make a selector with one target."""
        return _One(sender)


@dataclass(frozen=True)
class Global(Partitioning):
    """Everything goes to subtask 0; the others get watermarks only, and the end."""

    def targets(self, sender: int, senders: int, receivers: int) -> range:
        """Return all subtasks."""
        return range(receivers)

    def build(self, sender: int, senders: int, receivers: int, max_parallelism: int) -> ChannelSelector:
        """Make a selector with one target."""
        return _One(0)


@dataclass(frozen=True)
class Rebalance(Partitioning):
    """Records are dealt in turn to all subtasks."""

    def targets(self, sender: int, senders: int, receivers: int) -> range:
        """Return all subtasks."""
        return range(receivers)

    def build(self, sender: int, senders: int, receivers: int, max_parallelism: int) -> ChannelSelector:
        """Make a selector that starts at the sender's own index."""
        return _RoundRobin(list(range(receivers)), sender)


@dataclass(frozen=True)
class Rescale(Partitioning):
    """Records are dealt in turn to the sender's own share of the subtasks."""

    def targets(self, sender: int, senders: int, receivers: int) -> list[int]:
        """Return the receivers that share the sender's place."""
        if receivers >= senders:
            return list(range(sender * receivers // senders, (sender + 1) * receivers // senders))
        return [sender * receivers // senders]

    def build(self, sender: int, senders: int, receivers: int, max_parallelism: int) -> ChannelSelector:
        """Make a selector over that share."""
        return _RoundRobin(list(self.targets(sender, senders, receivers)), 0)


@dataclass(frozen=True)
class Shuffle(Partitioning):
    """Records are dealt at random: evenly, seeded by the sender, the same in every run."""

    def targets(self, sender: int, senders: int, receivers: int) -> range:
        """Return all subtasks."""
        return range(receivers)

    def build(self, sender: int, senders: int, receivers: int, max_parallelism: int) -> ChannelSelector:
        """Make a seeded selector."""
        return _Random(receivers, Random(sender))


class _Random(ColumnSelector):
    def __init__(self, receivers: int, random: Random) -> None:
        self._receivers = receivers
        self._random = random

    def split(self, batch: Rows) -> Parts:
        values, timestamps = batch.values, batch.timestamps
        targets = self._random.choices(range(self._receivers), k=len(values))
        return _deal(values, timestamps, targets, self._receivers)

    def split_columns(self, batch: Columns) -> ColumnParts:
        # Whoever has columns has numpy; jobs without columns never import it.
        import numpy as np

        numbers = np.frombuffer(self._random.randbytes(4 * len(batch)), np.uint32)
        return _deal_columns(batch, numbers % self._receivers, self._receivers)


@dataclass(frozen=True)
class Broadcast(Partitioning):
    """Every record goes to every subtask."""

    def targets(self, sender: int, senders: int, receivers: int) -> range:
        """Return all subtasks."""
        return range(receivers)

    def build(self, sender: int, senders: int, receivers: int, max_parallelism: int) -> ChannelSelector:
        """Make a selector that copies the lists, not the records."""
        return _All(receivers)


class _All(ColumnSelector):
    def __init__(self, receivers: int) -> None:
        self._receivers = receivers

    def split(self, batch: Rows) -> Parts:
        values, timestamps = batch.values, batch.timestamps
        return [
            (target, Rows(list(values), None if timestamps is None else list(timestamps)))
            for target in range(self._receivers)
        ]

    def split_columns(self, batch: Columns) -> ColumnParts:
        return [(target, batch) for target in range(self._receivers)]


@dataclass(frozen=True)
class KeyGroups(Partitioning):
    """Records go to the subtask that owns their key's group.

    Attributes:
        key_selector: Gives a record's key.
        key_type: Declared type of the keys; None if none is.
    """

    key_selector: Callable[[Any], Any]
    key_type: TypeInformation | None = None

    @property
    def name(self) -> str:
        """The name that plans show."""
        return "HASH"

    def targets(self, sender: int, senders: int, receivers: int) -> range:
        """Return all subtasks."""
        return range(receivers)

    def build(self, sender: int, senders: int, receivers: int, max_parallelism: int) -> ChannelSelector:
        """Make a selector with a memo of key -> subtask."""
        if receivers == 1:
            return _One(0)
        fields = key_fields(self.key_selector)
        memo = KeyGroupMemo(max_parallelism, receivers)
        if fields is None:
            return _Keyed(self.key_selector, memo, receivers)
        return _KeyedByFields(self.key_selector, memo, receivers, fields, max_parallelism)


class _Keyed(ChannelSelector):
    def __init__(self, key_selector: Callable[[Any], Any], memo: KeyGroupMemo, receivers: int) -> None:
        self._key_selector = key_selector
        self._plain = is_plain(key_selector)
        self._memo = memo
        self._receivers = receivers

    def split(self, batch: Rows) -> Parts:
        values, timestamps = batch.values, batch.timestamps
        targets = key_list(self._key_selector, values, self._memo.subtasks)
        if not self._plain:
            claim(values)
        return _deal(values, timestamps, targets, self._receivers)


class _KeyedByFields(_Keyed, ColumnSelector):
    """Deals by fields that columns have."""

    def __init__(
        self,
        key_selector: Callable[[Any], Any],
        memo: KeyGroupMemo,
        receivers: int,
        fields: tuple[str, ...],
        max_parallelism: int,
    ) -> None:
        super().__init__(key_selector, memo, receivers)
        self._fields = fields
        self._max_parallelism = max_parallelism

    def split_columns(self, batch: Columns) -> ColumnParts:
        arrays = [column_of(batch, field, " for the key") for field in self._fields]
        groups = key_groups_of_columns(arrays, self._max_parallelism)
        targets = groups.astype("int64") * self._receivers // self._max_parallelism  # `subtask_of` each
        return _deal_columns(batch, targets, self._receivers)


@dataclass(frozen=True)
class CustomPartitioning(Partitioning):
    """A user's `Partitioner` chooses for each key.

    Attributes:
        partitioner: A Partitioner, or a callable of key and number of partitions.
        key_selector: Gives a record's key.
    """

    partitioner: Partitioner | Callable[[Any, int], int]
    key_selector: Callable[[Any], Any]

    @property
    def name(self) -> str:
        """The name that plans show."""
        return "CUSTOM"

    def targets(self, sender: int, senders: int, receivers: int) -> range:
        """Return all subtasks."""
        return range(receivers)

    def build(self, sender: int, senders: int, receivers: int, max_parallelism: int) -> ChannelSelector:
        """Make a selector that asks the partitioner for every record."""
        choose = self.partitioner.partition if isinstance(self.partitioner, Partitioner) else self.partitioner
        return _Custom(choose, self.key_selector, receivers)


class _Custom(ChannelSelector):
    def __init__(
        self, choose: Callable[[Any, int], int], key_selector: Callable[[Any], Any], receivers: int
    ) -> None:
        self._choose = choose
        self._key_selector = key_selector
        self._receivers = receivers

    def split(self, batch: Rows) -> Parts:
        values, timestamps = batch.values, batch.timestamps
        targets = [self._choose(self._key_selector(value), self._receivers) for value in values]
        claim(values)
        for target, value in zip(targets, values, strict=True):
            if not 0 <= target < self._receivers:
                raise ConfigurationError(
                    f"the partitioner chose partition {target} for {value!r}",
                    detail=f"There are {self._receivers} partitions, counted from 0.",
                )
        return _deal(values, timestamps, targets, self._receivers)

"""Sources read one after the other: history from files, then what comes, from where the files end.

::

    source 0   ranges … ranges, all subtasks have read all ─┐
                                                            ├─ switch: snapshot of 0 ─► source 1 (made of it, or there)
    source 1                                                └─► ranges …, for as long as it lasts

The driver switches between two epochs, when every split of the source is read to its end; so a checkpoint holds the
number of the one source that is being read and its enumerator's snapshot. Split ids and splits carry the number, and a
source that was made at the switch: readers in the slots need nothing else. Watermarks are those of the splits, as with
any source; they do not go back at a switch.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from millstream.base.errors import ConfigurationError, TypeMismatchError
from millstream.spi.source import (
    Boundedness,
    EmitBatch,
    Pending,
    PlanRequest,
    RangeEnd,
    Source,
    SourcePlan,
    SourceReader,
    SplitEnumerator,
    SplitRange,
)
from millstream.spi.versions import bring_up
from millstream.types.basic import TypeInformation

__all__ = ["HybridSource", "HybridSourceBuilder", "SourceFactory"]

SourceFactory = Callable[[Any], Source]
"""Makes a source when it is its turn, of the last snapshot of the one before; called on the driver."""


@dataclass(frozen=True, slots=True)
class _Stage:
    """One of the sources: itself, or what makes it."""

    source: Source | None
    factory: SourceFactory | None
    boundedness: Boundedness


class HybridSource(Source):
    """Reads sources one after the other; made by `HybridSource.builder`. All but the last have to end.

    Example:
        >>> from millstream.datastream.connectors.hybrid_source import HybridSource
        >>> from millstream.datastream.connectors.number_seq import NumberSequenceSource
        >>> past, present = NumberSequenceSource(1, 3), NumberSequenceSource(4, 6)
        >>> source = HybridSource.builder(past).add_source(present).build()  # files, and then Kafka
    """

    def __init__(self, stages: Sequence[_Stage]) -> None:
        self._stages = tuple(stages)

    @staticmethod
    def builder(first_source: Source) -> HybridSourceBuilder:
        """Begin with the source that is read first.

        Raises:
            TypeMismatchError: If it is not a Source.
        """
        return HybridSourceBuilder(first_source)

    def get_boundedness(self) -> Boundedness:
        """Return whether the last source ends."""
        return self._stages[-1].boundedness

    def get_produced_type(self) -> TypeInformation | None:
        """Return the type that of the records, if all sources are known and tell the same."""
        return _common_type(self._stages)

    def build_enumerator(self, parallelism: int, restored: Any | None) -> SplitEnumerator:
        """Make the enumerator of the source that is being read."""
        return _HybridEnumerator(self._stages, parallelism, restored)

    def build_reader(self, subtask_index: int, parallelism: int) -> SourceReader:
        """Make a reader, which opens those of the sources as their ranges come."""
        return _HybridReader(self._stages, subtask_index, parallelism)

    def max_parallelism(self) -> int | None:
        """Return how many subtasks can share each of the sources that are known."""
        known = [each.source.max_parallelism() for each in self._stages if each.source is not None]
        return min((most for most in known if most is not None), default=None)


class HybridSourceBuilder:
    """Makes a HybridSource (PyFlink's).

    Example:
        >>> from millstream.datastream.connectors.hybrid_source import HybridSource
        >>> from millstream.connectors.number_sequence import NumberSequenceSource
        >>> source = HybridSource.builder(NumberSequenceSource(1, 3)).add_source(NumberSequenceSource(7, 9)).build()
        >>> source.get_boundedness()
        <Boundedness.BOUNDED: 'bounded'>
    """

    def __init__(self, first_source: Source) -> None:
        self._stages: list[_Stage] = []
        self.add_source(first_source)

    def add_source(self, source: Source) -> HybridSourceBuilder:
        """Add the source that is read when those before are read to their ends.

        Raises:
            TypeMismatchError: If it is not a Source.
        """
        if not isinstance(source, Source):
            raise TypeMismatchError(
                f"a {type(source).__name__} was given, not a Source",
                hint="Build it first; what makes a source at the switch is given to add_source_factory.",
            )
        return self._add(_Stage(source, None, source.get_boundedness()))

    def add_source_factory(self, factory: SourceFactory, boundedness: Boundedness) -> HybridSourceBuilder:
        """Add a source that is made when it is its turn: one that begins where the one before ended.

        Args:
            factory: Gets the last snapshot of the one before, and returns the source, small and picklable. Called on
                the driver, once; after a failure before the next checkpoint once more.
            boundedness: Whether the source ends.

        Raises:
            TypeMismatchError: If `factory` cannot be called.
        """
        if not callable(factory) or not isinstance(boundedness, Boundedness):
            raise TypeMismatchError(
                "add_source_factory takes a callable and a Boundedness", detail=f"It was given {factory!r}."
            )
        return self._add(_Stage(None, factory, boundedness))

    def build(self) -> HybridSource:
        """Return the source."""
        return HybridSource(self._stages)

    def _add(self, stage: _Stage) -> HybridSourceBuilder:
        if self._stages and self._stages[-1].boundedness is not Boundedness.BOUNDED:
            raise ConfigurationError(
                f"source {len(self._stages)} of a HybridSource does not end, and another one was added behind it",
                hint="Give it an end, such as set_bounded(...) of a Kafka source, or leave the next one out.",
            )
        self._stages.append(stage)
        return self


class _Position(NamedTuple):
    """What a checkpoint holds.

    Attributes:
        number: Which source is being read.
        version: Of the form of its snapshot.
        snapshot: Its enumerator's.
        made: The source, if it was made at the switch.
    """

    number: int
    version: int
    snapshot: Any
    made: Source | None


class _HybridSplit(NamedTuple):
    """A split of one of the sources; `made` is that source, if it was made at the switch."""

    number: int
    made: Source | None
    split_id: str
    split: Any


def _chosen(made: Source | None, stage: _Stage) -> Source:
    source = stage.source if made is None else made
    assert source is not None
    return source


def _common_type(stages: Sequence[_Stage]) -> TypeInformation | None:
    types = [None if each.source is None else each.source.get_produced_type() for each in stages]
    return types[0] if all(each == types[0] for each in types) else None


class _HybridEnumerator(SplitEnumerator):
    def __init__(self, stages: Sequence[_Stage], parallelism: int, restored: Any | None) -> None:
        self._stages = stages
        self._parallelism = parallelism
        self._former: list[SplitEnumerator] = []
        if restored is None:
            self._begin(0, stages[0].source)
            return
        position = _Position(*restored)
        source = _chosen(position.made, stages[position.number])
        snapshot = bring_up(
            position.snapshot,
            position.version,
            source.snapshot_version,
            source.upgrade_snapshot,
            what=f'snapshot of source "{type(source).__name__}" of a HybridSource',
        )
        self._begin(position.number, source, snapshot)

    def _begin(self, number: int, source: Source | None, snapshot: Any = None) -> None:
        assert source is not None
        self._number = number
        self._source = source
        self._made = source if self._stages[number].source is None else None
        self._current = source.build_enumerator(self._parallelism, snapshot)
        self._done: set[int] = set()
        self._planned: dict[int, set[str]] = {}

    @property
    def _is_last(self) -> bool:
        return self._number == len(self._stages) - 1

    def plan(self, request: PlanRequest) -> SourcePlan:
        """Plan ranges of the source that is being read; switch first if it is read to its end."""
        while True:
            if not self._is_last and len(self._done) == self._parallelism:
                self._switch()
            plan = self._current.plan(replace(request, paused=self._paused(request)))
            if self._is_last:
                return replace(plan, ranges=self._marked(plan))
            # A subtask is done when what was planned for it with its end is read.
            self._planned = {
                subtask: {each.split_id for each in plan.ranges.get(subtask, ())} for subtask in plan.finished
            }
            self._done |= {subtask for subtask, split_ids in self._planned.items() if not split_ids}
            if any(plan.ranges.values()) or len(self._done) < self._parallelism:
                return replace(plan, ranges=self._marked(plan), finished=frozenset())

    def _paused(self, request: PlanRequest) -> frozenset[str]:
        mark = f"{self._number}/"
        return frozenset(each.removeprefix(mark) for each in request.paused if each.startswith(mark))

    def _marked(self, plan: SourcePlan) -> dict[int, list[SplitRange]]:
        return {
            subtask: [
                replace(
                    each,
                    split_id=f"{self._number}/{each.split_id}",
                    split=_HybridSplit(self._number, self._made, each.split_id, each.split),
                )
                for each in ranges
            ]
            for subtask, ranges in plan.ranges.items()
        }

    def _switch(self) -> None:
        stage, number = self._stages[self._number + 1], self._number + 1
        source = stage.source
        if stage.factory is not None:
            source = stage.factory(self._current.snapshot())
            if not isinstance(source, Source):
                raise TypeMismatchError(
                    f"the factory of source {number + 1} of a HybridSource gave a {type(source).__name__}, not a Source"
                )
        # It is told of the checkpoint that holds its end.
        self._former.append(self._current)
        self._begin(number, source)

    def pending(self) -> Pending:
        """Return what the source has that is being read: of those behind it nothing is known."""
        return self._current.pending()

    def advance(self, ends: Sequence[RangeEnd]) -> None:
        """Tell the source that is being read."""
        mark = f"{self._number}/"
        own = [replace(end, split_id=end.split_id.removeprefix(mark)) for end in ends]
        self._current.advance(own)
        read = {end.split_id for end in own if end.finished}
        self._done |= {subtask for subtask, split_ids in self._planned.items() if split_ids <= read}
        self._planned = {}

    def snapshot(self) -> Any:
        """Return which source is being read, and its snapshot."""
        return tuple(
            _Position(self._number, self._source.snapshot_version, self._current.snapshot(), self._made)
        )

    def checkpoint_completed(self, checkpoint_id: int) -> None:
        """Tell those that have been read since the last, too, and close them."""
        former, self._former = self._former, []
        for each in former:
            each.checkpoint_completed(checkpoint_id)
            each.close()
        self._current.checkpoint_completed(checkpoint_id)

    def close(self) -> None:
        """Close what is open."""
        for each in [*self._former, self._current]:
            each.close()


class _HybridReader(SourceReader):
    """Opens a source's reader with its first range; those of sources before are open until told of a checkpoint."""

    def __init__(self, stages: Sequence[_Stage], subtask_index: int, parallelism: int) -> None:
        self._stages = stages
        self._subtask_index = subtask_index
        self._parallelism = parallelism
        self._readers: dict[int, SourceReader] = {}

    def read(self, split_range: SplitRange, emit: EmitBatch) -> RangeEnd:
        """Have the source's own reader read it."""
        split: _HybridSplit = split_range.split
        reader = self._reader(split)
        self.gives_away = reader.gives_away
        end = reader.read(replace(split_range, split_id=split.split_id, split=split.split), emit)
        return replace(end, split_id=split_range.split_id)

    def _reader(self, split: _HybridSplit) -> SourceReader:
        if split.number not in self._readers:
            source = _chosen(split.made, self._stages[split.number])
            reader = source.build_reader(self._subtask_index, self._parallelism)
            reader.context = self.context
            reader.wants_columns = self.wants_columns
            reader.open()
            self._readers[split.number] = reader
        return self._readers[split.number]

    def checkpoint_completed(self, checkpoint_id: int) -> None:
        """Tell those that are open, and close those whose sources have been read."""
        for number, reader in list(self._readers.items()):
            reader.checkpoint_completed(checkpoint_id)
            if number < max(self._readers):
                del self._readers[number]
                reader.close()

    def close(self) -> None:
        """Close what is open."""
        readers, self._readers = self._readers, {}
        for reader in readers.values():
            reader.close()

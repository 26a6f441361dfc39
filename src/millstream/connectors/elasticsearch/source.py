"""The documents of indices, as they are when the job starts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from millstream.base.errors import ConfigurationError, SourceError
from millstream.base.time import Duration, Time, to_milliseconds
from millstream.connectors.elasticsearch.connection import ElasticsearchClient, ElasticsearchConnection
from millstream.connectors.elasticsearch.connection_builder import ConnectionBuilder
from millstream.connectors.elasticsearch.views import (
    Hit,
    View,
    close_views,
    open_views,
    renew_view,
    search_slice,
)
from millstream.spi.batch import Rows
from millstream.spi.source import (
    Boundedness,
    EmitBatch,
    PlanRequest,
    RangeEnd,
    Source,
    SourcePlan,
    SourceReader,
    SplitEnumerator,
    SplitRange,
)

__all__ = ["ElasticsearchDocument", "ElasticsearchSource", "ElasticsearchSourceBuilder"]

_MOST_PAGE = 10_000
_KEEP_ALIVE_MS = 30 * 60_000


@dataclass(frozen=True, slots=True)
class ElasticsearchDocument:
    """A document, as a source `with_metadata` gives it.

    Attributes:
        index: The index that it is in.
        id: Its id.
        value: What it holds.

    Example:
        >>> from millstream.datastream.connectors.elasticsearch import ElasticsearchDocument
        >>> document = ElasticsearchDocument("orders-1", "17", {"cents": 250})  # of a source with_metadata
        >>> document.id, document.value["cents"]
        ('17', 250)
    """

    index: str
    id: str
    value: dict[str, Any]


@dataclass(frozen=True, slots=True)
class ElasticsearchSource(Source):
    """Reads the documents of indices as they are when the job starts; made by `ElasticsearchSource.builder()`.

    Example:
        >>> from millstream.datastream.connectors.elasticsearch import ElasticsearchSource
        >>> source = ElasticsearchSource.builder().set_hosts(["localhost:9200"]).set_index("orders-*").build()
    """

    _connection: ElasticsearchConnection
    _index: str
    _query: dict[str, Any] | None = field(repr=False)
    _fields: tuple[str, ...]
    _with_metadata: bool
    _slices_per_shard: int
    _page_size: int
    _keep_alive_ms: int

    @staticmethod
    def builder() -> ElasticsearchSourceBuilder:
        """Return a builder."""
        return ElasticsearchSourceBuilder()

    @property
    def keep_alive(self) -> str:
        """How long views are kept, as the server wants it."""
        return f"{self._keep_alive_ms}ms"

    def get_boundedness(self) -> Boundedness:
        """Return BOUNDED."""
        return Boundedness.BOUNDED

    def build_enumerator(self, parallelism: int, restored: Any | None) -> SplitEnumerator:
        """Open views, or go on in those of a checkpoint.

        Raises:
            SourceError: If the server stays away, or there is no such index.
            LostInputError: If the views of the checkpoint are gone.
        """
        return _ViewEnumerator(self, parallelism, restored)

    def build_reader(self, subtask_index: int, parallelism: int) -> SourceReader:
        """Make the reader of one subtask."""
        return _SliceReader(self)


class ElasticsearchSourceBuilder(ConnectionBuilder):
    """Makes an `ElasticsearchSource`; each method returns the builder.

    Example:
        >>> from millstream.datastream.connectors.elasticsearch import ElasticsearchSource
        >>> builder = ElasticsearchSource.builder().set_hosts(["localhost:9200"]).set_index("orders-*")
        >>> source = builder.set_query({"range": {"cents": {"gte": 100}}}).set_fields("shop", "cents").build()
    """

    def __init__(self) -> None:
        super().__init__()
        self._index: str | None = None
        self._query: dict[str, Any] | None = None
        self._fields: tuple[str, ...] = ()
        self._with_metadata = False
        self._slices = 1
        self._page_size = 1_000
        self._keep_alive_ms = _KEEP_ALIVE_MS

    def set_index(self, index: str) -> ElasticsearchSourceBuilder:
        """Choose the index: a name, an alias, or a pattern such as `logs-*`."""
        self._index = index
        return self

    def set_query(self, query: dict[str, Any]) -> ElasticsearchSourceBuilder:
        """Choose the documents: a query of the server, such as `{"term": {"shop": "north"}}`; by default all."""
        self._query = query
        return self

    def set_fields(self, *fields: str) -> ElasticsearchSourceBuilder:
        """Choose fields of documents, perhaps with `*`; by default all."""
        self._fields = fields
        return self

    def set_with_metadata(self) -> ElasticsearchSourceBuilder:
        """Have records be `ElasticsearchDocument`s, with index and id, and not dicts."""
        self._with_metadata = True
        return self

    def set_slices_per_shard(self, slices: int) -> ElasticsearchSourceBuilder:
        """Choose how many splits a shard is cut into; by default 1. Subtasks read different splits.

        Raises:
            ConfigurationError: If it is no number of at least 1.
        """
        self._slices = _number(slices, "slices_per_shard", 1024)
        return self

    def set_page_size(self, documents: int) -> ElasticsearchSourceBuilder:
        """Choose how many documents are asked for at a time; by default 1,000.

        Raises:
            ConfigurationError: If it is no number from 1 to 10,000.
        """
        self._page_size = _number(documents, "page_size", _MOST_PAGE)
        return self

    def set_keep_alive(self, duration: Duration | Time) -> ElasticsearchSourceBuilder:
        """Choose how long the server keeps a view that nobody reads: longer than the job may be away; 30 minutes."""
        self._keep_alive_ms = to_milliseconds(duration)
        return self

    def build(self) -> ElasticsearchSource:
        """Return the source.

        Raises:
            ConfigurationError: If hosts or index are missing.
        """
        if not self._index:
            raise ConfigurationError("the source has no index", hint="set_index('orders').")
        return ElasticsearchSource(
            self.connection(),
            self._index,
            self._query,
            self._fields,
            self._with_metadata,
            self._slices,
            self._page_size,
            self._keep_alive_ms,
        )


def _number(number: int, what: str, most: int) -> int:
    if not isinstance(number, int) or not 1 <= number <= most:
        raise ConfigurationError(f"{what} is {number!r}", detail=f"It is a number from 1 to {most:,}.")
    return number


@dataclass(frozen=True, slots=True)
class _Slice:
    """A split: a part of a shard, in a view."""

    view: View
    number: int
    slices: int


@dataclass(frozen=True, slots=True)
class _Snapshot:
    """Slices that are not finished, with what they are named, and the place that reading stands at in each."""

    left: tuple[tuple[str, _Slice, list[Any] | None], ...]


class _ViewEnumerator(SplitEnumerator):
    """Opens views and deals their slices in turn; each subtask reads its slices one after the other."""

    def __init__(self, source: ElasticsearchSource, parallelism: int, restored: _Snapshot | None) -> None:
        self._client = ElasticsearchClient(source._connection, SourceError)
        self._keep_alive = source.keep_alive
        self._renew_every_ms = source._keep_alive_ms // 4
        self._renew_ms: int | None = None
        self._parallelism = parallelism
        if restored is None:
            views = open_views(self._client, source._index, source.keep_alive)
            slices = [
                _Slice(view, number, view.shards * source._slices_per_shard)
                for view in views
                for number in range(view.shards * source._slices_per_shard)
            ]
            restored = _Snapshot(tuple((str(place), each, None) for place, each in enumerate(slices)))
        self._left = {split_id: (each, place) for split_id, each, place in restored.left}
        self._views = tuple({each.view.id: each.view for each, _ in self._left.values()}.values())

    def plan(self, request: PlanRequest) -> SourcePlan:
        """Give each subtask the first of its slices that is not finished."""
        ranges: dict[int, list[SplitRange]] = {}
        for split_id, (each, place) in self._left.items():
            subtask = int(split_id) % self._parallelism
            if subtask not in ranges:
                limit = request.max_records
                ranges[subtask] = [SplitRange(split_id, each, place, max_records=limit, sequential=True)]
        if ranges:
            self._renew(request.now_ms)
        return SourcePlan(
            ranges, finished=frozenset(range(self._parallelism)) - ranges.keys(), backlog=bool(ranges)
        )

    def advance(self, ends: Sequence[RangeEnd]) -> None:
        """Take note of places and finished slices."""
        for end in ends:
            each, _ = self._left[end.split_id]
            if end.finished:
                del self._left[end.split_id]
            else:
                self._left[end.split_id] = (each, end.position)

    def snapshot(self) -> _Snapshot:
        """Return the slices that are not finished."""
        return _Snapshot(tuple((split_id, each, place) for split_id, (each, place) in self._left.items()))

    def checkpoint_completed(self, checkpoint_id: int) -> None:
        """Close the views when no checkpoint needs them any more; those of a job that fails go by themselves."""
        if not self._left and self._views:
            close_views(self._client, self._views)
            self._views = ()

    def close(self) -> None:
        """End the connections."""
        self._client.close()

    def _renew(self, now_ms: int) -> None:
        """Keep the views: reading a slice keeps them in its shard only."""
        if self._renew_ms is not None and now_ms < self._renew_ms:
            return
        self._renew_ms = now_ms + self._renew_every_ms
        for view in {each.view.id: each.view for each, _ in self._left.values()}.values():
            renew_view(self._client, view, self._keep_alive)


class _SliceReader(SourceReader):
    """Reads slices, page after page."""

    gives_away = True

    def __init__(self, source: ElasticsearchSource) -> None:
        self._source = source
        self._client = ElasticsearchClient(source._connection, SourceError)

    def read(self, split_range: SplitRange, emit: EmitBatch) -> RangeEnd:
        """Emit documents until the budget is used up, or none follow."""
        place, count, finished = split_range.start, 0, False
        while count < split_range.max_records and not finished:
            size = min(self._source._page_size, split_range.max_records - count)
            hits = self._page(split_range.split, place, size)
            finished = len(hits) < size
            if hits:
                place, count = hits[-1].place, count + len(hits)
                if not emit(Rows([self._record(split_range.split.view.index, hit) for hit in hits])):
                    break
        return RangeEnd(split_range.split_id, place, finished, count)

    def close(self) -> None:
        """End the connections."""
        self._client.close()

    def _page(self, split: _Slice, place: Sequence[Any] | None, size: int) -> list[Hit]:
        source = self._source
        return search_slice(
            self._client,
            split.view,
            source.keep_alive,
            number=split.number,
            slices=split.slices,
            size=size,
            behind=place,
            query=source._query,
            fields=source._fields,
        )

    def _record(self, index: str, hit: Hit) -> Any:
        return ElasticsearchDocument(index, hit.id, hit.source) if self._source._with_metadata else hit.source

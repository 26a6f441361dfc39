"""Streams whose result is kept for later jobs of the same program (PyFlink's `CachedDataStream`)."""

from __future__ import annotations

import os
import shutil
import tempfile
import uuid
from typing import Any, NoReturn

from millstream.base.errors import ConfigurationError, JobDefinitionError
from millstream.base.type_variables import T
from millstream.common.watermark_strategy import WatermarkStrategy
from millstream.config import options
from millstream.connectors.cache import CacheSink, CacheSource
from millstream.datastream.streams.data_stream import DataStream, transform
from millstream.datastream.streams.stream_ends import StreamEnds
from millstream.graph.launcher import RunningJob
from millstream.graph.transformation import Edge, Transformation
from millstream.operators.simple import IdentitySpec
from millstream.operators.sink import SinkSpec
from millstream.operators.source import SourceSpec

__all__ = ["Cache", "CachedDataStream", "cache", "find_unbounded"]


class Cache:
    """What is kept of one stream: nothing, a job that is filling it, or files.

    Attributes:
        transformation: The operator whose result is kept.
    """

    def __init__(self, transformation: Transformation, directory: str) -> None:
        self.transformation = transformation
        self._base = directory
        self._path = ""
        self._filling: RunningJob | None = None

    @property
    def is_filled(self) -> bool:
        """Whether the job that filled it has ended well."""
        return self._filling is not None and self._filling.status() == "FINISHED"

    @property
    def is_free(self) -> bool:
        """Whether the next job is to fill it."""
        return self._filling is None or self._filling.status() in {"FAILED", "CANCELED"}

    def sink(self, transformation_id: int) -> Transformation:
        """Return the sink with which a job fills the cache."""
        self._remove()
        self._path = os.path.join(self._base, f"millstream-cache-{uuid.uuid4().hex}")
        return Transformation(
            id=transformation_id,
            name="Cache",
            spec=SinkSpec(CacheSink(self._path)),
            inputs=[Edge(self.transformation)],
            parallelism=self.transformation.parallelism,
        )

    def source(self) -> Transformation:
        """Return what stands in for the operator: a source that reads what is kept."""
        return Transformation(
            id=self.transformation.id,
            name="Cached Source",
            spec=SourceSpec(CacheSource(self._path), WatermarkStrategy.no_watermarks()),
            parallelism=self.transformation.parallelism,
        )

    def filled_by(self, job: RunningJob) -> None:
        """Take note of the job that fills it; one that an earlier driver brought to its end fills nothing."""
        self._filling = None if job.ended_before else job

    def invalidate(self) -> None:
        """Drop what is kept; the next job fills the cache anew."""
        self._filling = None
        self._remove()

    def _remove(self) -> None:
        if self._path:
            shutil.rmtree(self._path, ignore_errors=True)
            self._path = ""


class CachedDataStream(DataStream[T]):
    """A stream that is computed once: by the first job that reads it; later jobs read what was kept.

    Its timestamps are kept, its watermarks are not: later jobs see the final one only.
    """

    def __init__(self, stream: DataStream[T], kept: Cache) -> None:
        super().__init__(stream._environment, stream._ports, stream._type_info)
        self._cache = kept

    def invalidate(self) -> None:
        """Drop what is kept; the stream is computed anew when it is read again."""
        self._cache.invalidate()

    def _refuse(self, what: str) -> NoReturn:
        raise ConfigurationError(
            f"{what} is not possible on a cached stream",
            hint="Make the setting on the operator, before cache().",
        )

    def set_parallelism(self, parallelism: int) -> NoReturn:
        """Not possible: set it on the operator before."""
        self._refuse("set_parallelism")

    def name(self, name: str) -> NoReturn:
        """Not possible: set it on the operator before."""
        self._refuse("name")

    def get_name(self) -> NoReturn:
        """Not possible: a cached stream has no name."""
        self._refuse("get_name")

    def uid(self, uid: str) -> NoReturn:
        """Not possible: set it on the operator before."""
        self._refuse("uid")

    def set_uid_hash(self, uid_hash: str) -> NoReturn:
        """Not possible: set it on the operator before."""
        self._refuse("set_uid_hash")

    def set_max_parallelism(self, max_parallelism: int) -> NoReturn:
        """Not possible: set it on the operator before."""
        self._refuse("set_max_parallelism")

    def force_non_parallel(self) -> NoReturn:
        """Not possible: set it on the operator before."""
        self._refuse("force_non_parallel")

    def set_buffer_timeout(self, timeout_millis: int) -> NoReturn:
        """Not possible: set it on the operator before."""
        self._refuse("set_buffer_timeout")

    def start_new_chain(self) -> NoReturn:
        """Not possible: set it on the operator before."""
        self._refuse("start_new_chain")

    def disable_chaining(self) -> NoReturn:
        """Not possible: set it on the operator before."""
        self._refuse("disable_chaining")

    def slot_sharing_group(self, slot_sharing_group: Any) -> NoReturn:
        """Not possible: set it on the operator before."""
        self._refuse("slot_sharing_group")


def cache(stream: DataStream[T]) -> CachedDataStream[T]:
    """Return `stream` as one that is computed once.

    Raises:
        JobDefinitionError: If it does not end.
    """
    unbounded = find_unbounded(stream)
    if unbounded is not None:
        raise JobDefinitionError(
            f'cache was called on a stream that does not end: source "{unbounded}" is unbounded',
            hint="Cache streams of bounded sources only.",
        )
    result = transform("Cached Stream", IdentitySpec(), [stream], stream._type_info)
    transformation = result._transformation
    transformation.be_as_parallel_as(stream._ports[0].source)
    environment = stream._environment
    directory = environment._configuration.get(options.CACHE_DIR) or tempfile.gettempdir()
    kept = Cache(transformation, directory)
    environment._caches.append(kept)
    return CachedDataStream(result, kept)


def find_unbounded(stream: StreamEnds[Any]) -> str | None:
    """Return the name of a source that does not end, and that the stream reads; None if there is none."""
    waiting = [port.source for port in stream._ports]
    while waiting:
        transformation = waiting.pop()
        if not transformation.inputs and not transformation.bounded:
            return transformation.name
        waiting.extend(edge.source for edge in transformation.inputs)
    return None

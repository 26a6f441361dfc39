from __future__ import annotations

import pytest

from millstream.operators.base import EpochTime
from millstream.state.disk import DiskKeyedStateBackend
from millstream.state.heap import HeapKeyedStateBackend

KINDS = ("heap", "disk", "disk without cache")


@pytest.fixture
def epoch_time():
    return EpochTime(1_000)


@pytest.fixture
def make_backend(tmp_path, epoch_time):
    """Makes backends of any kind; a cache of one byte writes and drops everything with each access."""
    made = []

    def make(kind, **settings):
        common = {"operator": "op", "time": epoch_time, **settings}
        if kind == "heap":
            backend = HeapKeyedStateBackend(**common)
        else:
            directory = tmp_path / f"state-{len(made)}"
            directory.mkdir()
            cache = 1 if kind == "disk without cache" else 1 << 20
            backend = DiskKeyedStateBackend(str(directory), **{"cache_bytes": cache, **common})
        made.append(backend)
        return backend

    yield make
    for backend in made:
        backend.close()


@pytest.fixture(params=KINDS)
def backend(request, make_backend):
    return make_backend(request.param)

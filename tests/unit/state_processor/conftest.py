"""Jobs that are stopped where their savepoint is known: a source gives its records in parts and then waits."""

from __future__ import annotations

import threading

import pytest

from millstream.common import Configuration, WatermarkStrategy
from millstream.common.watermark_strategy import TimestampAssigner
from millstream.datastream import StreamExecutionEnvironment
from millstream.spi.batch import Rows
from millstream.spi.source import (
    Boundedness,
    RangeEnd,
    Source,
    SourcePlan,
    SourceReader,
    SplitEnumerator,
    SplitRange,
)


class WaitingSource(Source):
    """Gives `records`, `part` in each epoch, then nothing, and does not end; tells when all have been processed."""

    def __init__(self, records, part=1_000):
        self.records = list(records)
        self.part = part
        self.processed = threading.Event()

    def __getstate__(self):
        return {"records": self.records, "part": self.part}

    def get_boundedness(self):
        return Boundedness.CONTINUOUS_UNBOUNDED

    def max_parallelism(self):
        return 1

    def build_enumerator(self, parallelism, restored):
        return _Enumerator(self, restored or 0)

    def build_reader(self, subtask_index, parallelism):
        return _Reader()


class _Enumerator(SplitEnumerator):
    def __init__(self, source, position):
        self.source = source
        self.position = position

    def plan(self, request):
        part = self.source.records[self.position : self.position + self.source.part]
        if not part:
            self.source.processed.set()
            return SourcePlan()
        return SourcePlan({0: [SplitRange("all", part, self.position)]}, backlog=True)

    def advance(self, ends):
        self.position = ends[-1].position

    def snapshot(self):
        return self.position


class _Reader(SourceReader):
    def read(self, split_range, emit):
        records = split_range.split
        emit(Rows(list(records)))
        return RangeEnd("all", split_range.start + len(records), False, len(records))


class RecordTime(TimestampAssigner):
    """The time of a record is its last field."""

    def extract_timestamp(self, value, record_timestamp):
        return value[-1]


TIMED = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(RecordTime())


@pytest.fixture
def environment():
    def make(parallelism=1, **settings):
        options = {"execution.target": "local", "execution.runtime-mode": "STREAMING"}
        options |= {key.replace("__", ".").replace("_", "-"): value for key, value in settings.items()}
        made = StreamExecutionEnvironment.get_execution_environment(Configuration.from_dict(options))
        return made.set_parallelism(parallelism)

    return make


@pytest.fixture
def waiting_job():
    """Starts jobs that have processed everything when they are handed out; cancels them afterwards."""
    started = []

    def start(env, build, records, *, part=1_000):
        source = WaitingSource(records, part)
        build(env.from_source(source, TIMED, "records").uid("records"))
        client = env.execute_async("waiting")
        started.append(client)
        assert source.processed.wait(60), client.get_job_execution_result().exception()
        return client

    yield start
    for client in started:
        client.cancel().result()


@pytest.fixture
def savepoint_of(environment, waiting_job, tmp_path):
    """Returns the path of a savepoint of a job that has processed some records (values that end in their time)."""

    def make(build, records, *, parallelism=1, part=1_000, **settings):
        client = waiting_job(environment(parallelism, **settings), build, records, part=part)
        return client.stop_with_savepoint(False, str(tmp_path / "savepoints")).result()

    return make

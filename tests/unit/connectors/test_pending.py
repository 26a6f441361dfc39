"""What enumerators tell of what is not read, beside what is read then."""

from __future__ import annotations

import gzip

import pytest

from millstream.connectors.collection import CollectionSource
from millstream.connectors.datagen import DataGeneratorSource, RateLimiterStrategy
from millstream.connectors.files.source import FileSource
from millstream.connectors.hybrid import HybridSource
from millstream.connectors.jdbc.query_reader import QueryEnumerator
from millstream.connectors.number_sequence import NumberSequenceSource
from millstream.formats.csv.reader import CsvReaderFormat
from millstream.formats.json.reader import JsonLinesFormat
from millstream.formats.text.lines import StreamFormat
from millstream.runtime.job import launcher
from millstream.runtime.job.job_master import JobMaster
from millstream.spi.source import PlanRequest, RangeEnd
from millstream.types.datatypes import DataTypes


def turn(source, enumerator, parallelism, records):
    """Read what one plan says; return how many records that were."""
    plan = enumerator.plan(PlanRequest(parallelism, records, 0))
    ends = []
    for subtask, ranges in plan.ranges.items():
        reader = source.build_reader(subtask, parallelism)
        reader.open()
        ends += [reader.read(each, lambda batch: True) for each in ranges]
        reader.close()
    enumerator.advance(ends)
    return sum(end.records for end in ends)


def test_a_sequence_knows_how_many_numbers_are_left():
    source = NumberSequenceSource(1, 100)
    enumerator = source.build_enumerator(3, None)
    read, seen = 0, []
    while not seen or seen[-1]:
        seen.append(sum(enumerator.pending().records.values()))
        assert seen[-1] == 100 - read
        read += turn(source, enumerator, 3, 20)
    assert len(seen) > 2
    assert enumerator.pending().splits == {0: 0, 1: 0, 2: 0}


def test_a_collection_has_as_many_records_as_it_holds():
    assert CollectionSource([1, 2, 3]).build_enumerator(1, None).pending().records == {0: 3}


def test_of_a_source_without_end_only_splits_are_known():
    source = DataGeneratorSource(lambda index: index, None, RateLimiterStrategy.per_second(5))
    pending = source.build_enumerator(2, None).pending()
    assert (pending.records, pending.splits) == ({}, {0: 1, 1: 1})


@pytest.mark.parametrize("form", ["text", "csv", "json"])
def test_of_files_the_bytes_behind_what_was_read_are_left(tmp_path, form):
    lines = [f"{number},{'x' * (number % 9)}\n" for number in range(500)]
    file_format = StreamFormat.text_line_format()
    if form == "csv":
        lines.insert(0, "a,b\n")
        file_format = CsvReaderFormat.for_header()
    if form == "json":
        lines = [f'{{"a": {number}}}\n' for number in range(500)]
        file_format = JsonLinesFormat.for_schema(DataTypes.ROW([DataTypes.FIELD("a", DataTypes.INT())]))
    (tmp_path / "lines").write_text("".join(lines))
    source = FileSource.for_record_stream_format(file_format, str(tmp_path / "lines")).build()
    enumerator = source.build_enumerator(1, None)
    assert enumerator.pending().unassigned_splits == 1
    begun, read = len(lines) - 500, 0
    while read < 500:
        read += turn(source, enumerator, 1, 64)
        left = "".join(lines[begun + read :])
        assert sum(enumerator.pending().bytes.values()) == len(left.encode())
    assert enumerator.pending().splits == {0: 0}


def test_a_compressed_file_counts_whole_until_it_is_read(tmp_path):
    path = tmp_path / "lines.gz"
    path.write_bytes(gzip.compress(b"line\n" * 500))
    source = FileSource.for_record_stream_format(StreamFormat.text_line_format(), str(path)).build()
    enumerator = source.build_enumerator(1, None)
    turn(source, enumerator, 1, 100)
    assert enumerator.pending().bytes == {0: path.stat().st_size}
    while turn(source, enumerator, 1, 100):
        pass
    assert enumerator.pending().bytes == {0: 0}


def test_of_parts_of_a_file_only_their_own_bytes_count(tmp_path):
    path = tmp_path / "lines"
    path.write_text("line\n" * 1_000)
    builder = FileSource.for_record_stream_format(StreamFormat.text_line_format(), str(path))
    source = builder.set_split_size(1_250).build()
    enumerator = source.build_enumerator(1, None)
    read = 0
    while read < 1_000:
        read += turn(source, enumerator, 1, 90)
        if not enumerator.pending().unassigned_splits:
            assert sum(enumerator.pending().bytes.values()) == 5_000 - 5 * read


def test_splits_of_a_query_wait_for_a_subtask():
    enumerator = QueryEnumerator([(number,) for number in range(11)], 2, None)
    plan = enumerator.plan(PlanRequest(2, 100, 0))
    pending = enumerator.pending()
    assert pending.splits == {0: 4, 1: 4}
    assert (pending.unassigned_splits, pending.records) == (3, {})
    enumerator.advance([RangeEnd(plan.ranges[0][0].split_id, 5, True, 5)])
    assert enumerator.pending().splits == {0: 3, 1: 4}


def test_a_hybrid_source_tells_of_the_source_that_is_read():
    source = HybridSource.builder(NumberSequenceSource(1, 5)).add_source(NumberSequenceSource(6, 7)).build()
    assert source.build_enumerator(1, None).pending().records == {0: 5}


def test_a_job_shows_what_waits_and_that_nothing_does_at_its_end(new_environment, monkeypatch):
    made, seen = [], []

    class Kept(JobMaster):
        def __init__(self, *arguments, **keywords):
            super().__init__(*arguments, **keywords)
            made.append(self)

        def _tell_progress(self, epoch_s):
            super()._tell_progress(epoch_s)
            self.observer.publish_pending(self._sources.pending())
            seen.append(shown(self.observer))

    monkeypatch.setattr(launcher, "JobMaster", Kept)

    def shown(observer):
        views = observer._metrics().metrics
        return {
            each.subtask: each.value
            for each in views
            if each.name == "pendingRecords" and each.scope == "operator"
        }

    environment = new_environment("local", 2, {"millstream.epoch.fixed-records": 4})
    environment.from_collection(list(range(20))).map(str).print()
    environment.execute("job")
    totals = [sum(each.values()) for each in seen]
    assert totals == sorted(totals, reverse=True)
    assert totals[0] == 16
    assert sum(shown(made[0].observer).values()) == 0

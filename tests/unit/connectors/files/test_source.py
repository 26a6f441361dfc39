from __future__ import annotations

import bz2
import errno
import gzip
import lzma
import os
import zlib

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from millstream.base.errors import ConfigurationError, MalformedRecordError, SourceError
from millstream.base.time import Duration
from millstream.connectors.files.source import FileSource
from millstream.formats.csv.reader import CsvReaderFormat
from millstream.formats.csv.schema import CsvSchema
from millstream.formats.json.reader import JsonLinesFormat
from millstream.formats.parquet.reader import ParquetColumnarRowInputFormat
from millstream.formats.text.lines import StreamFormat
from millstream.table import DataTypes
from millstream.testing import SourceRun


def lines_of(*paths, follow_ms=None):
    builder = FileSource.for_record_stream_format(StreamFormat.text_line_format(), *map(str, paths))
    return (builder.monitor_continuously(Duration.of_millis(follow_ms)) if follow_ms else builder).build()


def zst(data):
    """Two frames, as programs write them that append, or compress on several cores."""
    half = len(data) // 2
    return b"".join(pa.compress(part, "zstd", asbytes=True) for part in (data[:half], data[half:]))


def write(path, *lines):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{line}\n" for line in lines))
    return path


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    sizes=st.lists(st.integers(0, 12), min_size=1, max_size=9),
    parallelism=st.integers(1, 4),
    budget=st.integers(1, 9),
    stop_after=st.integers(0, 4),
    parallelism_after=st.integers(1, 4),
)
def test_every_line_is_read_once_on_any_parallelism_and_across_a_restart(
    tmp_path_factory, sizes, parallelism, budget, stop_after, parallelism_after
):
    folder = tmp_path_factory.mktemp("lines")
    for number, size in enumerate(sizes):
        write(folder / f"f{number}", *(f"{number}.{i}" for i in range(size)))
    first = SourceRun(lines_of(folder), parallelism, budget=budget)
    for _ in range(stop_after):
        if len(first.finished) < parallelism:
            first.epoch()
    second = SourceRun(lines_of(folder), parallelism_after, budget=budget, restored=first.snapshot())
    read = [line for lines in first.read for line in lines] + second.run()
    assert sorted(read) == sorted(f"{n}.{i}" for n, size in enumerate(sizes) for i in range(size))


def test_one_subtask_reads_the_files_by_path_one_after_the_other(tmp_path):
    write(tmp_path / "b", "b1", "b2")
    write(tmp_path / "a" / "z", "z1", "z2", "z3")
    assert SourceRun(lines_of(tmp_path), 1, budget=2).run() == ["z1", "z2", "z3", "b1", "b2"]


def test_file_stays_with_its_subtask_and_files_are_shared_out_evenly(tmp_path):
    for number in range(4):
        write(tmp_path / str(number), *(f"{number}.{i}" for i in range(5)))
    run = SourceRun(lines_of(tmp_path), 2, budget=2)
    run.run()
    assert run.read == [[f"{n}.{i}" for n in (k, k + 2) for i in range(5)] for k in (0, 1)]


def test_many_tiny_files_need_few_epochs(tmp_path):
    for number in range(200):
        write(tmp_path / f"{number:03}", number)
    run = SourceRun(lines_of(tmp_path), 2, budget=1_000)
    assert len(run.run()) == 200
    assert run.epochs <= 3


def test_hidden_files_and_directories_are_left_out(tmp_path):
    write(tmp_path / ".hidden", "no")
    write(tmp_path / "_SUCCESS", "no")
    write(tmp_path / ".git" / "x", "no")
    write(tmp_path / "day=1" / "x", "yes")
    assert SourceRun(lines_of(tmp_path), 1, budget=9).run() == ["yes"]


def test_empty_file_and_empty_directory_are_fine(tmp_path):
    assert SourceRun(lines_of(tmp_path), 2, budget=9).run() == []
    write(tmp_path / "empty")
    assert SourceRun(lines_of(tmp_path), 2, budget=9).run() == []


def test_a_directory_that_may_not_be_read_is_named_and_not_left_out(tmp_path, monkeypatch):
    write(tmp_path / "a", "a1")
    write(tmp_path / "closed" / "b", "b1")
    scan = os.scandir

    def guarded(path):
        if str(path).endswith("closed"):
            raise PermissionError(errno.EACCES, "Permission denied", path)
        return scan(path)

    monkeypatch.setattr(os, "scandir", guarded)
    with pytest.raises(SourceError) as raised:
        SourceRun(lines_of(tmp_path), 1, budget=10)
    assert raised.value.message == f"no file or directory {str(tmp_path / 'closed')!r} can be read"
    assert raised.value.hint.startswith("Let the user that runs the job read it")


def test_missing_path_is_named_before_the_job_starts(tmp_path):
    with pytest.raises(SourceError, match=r"(?s)no file or directory '.*nowhere'.*Hint: Check the path"):
        lines_of(tmp_path / "nowhere").build_enumerator(1, None)


def test_file_uri_is_a_local_path(tmp_path):
    file = write(tmp_path / "with space", "x")
    assert SourceRun(lines_of(file.as_uri()), 1, budget=9).run() == ["x"]


@pytest.mark.parametrize(
    ("suffix", "compress"),
    [
        (".gz", gzip.compress),
        (".deflate", zlib.compress),
        (".bz2", bz2.compress),
        (".xz", lzma.compress),
        (".zst", zst),
    ],
    ids=["gz", "deflate", "bz2", "xz", "zst"],
)
def test_a_compressed_file_that_is_cut_off_or_of_another_kind_is_named(tmp_path, suffix, compress):
    whole = compress(b"".join(b"%d\n" % number for number in range(100_000)))
    for name, data in {"cut": whole[: len(whole) // 2], "plain": b"no compressed file\n" * 10}.items():
        path = tmp_path / f"{name}{suffix}"
        path.write_bytes(data)
        with pytest.raises(SourceError) as raised:
            SourceRun(lines_of(path), 1, budget=1_000_000).run()
        assert raised.value.message == f"file {str(path)!r} cannot be read"
        assert (
            raised.value.hint == "Check that the file is whole, and compressed as the end of its name says."
        )


@pytest.mark.parametrize("suffix", [".gz", ".deflate", ".zst"])
def test_an_empty_file_with_a_compressed_files_name_has_no_lines(tmp_path, suffix):
    path = tmp_path / f"empty{suffix}"
    path.write_bytes(b"")
    assert SourceRun(lines_of(path), 1, budget=10).run() == []


@pytest.mark.parametrize(
    ("suffix", "compress"),
    [(".gz", gzip.compress), (".deflate", zlib.compress), (".zst", zst)],
    ids=["gz", "deflate", "zst"],
)
def test_compressed_file_is_read_through_any_number_of_epochs_and_readers(tmp_path, suffix, compress):
    expected = [f"line {i}" for i in range(500)]
    (tmp_path / f"x{suffix}").write_bytes(compress("\n".join(expected).encode()))
    first = SourceRun(lines_of(tmp_path), 1, budget=120)
    first.epoch()
    first.epoch()
    second = SourceRun(lines_of(tmp_path), 1, budget=77, restored=first.snapshot())
    assert first.read[0] + second.run() == expected


def test_followed_directory_finds_new_files_at_the_interval_in_order_of_change(tmp_path):
    write(tmp_path / "z", "z1")
    run = SourceRun(lines_of(tmp_path, follow_ms=100), 1, budget=9)
    assert run.epoch(0).next_ms == 100
    for age, name in ((3, "b"), (9, "a"), (1, "c.tmp"), (1, "c.inprogress")):
        os.utime(write(tmp_path / name, name), (1_000_000 + age, 1_000_000 + age))
    assert run.epoch(99).ranges == {}
    assert run.epoch(100).next_ms == 200
    assert run.read[0] == ["z1", "b", "a"]
    assert not run.finished


def test_followed_directory_is_looked_at_each_interval_and_does_not_end(tmp_path):
    run = SourceRun(lines_of(tmp_path, follow_ms=100_000), 2, budget=1)
    run.epoch(0)
    write(tmp_path / "a", "a1", "a2", "a3")
    assert run.run(until=lambda: run.epochs == 9) == ["a1", "a2", "a3"]
    assert not run.finished


def test_followed_directory_reads_no_file_twice_after_a_restart(tmp_path):
    write(tmp_path / "a", "a")
    source = lines_of(tmp_path, follow_ms=100)
    first = SourceRun(source, 1, budget=9)
    first.epoch(0)
    write(tmp_path / "b", "b")
    second = SourceRun(source, 2, budget=9, restored=first.snapshot())
    assert second.run(until=lambda: second.epochs == 3) == ["b"]


# ---- parts of files ----


def json_format():
    return JsonLinesFormat.for_schema(DataTypes.ROW([DataTypes.FIELD("n", DataTypes.STRING())]))


def csv_format():
    return CsvReaderFormat.for_schema(
        CsvSchema.builder().add_string_column("n").disable_quote_char().set_use_header().build()
    )


SPLIT_FORMATS = {
    "text": (
        StreamFormat.text_line_format,
        lambda texts, end: "".join(f"{text}{end}" for text in texts),
        str,
    ),
    "json": (
        json_format,
        lambda texts, end: "".join(f'{{"n": "{text}"}}{end}' for text in texts),
        lambda r: r.n,
    ),
    "csv": (
        csv_format,
        lambda texts, end: f"n{end}" + "".join(f"{text}{end}" for text in texts),
        lambda r: r.n,
    ),
}


@settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    form=st.sampled_from(sorted(SPLIT_FORMATS)),
    texts=st.lists(st.text("abé", min_size=1, max_size=9), max_size=30),
    end=st.sampled_from(["\n", "\r\n"]),
    last_newline=st.booleans(),
    size=st.integers(1, 60),
    parallelism=st.integers(1, 4),
    budget=st.integers(1, 9),
    stop_after=st.integers(0, 4),
)
def test_parts_of_a_file_hold_each_record_once(
    tmp_path_factory, form, texts, end, last_newline, size, parallelism, budget, stop_after
):
    make, content, text_of = SPLIT_FORMATS[form]
    path = tmp_path_factory.mktemp("parts") / "x"
    data = content(texts, end).encode()
    path.write_bytes(data if last_newline else data.removesuffix(end.encode()))

    def source():
        return FileSource.for_record_stream_format(make(), str(path)).set_split_size(size).build()

    first = SourceRun(source(), parallelism, budget=budget)
    for _ in range(stop_after):
        if len(first.finished) < parallelism:
            first.epoch()
    second = SourceRun(source(), parallelism, budget=budget, restored=first.snapshot())
    read = [record for records in first.read for record in records] + second.run()
    assert sorted(map(text_of, read)) == sorted(texts)


@pytest.mark.parametrize("size", [1, 300, 1_000, 1 << 20])
@pytest.mark.parametrize("parallelism", [1, 3])
def test_row_groups_of_a_parquet_file_are_read_once_each(tmp_path, size, parallelism):
    path = tmp_path / "x.parquet"
    pq.write_table(pa.table({"n": list(range(100))}), path, row_group_size=7)
    kind = DataTypes.ROW([DataTypes.FIELD("n", DataTypes.BIGINT())])

    def source():
        return (
            FileSource.for_bulk_file_format(ParquetColumnarRowInputFormat(kind), str(path))
            .set_split_size(size)
            .build()
        )

    first = SourceRun(source(), parallelism, budget=5)
    first.epoch()
    second = SourceRun(source(), parallelism, budget=5, restored=first.snapshot())
    second.run()
    read = [[row.n for row in rows] for rows in first.read + second.read]
    assert sorted(sum(read, [])) == list(range(100))
    if size == 300 and parallelism == 3:
        assert all(second.read)


def test_parts_go_to_several_subtasks_and_whole_files_to_one(tmp_path):
    path = write(tmp_path / "x", *range(100_000, 101_000))
    text = StreamFormat.text_line_format()
    cut = FileSource.for_record_stream_format(text, str(path)).set_split_size(1_000).build()
    run = SourceRun(cut, 4, budget=100)
    run.run()
    assert all(140 < len(lines) < 300 for lines in run.read)
    run = SourceRun(FileSource.for_record_stream_format(text, str(path)).build(), 4, budget=100)
    run.run()
    assert [len(lines) for lines in run.read] == [1_000, 0, 0, 0]


def test_what_cannot_be_cut_is_read_whole(tmp_path):
    squeezed = tmp_path / "x.gz"
    squeezed.write_bytes(gzip.compress(b"".join(b"%d\n" % n for n in range(1_000))))
    quoted = write(tmp_path / "x.csv", *(f'"{n}\n"' for n in range(1_000)))
    quotes = CsvReaderFormat.for_schema(CsvSchema.builder().add_string_column("n").build())
    for fmt, path in ((StreamFormat.text_line_format(), squeezed), (quotes, quoted)):
        run = SourceRun(
            FileSource.for_record_stream_format(fmt, str(path)).set_split_size(100).build(), 2, budget=5_000
        )
        run.run()
        assert [len(lines) for lines in run.read] == [1_000, 0]
    with pytest.raises(ConfigurationError, match="split size is 0 bytes"):
        FileSource.for_record_stream_format(quotes, "x").set_split_size(0)


def test_a_malformed_line_of_a_part_says_from_where_lines_are_counted(tmp_path):
    path = write(tmp_path / "x", *('{"n": "a"}' for _ in range(100)), "oops")
    source = FileSource.for_record_stream_format(json_format(), str(path)).set_split_size(600).build()
    with pytest.raises(
        MalformedRecordError, match=r"(?s)line 50, column 1: .*counted from the first .* byte 552 or"
    ):
        SourceRun(source, 1, budget=500).run()


def test_parts_of_files_in_a_followed_directory_are_read_once(tmp_path):
    write(tmp_path / "a", *range(100))
    builder = FileSource.for_record_stream_format(StreamFormat.text_line_format(), str(tmp_path))
    source = builder.set_split_size(50).monitor_continuously(Duration.of_millis(10)).build()
    run = SourceRun(source, 2, budget=10)
    for now in range(0, 100, 20):
        run.epoch(now)
    again = SourceRun(source, 2, budget=1_000, restored=run.snapshot())
    write(tmp_path / "b", *range(100, 120))
    again.run(until=lambda: again.epochs == 9)
    assert sorted(map(int, sum(run.read + again.read, []))) == list(range(120))

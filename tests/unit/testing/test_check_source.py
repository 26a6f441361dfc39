"""The conformance suite of sources: millstream's own pass it, and a source with a bug is told which rule it breaks."""

from __future__ import annotations

import json
import socket
import threading

import pytest

from millstream.common import Duration, Row
from millstream.connectors.collection import CollectionSource
from millstream.connectors.number_sequence import NumberSequenceSource
from millstream.datastream.connectors.datagen import DataGeneratorSource, RateLimiterStrategy
from millstream.datastream.connectors.file_system import FileSource, StreamFormat
from millstream.datastream.formats.csv import CsvReaderFormat, CsvSchema
from millstream.datastream.formats.json import JsonLinesFormat
from millstream.datastream.formats.parquet import ParquetColumnarRowInputFormat
from millstream.datastream.functions import ParallelSourceFunction, SourceFunction
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
from millstream.table import DataTypes
from millstream.testing import MiniCluster
from millstream.testing.check_source import check_source, check_source_function
from millstream.testing.rules import ContractViolation
from millstream.testing.source_run import SourceRule

FEW = {"parallelisms": (1, 3), "budgets": (2, 100_000)}


def files(directory, contents):
    directory.mkdir(exist_ok=True)
    for number, content in enumerate(contents):
        (directory / f"{number}.txt").write_text(content)
    return directory


def text(directory):
    return FileSource.for_record_stream_format(StreamFormat.text_line_format(), str(directory)).build()


@pytest.mark.parametrize("count", [0, 1, 13, 12_000])
def test_a_collection_passes(count):
    records = [(number, str(number)) for number in range(count)]
    check_source(CollectionSource(records), expected=records, budgets=(1, 4, 100_000))


@pytest.mark.parametrize("count", [1, 13, 12_000])
def test_a_number_sequence_passes(count):
    check_source(
        NumberSequenceSource(1, count), expected=range(1, count + 1), parallelisms=(2,), budgets=(2, 10**6)
    )


def test_a_bounded_generator_passes():
    check_source(DataGeneratorSource(lambda index: -index, 40), expected=range(0, -40, -1), **FEW)


@pytest.mark.parametrize("rate", [None, RateLimiterStrategy.per_second(100)])
def test_an_endless_generator_passes(rate):
    how = {} if rate is None else {"rate_limiter_strategy": rate}
    check_source(DataGeneratorSource(lambda index: index, None, **how), records=200, **FEW)


@pytest.mark.parametrize(
    "contents", [[], [""], ["a\nb\nc"], ["one line\n", "", "\n\n", "x\r\ny\n" * 10, "no end"]]
)
def test_lines_of_files_pass(tmp_path, contents):
    directory = files(tmp_path / "in", contents)
    expected = [line for content in contents for line in content.splitlines()]
    check_source(text(directory), expected=expected, **FEW)


def test_many_lines_pass(tmp_path):
    directory = files(tmp_path / "in", ["".join(f"{file}-{n}\n" for n in range(1_000)) for file in range(4)])
    expected = [f"{file}-{n}" for n in range(1_000) for file in range(4)]
    check_source(text(directory), expected=expected, parallelisms=(1, 3), budgets=(100, 100_000))


def test_a_followed_directory_passes(tmp_path):
    directory = files(tmp_path / "in", ["a\nb\n", "", "".join(f"{n}\n" for n in range(40))])
    builder = FileSource.for_record_stream_format(StreamFormat.text_line_format(), str(directory))
    source = builder.monitor_continuously(Duration.of_millis(100)).build()
    check_source(source, expected=["a", "b", *map(str, range(40))], **FEW)


@pytest.mark.parametrize("size", [1, 7, 100])
def test_files_that_are_cut_into_parts_pass(tmp_path, size):
    contents = ["".join(f"{n}\n" for n in range(60)), "", "a\r\n\r\nb", "x" * 50]
    directory = files(tmp_path / "in", contents)
    builder = FileSource.for_record_stream_format(StreamFormat.text_line_format(), str(directory))
    source = builder.set_split_size(size).build()
    expected = [line for content in contents for line in content.splitlines()]
    check_source(source, expected=expected, parallelisms=(1, 2), budgets=(3, 100_000))


def test_json_lines_pass(tmp_path):
    lines = [json.dumps({"n": n, "s": "x\n" * n}) + "\n" for n in range(40)]
    directory = files(tmp_path / "in", ["".join(lines[:3]), "", "".join(lines[3:])])
    kind = DataTypes.ROW([DataTypes.FIELD("n", DataTypes.INT()), DataTypes.FIELD("s", DataTypes.STRING())])
    source = FileSource.for_record_stream_format(JsonLinesFormat.for_schema(kind), str(directory)).build()
    check_source(source, expected=[Row(n=n, s="x\n" * n) for n in range(40)], **FEW)


def test_csv_passes(tmp_path):
    directory = files(
        tmp_path / "in", ['1,"a\nb"\n2,"c"\n', "", "".join(f'{n},"x""{n}"\n' for n in range(50))]
    )
    schema = CsvSchema.builder().add_number_column("n", DataTypes.INT()).add_string_column("s").build()
    source = FileSource.for_record_stream_format(CsvReaderFormat.for_schema(schema), str(directory)).build()
    rows = [(1, "a\nb"), (2, "c"), *((n, f'x"{n}') for n in range(50))]
    check_source(source, expected=[Row(n=n, s=s) for n, s in rows], **FEW)


def test_parquet_passes(tmp_path):
    pa = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    (tmp_path / "in").mkdir()
    for number, count in enumerate((0, 7, 40)):
        table = pa.table({"n": pa.array(range(count), pa.int32()), "s": [str(n) for n in range(count)]})
        parquet.write_table(table, tmp_path / "in" / f"{number}.parquet", row_group_size=9)
    kind = DataTypes.ROW([DataTypes.FIELD("n", DataTypes.INT()), DataTypes.FIELD("s", DataTypes.STRING())])
    format = ParquetColumnarRowInputFormat(kind, None, 4, False, True)
    source = FileSource.for_bulk_file_format(format, str(tmp_path / "in")).build()
    check_source(source, expected=[Row(n=n, s=str(n)) for count in (7, 40) for n in range(count)], **FEW)


class Shared:
    """Numbers of which each is taken once, by whatever attempt; the local executor runs all in this process."""

    queues = {}

    def __init__(self, count):
        self.name = len(self.queues)
        self.queues[self.name] = iter(range(count))

    def take(self):
        return next(self.queues[self.name], None)


class FromShared(ParallelSourceFunction):
    def __init__(self, count):
        self.numbers = Shared(count)

    def run(self, ctx):
        while (number := self.numbers.take()) is not None:
            ctx.collect(number)

    def cancel(self):
        pass


class Anew(FromShared):
    """Begins anew with each attempt, though what it gave before is in the log."""

    def __init__(self, count):
        self.count = count

    def run(self, ctx):
        for number in range(self.count):
            ctx.collect(number)


class Forgetful(FromShared):
    """Takes a number in vain now and then."""

    def run(self, ctx):
        while (number := self.numbers.take()) is not None:
            if number != 17:
                ctx.collect(number)


def test_a_source_function_passes():
    check_source_function(lambda: FromShared(60), range(60), parallelisms=(1, 2))


@pytest.mark.parametrize("function", [Anew, Forgetful])
def test_a_source_function_that_loses_or_doubles_does_not(function):
    with pytest.raises(ContractViolation, match="many" if function is Anew else "1 are missing") as raised:
        check_source_function(lambda: function(60), range(60))
    assert raised.value.rule is SourceRule.JOB


class SocketLines(SourceFunction):
    """Reads lines from a server that forgets what it has sent."""

    def __init__(self, port):
        self.port = port

    def run(self, ctx):
        try:
            connection = socket.create_connection(("127.0.0.1", self.port))
        except ConnectionRefusedError:
            return  # another attempt has read it all
        with connection, connection.makefile() as lines:
            for line in lines:
                ctx.collect(line.rstrip("\n"))

    def cancel(self):
        pass


class OneConnection:
    """Servers that send their lines to whoever connects first, and are gone then."""

    def __init__(self, lines):
        self.lines = lines
        self.threads = []

    def start(self):
        listener = socket.create_server(("127.0.0.1", 0))
        thread = threading.Thread(target=self._serve, args=(listener,))
        self.threads.append(thread)
        thread.start()
        return listener.getsockname()[1]

    def _serve(self, listener):
        with listener:
            connection, _ = listener.accept()
        with connection:
            connection.sendall("".join(f"{line}\n" for line in self.lines).encode())


def test_a_socket_passes():
    servers = OneConnection([f"line {number}" for number in range(50)])
    check_source_function(lambda: SocketLines(servers.start()), servers.lines)
    for thread in servers.threads:
        thread.join(10)


class Endless(SourceFunction):
    """Emits some numbers, then waits until it is cancelled."""

    def run(self, ctx):
        for number in range(20):
            ctx.collect(number)
        self.cancelled.wait()

    def open(self, runtime_context):
        self.cancelled = threading.Event()

    def cancel(self):
        self.cancelled.set()


def test_a_function_that_does_not_return_has_given_all_when_it_falls_silent():
    with MiniCluster(parallelism=1, options={"millstream.execution.stop-when-idle": "300 ms"}) as cluster:
        assert cluster.collect(cluster.environment().add_source(Endless())) == list(range(20))


class Letters(Source, SplitEnumerator, SourceReader):
    """Splits of letters, read by position; subclasses have one bug each."""

    SPLITS = {"a": "aaaaa", "b": "bbbbbbbbbb", "c": "ccccccc", "d": ""}

    def get_boundedness(self):
        return Boundedness.BOUNDED

    def splits(self):
        return {name: [f"{letter}{i}" for i, letter in enumerate(text)] for name, text in self.SPLITS.items()}

    def build_enumerator(self, parallelism, restored):
        enumerator = type(self)()
        enumerator.parallelism = parallelism
        enumerator.left = dict(restored) if restored is not None else dict.fromkeys(self.splits(), 0)
        return enumerator

    def build_reader(self, subtask_index, parallelism):
        return type(self)()

    def owner(self, name):
        return ord(name) % self.parallelism

    def owned(self, subtask):
        return [name for name in self.left if self.owner(name) == subtask]

    def plan(self, request):
        ranges = {}
        for subtask in range(self.parallelism):
            names = [name for name in self.owned(subtask) if name not in request.paused]
            if names:
                ranges[subtask] = [
                    SplitRange(name, name, self.left[name], max_records=request.max_records) for name in names
                ]
        finished = frozenset(i for i in range(self.parallelism) if not self.owned(i))
        return SourcePlan(ranges, finished)

    def advance(self, ends):
        for end in ends:
            self.left[end.split_id] = end.position
            if end.finished:
                del self.left[end.split_id]

    def snapshot(self):
        return self.left

    def read(self, split_range, emit):
        records = self.splits()[split_range.split]
        position = split_range.start
        while position < len(records) and position - split_range.start < split_range.max_records:
            position += 1
            if not emit(Rows([records[position - 1]])):
                break
        return self.end(split_range, position, len(records))

    def end(self, split_range, position, count):
        return RangeEnd(split_range.split_id, position, position >= count, position - split_range.start)


class Unpicklable(Letters):
    def snapshot(self):
        return {**self.left, "lock": threading.Lock()}


class PlansForOthers(Letters):
    def plan(self, request):
        return SourcePlan({self.parallelism: [SplitRange("a", "a", 0)]})


class GoesOnBehindTheEnd(Letters):
    def plan(self, request):
        finished = frozenset({0}) if self.parallelism > 1 else frozenset()
        plan = super().plan(request)
        return SourcePlan(plan.ranges, plan.finished | finished)


class MovesSplits(Letters):
    """Gives the splits that are left to other subtasks when it is restored."""

    moved = 0

    def build_enumerator(self, parallelism, restored):
        enumerator = super().build_enumerator(parallelism, restored)
        enumerator.moved = 0 if restored is None else 1
        return enumerator

    def owner(self, name):
        return (ord(name) + self.moved) % self.parallelism


class ForgetsWhatIsFinished(Letters):
    def advance(self, ends):
        for end in ends:
            self.left[end.split_id] = end.position


class SharesSplits(Letters):
    def owned(self, subtask):
        return list(self.left)


class BadStamps(Letters):
    def read(self, split_range, emit):
        return super().read(split_range, lambda batch: emit(Rows(batch.values, [1, 2])))


class Miscounts(Letters):
    def end(self, split_range, position, count):
        return RangeEnd(split_range.split_id, position, position >= count, position)


class Greedy(Letters):
    def splits(self):
        return {"a": list(range(30_000))}

    def read(self, split_range, emit):
        records = self.splits()[split_range.split][split_range.start :]
        emit(Rows(records))
        return self.end(split_range, split_range.start + len(records), split_range.start + len(records))


class Wandering(Letters):
    """What it reads depends on what it has read before."""

    count = 0

    def read(self, split_range, emit):
        Wandering.count += 1
        return super().read(split_range, lambda rows: emit(Rows([f"{rows.values[0]}-{Wandering.count}"])))


class GoesOnWhenStopped(Letters):
    """Reads on without emitting: what it says that it reached was never given."""

    def read(self, split_range, emit):
        end = super().read(split_range, emit)
        count = len(self.splits()[split_range.split])
        position = min(count, split_range.start + split_range.max_records)
        return RangeEnd(end.split_id, position, position >= count, end.records)


class TakesPlannedForRead(Letters):
    def plan(self, request):
        plan = super().plan(request)
        for ranges in plan.ranges.values():
            for each in ranges:
                if self.left[each.split_id] > 0:
                    self.left[each.split_id] += request.max_records
        return plan


class DropsPaused(Letters):
    def plan(self, request):
        for name in request.paused & self.left.keys():
            del self.left[name]
        return super().plan(request)


class DependsOnBudget(Letters):
    """Gives a batch's records backwards."""

    def read(self, split_range, emit):
        batch = []
        end = super().read(split_range, lambda rows: not batch.extend(rows.values))
        emit(Rows(batch[::-1]))
        return end


class LosesOne(Letters):
    def build_enumerator(self, parallelism, restored):
        enumerator = super().build_enumerator(parallelism, restored)
        if parallelism > 1:
            enumerator.left.pop("b", None)
        return enumerator


class SnapshotOfTheBeginning(Letters):
    def snapshot(self):
        return dict.fromkeys(self.left, 0)


class KeepsItsParallelism(Letters):
    """Remembers who owned what, and forgets those who are not there any more."""

    def build_enumerator(self, parallelism, restored):
        left, before = restored or (None, parallelism)
        enumerator = super().build_enumerator(parallelism, left)
        enumerator.before = before
        return enumerator

    def owner(self, name):
        return ord(name) % self.before

    def plan(self, request):
        plan = super().plan(request)
        ranges = {subtask: each for subtask, each in plan.ranges.items() if subtask < self.parallelism}
        return SourcePlan(ranges, plan.finished)

    def snapshot(self):
        return self.left, self.before


class Silent(Letters):
    """Never ends, and forgets what is left when it is restored."""

    def get_boundedness(self):
        return Boundedness.CONTINUOUS_UNBOUNDED

    def plan(self, request):
        return SourcePlan(super().plan(request).ranges)

    def snapshot(self):
        return {name: position for name, position in self.left.items() if position == 0}


def test_an_unbounded_source_that_falls_silent_has_to_give_all():
    expected = [f"{letter}{i}" for text in Letters.SPLITS.values() for i, letter in enumerate(text)]
    with pytest.raises(ContractViolation, match="are missing") as raised:
        check_source(Silent(), expected=expected)
    assert raised.value.rule is SourceRule.RESTORED


class ForgetsWhenTold(Letters):
    """Takes what a complete checkpoint holds for read to the end."""

    def checkpoint_completed(self, checkpoint_id):
        if checkpoint_id > 2:
            self.left = {}


class NeverEnds(Letters):
    def plan(self, request):
        return SourcePlan(super().plan(request).ranges)


BUGS = {
    Unpicklable: SourceRule.TRAVELS,
    PlansForOthers: SourceRule.SUBTASKS,
    GoesOnBehindTheEnd: SourceRule.FINISHED_SUBTASKS,
    MovesSplits: SourceRule.FINISHED_SUBTASKS,
    ForgetsWhatIsFinished: SourceRule.FINISHED_SPLITS,
    SharesSplits: SourceRule.ONE_READER,
    BadStamps: SourceRule.BATCHES,
    Miscounts: SourceRule.ENDS,
    Greedy: SourceRule.BUDGET,
    Wandering: SourceRule.SAME_AGAIN,
    GoesOnWhenStopped: SourceRule.STOPS,
    TakesPlannedForRead: SourceRule.UNREAD,
    DropsPaused: SourceRule.PAUSED,
    DependsOnBudget: SourceRule.ORDER,
    LosesOne: SourceRule.COMPLETE,
    SnapshotOfTheBeginning: SourceRule.RESTORED,
    KeepsItsParallelism: SourceRule.RESCALED,
    ForgetsWhenTold: SourceRule.COMPLETED,
    NeverEnds: SourceRule.ENDED,
}


def test_a_right_source_passes():
    expected = [f"{letter}{i}" for text in Letters.SPLITS.values() for i, letter in enumerate(text)]
    check_source(Letters(), expected=expected)


def test_a_bug_of_each_kind_is_planted():
    assert {*BUGS.values(), SourceRule.JOB} == set(SourceRule)


@pytest.mark.parametrize("source", BUGS)
def test_a_bug_is_found_and_the_rule_that_it_breaks_is_named(source):
    with pytest.raises(ContractViolation) as raised:
        check_source(source())
    assert raised.value.rule is BUGS[source], str(raised.value)
    assert f"[{raised.value.rule.name}]" in str(raised.value)
    assert "subtasks" in raised.value.scenario


def test_records_that_are_not_the_expected_ones_are_shown():
    with pytest.raises(ContractViolation, match=r"1 are missing \('9'\) and 1 are too many \('0'\)"):
        check_source(CollectionSource([0, 1]), expected=[1, 9])


class Plain:
    """Has neither equality nor a text of its own."""

    def __init__(self, value):
        self.value = value


def test_records_without_equality_are_compared_by_what_they_hold():
    check_source(CollectionSource([Plain(1), Plain(2)]), expected=[Plain(2), Plain(1)], **FEW)
    with pytest.raises(ContractViolation):
        check_source(CollectionSource([Plain(1)]), expected=[Plain(2)], **FEW)
    by_value = {"key": lambda record: getattr(record, "value", record)}
    check_source(CollectionSource([Plain(1)]), expected=[1], **by_value)

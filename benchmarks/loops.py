"""Keyed operators beside loops written by hand: the local executor, one core, both in turns.

    python benchmarks/loops.py [--rounds 5] [--records 400000] [--only NAME ...] [--write] [--json FILE]

A figure is nanoseconds of processor time a record; of a job less one of a thousand records. Both give the same
results, which is checked with a thousand records. A loop does what the program says, and nothing of what the engine
does beside: no checkpoints, no late data, no protection of values. Both make the records as they go.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import figures

from millstream.common import Configuration, Time, Types, WatermarkStrategy
from millstream.common.watermark_strategy import TimestampAssigner
from millstream.connectors.index_splits import IndexEnumerator, IndexReader
from millstream.datastream import StreamExecutionEnvironment
from millstream.datastream.functions import (
    AggregateFunction,
    KeyedBroadcastProcessFunction,
    KeyedCoProcessFunction,
    KeyedProcessFunction,
    ProcessJoinFunction,
)
from millstream.datastream.state import MapStateDescriptor, ValueStateDescriptor
from millstream.datastream.window import EventTimeSessionWindows, TumblingEventTimeWindows
from millstream.spi.batch import Rows
from millstream.spi.source import Boundedness, Source, SourceReader, SplitEnumerator

RESULTS = Path(__file__).parent / "results" / "loops.md"
KEYS = 1_000
GAP_MS = 2_000
SIZE_MS = 1_000
FEW_KEYS = 20
LONG_MS = 10_000
WITHIN_MS = 2_000
FEW = 1_000
PORTION = 10_000
RULES = MapStateDescriptor("rules", Types.INT(), Types.INT())

Record = tuple[int, int, int]
"""Key, event time in milliseconds, amount."""


class Case(NamedTuple):
    """A program and the loop beside it; both give a number that depends on all results."""

    title: str
    job: Callable[[Any, int], Any]
    loop: Callable[[Iterable[Record]], Iterator[int]]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--records", type=int, default=400_000)
    parser.add_argument("--only", nargs="*", default=list(CASES), choices=list(CASES))
    parser.add_argument("--write", action="store_true", help=f"write {RESULTS}")
    figures.add_option(parser)
    arguments = parser.parse_args()
    count = arguments.records
    lines = [
        "# Keyed operators beside loops written by hand",
        "",
        f"`benchmarks/loops.py`: local executor, {arguments.records:,} records of {KEYS:,} keys,",
        f"Python {'.'.join(map(str, sys.version_info[:3]))}, {arguments.rounds} rounds in turns.",
        "Nanoseconds of processor time a record, medians. The last column is the loop's by the job's.",
        "",
        "| program | loop | millstream | ratio |",
        "|---|---|---|---|",
    ]
    found = []
    for name in arguments.only:
        case = CASES[name]
        got, wanted = sum(_run(case, FEW)), sum(case.loop(_portions(FEW)))
        if got != wanted:
            raise SystemExit(f"{name}: the job gave {got}, the loop {wanted}")
        pairs = []
        for _ in range(arguments.rounds):
            least = _timed(lambda case=case: _run(case, FEW, nothing=True))
            took = _timed(lambda case=case: _run(case, count, nothing=True))
            by_hand = _timed(lambda case=case: sum(case.loop(_portions(count))))
            pairs.append((by_hand, took - least))
        each = [median(pair[place] for pair in pairs) / count * 1e9 for place in (0, 1)]
        ratio = median(by_hand / took for by_hand, took in pairs)
        lines.append(f"| {case.title} | {each[0]:,.0f} | {each[1]:,.0f} | {ratio:.2f} |")
        print(lines[-1], file=sys.stderr)
        hands, jobs = ([pair[place] / count * 1e9 for pair in pairs] for place in (0, 1))
        found.append(figures.beside(name, case.title, jobs, hands, unit="ns a record", peer="loop by hand"))
    page = "\n".join(lines) + "\n"
    print(page)
    if arguments.write:
        RESULTS.write_text(page)
    figures.write(arguments.json, found)


def _timed(action: Callable[[], Any]) -> float:
    began = time.process_time()
    action()
    return time.process_time() - began


def _records(indices: Iterable[int]) -> list[Record]:
    """Return records in order of time, one each millisecond; their keys come in no order."""
    return [((index * 2_654_435_761 >> 16) % KEYS, index, index * 31 % 97) for index in indices]


def _portions(count: int) -> Iterator[Record]:
    for start in range(0, count, PORTION):
        yield from _records(range(start, min(start + PORTION, count)))


class Records(Source):
    """The records of some indices, made as they are read."""

    def __init__(self, indices: range) -> None:
        self._indices = indices

    def get_boundedness(self) -> Boundedness:
        return Boundedness.BOUNDED

    def build_enumerator(self, parallelism: int, restored: Any | None) -> SplitEnumerator:
        return IndexEnumerator([self._indices], parallelism, restored)

    def build_reader(self, subtask_index: int, parallelism: int) -> SourceReader:
        reader = IndexReader(lambda indices: Rows(_records(indices)))
        reader.gives_away = True
        return reader


def _run(case: Case, count: int, *, nothing: bool = False) -> list[int]:
    """Run the job; return its results, or none: what is measured is the operator, not how results are collected."""
    environment = StreamExecutionEnvironment.get_execution_environment(
        Configuration.from_dict({"execution.target": "local"})
    )
    environment.set_parallelism(1)
    results = case.job(environment, count)
    if nothing:
        results = results.filter(_is_negative)
    with results.execute_and_collect() as collected:
        return list(collected)


def _is_negative(number: int) -> bool:
    return number < 0


class _EventTime(TimestampAssigner):
    def extract_timestamp(self, value: Record, record_timestamp: int) -> int:
        return value[1]


def _plain(environment: Any, count: int) -> Any:
    return environment.from_source(Records(range(count)), WatermarkStrategy.no_watermarks(), "records")


def _stream(environment: Any, count: int) -> Any:
    return _timed_stream(environment, range(count))


def _timed_stream(environment: Any, indices: range) -> Any:
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(_EventTime())
    return environment.from_source(Records(indices), strategy, f"records from {indices.start}")


# The programs


class Sum(AggregateFunction):
    """Adds up amounts."""

    def create_accumulator(self) -> int:
        return 0

    def add(self, value: Record, accumulator: int) -> int:
        return accumulator + value[2]

    def get_result(self, accumulator: int) -> int:
        return accumulator

    def merge(self, acc_a: int, acc_b: int) -> int:
        return acc_a + acc_b


class Largest(KeyedProcessFunction):
    """Yields an amount that is larger than all before of its key."""

    def open(self, runtime_context: Any) -> None:
        self.largest = runtime_context.get_state(ValueStateDescriptor("largest", Types.INT()))

    def process_element(self, value: Record, ctx: Any) -> Any:
        largest = self.largest.value()
        if largest is None or value[2] > largest:
            self.largest.update(value[2])
            yield value[2]


def _largest(records: Iterable[Record]) -> Iterator[int]:
    largest: dict[int, int] = {}
    for key, _, amount in records:
        before = largest.get(key)
        if before is None or amount > before:
            largest[key] = amount
            yield amount


def _reduced(environment: Any, count: int) -> Any:
    sums = _plain(environment, count).key_by(_key).reduce(lambda a, b: (a[0], b[1], a[2] + b[2]))
    return sums.map(_amount)


def _amount(record: Record) -> int:
    return record[2]


def _running_sums(records: Iterable[Record]) -> Iterator[int]:
    sums: dict[int, Record] = {}
    for record in records:
        key, timestamp, amount = record
        before = sums.get(key)
        now = sums[key] = record if before is None else (key, timestamp, before[2] + amount)
        yield now[2]


def _tumbling(records: Iterable[Record]) -> Iterator[int]:
    start, sums = 0, defaultdict(int)
    for key, timestamp, amount in records:
        if timestamp >= start + SIZE_MS:
            yield from (total * total for total in sums.values())
            start, sums = timestamp - timestamp % SIZE_MS, defaultdict(int)
        sums[key] += amount
    yield from (total * total for total in sums.values())


def _by_rest(record: Record) -> int:
    return record[0] % FEW_KEYS


def _windowed_sum(environment: Any, count: int) -> Any:
    windows = TumblingEventTimeWindows.of(Time.milliseconds(LONG_MS))
    return _stream(environment, count).key_by(_by_rest).window(windows).sum(2).map(_amount).map(_square)


def _sums_of_few(records: Iterable[Record]) -> Iterator[int]:
    start, sums = 0, dict[int, Record]()
    for record in records:
        key, timestamp, amount = record
        if timestamp >= start + LONG_MS:
            yield from (total * total for _, _, total in sums.values())
            start, sums = timestamp - timestamp % LONG_MS, {}
        before = sums.get(key % FEW_KEYS)
        sums[key % FEW_KEYS] = record if before is None else (before[0], before[1], before[2] + amount)
    yield from (total * total for _, _, total in sums.values())


def _sessions(records: Iterable[Record]) -> Iterator[int]:
    sessions: dict[int, tuple[int, int]] = {}  # end, total; in order of their ends
    for key, timestamp, amount in records:
        end, total = sessions.pop(key, (0, 0))
        if end >= timestamp:
            sessions[key] = (timestamp + GAP_MS, total + amount)
        else:
            if end:
                yield total * total
            sessions[key] = (timestamp + GAP_MS, amount)
    yield from (total * total for _, total in sessions.values())


def _square(total: int) -> int:
    return total * total


class Join(ProcessJoinFunction):
    """Multiplies the amounts of a pair."""

    def process_element(self, left: Record, right: Record, ctx: Any) -> Any:
        yield left[2] * right[2]


def _two(environment: Any, count: int) -> tuple[Any, Any]:
    return _timed_stream(environment, range(0, count, 2)), _timed_stream(environment, range(1, count, 2))


def _key(record: Record) -> int:
    return record[0]


def _interval_join(environment: Any, count: int) -> Any:
    even, odd = _two(environment, count)
    bound = Time.milliseconds(WITHIN_MS)
    joined = even.key_by(_key).interval_join(odd.key_by(_key))
    return joined.between(Time.milliseconds(0), bound).process(Join())


def _joined(records: Iterable[Record]) -> Iterator[int]:
    lefts: dict[int, deque[tuple[int, int]]] = defaultdict(deque)
    for key, timestamp, amount in records:
        kept = lefts[key]
        while kept and kept[0][0] < timestamp - WITHIN_MS:
            kept.popleft()
        if timestamp % 2:
            for _, other in kept:
                yield other * amount
        else:
            kept.append((timestamp, amount))


class Both(KeyedCoProcessFunction):
    """Adds up the amounts of the one, and yields the sum at each record of the other."""

    def open(self, runtime_context: Any) -> None:
        self.total = runtime_context.get_state(ValueStateDescriptor("total", Types.INT()))

    def process_element1(self, value: Record, ctx: Any) -> Any:
        self.total.update((self.total.value() or 0) + value[2])

    def process_element2(self, value: Record, ctx: Any) -> Any:
        yield value[2]


def _connected(environment: Any, count: int) -> Any:
    even, odd = _two(environment, count)
    return even.key_by(_key).connect(odd.key_by(_key)).process(Both())


def _both(records: Iterable[Record]) -> Iterator[int]:
    totals: dict[int, int] = {}
    for key, timestamp, amount in records:
        if timestamp % 2:
            yield amount
        else:
            totals[key] = totals.get(key, 0) + amount


class Rules(KeyedBroadcastProcessFunction):
    """Yields what is above the amount that a rule says."""

    def process_element(self, value: Record, ctx: Any) -> Any:
        least = ctx.get_broadcast_state(RULES).get(0)
        if least is None or value[2] > least:
            yield value[2]

    def process_broadcast_element(self, value: Record, ctx: Any) -> Any:
        ctx.get_broadcast_state(RULES).put(0, -1)


def _broadcast(environment: Any, count: int) -> Any:
    rules = environment.from_collection([(0, 0, 0)]).broadcast(RULES)
    return _stream(environment, count).key_by(_key).connect(rules).process(Rules())


def _ruled(records: Iterable[Record]) -> Iterator[int]:
    rules: dict[int, int] = {0: -1}
    for _, _, amount in records:
        least = rules.get(0)
        if least is None or amount > least:
            yield amount


def _windowed(assigner: Any) -> Callable[[Any, int], Any]:
    return lambda environment, count: (
        _stream(environment, count).key_by(_key).window(assigner).aggregate(Sum()).map(_square)
    )


CASES = {
    "process": Case(
        "keyed process, ValueState",
        lambda e, n: _plain(e, n).key_by(_key).process(Largest()),
        _largest,
    ),
    "reduce": Case("keyed reduce", _reduced, _running_sums),
    "tumbling": Case(
        "tumbling windows, aggregate",
        _windowed(TumblingEventTimeWindows.of(Time.milliseconds(SIZE_MS))),
        _tumbling,
    ),
    "few": Case(f"tumbling windows, sum of a field, {FEW_KEYS} keys", _windowed_sum, _sums_of_few),
    "sessions": Case(
        "session windows, aggregate",
        _windowed(EventTimeSessionWindows.with_gap(Time.milliseconds(GAP_MS))),
        _sessions,
    ),
    "join": Case("interval join", _interval_join, _joined),
    "connected": Case("connected streams, ValueState", _connected, _both),
    "broadcast": Case("keyed broadcast process", _broadcast, _ruled),
}


if __name__ == "__main__":
    main()

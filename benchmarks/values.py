"""What it costs that emitted values cannot change: this checkout against another one, in the same run.

    python benchmarks/values.py OTHER_SRC [--rounds 9] [--records 400000] [--write]

OTHER_SRC is the directory `src` of another checkout. Each has a process of its own that runs all programs on the local
executor; the two take turns, program by program and round by round, so both meet the same disturbances. A job of one
record is subtracted.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from in_turns import workers

RESULTS = Path(__file__).parent / "results" / "values.md"
KEYS = 100


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("other", type=Path, help="directory src of the checkout to compare with")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--records", type=int, default=400_000)
    parser.add_argument("--only", nargs="*", default=list(TITLES), choices=list(TITLES))
    parser.add_argument("--write", action="store_true", help=f"write {RESULTS}")
    arguments = parser.parse_args()
    seen: dict[str, list[tuple[float, float]]] = {name: [] for name in arguments.only}
    with workers(__file__, arguments.other) as pair:
        for number in range(arguments.rounds):
            for name in arguments.only:
                turns = list(enumerate(pair))[:: (-1) ** number]
                figures = {place: worker.ask(name, arguments.records) for place, worker in turns}
                seen[name].append((figures[0], figures[1]))
    page = _page(seen, arguments.records, arguments.rounds)
    print(page)
    if arguments.write:
        RESULTS.write_text(page)


def _page(seen: dict[str, list[tuple[float, float]]], records: int, rounds: int) -> str:
    lines = [
        "# Values that cannot change once emitted",
        "",
        f"`benchmarks/values.py`: local executor, {records:,} records, {rounds} rounds in turns. Nanoseconds of",
        "processor time a record, before and with the protection of emitted values: medians, and the median ratio.",
        "",
        "| program | before | with | ratio |",
        "|---|---|---|---|",
    ]
    for name, pairs in seen.items():
        before, after = (median(pair[place] for pair in pairs) for place in (0, 1))
        ratio = median(after / before for before, after in pairs)
        lines.append(f"| {TITLES[name]} | {before:,.0f} | {after:,.0f} | {ratio:.2f} |")
    return "\n".join(lines) + "\n"


TITLES = {
    "maps_ints": "5 maps and a filter, integers, lambdas",
    "maps_tuples": "5 maps and a filter, tuples, lambdas",
    "methods_ints": "5 MapFunctions with members, integers",
    "methods_tuples": "5 MapFunctions with members, tuples",
    "words": "flat_map of lines to words, map to pairs",
    "process": "ProcessFunction that yields tuples",
    "keyed_process": "KeyedProcessFunction with ValueState, tuples",
    "keyed_reduce": "keyed reduce, tuples",
    "tumbling": "tumbling windows, aggregate",
    "fork": "two branches, tuples",
    "fresh_dicts": "3 maps, each makes a new dict",
    "changed_dicts": "3 maps, each changes its dict",
    "rows": "3 maps, each makes a new Row",
    "objects": "3 maps, each makes a new object of a dataclass",
    "member": "a map that fills and returns one dict again and again",
    "state_dicts": "KeyedProcessFunction that yields the dict in its state",
}


@dataclass
class Point:
    """A record that can be changed."""

    x: int
    y: int


def _programs() -> dict[str, Callable[[Any], Any]]:
    """Return functions of a stream of integers; imports the checkout that is measured."""
    from millstream.common import Row, Types
    from millstream.common.time import Time
    from millstream.common.watermark_strategy import TimestampAssigner, WatermarkStrategy
    from millstream.datastream.functions import (
        AggregateFunction,
        KeyedProcessFunction,
        MapFunction,
        ProcessFunction,
        RuntimeContext,
    )
    from millstream.datastream.state import ValueStateDescriptor
    from millstream.datastream.window import TumblingEventTimeWindows

    class AddInt(MapFunction):
        def __init__(self) -> None:
            self.by = 1

        def map(self, value: int) -> int:
            return value + self.by

    class AddTuple(MapFunction):
        def __init__(self) -> None:
            self.by = 1

        def map(self, value: tuple[int, int, int]) -> tuple[int, int, int]:
            return value[0], value[1] + self.by, value[2]

    class Emit(ProcessFunction):
        def process_element(self, value: int, ctx: Any) -> Any:
            yield value, 1

    class Count(KeyedProcessFunction):
        def open(self, runtime_context: RuntimeContext) -> None:
            self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

        def process_element(self, value: tuple[int, int], ctx: Any) -> Any:
            count = (self.count.value() or 0) + 1
            self.count.update(count)
            yield value[0], count

    class CountInDict(KeyedProcessFunction):
        def open(self, runtime_context: RuntimeContext) -> None:
            self.counts = runtime_context.get_state(
                ValueStateDescriptor("counts", Types.PICKLED_BYTE_ARRAY())
            )

        def process_element(self, value: tuple[int, int], ctx: Any) -> Any:
            counts = self.counts.value() or {"key": value[0], "count": 0}
            counts["count"] += 1
            self.counts.update(counts)
            yield counts

    class Fill(MapFunction):
        def __init__(self) -> None:
            self.filled: dict[str, int] = {}

        def map(self, value: int) -> dict[str, int]:
            self.filled["x"] = value
            self.filled["y"] = 1
            return self.filled

    class Sum(AggregateFunction):
        def create_accumulator(self) -> int:
            return 0

        def add(self, value: tuple[int, int], accumulator: int) -> int:
            return accumulator + value[1]

        def get_result(self, accumulator: int) -> int:
            return accumulator

        def merge(self, a: int, b: int) -> int:
            return a + b

    class Stamp(TimestampAssigner):
        def extract_timestamp(self, value: tuple[int, int], record_timestamp: int) -> int:
            return value[1]

    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(Stamp())

    def change(record: dict[str, int]) -> dict[str, int]:
        record["x"] += 1
        return record

    def times(count: int, stream: Any, function: Any) -> Any:
        for _ in range(count):
            stream = stream.map(function)
        return stream

    pairs = lambda n: (n % KEYS, n)  # noqa: E731
    return {
        "maps_ints": lambda s: times(5, s, lambda n: n + 1).filter(lambda n: n % 2 == 0),
        "maps_tuples": lambda s: times(
            5, s.map(lambda n: (n % KEYS, 1, n)), lambda t: (t[0], t[1] + 1, t[2])
        ).filter(lambda t: t[1] > 2),
        "methods_ints": lambda s: times(5, s, AddInt()),
        "methods_tuples": lambda s: times(5, s.map(lambda n: (n % KEYS, 1, n)), AddTuple()),
        "words": lambda s: (
            s.map(lambda n: "to be or not to be").flat_map(str.split).map(lambda word: (word, 1))
        ),
        "process": lambda s: s.process(Emit()),
        "keyed_process": lambda s: s.map(pairs).key_by(lambda t: t[0]).process(Count()),
        "keyed_reduce": lambda s: (
            s.map(pairs).key_by(lambda t: t[0]).reduce(lambda a, b: (a[0], a[1] + b[1]))
        ),
        "tumbling": lambda s: (
            s.map(pairs)
            .assign_timestamps_and_watermarks(strategy)
            .key_by(lambda t: t[0])
            .window(TumblingEventTimeWindows.of(Time.milliseconds(10_000)))
            .aggregate(Sum())
        ),
        "fork": lambda s: (lambda one: one.map(lambda t: t[0]).union(one.map(lambda t: t[1])))(s.map(pairs)),
        "fresh_dicts": lambda s: times(
            3, s.map(lambda n: {"x": n, "y": 1}), lambda d: {"x": d["x"] + 1, "y": d["y"]}
        ),
        "changed_dicts": lambda s: times(3, s.map(lambda n: {"x": n, "y": 1}), change),
        "rows": lambda s: times(3, s.map(lambda n: Row(n, 1)), lambda r: Row(r[0] + 1, r[1])),
        "objects": lambda s: times(3, s.map(lambda n: Point(n, 1)), lambda p: Point(p.x + 1, p.y)),
        "member": lambda s: s.map(Fill()),
        "state_dicts": lambda s: s.map(pairs).key_by(lambda t: t[0]).process(CountInDict()),
    }


def work() -> None:
    """Run programs as they are asked for on standard input; answer with nanoseconds a record."""
    from millstream.common import WatermarkStrategy
    from millstream.common.configuration import Configuration
    from millstream.datastream import StreamExecutionEnvironment
    from millstream.datastream.connectors.number_seq import NumberSequenceSource

    programs = _programs()

    def run(name: str, records: int) -> float:
        environment = StreamExecutionEnvironment.get_execution_environment(
            Configuration.from_dict({"execution.target": "local"})
        )
        environment.set_parallelism(1)
        numbers = environment.from_source(
            NumberSequenceSource(1, records), WatermarkStrategy.no_watermarks(), "numbers"
        )
        programs[name](numbers).filter(lambda record: record is None).print()
        begun = time.process_time()
        environment.execute(name)
        return time.process_time() - begun

    for line in sys.stdin:
        name, records = json.loads(line)
        fixed = run(name, 1)
        print((run(name, records) - fixed) / records * 1e9, flush=True)


if __name__ == "__main__":
    if "--worker" in sys.argv:
        work()
    else:
        main()

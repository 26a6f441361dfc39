"""JSON lines -> filter -> key_by -> tumbling aggregate -> Parquet, beside a loop by hand with orjson that does it all.

    python benchmarks/json_lines.py [--only one-core two-cores] [--rounds 5] [--write] [--json FILE]

Lines of 1 KB with nested objects and lists; half of them pass the filter, 1,000 keys, windows of a minute, event time
up to five seconds out of order. The job is there twice: with Python functions (a filter, a key, an
`AggregateFunction`), and with whole columns and aggregates by expression (on one core in `columns.py`). It reads the
four fields that it needs; a row of its own is for all of them. The loop reads the file line by line with
`orjson.loads`, keeps the same windows in a dict, has them fire as the watermark advances, and writes the same rows with
pyarrow; it knows no failures and no other core.

Each has a process of its own, and they take turns. On one core time is that of the whole process for the work itself:
it has done the same with a hundred lines before, which imports what it needs. The garbage collector has the settings of
a slot. On two cores (`local[2]`, whose slots read parts of one file) it is wall time once the job ran: from when it had
read the first quarter to the end of its last epoch, for what was read between; processor time, of all processes, stands
beside it. The loop's is the wall time of the whole loop on the same file.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import figures
import pyarrow as pa
import pyarrow.compute as pc
from marked import MARK, mark_of_run
from processors import Processors, once_it_ran

RESULTS = Path(__file__).parent / "results" / "json_lines.md"
WINDOW_MS = 60_000
BOUND_MS = 5_000
SPLIT_BYTES = 256 << 20
LOOP = "loop by hand, orjson"
NEEDED = "functions, the fields that it needs"
WHOLE = "functions, all fields"
TWO_FUNCTIONS = "local[2], functions"
TWO_EXPRESSIONS = "local[2], expressions"
TWO_CORES = (TWO_FUNCTIONS, TWO_EXPRESSIONS)
RUNS = {"one-core": (LOOP, NEEDED, WHOLE), "two-cores": (LOOP, *TWO_CORES)}
FLOORS = {TWO_FUNCTIONS: 1.0, TWO_EXPRESSIONS: 4.0}
NAMES = {
    NEEDED: "needed",
    WHOLE: "whole",
    TWO_FUNCTIONS: "two-cores-functions",
    TWO_EXPRESSIONS: "two-cores-expressions",
}


class Run(NamedTuple):
    """Microseconds a line: of all processors, and of the wall's clock."""

    processor: float
    wall: float


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--only", nargs="*", default=list(RUNS), choices=list(RUNS))
    parser.add_argument("--records", type=int, default=150_000, help="for one core")
    parser.add_argument("--more-records", type=int, default=2_000_000, help="for two cores: a KB each")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--write", action="store_true", help=f"write {RESULTS}")
    figures.add_option(parser)
    parser.add_argument("--worker", nargs=2, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.worker:
        work(*arguments.worker)
        return
    pages, found = [], []
    for part in arguments.only:
        records = arguments.records if part == "one-core" else arguments.more_records
        seen = measure(RUNS[part], records, arguments.rounds)
        pages.append(page(part, seen, records, arguments.rounds))
        found += [figure(name, seen) for name in seen if name != LOOP]
    text = "\n".join(["# JSON lines to Parquet\n", *pages])
    print(text)
    if arguments.write:
        RESULTS.write_text(text)
    figures.write(arguments.json, found)


def measure(names: tuple[str, ...], records: int, rounds: int) -> dict[str, list[Run]]:
    seen: dict[str, list[Run]] = {name: [] for name in names}
    totals = set()
    with tempfile.TemporaryDirectory(prefix="json-lines") as folder:
        path = Path(folder) / "events.json"
        prepare(path, records)
        for turn in range(rounds):
            for name in names[:: (-1) ** turn]:
                run, total = measured(name, path)
                seen[name].append(run)
                totals.add(total)
                print(f"{name}: {run}", file=sys.stderr)
    if len(totals) != 1:
        raise SystemExit(f"the runs gave different results: {totals}")
    return seen


def measured(name: str, path: Path) -> tuple[Run, tuple[float, ...]]:
    """Run once, in processes of its own."""
    mark = mark_of_run()
    with Processors(mark[MARK]) as processors:
        answer = subprocess.run(
            [sys.executable, __file__, "--worker", name, str(path)],
            env={**os.environ, **mark},
            capture_output=True,
            text=True,
            check=False,
        )
    if answer.returncode:
        raise SystemExit(f"{name} failed\n{answer.stdout}\n{answer.stderr}")
    told = json.loads(answer.stdout.splitlines()[-1])
    if name in TWO_CORES:
        told["processor"] = processors.between(told["warm"], told["end"])
    to_us = 1e6 / told["records"]
    return Run(told["processor"] * to_us, told["wall"] * to_us), tuple(told["totals"])


def figure(name: str, seen: dict[str, list[Run]]) -> figures.Figure:
    """Return how much faster a job is than the loop: by wall time on two cores, else by processor time."""
    place = Run._fields.index("wall" if name in TWO_CORES else "processor")
    ours, loops = ([run[place] for run in seen[who]] for who in (name, LOOP))
    how = ", once it ran" if name in TWO_CORES else ""
    title = f"JSON lines to Parquet, {name}{how}"
    return figures.beside(
        NAMES[name], title, ours, loops, unit="us a line", peer=LOOP, floor=FLOORS.get(name)
    )


def page(part: str, seen: dict[str, list[Run]], records: int, rounds: int) -> str:
    how = (
        "the local executor, processor time"
        if part == "one-core"
        else "`local[2]` once it ran, wall time, and processor time of all processes"
    )
    lines = [
        f"`benchmarks/json_lines.py --only {part}`: {records:,} lines of 1 KB, {rounds} rounds in turns, one job at a",
        f"time; {how}. Microseconds a line, medians; ratios are medians of the rounds' ratios.",
        "",
        "| who | processor us | wall us | loop / this | wanted |",
        "|---|---|---|---|---|",
    ]
    for name, runs in seen.items():
        processor, wall = (median(run[place] for run in runs) for place in (0, 1))
        ratio = 1.0 if name == LOOP else figure(name, seen).value
        wanted = f"{FLOORS[name]} x" if name in FLOORS else ""
        lines.append(f"| {name} | {processor:.2f} | {wall:.2f} | {ratio:.2f} x | {wanted} |")
    return "\n".join([*lines, ""])


def prepare(path: Path, records: int) -> None:
    draw = random.Random(7)
    with path.open("w") as file:
        for number in range(records):
            record = {
                "id": number,
                "user": f"user-{draw.randrange(1000)}",
                "kind": draw.choice(["view", "buy"]),
                "amount": round(draw.random() * 100, 2),
                "ts": 1_700_000_000_000 + number * 10 - draw.randrange(BOUND_MS),
                "session": f"{draw.getrandbits(128):032x}",
                "url": "https://example.org/" + "x" * 120,
                "agent": "Mozilla/5.0 " + "y" * 150,
                "tags": ["a", "b", "c"],
                "geo": {"country": "DE", "city": "Köln", "lat": 50.94, "lon": 6.96},
                "items": [{"sku": f"s{place}", "count": place} for place in range(6)],
                "note": "z" * 370,
            }
            file.write(json.dumps(record, ensure_ascii=False, separators=(",", ":")) + "\n")


# ---- a worker ----


def work(name: str, path: str) -> None:
    told = work_on_two_cores(name, path) if name in TWO_CORES else work_on_one_core(name, path)
    print(json.dumps({**told, "totals": totals(Path(path).with_suffix(".out"))}))


def work_on_one_core(name: str, path: str) -> dict[str, float]:
    few = Path(path).with_name("few.json")
    prepare(few, 100)
    prepared(name, str(few))()  # imports what it needs
    run = prepared(name, path)
    gc.freeze()
    gc.set_threshold(100_000, 50, 50)
    began, began_wall = time.process_time(), time.perf_counter()
    run()
    processor, wall = time.process_time() - began, time.perf_counter() - began_wall
    with open(path, "rb") as lines:
        return {"processor": processor, "wall": wall, "records": sum(1 for _ in lines)}


def work_on_two_cores(name: str, path: str) -> dict[str, float]:
    from millstream.graph.launcher import set_progress_listener

    reached: list[tuple[float, int]] = []
    set_progress_listener(lambda progress: reached.append((time.monotonic(), progress.records_in)))
    prepared(name, path)()
    warm, end, records = once_it_ran(reached)
    return {"wall": end - warm, "warm": warm, "end": end, "records": records}


def prepared(name: str, path: str) -> Callable[[], None]:
    output = Path(path).with_suffix(".out")
    if output.exists():
        import shutil

        shutil.rmtree(output)
    if name == LOOP:
        return loop(path, output)
    cores = 2 if name in TWO_CORES else 1
    if name == TWO_EXPRESSIONS:
        return lambda: expressions(path, str(output), cores)
    return job(path, str(output), cores, whole=name == WHOLE)


def totals(output: Path) -> list[float]:
    """Return rows, records and cents of what was written."""
    import pyarrow.dataset as ds

    table = ds.dataset([str(path) for path in output.rglob("part-*")], format="parquet").to_table()
    cents = pc.round(pc.multiply(table["amount"], 100))
    return [table.num_rows, pc.sum(table["records"]).as_py(), pc.sum(cents).as_py()]


def loop(path: str, output: Path) -> Callable[[], None]:
    import orjson
    import pyarrow.parquet as pq

    def run() -> None:
        loads = orjson.loads
        windows: dict[int, dict[str, list[Any]]] = {}
        rows: list[tuple[str, int, int, float]] = []
        latest, fired = 0, 0
        with open(path, "rb") as file:
            for line in file:
                event = loads(line)
                ts = event["ts"]
                if ts > latest:
                    latest = ts
                    while fired + WINDOW_MS + BOUND_MS <= latest:
                        for user, (count, amount) in windows.pop(fired, {}).items():
                            rows.append((user, fired, count, amount))
                        fired = min(windows, default=latest - latest % WINDOW_MS)
                if event["kind"] != "buy":
                    continue
                start = ts - ts % WINDOW_MS
                users = windows.setdefault(start, {})
                found = users.get(event["user"])
                if found is None:
                    users[event["user"]] = [1, event["amount"]]
                else:
                    found[0] += 1
                    found[1] += event["amount"]
        for start, users in sorted(windows.items()):
            for user, (count, amount) in users.items():
                rows.append((user, start, count, amount))
        schema = pa.schema(
            [("user", pa.string()), ("start", pa.int64()), ("records", pa.int64()), ("amount", pa.float64())]
        )
        columns = zip(*rows, strict=True)
        arrays = [pa.array(values, field.type) for values, field in zip(columns, schema, strict=True)]
        output.mkdir()
        pq.write_table(pa.Table.from_arrays(arrays, schema=schema), output / "part-0")

    return run


def job(path: str, output: str, cores: int, *, whole: bool) -> Callable[[], None]:
    from millstream.common import Row, Time
    from millstream.datastream import AggregateFunction, ProcessWindowFunction
    from millstream.datastream.window import TumblingEventTimeWindows
    from millstream.table import DataTypes

    class Totals(AggregateFunction):
        def create_accumulator(self) -> list[Any]:
            return [0, 0.0]

        def add(self, value: Any, accumulator: list[Any]) -> list[Any]:
            accumulator[0] += 1
            accumulator[1] += value.amount
            return accumulator

        def get_result(self, accumulator: list[Any]) -> Any:
            return accumulator

        def merge(self, a: list[Any], b: list[Any]) -> list[Any]:
            return [a[0] + b[0], a[1] + b[1]]

    class Named(ProcessWindowFunction):
        def process(self, key: str, context: Any, elements: Any) -> Any:
            for count, amount in elements:
                yield Row(user=key, start=context.window().start, records=count, amount=amount)

    def field(name: str, kind: Any) -> Any:
        return DataTypes.FIELD(name, kind)

    text, number = DataTypes.STRING(), DataTypes.BIGINT()
    geo = [field(name, text) for name in ("country", "city")]
    geo += [field(name, DataTypes.DOUBLE()) for name in ("lat", "lon")]
    item = DataTypes.ROW([field("sku", text), field("count", number)])
    more = [
        field("id", number),
        *(field(name, text) for name in ("session", "url", "agent", "note")),
        field("tags", DataTypes.ARRAY(text)),
        field("geo", DataTypes.ROW(geo)),
        field("items", DataTypes.ARRAY(item)),
    ]

    def run() -> None:
        environment, events = source(path, cores, more * whole)
        (
            events.filter(lambda event: event.kind == "buy")
            .key_by(lambda event: event.user)
            .window(TumblingEventTimeWindows.of(Time.milliseconds(WINDOW_MS)))
            .aggregate(Totals(), Named())
            .sink_to(sink(output))
        )
        environment.execute("json lines")

    return run


def expressions(path: str, output: str, cores: int) -> None:
    """Run the job with whole columns."""
    from millstream.common import Time
    from millstream.datastream.expressions import count, sum_
    from millstream.datastream.window import TumblingEventTimeWindows

    def is_purchase(batch: pa.RecordBatch) -> pa.Array:
        return pc.equal(batch["kind"], "buy")

    def without_end(batch: pa.RecordBatch) -> pa.RecordBatch:
        return batch.select(["user", "window_start", "records", "amount"]).rename_columns(
            ["user", "start", "records", "amount"]
        )

    environment, events = source(path, cores)
    (
        events.filter_batches(is_purchase)
        .key_by("user")
        .window(TumblingEventTimeWindows.of(Time.milliseconds(WINDOW_MS)))
        .aggregate(records=count(), amount=sum_("amount"))
        .map_batches(without_end)
        .sink_to(sink(output))
    )
    environment.execute("json lines")


def source(path: str, cores: int, more: Sequence[Any] = ()) -> tuple[Any, Any]:
    """Return an environment and the stream of events, with the needed fields and more."""
    from millstream.common import Configuration, Duration, WatermarkStrategy
    from millstream.datastream import StreamExecutionEnvironment
    from millstream.datastream.connectors.file_system import FileSource
    from millstream.datastream.formats.json import JsonLinesFormat
    from millstream.table import DataTypes

    needed = {"user": DataTypes.STRING(), "kind": DataTypes.STRING(), "amount": DataTypes.DOUBLE()}
    fields = [DataTypes.FIELD(name, kind) for name, kind in {**needed, "ts": DataTypes.BIGINT()}.items()]
    lines = JsonLinesFormat.for_schema(DataTypes.ROW([*fields, *more]))
    files = FileSource.for_record_stream_format(lines, path)
    if cores > 1:
        files.set_split_size(SPLIT_BYTES)
    strategy = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_millis(BOUND_MS))
    target = "local" if cores == 1 else f"local[{cores}]"
    environment = StreamExecutionEnvironment.get_execution_environment(
        Configuration.from_dict({"execution.target": target, "parallelism.default": cores})
    )
    timed = strategy.with_timestamp_assigner("ts")
    return environment, environment.from_source(files.build(), timed, "events")


def sink(output: str) -> Any:
    from millstream.datastream.connectors.file_system import BucketAssigner, FileSink
    from millstream.datastream.formats.parquet import ParquetBulkWriters
    from millstream.table import DataTypes

    text, number, amount = DataTypes.STRING(), DataTypes.BIGINT(), DataTypes.DOUBLE()
    fields = {"user": text, "start": number, "records": number, "amount": amount}
    row_type = DataTypes.ROW([DataTypes.FIELD(name, kind) for name, kind in fields.items()])
    made = FileSink.for_bulk_format(output, ParquetBulkWriters.for_row_type(row_type))
    return made.with_bucket_assigner(BucketAssigner.base_path_bucket_assigner()).build()


if __name__ == "__main__":
    main()

"""JSON lines -> filter -> key_by -> tumbling aggregate -> Parquet, beside a loop by hand with orjson that does it all.

    python benchmarks/json_lines.py [--records 150000] [--rounds 5] [--write] [--json FILE]

Lines of 1 KB with nested objects and lists; half of them pass the filter, 1,000 keys, windows of a minute, event time
up to five seconds out of order, a Python function (`AggregateFunction`). The job reads the four fields that it needs,
or, in the second row, all of them. The loop reads the file line by line with `orjson.loads`, keeps the same windows in
a dict, has them fire as the watermark advances, and writes the same rows with pyarrow; it knows no failures and no
other core.

Each has a process of its own, and they take turns. Time is that of the whole process for the work itself: it has done
the same with a hundred lines before, which imports what it needs. The garbage collector has the settings of a slot.
"""

from __future__ import annotations

import argparse
import gc
import json
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

import figures

RESULTS = Path(__file__).parent / "results" / "json_lines.md"
WINDOW_MS = 60_000
BOUND_MS = 5_000
LOOP = "loop by hand, orjson"
NEEDED = "millstream, the fields that it needs"
WHOLE = "millstream, all fields"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--records", type=int, default=150_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--write", action="store_true", help=f"write {RESULTS}")
    figures.add_option(parser)
    parser.add_argument(
        "--profile", action="store_true", help="profile the job, once, and print where time goes"
    )
    parser.add_argument("--worker", nargs=2, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.worker:
        work(*arguments.worker)
        return
    with tempfile.TemporaryDirectory(prefix="json-lines") as folder:
        path = Path(folder) / "events.json"
        prepare(path, arguments.records)
        seen: dict[str, list[tuple[float, float]]] = {LOOP: [], NEEDED: [], WHOLE: []}
        totals = set()
        for turn in range(arguments.rounds):
            for name in list(seen)[:: (-1) ** turn]:
                answer = subprocess.run(
                    [sys.executable, __file__, "--worker", name, str(path)],
                    check=True,
                    capture_output=True,
                    text=True,
                )
                *times, total = json.loads(answer.stdout.splitlines()[-1])
                seen[name].append((times[0], times[1]))
                totals.add(tuple(total))
        if len(totals) != 1:
            raise SystemExit(f"the runs gave different results: {totals}")
    text = page(seen, arguments.records, arguments.rounds)
    print(text)
    if arguments.write:
        RESULTS.write_text(text)
    times = {name: [run[0] / arguments.records * 1e6 for run in runs] for name, runs in seen.items()}
    figures.write(
        arguments.json,
        [
            figures.of_times(name, title, times[who], times[LOOP], unit="us a line", peer=LOOP)
            for name, title, who in (
                ("needed", "JSON lines to Parquet, functions, the fields that it needs", NEEDED),
                ("whole", "JSON lines to Parquet, functions, all fields", WHOLE),
            )
        ],
    )


def page(seen: dict[str, list[tuple[float, float]]], records: int, rounds: int) -> str:
    lines = [
        "# JSON lines to Parquet",
        "",
        f"`benchmarks/json_lines.py`: {records:,} lines of 1 KB, {rounds} rounds in turns, one process each, the local",
        "executor. Microseconds of processor time a line, medians; ratios are medians of the rounds' ratios.",
        "",
        "| who | processor us | wall us | loop / this |",
        "|---|---|---|---|",
    ]
    for name, runs in seen.items():
        cpu, wall = (median(run[place] for run in runs) / records * 1e6 for place in (0, 1))
        ratio = median(loop[0] / run[0] for loop, run in zip(seen[LOOP], runs, strict=True))
        lines.append(f"| {name} | {cpu:.2f} | {wall:.2f} | {ratio:.2f} x |")
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
    few = Path(path).with_name("few.json")
    prepare(few, 100)
    prepared(name, str(few))()  # imports what it needs
    run = prepared(name, path)
    gc.freeze()
    gc.set_threshold(100_000, 50, 50)
    began, began_wall = time.process_time(), time.perf_counter()
    run()
    times = time.process_time() - began, time.perf_counter() - began_wall
    print(json.dumps([*times, totals(Path(path).with_suffix(".out"))]))


def prepared(name: str, path: str) -> Callable[[], None]:
    output = Path(path).with_suffix(".out")
    if output.exists():
        import shutil

        shutil.rmtree(output)
    return loop(path, output) if name == LOOP else job(path, str(output), whole=name == WHOLE)


def totals(output: Path) -> list[float]:
    """Return rows, records and cents of what was written."""
    import pyarrow.compute as pc
    import pyarrow.dataset as ds

    table = ds.dataset([str(path) for path in output.rglob("part-*")], format="parquet").to_table()
    cents = pc.round(pc.multiply(table["amount"], 100))
    return [table.num_rows, pc.sum(table["records"]).as_py(), pc.sum(cents).as_py()]


def loop(path: str, output: Path) -> Callable[[], None]:
    import orjson
    import pyarrow as pa
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


def job(path: str, output: str, *, whole: bool) -> Callable[[], None]:
    from millstream.common import Configuration, Duration, Row, Time, WatermarkStrategy
    from millstream.datastream import AggregateFunction, ProcessWindowFunction, StreamExecutionEnvironment
    from millstream.datastream.connectors.file_system import BucketAssigner, FileSink, FileSource
    from millstream.datastream.formats.json import JsonLinesFormat
    from millstream.datastream.formats.parquet import ParquetBulkWriters
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
    needed = [
        field("user", text),
        field("kind", text),
        field("amount", DataTypes.DOUBLE()),
        field("ts", number),
    ]
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
    schema = DataTypes.ROW(needed + more * whole)
    written = [field("user", text), field("start", number), field("records", number)]
    row_type = DataTypes.ROW([*written, field("amount", DataTypes.DOUBLE())])

    def run() -> None:
        environment = StreamExecutionEnvironment.get_execution_environment(
            Configuration.from_dict({"execution.target": "local", "parallelism.default": 1})
        )
        source = FileSource.for_record_stream_format(JsonLinesFormat.for_schema(schema), path).build()
        strategy = WatermarkStrategy.for_bounded_out_of_orderness(
            Duration.of_millis(BOUND_MS)
        ).with_timestamp_assigner("ts")
        sink = FileSink.for_bulk_format(output, ParquetBulkWriters.for_row_type(row_type))
        sink = sink.with_bucket_assigner(BucketAssigner.base_path_bucket_assigner())
        (
            environment.from_source(source, strategy, "events")
            .filter(lambda event: event.kind == "buy")
            .key_by(lambda event: event.user)
            .window(TumblingEventTimeWindows.of(Time.milliseconds(WINDOW_MS)))
            .aggregate(Totals(), Named())
            .sink_to(sink.build())
        )
        environment.execute("json lines")

    return run


if __name__ == "__main__":
    main()

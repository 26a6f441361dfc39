"""The flights job beside a loop written by hand that does all of it on one core.

    python benchmarks/flights.py [--times 1 10] [--rounds 3] [--targets local local[2]] [--before SRC] [--write]

Both read the same CSV file, keep the same one-hour windows by carrier, part with late and cancelled flights, and write
the same 365 Parquet files. The loop uses `csv.reader`, dicts and pyarrow and knows no failures, no state, no other
core. `--times 10` has each flight ten times in a row: ten times the records, the same windows and files. `--before` is
the directory `src` of another checkout, which runs the same job in turns with this one.

Each run is a process of its own. Wall time is that of the job, from `execute()` to its end; processor time is that of
every process that takes part (slots, Spark's JVM and its workers), from a session that is started to the job's end.
"Once it ran" is the rate of what was read after the first quarter, by the wall time from then to the end of the
job's last epoch, in which all windows have fired and all files are closed: what is left out is the start of the JVM
and of slots, and the first epochs, in which Java compiles. So it is with the processor time for a flight. The loop has
no such start: it is compared by its whole time. What they give is compared: rows, flights and delays of the windows,
late rows, cancelled lines.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from statistics import median
from typing import Any

import figures
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.parquet as pq
from marked import MARK, mark_of_run
from processors import Processors, once_it_ran

HERE = Path(__file__).resolve().parents[1]
RESULTS = HERE / "benchmarks" / "results" / "flights.md"
FUNCTIONS = ", functions"
LOOP = "loop by hand"
EPOCH = datetime(1970, 1, 1)
HOUR_MS = 3_600_000
BOUND_MS = 2 * HOUR_MS
FLIGHTS = 336_776


@dataclass(frozen=True)
class Run:
    """What one run took, in seconds, and what it gave.

    Attributes:
        wall: Of the job.
        processor: Of all processes.
        totals: What came out.
        steady: Flights a second once it ran.
        steady_cost: Microseconds of all processors for a flight once it ran.
    """

    wall: float
    processor: float
    totals: tuple[int, ...]
    steady: float
    steady_cost: float


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--times", type=int, nargs="*", default=[1], help="how often each flight comes")
    parser.add_argument("--rounds", type=int, default=3)
    targets = [f"{target}{form}" for target in ("local", "local[2]") for form in ("", FUNCTIONS)]
    parser.add_argument("--targets", nargs="*", default=targets)
    parser.add_argument("--before", type=Path, metavar="SRC", help="src of another checkout")
    parser.add_argument("--write", action="store_true", help=f"write the tables to {RESULTS}")
    figures.add_option(parser)
    parser.add_argument("--worker", nargs=3, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.worker:
        _work(*arguments.worker)
        return
    pages, found = [_HEADING], []
    for times in arguments.times:
        with tempfile.TemporaryDirectory(prefix="millstream-flights-") as directory:
            seen = _measure(Path(directory), times, arguments)
        pages.append(_table(seen, times, arguments.rounds))
        found += _figures(seen, times)
    page = "\n".join(pages)
    print(page)
    if arguments.write:
        RESULTS.write_text(page)
    figures.write(arguments.json, found)


def _measure(directory: Path, times: int, arguments: argparse.Namespace) -> dict[str, list[Run]]:
    source = _input(directory, times)
    runs: dict[str, tuple[str, Path]] = {LOOP: ("loop", HERE / "src")}
    for target in arguments.targets:
        if arguments.before is not None:
            runs[f"{target}, before"] = (target, arguments.before.resolve())
        runs[target] = (target, HERE / "src")
    seen: dict[str, list[Run]] = {name: [] for name in runs}
    for number in range(arguments.rounds):
        for name in list(runs)[:: (-1) ** number]:
            seen[name].append(_run(directory, source, *runs[name]))
            print(f"{name}: {seen[name][-1]}", file=sys.stderr)
    totals = {run.totals for each in seen.values() for run in each}
    if len(totals) != 1:
        raise SystemExit(f"the runs gave different results: {seen}")
    return seen


def _figures(seen: dict[str, list[Run]], times: int) -> list[figures.Figure]:
    """Return each target's rate beside the loop's; on Spark also the rate once it ran."""

    def rates(name: str) -> list[float]:
        return [FLIGHTS * times / run.wall for run in seen[name]]

    def figure(name: str, ours: list[float], how: str = "") -> figures.Figure:
        return figures.beside(
            f"{times} x {name}{how}",
            f"{FLIGHTS * times:,} flights, {name}{how}",
            ours,
            rates(LOOP),
            unit="flights/s",
            peer=LOOP,
            more_is_better=True,
        )

    targets = [name for name in seen if name != LOOP]
    found = [figure(name, rates(name)) for name in targets]
    steady = {name: [run.steady for run in seen[name]] for name in targets if "[" in name}
    return found + [figure(name, ours, ", once it ran") for name, ours in steady.items()]


def _input(directory: Path, times: int) -> Path:
    sys.path.insert(0, str(HERE / "examples"))
    import flights_data

    source = flights_data.prepare(HERE / "out" / "flights" / "input")
    if times == 1:
        return source
    target = directory / "flights.csv"
    with source.open(encoding="utf-8") as lines, target.open("w", encoding="utf-8") as stream:
        stream.write(next(lines))
        for line in lines:
            stream.write(line * times)
    return target


def _run(directory: Path, source: Path, target: str, code: Path) -> Run:
    """Run once, in processes of its own."""
    output = directory / "out"
    mark = mark_of_run()
    environment = {**os.environ, "PYTHONPATH": str(code), **mark}
    command = [sys.executable, __file__, "--worker", target, str(source), str(output)]
    with Processors(mark[MARK]) as processors:
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{' '.join(command)} failed\n{done.stdout}\n{done.stderr}")
    told = json.loads(done.stdout.splitlines()[-1])
    totals = _totals(output)
    shutil.rmtree(output)
    return Run(
        wall=told["wall"],
        processor=processors.seconds,
        totals=totals,
        steady=told["flights"] / (told["end"] - told["warm"]),
        steady_cost=1e6 * processors.between(told["warm"], told["end"]) / told["flights"],
    )


def _totals(output: Path) -> tuple[int, ...]:
    hours = ds.dataset(output / "hours", format="parquet", partitioning="hive").to_table()
    late = sum(pq.read_metadata(path).num_rows for path in (output / "late").glob("*.parquet"))
    cancelled = sum(len(path.read_text().splitlines()) for path in (output / "cancelled").glob("*"))
    sums = [pc.sum(hours[name]).as_py() for name in ("flights", "total_delay", "max_delay", "delayed")]
    return hours.num_rows, *sums, late, cancelled


def _work(target: str, source: str, output: str) -> None:
    if target == "loop":
        began = time.monotonic()
        by_hand(Path(source), Path(output))
        end = time.monotonic()
        print(json.dumps({"wall": end - began, "warm": began, "end": end, "flights": _count(source)}))
    else:
        print(json.dumps(_job(target, Path(source), Path(output))))


def _count(source: str) -> int:
    with open(source, "rb") as lines:
        return sum(1 for _ in lines) - 1


def _job(target: str, source: Path, output: Path) -> dict[str, float]:
    """Run the job; return its wall time, when it had read the first quarter and when it ended, and how much between."""
    sys.path.insert(0, str(HERE / "examples"))
    import flights
    import flights_functions
    import flights_report

    from millstream.common import Configuration
    from millstream.datastream import StreamExecutionEnvironment
    from millstream.graph.launcher import set_progress_listener

    executor = target.removesuffix(FUNCTIONS)
    configuration = Configuration.from_dict({"execution.target": executor})
    env = StreamExecutionEnvironment.get_execution_environment(configuration)
    env.set_parallelism(int(executor[6:-1]) if "[" in executor else 1)
    output.mkdir(parents=True)
    results = flights_report.Results(output)
    if executor == target:
        flights.build_job(env, source, results, follow=False)
    else:
        flights_functions.build_job(env, source, results)
    reached: list[tuple[float, int]] = []
    set_progress_listener(lambda progress: reached.append((time.monotonic(), progress.records_in)))
    began = time.monotonic()
    env.execute("flights")
    wall = time.monotonic() - began
    warm, end, flights_read = once_it_ran(reached)
    return {"wall": wall, "warm": warm, "end": end, "flights": flights_read}


def by_hand(source: Path, output: Path) -> None:
    """Do what the job does, on one core."""
    windows: dict[int, dict[str, list[int]]] = {}
    days: dict[str, list[tuple[Any, ...]]] = {}
    late: list[tuple[Any, ...]] = []
    cancelled: list[str] = []
    latest = watermark = -(2**63)

    def fire(until: int) -> None:
        for start in sorted(start for start in windows if start + HOUR_MS - 1 <= until):
            hour = EPOCH + timedelta(milliseconds=start)
            rows = days.setdefault(f"day={hour:%Y-%m-%d}", [])
            rows.extend((carrier, hour, *sums) for carrier, sums in windows.pop(start).items())

    millisecond = timedelta(milliseconds=1)
    due = 2**63
    with source.open(newline="", encoding="utf-8") as stream:
        lines = csv.reader(stream)
        next(lines)
        for scheduled, delayed, carrier, flight, origin, dest in lines:
            if not delayed:
                cancelled.append(f"{scheduled},,{carrier},{flight},{origin},{dest}\n")
                continue
            time_of = datetime.fromisoformat(scheduled)
            timestamp = (time_of - EPOCH) // millisecond
            delay = int(delayed)
            start = timestamp - timestamp % HOUR_MS
            if start + HOUR_MS - 1 <= watermark:
                late.append((time_of, delay, carrier, int(flight), origin, dest))
            else:
                window = windows.get(start)
                if window is None:
                    window = windows[start] = {}
                    due = min(due, start + HOUR_MS - 1)
                sums = window.get(carrier)
                if sums is None:
                    sums = window[carrier] = [0, 0, -sys.maxsize, 0]
                sums[0] += 1
                sums[1] += delay
                if delay > sums[2]:
                    sums[2] = delay
                if delay > 15:
                    sums[3] += 1
            if timestamp > latest:
                latest, watermark = timestamp, timestamp - BOUND_MS - 1
                if watermark >= due:
                    fire(watermark)
                    due = min(windows, default=2**63) + HOUR_MS - 1
    fire(2**63)
    _write(output, days, late, cancelled)


def _write(output: Path, days: dict[str, list[Any]], late: list[Any], cancelled: list[str]) -> None:
    hours = _schema(carrier="string", hour="timestamp[s]", flights="int64", total_delay="int64")
    hours = pa.unify_schemas([hours, _schema(max_delay="int64", delayed="int64")])
    flights = _schema(scheduled="timestamp[s]", delay="int32", carrier="string", flight="int32")
    flights = pa.unify_schemas([flights, _schema(origin="string", dest="string")])
    for day, rows in days.items():
        _write_parquet(output / "hours" / day, rows, hours)
    _write_parquet(output / "late", late, flights)
    (output / "cancelled").mkdir()
    (output / "cancelled" / "cancelled.csv").write_text("".join(cancelled), encoding="utf-8")


def _schema(**types: str) -> pa.Schema:
    return pa.schema({name: pa.type_for_alias(alias) for name, alias in types.items()})


def _write_parquet(directory: Path, rows: list[Any], schema: pa.Schema) -> None:
    directory.mkdir(parents=True)
    columns = [
        pa.array(column, kind) for column, kind in zip(zip(*rows, strict=True), schema.types, strict=True)
    ]
    pq.write_table(pa.Table.from_arrays(columns, schema=schema), directory / "part.parquet")


def _table(seen: dict[str, list[Run]], times: int, rounds: int) -> str:
    flights = FLIGHTS * times
    loop = median(run.wall for run in seen[LOOP])
    loop_rate = median(run.steady for run in seen[LOOP])
    load = ", ".join(f"{each:.1f}" for each in os.getloadavg())
    lines = [
        f"## {flights:,} flights",
        "",
        f"`benchmarks/flights.py --times {times}`: medians of {rounds} rounds in turns, best in brackets; "
        f"{os.cpu_count()} cores, load of the machine {load}.",
        "",
        "| | wall, s | processor, s | flights/s | of the loop's | once it ran, flights/s | of the loop's "
        "| processor for a flight, µs |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for name, every in seen.items():
        wall = median(run.wall for run in every)
        processor = median(run.processor for run in every)
        steady = median(run.steady for run in every)
        cost = median(run.steady_cost for run in every)
        lines.append(
            f"| {name} | {wall:.2f} ({min(each.wall for each in every):.2f}) "
            f"| {processor:.2f} ({min(each.processor for each in every):.2f}) "
            f"| {flights / wall:,.0f} | {loop / wall:.2f} "
            f"| {steady:,.0f} ({max(each.steady for each in every):,.0f}) | {steady / loop_rate:.2f} "
            f"| {cost:.2f} ({min(each.steady_cost for each in every):.2f}) |"
        )
    return "\n".join([*lines, ""])


_HEADING = """# The flights job beside a loop written by hand

The job of `examples/flights.py`, in columns; "functions" is the same with a function for each record, as PyFlink has it
(`benchmarks/flights_functions.py`). Wall time is the job's alone; processor times are those of all processes, with the
start of interpreters and of Spark's JVM. "Once it ran" is the rate after the first quarter of the flights, to the end
of the job's last epoch: without the start of Spark's JVM and of slots, and without the first epochs. So is the last
column, which a loaded machine changes less: divided by two cores it is the least wall time for a flight.
"""


if __name__ == "__main__":
    main()

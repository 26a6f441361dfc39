"""What it costs to write files in buckets: a job with a FileSink beside a hand-written loop that writes the same files.

    python benchmarks/writing.py [--baseline SRC] [--rounds 5] [--records 336776] [--write] [--json FILE]

SRC is the directory `src` of another checkout, which takes turns with this one, run by run. Each run is a process of
its own: records are made of a number sequence, two subtasks of the local executor write them into 365 buckets, so there
are 730 files. The loop does the same twice, for each half of the numbers: it makes the records, cuts them by bucket,
writes a file for each with pyarrow (or `csv.writer`, or a join of texts), in one thread, and syncs and renames nothing.
A job of two records is run first and not counted. Processor seconds are those of the process, with all of its threads.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import shutil
import stat
import subprocess
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import figures

RESULTS = Path(__file__).parent / "results" / "writing.md"
DAYS = 365
NAMES = ("day", "number", "carrier", "delay", "tail", "distance")
JOBS = {
    "parquet": "Parquet, each subtask's records in the order of days",
    "parquet_mixed": "Parquet, days mixed",
    "csv": "CSV (bulk format), in the order of days",
    "lines": "lines (row format, `simple_string_encoder` of texts), in the order of days",
}


@dataclass(frozen=True)
class Run:
    """What one run took."""

    wall: float
    cpu: float
    syncs: int
    directory_syncs: int
    add_calls: int


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--baseline", type=Path, help="directory src of the checkout to compare with")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--records", type=int, default=336_776)
    parser.add_argument("--only", nargs="*", default=list(JOBS), choices=list(JOBS))
    parser.add_argument("--write", action="store_true", help=f"write {RESULTS}")
    figures.add_option(parser)
    parser.add_argument("--worker", nargs=2, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.worker:
        who, job = arguments.worker
        print(json.dumps(_measure(who, job, arguments.records)))
        return
    here = Path(__file__).parents[1] / "src"
    sources = {"loop": here, **({"before": arguments.baseline} if arguments.baseline else {}), "job": here}
    seen: dict[tuple[str, str], list[Run]] = defaultdict(list)
    for number in range(arguments.rounds):
        for job in arguments.only:
            for who in list(sources)[:: (-1) ** number]:
                seen[job, who].append(_start(sources[who], who, job, arguments.records))
    page = _page(seen, arguments.only, list(sources), arguments.records, arguments.rounds)
    print(page)
    if arguments.write:
        RESULTS.write_text(page)
    times = {key: [run.cpu for run in runs] for key, runs in seen.items()}
    figures.write(
        arguments.json,
        [
            figures.beside(
                job, JOBS[job], times[job, "job"], times[job, "loop"], unit="s", peer="loop by hand"
            )
            for job in arguments.only
        ],
    )


def _start(source: Path, who: str, job: str, records: int) -> Run:
    command = [sys.executable, __file__, "--worker", "loop" if who == "loop" else "job", job]
    environment = {**os.environ, "PYTHONPATH": str(source.resolve())}
    done = subprocess.run(
        [*command, "--records", str(records)],
        env=environment,
        check=True,
        stdout=subprocess.PIPE,
        timeout=300,
    )
    return Run(**json.loads(done.stdout.splitlines()[-1]))


def _measure(who: str, job: str, records: int) -> dict[str, Any]:
    run = _loop if who == "loop" else _job
    with tempfile.TemporaryDirectory() as directory:
        run(job, 2, f"{directory}/first")
        syncs, right = Counter[str](), os.fsync

        def fsync(file: Any) -> None:
            syncs["directory" if stat.S_ISDIR(os.fstat(file).st_mode) else "file"] += 1
            right(file)

        os.fsync = fsync  # type: ignore[assignment]
        begun, spent = time.perf_counter(), time.process_time()
        calls = run(job, records, f"{directory}/out")
        wall, cpu = time.perf_counter() - begun, time.process_time() - spent
        os.fsync = right
        _check(Path(directory, "out"), job, records)
        shutil.rmtree(f"{directory}/out")
    return {
        "wall": wall,
        "cpu": cpu,
        "syncs": syncs["file"],
        "directory_syncs": syncs["directory"],
        "add_calls": calls,
    }


def _check(directory: Path, job: str, records: int) -> None:
    """Check that all records are there, in as many files as expected."""
    import pyarrow.parquet as pq

    files = [file for file in directory.rglob("part-*") if file.is_file()]
    if job.startswith("parquet"):
        count = sum(pq.ParquetFile(file).metadata.num_rows for file in files)
    else:
        count = sum(file.read_bytes().count(b"\n") for file in files)
    assert count == records, f"{count} of {records} records are in the files"
    assert records < 10_000 or len(files) == 2 * DAYS, f"{len(files)} files"
    assert not [name for _, _, names in os.walk(directory) for name in names if name.startswith(".")]


def _maker(job: str, records: int) -> Callable[[int], Any]:
    """Return what makes a record of a number; each half of the numbers has all days."""

    def record(n: int) -> tuple[Any, ...]:
        day = n % DAYS if job == "parquet_mixed" else n * 2 * DAYS // records % DAYS
        return (day, n, CARRIERS[n % 16], n % 1000 * 0.25, TAILS[n % 4000], n % 5000)

    if job != "lines":
        return record
    return lambda n: ",".join(map(str, record(n)))


CARRIERS = [f"{chr(65 + index)}A" for index in range(16)]
TAILS = [f"N{index}" for index in range(4000)]


def _loop(job: str, records: int, directory: str) -> int:
    """Write the files by hand."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    types = (pa.int32(), pa.int64(), pa.string(), pa.float64(), pa.string(), pa.int32())
    schema = pa.schema(list(zip(NAMES, types, strict=True)))
    record = _maker(job, records)
    for half in range(2):
        buckets: dict[int, list[Any]] = {}
        for n in range(half * records // 2, (half + 1) * records // 2):
            made = record(n)
            day = int(made.partition(",")[0]) if job == "lines" else made[0]
            members = buckets.get(day)
            if members is None:
                buckets[day] = [made]
            else:
                members.append(made)
        for day, members in buckets.items():
            os.makedirs(f"{directory}/day={day}", exist_ok=True)
            path = f"{directory}/day={day}/part-{half}"
            if job == "lines":
                Path(path).write_text("".join([f"{line}\n" for line in members]))
            elif job == "csv":
                with open(path, "w", newline="") as file:
                    csv.writer(file, lineterminator="\n").writerows(members)
            else:
                columns = zip(*members, strict=True)
                arrays = [pa.array(values, kind) for values, kind in zip(columns, types, strict=True)]
                pq.write_table(pa.Table.from_arrays(arrays, schema=schema), path)
    return 0


def _job(job: str, records: int, directory: str) -> int:
    """Run the job; returns how often a bulk writer was handed records."""
    from millstream.common import Configuration, Encoder, WatermarkStrategy
    from millstream.datastream import StreamExecutionEnvironment
    from millstream.datastream.connectors.file_system import BucketAssigner, FileSink, RollingPolicy
    from millstream.datastream.connectors.number_seq import NumberSequenceSource
    from millstream.datastream.formats.csv import CsvBulkWriters, CsvSchema
    from millstream.formats.csv import writer as csv_writer
    from millstream.formats.parquet import writer as parquet_writer
    from millstream.formats.parquet.writer import ParquetBulkWriters
    from millstream.table import DataTypes

    class ByDay(BucketAssigner):
        def get_bucket_id(self, element: Any, context: Any) -> str:
            return f"day={element[0]}"

    class ByDayOfLine(BucketAssigner):
        def get_bucket_id(self, element: Any, context: Any) -> str:
            return f"day={element.partition(',')[0]}"

    types = (
        DataTypes.INT(),
        DataTypes.BIGINT(),
        DataTypes.STRING(),
        DataTypes.DOUBLE(),
        DataTypes.STRING(),
        DataTypes.INT(),
    )
    calls = 0
    for writer in (parquet_writer._ParquetWriter, csv_writer._CsvWriter):

        def counted(self: Any, elements: Any, right: Any = writer.add_elements) -> None:
            nonlocal calls
            calls += 1
            right(self, elements)

        writer.add_elements = counted  # type: ignore[method-assign]
    if job == "lines":
        builder: Any = FileSink.for_row_format(directory, Encoder.simple_string_encoder())
        builder.with_rolling_policy(RollingPolicy.on_checkpoint_rolling_policy())
    elif job == "csv":
        schema = CsvSchema.builder()
        for name, kind in zip(NAMES, types, strict=True):
            is_text = name in ("carrier", "tail")
            schema = schema.add_string_column(name) if is_text else schema.add_number_column(name, kind)
        builder = FileSink.for_bulk_format(directory, CsvBulkWriters.for_schema(schema.build()))
    else:
        row_type = DataTypes.ROW(
            [DataTypes.FIELD(name, kind) for name, kind in zip(NAMES, types, strict=True)]
        )
        builder = FileSink.for_bulk_format(directory, ParquetBulkWriters.for_row_type(row_type))
    sink = builder.with_bucket_assigner(ByDayOfLine() if job == "lines" else ByDay()).build()
    environment = StreamExecutionEnvironment.get_execution_environment(
        Configuration.from_dict({"execution.target": "local", "parallelism.default": 2})
    )
    source = NumberSequenceSource(0, records - 1)
    numbers = environment.from_source(source, WatermarkStrategy.no_watermarks(), "numbers")
    numbers.map(_maker(job, records)).sink_to(sink)
    environment.execute()
    return calls


def _page(
    seen: dict[tuple[str, str], list[Run]], jobs: list[str], whos: list[str], records: int, rounds: int
) -> str:
    lines = [
        "# Writing files in buckets",
        "",
        f"`benchmarks/writing.py`: {records:,} records of six fields into {DAYS} buckets, 2 subtasks on the local",
        f"executor, 730 files, {rounds} rounds in turns. Seconds of processor and of wall time: medians. The loop",
        "is the same by hand, in one thread, without sync and rename; the job makes its files durable and publishes",
        "them.",
        "",
        "| files | who | processor s | wall s | of the loop's | syncs: files, directories | add_elements |",
        "|---|---|---|---|---|---|---|",
    ]
    names = {"loop": "loop by hand", "before": "before", "job": "millstream"}
    for job in jobs:
        loop = median(run.cpu for run in seen[job, "loop"])
        for who in whos:
            runs = seen[job, who]
            cpu, wall = median(run.cpu for run in runs), median(run.wall for run in runs)
            syncs = f"{runs[0].syncs:,}, {runs[0].directory_syncs:,}" if who != "loop" else ""
            calls = f"{runs[0].add_calls:,}" if who != "loop" and job != "lines" else ""
            lines.append(
                f"| {JOBS[job]} | {names[who]} | {cpu:.2f} | {wall:.2f} | {cpu / loop:.2f} x | {syncs} | {calls} |"
            )
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()

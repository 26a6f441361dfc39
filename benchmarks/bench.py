"""Measure what README and docs quote, and say what has become worse: `make bench`.

    python benchmarks/bench.py [--only NAME ...] [--update]

Each benchmark runs in a short form, in processes of its own, one after the other; all together take less than 15
minutes on two cores. Every figure is a workload beside its peer in the same run, the median of some rounds in turns.
It is printed beside the committed one (`results/summary.json`), which it may miss by as much as that one's rounds lie
apart, ten per cent at least; what is worse is marked BAD. A floor is what is wanted whatever is committed.

`--update` writes the new figures, where nothing failed, and the tables of README and docs that are made from them.
A benchmark that fails or takes too long is shown as failed, and the others go on. Ctrl-C ends everything that was
started. What each benchmark printed is in `out/bench`.

Exit code 0: as good as committed. 1: a figure is BAD, or misses its floor for the first time. 3: something could not be
measured. 130: interrupted.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import platform
import signal
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from types import FrameType

import psutil
import summary
from figures import Figure, from_json
from short_forms import BENCHMARKS, Benchmark
from verdicts import Mark, Row, compare

ROOT = Path(__file__).resolve().parents[1]
LOGS = ROOT / "out" / "bench"
MARK = "MILLSTREAM_BENCH"
MINUTES = 15
GRACE_S = 10.0
ATTEMPTS = 3  # a process that is found may have started another meanwhile


@dataclass(frozen=True)
class Outcome:
    """What a benchmark gave, and what went wrong, if anything did."""

    figures: Mapping[str, Figure]
    seconds: float
    error: str = ""


def main() -> int:
    names = [each.name for each in BENCHMARKS]
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--only", nargs="+", default=names, choices=names, metavar="NAME", help=", ".join(names)
    )
    parser.add_argument("--update", action="store_true", help="write the new figures and the tables")
    arguments = parser.parse_args()
    _listen()
    committed = summary.read()
    measured: dict[str, summary.Entry] = {}
    rows: dict[str, list[Row]] = {}
    errors: dict[str, str] = {}
    try:
        _prepare(arguments.only)
        begun = time.monotonic()
        for benchmark in BENCHMARKS:
            if benchmark.name in arguments.only:
                entry, error = _measure(benchmark, write=arguments.update)
                if error:
                    errors[benchmark.name] = error
                else:
                    measured[benchmark.name] = entry
                before = committed[benchmark.name].figures if benchmark.name in committed else {}
                rows[benchmark.name] = compare(entry.figures, before)
                print(
                    _table(benchmark.name, rows[benchmark.name], error),
                    f"({entry.seconds:.0f} s)",
                    flush=True,
                )
    except KeyboardInterrupt:
        print(
            "interrupted: the committed figures stay, and nothing that was started goes on", file=sys.stderr
        )
        return 130
    _say_whole(rows, errors, time.monotonic() - begun)
    if arguments.update:
        try:
            _update(measured)
        except LookupError as error:
            print(f"FAILED: a table of README or docs could not be made: {error.args[0]}")
            return 3
    return status(rows, errors)


def status(rows: Mapping[str, list[Row]], errors: Mapping[str, str]) -> int:
    """Return the exit code."""
    every = [row for each in rows.values() for row in each]
    if errors or any(row.mark is Mark.FAILED for row in every):
        return 3
    return int(any(row.mark is Mark.BAD or row.has_lost_its_floor for row in every))


def _listen() -> None:
    """Take the end of a terminal or of `make` as Ctrl-C."""
    for each in (signal.SIGINT, signal.SIGTERM):
        signal.signal(each, _interrupted)


def _interrupted(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt


def _prepare(names: list[str]) -> None:
    """Make what is made once, so that no benchmark's time holds it."""
    LOGS.mkdir(parents=True, exist_ok=True)
    if {"compare", "flights_pyflink"}.intersection(names):
        from compare import prepare_pyflink

        try:
            prepare_pyflink(None)
        except (SystemExit, subprocess.CalledProcessError) as error:
            print(
                f"PyFlink is not there: {error}", file=sys.stderr
            )  # what needs it will fail, the others go on


def _measure(benchmark: Benchmark, *, write: bool) -> tuple[summary.Entry, str]:
    """Return what a benchmark gave, and what went wrong."""
    load, today = os.getloadavg()[0], datetime.now(UTC).date().isoformat()
    print(f"\n{benchmark.name}: {benchmark.shown()}", file=sys.stderr, flush=True)
    outcome = run(benchmark, write=write)
    entry = summary.Entry(
        benchmark.shown(), _commit(), today, _machine(), load, outcome.seconds, outcome.figures
    )
    return entry, outcome.error


def run(benchmark: Benchmark, *, write: bool = False) -> Outcome:
    """Run a benchmark, and end whatever is left of it.

    Its processes are known by a mark in their environment, which slots in sessions of their own inherit too.
    """
    mark, log = uuid.uuid4().hex, LOGS / f"{benchmark.name}.log"
    begun = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="bench-", ignore_cleanup_errors=True) as directory:
        answer = Path(directory, "figures.json")
        script, *rest = benchmark.command
        command = [sys.executable, str(ROOT / "benchmarks" / script), *rest, "--json", str(answer)]
        command += ["--write"] * (write and benchmark.has_page)
        environment = {**os.environ, MARK: mark, "TMPDIR": directory}
        with log.open("w", encoding="utf-8") as output:
            process = subprocess.Popen(
                command,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
            try:
                process.wait(benchmark.limit_s)
                error = ""
            except subprocess.TimeoutExpired:
                error = f"took longer than {benchmark.limit_s:.0f} s"
            finally:
                _end(process, mark)
        figures, wrong = _answer(answer)
    seconds = time.monotonic() - begun
    if not error and process.returncode and (wrong or all(each.is_floor_met for each in figures.values())):
        error = f"ended with {process.returncode}"
    error = error or wrong
    if error:
        last = log.read_text(encoding="utf-8", errors="replace").strip().splitlines()[-1:]
        error = f"{error}; last line of out/bench/{log.name}: {' '.join(last)[:200]}"
    return Outcome(figures, seconds, error)


def _end(process: subprocess.Popen[bytes], mark: str) -> None:
    """End all processes with a mark: those of the script's group may tidy up first."""
    for each in (signal.SIGINT, signal.SIGTERM):
        signal.signal(each, signal.SIG_IGN)  # a second Ctrl-C does not leave half of them
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGINT)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(GRACE_S)
    for _ in range(ATTEMPTS):
        left = _marked(mark)
        for each in left:
            with contextlib.suppress(psutil.NoSuchProcess):
                each.kill()
        psutil.wait_procs(left, timeout=GRACE_S)
    process.wait()
    _listen()


def _marked(mark: str) -> list[psutil.Process]:
    found = []
    for process in psutil.process_iter():
        try:
            if process.status() != psutil.STATUS_ZOMBIE and process.environ().get(MARK) == mark:
                found.append(process)
        except psutil.Error:
            continue  # gone, or another user's
    return found


def _answer(path: Path) -> tuple[dict[str, Figure], str]:
    """Return the figures that a script wrote, and what is wrong with them."""
    try:
        figures = [from_json(each) for each in json.loads(path.read_text(encoding="utf-8"))]
    except FileNotFoundError:
        return {}, "gave no figures"
    except (ValueError, KeyError, TypeError) as error:
        return {}, f"gave figures that cannot be read ({error})"
    return {figure.name: figure for figure in figures}, "" if figures else "gave no figures"


def _table(name: str, rows: list[Row], error: str) -> str:
    """Return what was measured beside what is committed, for a terminal."""
    lines = [f"{name:66} {'now':>12} {'committed':>12} {'may miss':>9} {'wanted':>9}"]
    for row in rows:
        figure = row.now or row.before
        assert figure is not None
        now, before = (
            "-" if each is None else summary.value_text(each, each.value) for each in (row.now, row.before)
        )
        floor = "" if figure.floor is None else summary.value_text(figure, figure.floor)
        mark = row.mark.value + ("" if row.now is None or row.now.is_floor_met else ", below what is wanted")
        margin = "" if row.before is None else f"{row.margin:.0%}"
        lines.append(f"  {figure.title[:62]:64} {now:>12} {before:>12} {margin:>9} {floor:>9}  {mark}")
    if error:
        lines.append(f"  FAILED: {error}")
    return "\n".join(lines)


def _say_whole(rows: Mapping[str, list[Row]], errors: Mapping[str, str], seconds: float) -> None:
    every = [row for each in rows.values() for row in each]
    counts = {mark: sum(row.mark is mark for row in every) for mark in Mark}
    missed = sum(row.now is not None and not row.now.is_floor_met for row in every)
    shown = ", ".join(f"{count} {mark.value}" for mark, count in counts.items() if count)
    minutes = f"{seconds / 60:.1f} minutes" + (f", more than {MINUTES}" if seconds > MINUTES * 60 else "")
    print(
        f"\n{shown}; {missed} below what is wanted; {minutes}; load of the machine {os.getloadavg()[0]:.1f}"
    )
    for name, each in rows.items():
        for row in each:
            if row.mark is Mark.BAD and row.change is not None:
                print(f"BAD: {name}/{row.name} is {row.change:.2f} times as good as committed")
    for name, error in errors.items():
        print(f"FAILED: {name} {error}")


def _update(measured: Mapping[str, summary.Entry]) -> None:
    """Put what was measured into the summary, and make the tables anew."""
    found = {**summary.read(), **measured}
    entries = {each.name: found[each.name] for each in BENCHMARKS if each.name in found}
    summary.write(entries)
    print(f"written: {summary.SUMMARY.relative_to(ROOT)}")
    summary.PAGE.write_text(summary.summary_page(entries), encoding="utf-8")
    for page in summary.pages():
        before = page.read_text(encoding="utf-8")
        after = summary.rewrite(before, entries)
        if after != before:
            page.write_text(after, encoding="utf-8")
            print(f"written: {page.relative_to(ROOT)}")


def _commit() -> str:
    """Return the commit that is measured, and whether there are changes."""

    def git(*arguments: str) -> str:
        done = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=False)
        return done.stdout.strip()

    changed = git("status", "--porcelain", "--", "src", "examples", "benchmarks/*.py")
    return (git("rev-parse", "--short", "HEAD") or "an unknown commit") + (" with changes" if changed else "")


def _machine() -> str:
    model = platform.processor() or platform.machine()
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        names = [line for line in cpuinfo.read_text().splitlines() if line.startswith("model name")]
        model = names[0].split(":", 1)[1].strip() if names else model
    versions = f"Python {platform.python_version()}, PySpark {metadata.version('pyspark')}"
    return f"{os.cpu_count()} cores ({model}), {platform.system()}, {versions}"


if __name__ == "__main__":
    sys.exit(main())

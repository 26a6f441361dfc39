"""Time from `millstream run` to the first record processed, and of `millstream sql` to its prompt and first row.

    python benchmarks/startup.py [--rounds 3] [--write] [--json FILE]

Runs a job of ten numbers as a user would, on the local executor and on Spark; its first function notes when
it saw its first record. `sql` is `millstream sql -f` of a query over a CSV file of 1,000 rows, up to the first row that
it prints; `prompt` is the shell in a terminal, up to its prompt. The median of the rounds counts; exit code 1 if it is
above the limit. Modules are compiled before: an environment with PYTHONDONTWRITEBYTECODE compiles what was never
compiled at each start.
"""

from __future__ import annotations

import argparse
import compileall
import contextlib
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import figures

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "benchmarks" / "results" / "startup.md"
LIMITS_S = {"local": 1.5, "local[2]": 10.0}
SQL_LIMITS_S = {"sql": 1.0, "prompt": 0.5}

JOB = """
import os
import sys
import time

from millstream.common import Types, WatermarkStrategy
from millstream.datastream import StreamExecutionEnvironment
from millstream.datastream.connectors.number_seq import NumberSequenceSource

FIRST_RECORD = sys.argv[1]


def note(number):
    if not os.path.exists(FIRST_RECORD):
        with open(FIRST_RECORD, "w", encoding="ascii") as file:
            file.write(repr(time.time()))
    return number


env = StreamExecutionEnvironment.get_execution_environment()
numbers = env.from_source(
    NumberSequenceSource(0, 9), WatermarkStrategy.no_watermarks(), "numbers", type_info=Types.LONG()
)
numbers.map(note, output_type=Types.LONG()).print()
env.execute("startup")
"""


def seconds_to_first_record(target: str) -> tuple[float, float]:
    """Return (seconds to the first record, seconds until the command ended)."""
    with tempfile.TemporaryDirectory() as folder:
        job, noted = Path(folder, "job.py"), Path(folder, "first-record")
        job.write_text(JOB, encoding="utf-8")
        environment = dict(os.environ)
        environment["PYTHONPATH"] = os.pathsep.join(
            filter(None, [str(ROOT / "src"), environment.get("PYTHONPATH")])
        )
        command = [sys.executable, "-m", "millstream.cli.main", "run", "--target", target]
        started = time.time()
        done = subprocess.run(
            [*command, str(job), str(noted)],
            env=environment,
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        ended = time.time()
        if done.returncode or not noted.exists():
            raise SystemExit(f"--target {target} ended with {done.returncode}\n{done.stdout}{done.stderr}")
        return float(noted.read_text(encoding="ascii")) - started, ended - started


SCRIPT = """CREATE TABLE numbers (a BIGINT, b BIGINT, c STRING)
WITH ('connector' = 'filesystem', 'path' = '{path}', 'format' = 'csv');
SELECT b, COUNT(*) AS n FROM numbers GROUP BY b;
"""


def _command(*arguments: str) -> tuple[list[str], dict[str, str]]:
    environment = dict(os.environ)
    environment["PYTHONPATH"] = os.pathsep.join(
        filter(None, [str(ROOT / "src"), environment.get("PYTHONPATH")])
    )
    return [sys.executable, "-m", "millstream.cli.main", *arguments], environment


def seconds_of_query() -> tuple[float, float]:
    """Return (seconds to the first row of a query that is printed, seconds until the command ended)."""
    with tempfile.TemporaryDirectory() as folder:
        rows, script = Path(folder, "numbers.csv"), Path(folder, "query.sql")
        rows.write_text("".join(f"{n},{n % 10},name{n % 7}\n" for n in range(1_000)), encoding="utf-8")
        script.write_text(SCRIPT.format(path=rows), encoding="utf-8")
        command, environment = _command("sql", "-f", str(script))
        first = 0.0
        started = time.time()
        with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            for line in process.stdout:
                if not first and line.startswith("| +I"):
                    first = time.time() - started
        if process.returncode or not first:
            raise SystemExit(f"millstream sql ended with {process.returncode}")
        return first, time.time() - started


def seconds_to_prompt() -> tuple[float, float]:
    """Return (seconds to the shell's prompt, seconds until it ended behind `QUIT;`)."""
    command, environment = _command("sql")
    terminal, of_shell = os.openpty()
    started = time.time()
    with subprocess.Popen(command, env=environment, stdin=of_shell, stdout=of_shell, stderr=of_shell):
        os.close(of_shell)
        shown = b""
        while b"> " not in shown:
            shown += os.read(terminal, 4096)
        first = time.time() - started
        os.write(terminal, b"QUIT;\n")
        with contextlib.suppress(OSError):  # Linux says so when the other end is closed
            while os.read(terminal, 4096):
                pass
    os.close(terminal)
    return first, time.time() - started


def main() -> int:
    parser = argparse.ArgumentParser(description="time from `millstream run` to the first record")
    parser.add_argument("--rounds", type=int, default=3)
    choices = [*LIMITS_S, *SQL_LIMITS_S]
    parser.add_argument("--target", action="append", choices=choices, help="may be repeated")
    parser.add_argument("--write", action="store_true", help=f"write {RESULTS}")
    figures.add_option(parser)
    arguments = parser.parse_args()

    compileall.compile_dir(ROOT / "src", quiet=1)
    limits = LIMITS_S | SQL_LIMITS_S
    missed = False
    lines = [
        "# Time from `millstream run` to the first record, of `millstream sql` to its first row and its prompt",
        "",
        f"`benchmarks/startup.py --rounds {arguments.rounds}`, {os.cpu_count()} cores, "
        f"load of the machine before: {os.getloadavg()[0]:.1f}; medians.",
        "",
        "| target | first record | command ended | limit | |",
        "| --- | --- | --- | --- | --- |",
    ]
    found = []
    for target in arguments.target or limits:
        measure = {"sql": seconds_of_query, "prompt": seconds_to_prompt}.get(target)
        rounds = [
            seconds_to_first_record(target) if measure is None else measure() for _ in range(arguments.rounds)
        ]
        first, ended = (statistics.median(column) for column in zip(*rounds, strict=True))
        over = first > limits[target]
        missed |= over
        verdict = "MISSED" if over else "met"
        lines.append(f"| {target} | {first:.2f} s | {ended:.2f} s | {limits[target]:g} s | {verdict} |")
        title = {
            "sql": "`millstream sql -f`, a small query over a file: to the first row",
            "prompt": "`millstream sql`: to the prompt",
        }.get(target, f"`millstream run --target {target}`: to the first record")
        firsts = [each for each, _ in rounds]
        found.append(figures.by_itself(target, title, firsts, unit="s", limit=limits[target]))
    page = "\n".join([*lines, ""])
    print(page)
    if arguments.write:
        RESULTS.write_text(page)
    figures.write(arguments.json, found)
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())

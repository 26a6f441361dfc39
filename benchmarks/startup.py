"""Time from `millstream run` to the first record processed.

    python benchmarks/startup.py [--rounds 3] [--write] [--json FILE]

Runs a job of ten numbers as a user would, on the local executor and on Spark; its first function notes when
it saw its first record. The median of the rounds counts; exit code 1 if it is above the limit.
"""

from __future__ import annotations

import argparse
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


def main() -> int:
    parser = argparse.ArgumentParser(description="time from `millstream run` to the first record")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--target", action="append", choices=list(LIMITS_S), help="may be repeated")
    parser.add_argument("--write", action="store_true", help=f"write {RESULTS}")
    figures.add_option(parser)
    arguments = parser.parse_args()

    missed = False
    lines = [
        "# Time from `millstream run` to the first record",
        "",
        f"`benchmarks/startup.py --rounds {arguments.rounds}`, {os.cpu_count()} cores, "
        f"load of the machine before: {os.getloadavg()[0]:.1f}; medians.",
        "",
        "| target | first record | command ended | limit | |",
        "| --- | --- | --- | --- | --- |",
    ]
    found = []
    for target in arguments.target or LIMITS_S:
        rounds = [seconds_to_first_record(target) for _ in range(arguments.rounds)]
        first, ended = (statistics.median(column) for column in zip(*rounds, strict=True))
        over = first > LIMITS_S[target]
        missed |= over
        verdict = "MISSED" if over else "met"
        lines.append(f"| {target} | {first:.2f} s | {ended:.2f} s | {LIMITS_S[target]:g} s | {verdict} |")
        title = f"`millstream run --target {target}`: to the first record"
        firsts = [each for each, _ in rounds]
        found.append(figures.by_itself(target, title, firsts, unit="s", limit=LIMITS_S[target]))
    page = "\n".join([*lines, ""])
    print(page)
    if arguments.write:
        RESULTS.write_text(page)
    figures.write(arguments.json, found)
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())

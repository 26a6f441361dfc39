"""Runs many seeds over all jobs of these tests and prints what became of them: `benchmarks/results/verify.md`.

nice -n 19 python tests/verify/long_run.py --seeds 3400 > benchmarks/results/verify.md
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections import Counter, defaultdict
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from sink_jobs import SINK_JOBS
from verify_jobs import JOBS, captured, late_records, late_records_gives

from millstream.verify.faults import POINTS, FaultKind
from millstream.verify.verifier import Summary, Verifier
from millstream.verify.workers import run_shared

ALL = {
    **{name: (build, gives, None) for name, (build, gives) in JOBS.items()},
    "late records": (late_records, late_records_gives, None),
    **SINK_JOBS,
}


def run(build, gives, check, seeds, processes):
    """Return the verifier and what became of its seeds."""
    verifier, summary = Verifier(captured(build), check=check), Summary()
    assert list(verifier.reference.outputs.values()) == gives()
    for result in run_shared(verifier, range(seeds), processes):
        summary.add(result)
        if result.failed:
            print(build.__name__, result.seed, result.error, *map(str, result.differences), file=sys.stderr)
    return verifier, summary


def main():
    """Print the report; the exit code tells whether a seed found something."""
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--seeds", type=int, default=3400, help="of each job")
    arguments.add_argument("--processes", type=int, default=os.cpu_count())
    options = arguments.parse_args()
    began = time.monotonic()
    rows, faults, totals = [], defaultdict(Counter), Counter()
    for name, (build, gives, check) in ALL.items():
        verifier, summary = run(build, gives, check, options.seeds, options.processes)
        for (place, kind), count in summary.faults.items():
            faults[place][kind] += count
        numbers = {
            "seeds": summary.seeds,
            "failed": len(summary.failures),
            "restarts": summary.restarts,
            "faults": summary.faults.total(),
        }
        totals.update(numbers)
        rows.append((name, verifier.vary, numbers))
        print(f"{name}: {numbers}", file=sys.stderr, flush=True)
    print(report(rows, faults, totals, options, (time.monotonic() - began) / 60))
    sys.exit(1 if totals["failed"] else 0)


def report(rows, faults, totals, options, minutes):
    """Return the report as Markdown."""
    lines = [
        f"# {totals['seeds']:,} seeds of `millstream verify`",
        "",
        "The jobs of `tests/verify/verify_jobs.py` (numbered records with keyed state of all kinds, event timers,",
        "windows, late records, broadcast state, operator list and union state, a parallel source; exactly-once file",
        "sinks) and of `tests/verify/sink_jobs.py` (two-phase commit to files and to SQLite, a write-ahead sink, files",
        "that roll by size, age and checkpoint, compaction of rows and Parquet).",
        "",
        f"{options.seeds:,} seeds of each, from 0 on; {options.processes} processes, {minutes:.0f} minutes. Made by",
        f"`tests/verify/long_run.py --seeds {options.seeds}`; `Verifier(captured(job)).run_seed(seed)` replays one.",
        "",
        "| job | varied | seeds | failed | restarts | faults that went off |",
        "|---|---|---|---|---|---|",
    ]
    for name, varied, numbers in [*rows, ("all", "", totals)]:
        lines.append(
            f"| {name} | {varied} | " + " | ".join(f"{value:,}" for value in numbers.values()) + " |"
        )
    if not totals["failed"]:
        lines += [
            "",
            "0 lost, 0 duplicated; at no moment did readers see anything unfinished or twice; nothing staged was left.",
        ]
    kinds = [kind.value for kind in FaultKind]
    lines += [
        "",
        "How often each fault went off at each place (`docs/verify.md` says what they are):",
        "",
        f"| place | {' | '.join(kinds)} |",
        "|---" * (len(kinds) + 1) + "|",
    ]
    for place in POINTS:
        lines.append(
            f"| {place} | "
            + " | ".join(f"{faults[place][kind]:,}" if faults[place][kind] else "" for kind in kinds)
            + " |"
        )
    return "\n".join(lines)


if __name__ == "__main__":
    main()

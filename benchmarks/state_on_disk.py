"""State on disk: updates per second and memory, larger than memory included.

    python benchmarks/state_on_disk.py            # 10 M keys; 1,000-byte values too (about 12 GB of disk)
    python benchmarks/state_on_disk.py --quick    # 200,000 keys
    python benchmarks/state_on_disk.py --only count --updates 1000000 --rounds 3 [--json FILE]

Two processes stand for two subtasks, each with half of the keys. Each runs a KeyedProcessFunction in its
operator: first every key is written once ("fill"), then keys drawn at random are read and written ("update").
Only the time in the operator counts, with the checkpoint flush at the end of each round. Memory is the process' own
("anonymous"); pages of the store that the system keeps cached ("file") are given back when others need them.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import random
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import figures

from millstream.common.functions import KeyedProcessFunction
from millstream.common.state import ValueStateDescriptor
from millstream.operators.base import EpochTime, OperatorContext, OperatorReport, Output
from millstream.operators.process import KeyedProcessSpec
from millstream.spi.batch import Rows
from millstream.state.backends import KeyedStateSettings

RESULTS = Path(__file__).parent / "results" / "state_on_disk.md"
BATCH = 10_000
PROCESSES = 2
MEMORY, DISK, BYTES = "count, hashmap", "count, on disk", "1,000 bytes, on disk"


class Discard(Output):
    def emit(self, *batch):
        pass

    emit_side = emit_watermark = emit_status = emit


class Count(KeyedProcessFunction):
    def open(self, runtime_context):
        self.count = runtime_context.get_state(ValueStateDescriptor("count"))

    def process_element(self, value, ctx):
        count = self.count.value()
        self.count.update(1 if count is None else count + 1)


class Payload(KeyedProcessFunction):
    """Keeps a value of 1,000 bytes, of which every update changes the first ones."""

    rest = b"x" * 992

    def open(self, runtime_context):
        self.payload = runtime_context.get_state(ValueStateDescriptor("payload"))

    def process_element(self, value, ctx):
        before = self.payload.value()
        number = 0 if before is None else int.from_bytes(before[:8], "big")
        self.payload.update((number + 1).to_bytes(8, "big") + self.rest)


@dataclass(frozen=True)
class Case:
    name: str
    function: type[KeyedProcessFunction]
    keys: int
    updates: int
    on_disk: bool
    rounds: int
    cache_bytes: int = 128 << 20


@dataclass
class Outcome:
    fill_s: float
    update_s: list[float]
    peak_anonymous: int
    level_anonymous: int
    file: int
    disk: int


def memory(field: str) -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(field):
            return int(line.split()[1]) * 1024
    return 0


def identity(value):
    return value


def run(case: Case, index: int, directory: str, start, results) -> None:
    settings = KeyedStateSettings(case.on_disk, directory, case.cache_bytes)
    clock = EpochTime(0)
    state = settings.build(
        operator="bench", operator_id="bench", subtask=index, time=clock, max_parallelism=128
    )
    operator = KeyedProcessSpec(case.function(), identity).build()
    operator.setup(
        OperatorContext("job", "bench", "bench", index, PROCESSES, 128, 0, clock, state), Discard()
    )
    operator.open()
    chance = random.Random(index)
    mine = range(index, case.keys, PROCESSES)
    peak, marks = 0, []
    start.wait()

    def drive(batches) -> float:
        nonlocal peak
        spent = 0.0
        for number, batch in enumerate(batches):
            began = time.perf_counter()
            operator.process(Rows(batch))
            if number % 100 == 99:
                operator.end_epoch(OperatorReport(), checkpoint=False)
                state.end_epoch(checkpoint=False)
            spent += time.perf_counter() - began
            if number % 10 == 0:
                anonymous = memory("RssAnon")
                peak = max(peak, anonymous)
                marks.append(anonymous)
        began = time.perf_counter()
        state.end_epoch(checkpoint=True)
        return spent + time.perf_counter() - began

    fill = drive(list(mine[at : at + BATCH]) for at in range(0, len(mine), BATCH))
    marks.clear()
    batches = case.updates // PROCESSES // BATCH
    update = [drive(chance.choices(mine, k=BATCH) for _ in range(batches)) for _ in range(case.rounds)]
    disk = sum(path.stat().st_blocks * 512 for path in Path(directory).rglob("data.mdb"))
    results.put(Outcome(fill, update, peak, sorted(marks)[len(marks) // 2], memory("RssFile"), disk))
    operator.close()
    state.close()


def measure(case: Case) -> list[Outcome]:
    context = multiprocessing.get_context("spawn")
    results, start = context.Queue(), context.Barrier(PROCESSES)
    with tempfile.TemporaryDirectory() as directory:
        homes = [os.path.join(directory, str(index)) for index in range(PROCESSES)]
        processes = [
            context.Process(target=run, args=(case, index, homes[index], start, results))
            for index in range(PROCESSES)
        ]
        for process in processes:
            process.start()
        outcomes = [results.get() for _ in processes]
        for process in processes:
            process.join()
    return outcomes


def rates(case: Case, outcomes: list[Outcome]) -> list[float]:
    """Return the updates a second of each round."""
    rounds = zip(*(each.update_s for each in outcomes), strict=True)
    return [case.updates / max(seconds) for seconds in rounds]


def describe(case: Case, outcomes: list[Outcome]) -> str:
    fill, update = max(each.fill_s for each in outcomes), median(rates(case, outcomes))

    def mega(field: str) -> str:
        return f"{sum(getattr(each, field) for each in outcomes) / 1e6:,.0f}"

    return (
        f"| {case.name} | {case.keys:,} | {case.keys / fill / 1e3:,.0f} k/s | {update / 1e3:,.0f} k/s "
        f"| {mega('level_anonymous')} | {mega('peak_anonymous')} | {mega('file')} | {mega('disk')} |"
    )


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--keys", type=int, help="number of keys; results are printed, not kept")
    parser.add_argument("--only", default="", help="part of the name of the cases to run")
    parser.add_argument("--updates", type=int, help="in each round; results are printed, not kept")
    parser.add_argument("--rounds", type=int, default=1, help="how often keys are updated")
    figures.add_option(parser)
    options = parser.parse_args()
    keys, updates, cache = (
        (200_000, 400_000, 8 << 20) if options.quick else (10_000_000, 6_000_000, 128 << 20)
    )
    keys, updates, rounds = options.keys or keys, options.updates or updates, options.rounds
    cases = [
        Case(MEMORY, Count, keys, updates, on_disk=False, rounds=rounds),
        Case(DISK, Count, keys, updates, on_disk=True, rounds=rounds, cache_bytes=cache),
        Case(BYTES, Payload, keys, updates // 2, on_disk=True, rounds=rounds, cache_bytes=cache),
    ]
    lines = [
        "# State on disk",
        "",
        f"`benchmarks/state_on_disk.py{' --quick' if options.quick else ''}`: two processes, {os.cpu_count()} cores, "
        f"cache {cache >> 20} MiB each. Megabytes of both processes together: anonymous memory in the middle of "
        "the updates and at most, cached pages of the store, disk.",
        "",
        "| state | keys | fill | read-modify-write | memory, level | memory, peak | file pages | disk |",
        "|---|---|---|---|---|---|---|---|",
    ]
    found: dict[str, list[float]] = {}
    for case in cases:
        if options.only in case.name:
            outcomes = measure(case)
            found[case.name] = rates(case, outcomes)
            lines.append(describe(case, outcomes))
            print(lines[-1], flush=True)
    if not (options.only or options.keys or options.updates):
        RESULTS.write_text("\n".join(lines) + "\n")
    if MEMORY in found and DISK in found:
        title = f"read-modify-write of {keys:,} keys on disk, two processes"
        figure = figures.beside(
            "count",
            title,
            found[DISK],
            found[MEMORY],
            unit="updates/s",
            peer="state in memory",
            more_is_better=True,
        )
        figures.write(options.json, [figure])


if __name__ == "__main__":
    main()

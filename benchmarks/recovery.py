"""What checkpoints cost, and how fast a job is back after a failure.

    python benchmarks/recovery.py [--quick] [--only recovery|executors|cost|timers|restore] [--target local[2]]

recovery   A job with a million keys of state; its slots are killed, one after the other. Time from the kill to the
           first record that the new attempt writes.
executors  The same on two executors (`local-cluster`), which are killed with whatever slots run beside them. Those
           beside which no slot ran are not counted: nothing stops then.
cost       Throughput of a job with a million keys of which one in a hundred changes between two checkpoints, with
           and without checkpoints, in turns; the median of three rounds. It is taken from the moment on that every
           key has been there twice over, so that the filling and its first, whole checkpoint are behind.
timers     The same with a timer for each key, a day ahead, that each record of the key puts off.
restore    Time to write, and to begin from, a savepoint of ten million keys: from the start of the attempt to its
           first record, as far as it is longer than that of a job without state.
`--quick`: a tenth of the keys, one round. Exit code 1 if a limit is missed.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
import uuid
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
MARK = "MILLSTREAM_RECOVERY_ID"
EXECUTORS = "local-cluster[2,1,2048]"
LIMITS = {"slot median": 2.0, "executor median": 5.0, "recovery 99 %": 10.0, "cost": 0.10, "restore": 60.0}

JOB = '''
import json, os, sys, time
from millstream.common import Configuration, Types, WatermarkStrategy
from millstream.datastream import KeyedProcessFunction, SinkFunction, StreamExecutionEnvironment
from millstream.datastream.connectors.datagen import DataGeneratorSource, RateLimiterStrategy
from millstream.datastream.state import ValueStateDescriptor

work, keys, records, rate, hot = sys.argv[1], *map(int, sys.argv[2:6])
options = json.loads(sys.argv[6])
timers = options.pop("benchmark.timers", False)

class Count(KeyedProcessFunction):
    def open(self, context):
        self.count = context.get_state(ValueStateDescriptor("count", Types.LONG()))
        self.due = context.get_state(ValueStateDescriptor("due", Types.LONG()))
    def process_element(self, value, context):
        count = (self.count.value() or 0) + 1
        self.count.update(count)
        if timers:
            service, before = context.timer_service(), self.due.value()
            if before is not None:
                service.delete_processing_time_timer(before)
            due = service.current_processing_time() + 86_400_000
            service.register_processing_time_timer(due)
            self.due.update(due)
        if value[1]:
            yield value[1]

class Note(SinkFunction):
    """Notes when it last got a record, at most every ten milliseconds; and at the end, when it got which."""
    def open(self, context):
        self.next, self.subtask, self.all = 0.0, context.get_index_of_this_subtask(), []
    def invoke(self, value):
        now = time.time()
        if not rate:
            self.all.append((now, value))
        if now >= self.next:
            self.next = now + 0.01
            path = f"{work}/note-{self.subtask}"
            with open(path + ".new", "w") as file:
                file.write(repr(now))
            os.replace(path + ".new", path)
    def close(self):
        with open(f"{work}/all-{self.subtask}", "w") as file:
            json.dump(self.all, file)

def element(index):
    # Every key once, then few of them again and again.
    return (index if index < keys else index % hot, 0 if index % 1000 else index)

env = StreamExecutionEnvironment.get_execution_environment(Configuration.from_dict(options))
env.set_parallelism(2)
limit = RateLimiterStrategy.per_second(rate) if rate else RateLimiterStrategy.no_op()
source = DataGeneratorSource(element, records, limit)
stream = env.from_source(source, WatermarkStrategy.no_watermarks(), "elements").uid("elements")
stream.key_by(lambda pair: pair[0]).process(Count()).uid("count").add_sink(Note()).uid("note")
client = env.execute_async("recovery")
if options.get("benchmark.savepoint"):
    while not os.path.exists(work + "/note-0"):
        time.sleep(0.05)
    time.sleep(float(options["benchmark.savepoint"]))
    began = time.time()
    path = client.stop_with_savepoint(False, work + "/savepoints").result()
    print(json.dumps({"path": path, "took_s": time.time() - began}), flush=True)
result = client.get_job_execution_result().result()
print(json.dumps({"runtime_ms": result.get_net_runtime()}), flush=True)
'''


class Job:
    """A job in a process of its own."""

    def __init__(
        self, work: Path, target: str, *, keys: int, records: int, rate: int = 0, hot: int, **options: object
    ) -> None:
        self.mark = uuid.uuid4().hex
        self.work = work
        program = work / "job.py"
        program.write_text(JOB, encoding="utf-8")
        settings = {
            "execution.target": target,
            **{key.replace("__", "-"): value for key, value in options.items()},
        }
        arguments = [str(work), str(keys), str(records), str(rate), str(hot), json.dumps(settings)]
        path = os.pathsep.join(filter(None, [str(ROOT / "src"), os.environ.get("PYTHONPATH")]))
        self.process = subprocess.Popen(
            [sys.executable, str(program), *arguments],
            env={**os.environ, "PYTHONPATH": path, MARK: self.mark},
            stdout=subprocess.PIPE,
            text=True,
        )

    def slots(self) -> list[int]:
        return self.find("millstream.runtime.slot.process")

    def executors(self) -> list[int]:
        return self.find("CoarseGrainedExecutorBackend")

    def find(self, text: str) -> list[int]:
        found = []
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit():
                try:
                    command = (entry / "cmdline").read_bytes()
                    ours = f"{MARK}={self.mark}\0".encode() in (entry / "environ").read_bytes()
                except OSError:
                    continue
                if text.encode() in command and ours:
                    found.append(int(entry.name))
        return found

    def noted(self) -> float:
        """Return when the sink last got a record, in any subtask."""
        times = []
        for path in self.work.glob("note-?"):
            try:
                times.append(float(path.read_text(encoding="utf-8")))
            except (OSError, ValueError):
                continue
        return max(times, default=0.0)

    def read(self) -> dict[str, float]:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            raise SystemExit(f"the job ended with {self.process.wait()}")
        return json.loads(line)

    def stop(self) -> None:
        self.process.kill()
        self.process.wait()


def until(condition, limit_s: float, what: str) -> None:
    deadline = time.time() + limit_s
    while not condition():
        if time.time() > deadline:
            raise SystemExit(f"not within {limit_s:g} s: {what}")
        time.sleep(0.005)


def time_to_new_output(job: Job, slots: list[int], victim: int) -> float:
    """Kill a slot; return after how many seconds slots of a new attempt wrote their first record."""
    os.kill(victim, signal.SIGKILL)
    killed = time.time()
    old = set(slots)
    until(lambda: not old & set(job.slots()), 60, "the old slots end")
    ended = time.time()
    until(lambda: job.noted() > ended, 60, "a new record")
    return job.noted() - killed


def time_to_first_record(job: Job, began: float) -> float:
    until(lambda: job.noted() > began, 300, "the first record")
    return job.noted() - began


def time_without_executor(job: Job, slots: list[int], victim: int) -> float | None:
    """Kill an executor; as `time_to_new_output`, or None if no slot ran beside it."""
    os.kill(victim, signal.SIGKILL)
    killed = time.time()
    old = set(slots)
    # A slot sees within half a second that its executor is gone, and the attempt ends.
    while old <= set(job.slots()):
        if time.time() > killed + 10:
            return None
        time.sleep(0.005)
    until(lambda: not old & set(job.slots()), 60, "the old slots end")
    ended = time.time()
    until(lambda: job.noted() > ended, 120, "a new record")
    return job.noted() - killed


def measure_recovery(target: str, keys: int, kills: int) -> list[float]:
    took: list[float] = []
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        options = {
            "execution.checkpointing.interval": "2 s",
            "restart-strategy.type": "fixed-delay",
            "restart-strategy.fixed-delay.attempts": 10_000,
            "restart-strategy.fixed-delay.delay": "0 ms",
            "spark.deploy.maxExecutorRetries": -1,
        }
        job = Job(Path(folder), target, keys=keys, records=10**12, rate=200_000, hot=keys // 100, **options)
        try:
            until(lambda: job.noted() > 0, 120, "the first record")
            time.sleep(keys / 100_000 + 5)  # every key has been there
            number = 0
            while len(took) < kills:
                number += 1
                slots = sorted(job.slots())
                if target == EXECUTORS:
                    executors = sorted(job.executors())
                    new = time_without_executor(job, slots, executors[number % len(executors)])
                else:
                    new = time_to_new_output(job, slots, slots[number % len(slots)])
                if new is not None:
                    took.append(new)
                    print(f"{new:.2f} s", file=sys.stderr, flush=True)
                time.sleep(3)
        finally:
            job.stop()
    return took


def measure_rate(target: str, keys: int, records: int, interval: str | None, *, timers: bool) -> float:
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        options: dict[str, object] = {"benchmark.timers": timers}
        if interval is not None:
            options["execution.checkpointing.interval"] = interval
        if interval is not None:
            options["execution.checkpointing.dir"] = f"{folder}/checkpoints"
        job = Job(Path(folder), target, keys=keys, records=records, hot=keys // 100, **options)
        try:
            job.read()
        finally:
            job.stop()
        noted = [each for path in Path(folder).glob("all-?") for each in json.loads(path.read_text("utf-8"))]
        # The first half of the records is read by one source, and begins with every key; the second by the other.
        begin = min(time for time, index in noted if 2 * keys <= index < records // 2)
        end = min(
            max(time for time, index in noted if index < records // 2),
            max(time for time, index in noted if index >= records // 2),
        )
        return 1000 * sum(begin < time <= end for time, _ in noted) / (end - begin)


def measure_restore(target: str, keys: int) -> tuple[float, float]:
    """Return seconds to write a savepoint and seconds to begin from it."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        work = Path(folder)
        job = Job(
            work, target, keys=keys, records=10**12, hot=keys // 100,
            **{"benchmark.savepoint": str(keys / 400_000)},
        )  # fmt: skip
        try:
            written = job.read()
            job.read()
        finally:
            job.stop()
        first: list[float] = []
        for path in (written["path"], None):
            for note in work.glob("note-?"):
                note.unlink()
            began = time.time()
            options = {} if path is None else {"execution.state-recovery.path": path}
            job = Job(work, target, keys=1000, records=10**12, hot=1000, **options)
            try:
                first.append(time_to_first_record(job, began))
            finally:
                job.stop()
        return written["took_s"], first[0] - first[1]


def main() -> int:
    parser = argparse.ArgumentParser(description="the cost of checkpoints, and the time of recovery")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--only", choices=["recovery", "executors", "cost", "timers", "restore"])
    parser.add_argument("--target", default="local[2]")
    arguments = parser.parse_args()
    scale = 10 if arguments.quick else 1
    rows: list[tuple[str, str, str, bool]] = []
    for what, victim, target in (
        ("recovery", "slot", arguments.target),
        ("executors", "executor", EXECUTORS),
    ):
        if arguments.only not in (None, what):
            continue
        keys = 1_000_000 // scale
        took = sorted(measure_recovery(target, keys, 5 if arguments.quick else 25))
        median, worst = statistics.median(took), took[min(int(len(took) * 0.99), len(took) - 1)]
        limit = LIMITS[f"{victim} median"]
        rows.append((f"recovery of a killed {victim}, {keys:,} keys, median of {len(took)}",
                     f"{median:.2f} s", f"{limit:g} s", median <= limit))  # fmt: skip
        rows.append(("the same, 99 %", f"{worst:.2f} s", "10 s", worst <= LIMITS["recovery 99 %"]))
    for what, timers in (("cost", False), ("timers", True)):
        if arguments.only not in (None, what):
            continue
        keys, records = 1_000_000 // scale, 20_000_000 // scale
        rates: dict[str | None, list[float]] = {None: [], "2 s": []}
        for _ in range(1 if arguments.quick else 3):
            for interval, found in rates.items():
                found.append(measure_rate(arguments.target, keys, records, interval, timers=timers))
        without, with_them = (statistics.median(found) for found in rates.values())
        cost = 1 - with_them / without
        limit = None if timers else LIMITS["cost"]
        rows.append((f"checkpoints every 2 s, {keys:,} keys{' with a timer each' if timers else ''}, 1 % changed: "
                     f"cost to throughput ({with_them:,.0f}/s against {without:,.0f}/s)",
                     f"{cost:.1%}", "10 %" if limit else "-", limit is None or cost <= limit))  # fmt: skip
    if arguments.only in (None, "restore"):
        keys = 10_000_000 // scale
        wrote, restored = measure_restore(arguments.target, keys)
        rows.append((f"savepoint of {keys:,} keys: written", f"{wrote:.1f} s", "-", True))
        rows.append(("begun from", f"{restored:.1f} s", "60 s", restored <= LIMITS["restore"]))
    print("| what | measured | limit | |\n| --- | ---: | ---: | --- |")
    for what, measured, limit, met in rows:
        print(f"| {what} | {measured} | {limit} | {'met' if met else 'MISSED'} |")
    return 0 if all(met for *_, met in rows) else 1


if __name__ == "__main__":
    sys.exit(main())

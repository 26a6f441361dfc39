"""What an epoch costs however small it is, and where that goes.

    python benchmarks/epoch.py [--target local[2]] [-p 2] [--warm 300] [--epochs 300] [--rounds 3] [--before SRC]
                               [--write] [--json FILE]

The job is source, key_by, sink: two levels and an exchange. Each epoch brings one record for each subtask. The first
epochs warm the JVM up and do not count. `--before` is the directory `src` of another checkout, which runs the same
job in turns with this one.

The peer is Spark itself: a job of one stage whose tasks, as many as there are subtasks, do nothing in Python, in a
session with the same settings, after as many to warm up.

Wall time is that of `run_epoch` and of the job master's whole turn; processor time is that of all processes, in a turn.
Other runs of the same job are traced, which makes them slower. With a carrier that stays: the task notes when it begins
and ends each epoch. With a job for each epoch (`millstream.epoch.carrier-hold` of 0): calls of the JVM are timed, Spark
writes its event log, tasks note when they begin, ask, and end. Times of Spark's events are whole milliseconds, so a
row is a mean over many epochs.
"""

from __future__ import annotations

import argparse
import bisect
import itertools
import json
import os
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import mean, median
from typing import Any

import figures
from marked import mark_of_run, processor_seconds

HERE = Path(__file__).resolve().parents[1]
RESULTS = HERE / "benchmarks" / "results" / "epoch.md"
TRACE = "MILLSTREAM_EPOCH_TRACE"
TURN = "a turn of the job master"
PROCESSOR = "processor time of a turn"

_noted: list[str] = []


@dataclass
class _Task:
    """When a task of Spark's began and ended, and how long it wrote shuffle files."""

    begin: float
    end: float
    files_s: float


@dataclass
class _Stage:
    """When a stage was submitted, and its tasks."""

    begin: float
    tasks: list[_Task] = field(default_factory=list)


@dataclass
class _Job:
    """When a job was submitted and ended, and its stages."""

    begin: float
    end: float = 0.0
    stages: list[_Stage] = field(default_factory=list)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--target", default="local[2]")
    parser.add_argument("-p", "--parallelism", type=int, default=2)
    parser.add_argument("--warm", type=int, default=300)
    parser.add_argument("--epochs", type=int, default=300)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--before", type=Path, metavar="SRC", help="src of another checkout")
    parser.add_argument("--write", action="store_true", help=f"write the tables to {RESULTS}")
    parser.add_argument("--no-trace", action="store_true", help="only the whole")
    parser.add_argument("--hold", type=int, metavar="MS", help="millstream.epoch.carrier-hold")
    parser.add_argument("--worker", choices=["epochs", "spark"], help=argparse.SUPPRESS)
    figures.add_option(parser)
    arguments = parser.parse_args()
    if arguments.worker:
        print(json.dumps((_work if arguments.worker == "epochs" else _bare_jobs)(arguments)))
        return
    page, found = _measure(arguments)
    print(page)
    if arguments.write:
        RESULTS.write_text(page)
    figures.write(arguments.json, found)


def _measure(arguments: argparse.Namespace) -> tuple[str, list[figures.Figure]]:
    runs = {"now": HERE / "src"}
    if arguments.before is not None:
        runs = {"before": arguments.before.resolve(), **runs}
    seen: dict[str, list[dict[str, float]]] = {name: [] for name in runs}
    bare: list[dict[str, float]] = []
    for number in range(arguments.rounds):
        for name in list(runs)[:: (-1) ** number]:
            seen[name].append(_run("epochs", runs[name], None))
            print(f"{name}: {seen[name][-1]}", file=sys.stderr)
        bare.append(_run("spark", HERE / "src", None))
        print(f"Spark alone: {bare[-1]}", file=sys.stderr)
    load = ", ".join(f"{each:.1f}" for each in os.getloadavg())
    lines = [
        "# What an epoch costs however small it is",
        "",
        f"`benchmarks/epoch.py --target {arguments.target} -p {arguments.parallelism} --warm {arguments.warm} "
        f"--epochs {arguments.epochs}`: source, key_by, sink, one record for each subtask and epoch; medians of "
        f"{arguments.rounds} rounds in turns, least in brackets; {os.cpu_count()} cores, load of the machine {load}.",
        "",
        "| ms for each epoch | " + " | ".join(runs) + " | a job of Spark's that does nothing |",
        "|---|" + "---|" * (len(runs) + 1),
    ]
    for row in seen["now"][0]:
        cells = [
            f"{median(each[row] for each in every):.1f} ({min(each[row] for each in every):.1f})"
            for every in (*seen.values(), bare)
        ]
        lines.append(f"| {row} | " + " | ".join(cells) + " |")
    if not arguments.no_trace:
        for name, code, more in (
            *(("before", code, ()) for name, code in runs.items() if name == "before"),
            ("a carrier that stays", runs["now"], ()),
            ("a job for each epoch", runs["now"], ("--hold", "0")),
        ):
            lines += ["", f"## Where it goes: {name}, traced", "", "| | ms for each epoch |", "|---|---|"]
            lines += [f"| {row} | {took} |" for row, took in _traced(code, more)]
    return "\n".join([*lines, ""]), [_figure(seen["now"], bare, row) for row in (TURN, PROCESSOR)]


def _figure(ours: list[dict[str, float]], theirs: list[dict[str, float]], row: str) -> figures.Figure:
    name = "turn" if row == TURN else "processor"
    title = f"an epoch that does nothing, local[2]: {row}"
    times = ([each[row] for each in every] for every in (ours, theirs))
    return figures.beside(name, title, *times, unit="ms", peer="an empty job of Spark's")


def _run(what: str, code: Path, trace: Path | None, more: Sequence[str] = ()) -> dict[str, float]:
    """Run the job, or jobs of Spark alone, in a process of its own."""
    environment = {**os.environ, "PYTHONPATH": str(code), **mark_of_run()}
    if trace is not None:
        environment[TRACE] = str(trace)
    command = [sys.executable, __file__, *sys.argv[1:], *more, "--worker", what]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{' '.join(command)} failed\n{done.stdout}\n{done.stderr}")
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found


def _work(arguments: argparse.Namespace) -> dict[str, float]:
    """Run the job in this process, and look at its epochs."""
    from millstream.common import Configuration, WatermarkStrategy
    from millstream.datastream import StreamExecutionEnvironment
    from millstream.datastream.connectors.number_seq import NumberSequenceSource
    from millstream.datastream.functions import SinkFunction
    from millstream.runtime.spark.executor import SparkExecutor

    class Nothing(SinkFunction):
        def invoke(self, value: Any, context: Any) -> None:
            pass

    trace = os.environ.get(TRACE)
    settings = {"execution.target": arguments.target, "millstream.epoch.fixed-records": "1"}
    if arguments.hold is not None:
        settings["millstream.epoch.carrier-hold"] = f"{arguments.hold} ms"
    if trace is not None:
        settings |= {
            "spark.eventLog.enabled": "true",
            "spark.eventLog.compress": "false",
            "spark.eventLog.rolling.enabled": "false",
            "spark.eventLog.dir": Path(trace).as_uri(),
            "spark.executorEnv.PYTHONPATH": str(HERE / "benchmarks"),
            "spark.python.daemon.module": "traced_daemon",
            f"spark.executorEnv.{TRACE}": trace,
        }
    env = StreamExecutionEnvironment.get_execution_environment(Configuration.from_dict(settings))
    env.set_parallelism(arguments.parallelism)
    count = (arguments.warm + arguments.epochs) * arguments.parallelism
    numbers = env.from_source(NumberSequenceSource(1, count), WatermarkStrategy.no_watermarks(), "numbers")
    numbers.key_by(lambda number: number % 1000).add_sink(Nothing())

    original = SparkExecutor.run_epoch
    spans: list[tuple[float, float]] = []
    processors: list[float] = []

    def timed(self: Any, headers: Any) -> Any:
        if len(spans) in (arguments.warm, arguments.warm + arguments.epochs - 1):
            processors.append(processor_seconds())
        began = time.time()
        try:
            return original(self, headers)
        finally:
            spans.append((began, time.time()))
            _note("epoch", spans[-1])

    SparkExecutor.run_epoch = timed  # type: ignore[method-assign]
    if trace is not None:
        _trace_driver()
    env.execute("epochs")
    counted = spans[arguments.warm : arguments.warm + arguments.epochs]
    if trace is not None:
        _note("epochs", [counted[0][0], counted[-1][1]])
        Path(trace, "driver").write_text("\n".join(_noted))
    turns = [(after[0] - before[0]) * 1000 for before, after in itertools.pairwise(counted)]
    return {
        TURN: median(turns),
        "of it the Spark job": median((end - begin) * 1000 for begin, end in counted),
        PROCESSOR: (processors[1] - processors[0]) * 1000 / (arguments.epochs - 1),
    }


def _bare_jobs(arguments: argparse.Namespace) -> dict[str, float]:
    """Run jobs of Spark that do nothing, one after the other."""
    from millstream.runtime.spark.session import SessionConfig, open_session

    handle = open_session(SessionConfig(master=arguments.target))
    try:
        nothing = handle.context.parallelize(range(arguments.parallelism), arguments.parallelism).map(_same)
        times = []
        for number in range(arguments.warm + arguments.epochs):
            if number == arguments.warm:
                before = processor_seconds()
            began = time.perf_counter()
            nothing.collect()
            times.append((time.perf_counter() - began) * 1000)
        processor = (processor_seconds() - before) * 1000 / arguments.epochs
    finally:
        handle.close()
    wall = median(times[arguments.warm :])
    return {TURN: wall, "of it the Spark job": wall, PROCESSOR: processor}


def _same(number: int) -> int:
    return number


def _note(what: str, times: Iterable[float]) -> None:
    _noted.append(json.dumps([what, list(times)]))


def _trace_driver() -> None:
    """Time calls of the JVM."""
    from py4j.clientserver import ClientServerConnection

    original = ClientServerConnection.send_command
    submitted: list[float] = []

    def timed(self: Any, command: str) -> Any:
        began = time.time()
        if command.startswith("c") and "\ncollectAsync\n" in command:
            submitted.append(began)
            _note("begin", [began])
            return original(self, command)
        try:
            return original(self, command)
        finally:
            if submitted and "\nget\n" in command:
                _note("job", [submitted.pop(), time.time()])
            else:
                is_job = command.startswith("c") and "\ncollectAndServe\n" in command
                _note("job" if is_job else "call", [began, time.time()])

    ClientServerConnection.send_command = timed


def _traced(code: Path, more: Sequence[str]) -> list[tuple[str, str]]:
    """Run the job once more and return where its epochs' time goes, as rows of a table."""
    with tempfile.TemporaryDirectory(prefix="millstream-epochs-") as directory:
        _run("epochs", code, Path(directory), more)
        driver = _read_notes(Path(directory, "driver"))
        noted: dict[str, list[list[float]]] = defaultdict(list)
        for path in Path(directory).glob("worker-*"):
            for name, times in _read_notes(path):
                noted[name].append(times)
        if noted["carried"]:
            return _rows_of_stays(driver, sorted(noted["carried"]))
        spark = _read_spark(next(path for path in Path(directory).iterdir() if path.name.startswith("local")))
    return _rows(driver, sorted(noted["task"]), spark)


def _read_notes(path: Path) -> list[tuple[str, list[float]]]:
    return [(name, times) for name, times in map(json.loads, path.read_text().splitlines())]


def _read_spark(path: Path) -> list[_Job]:
    """Return Spark's jobs from its event log, in seconds."""
    jobs: dict[int, _Job] = {}
    job_of: dict[int, _Job] = {}
    stages: dict[int, _Stage] = {}
    for line in path.open():
        event = json.loads(line)
        match event["Event"]:
            case "SparkListenerJobStart":
                job = jobs[event["Job ID"]] = _Job(event["Submission Time"] / 1000)
                job_of |= dict.fromkeys(event["Stage IDs"], job)
            case "SparkListenerStageSubmitted":
                info = event["Stage Info"]
                stages[info["Stage ID"]] = _Stage(info["Submission Time"] / 1000)
                job_of[info["Stage ID"]].stages.append(stages[info["Stage ID"]])
            case "SparkListenerTaskEnd":
                info, metrics = event["Task Info"], event["Task Metrics"]
                files_s = metrics["Shuffle Write Metrics"]["Shuffle Write Time"] / 1e9
                task = _Task(info["Launch Time"] / 1000, info["Finish Time"] / 1000, files_s)
                stages[event["Stage ID"]].tasks.append(task)
            case "SparkListenerJobEnd":
                jobs[event["Job ID"]].end = event["Completion Time"] / 1000
    return list(jobs.values())


def _rows_of_stays(
    driver: list[tuple[str, list[float]]], carried: list[list[float]]
) -> list[tuple[str, str]]:
    """Split the mean epoch of a carrier that stays; of epochs that begin a stay only the whole."""
    first, last = next(span for name, span in driver if name == "epochs")
    jobs = [span[0] for name, span in driver if name == "begin"]
    spent: dict[str, list[float]] = defaultdict(list)
    for name, span in driver:
        if name != "epoch" or not first <= span[0] <= span[1] <= last:
            continue
        begin, end = span
        if any(begin <= at <= end for at in jobs):
            spent["the whole of an epoch that begins a stay"].append(end - begin)
            continue
        asked, answered = carried[bisect.bisect_left(carried, [begin, 0.0])]
        spent["driver, and its message to the task"].append(asked - begin)
        spent["task and slots"].append(answered - asked)
        spent["the task's message, and the driver behind it"].append(end - answered)
        spent["the whole"].append(end - begin)
    rows = [(name, f"{mean(times) * 1000:.2f}") for name, times in spent.items()]
    return [*rows, ("stays begun", str(len(spent["the whole of an epoch that begins a stay"])))]


def _rows(
    driver: list[tuple[str, list[float]]], tasks: list[list[float]], jobs: list[_Job]
) -> list[tuple[str, str]]:
    """Split the mean epoch into what follows upon each other; of a stage's tasks the one that ends last counts."""
    times: dict[str, list[list[float]]] = defaultdict(list)
    for name, span in driver:
        times[name].append(span)
    first, last = times["epochs"][0]
    spent: dict[str, float] = defaultdict(float)
    calls = 0
    epochs = [span for span in times["epoch"] if first <= span[0] and span[1] <= last]
    for begin, end in epochs:
        called = [call for call in times["call"] if begin <= call[0] <= end]
        calls += len(called)
        asked, answered = next(span for span in times["job"] if begin <= span[0] <= end)
        job = next(job for job in jobs if asked - 0.002 <= job.begin <= answered)
        before = sum(stop - start for start, stop in called if stop <= asked)
        after = sum(stop - start for start, stop in called if stop > asked)
        spent["driver: calls of the JVM before the job"] += before
        spent["driver: the rest before the job (pickling)"] += asked - begin - before
        spent["JVM: job submitted"] += job.begin - asked
        at = job.begin
        for number, stage in enumerate(job.stages):
            name = f"stage {number}"
            task = max(stage.tasks, key=lambda task: task.end)
            inside = [
                each for each in tasks if task.begin - 0.002 <= each[0] and each[-1] <= task.end + 0.002
            ]
            began, asks, told, ended = max(inside, key=lambda each: each[-1])
            spent[f"{name}: submitted"] += stage.begin - at
            spent[f"{name}: scheduled"] += task.begin - stage.begin
            spent[f"{name}: to its Python worker"] += began - task.begin
            spent[f"{name}: worker before it asks a slot"] += asks - began
            spent[f"{name}: slots, with sockets"] += told - asks
            spent[f"{name}: worker behind that"] += ended - told
            spent[f"{name}: from the worker to the task's end"] += task.end - ended
            spent[f"{name}: of that writing shuffle files"] += task.files_s
            at = task.end
        spent["JVM: job ended"] += answered - at
        spent["driver: calls of the JVM behind the job"] += after
        spent["driver: the rest behind the job (results)"] += end - answered - after
    rows = [(name, f"{took * 1000 / len(epochs):.2f}") for name, took in spent.items()]
    whole = mean((end - begin) * 1000 for begin, end in epochs)
    return [*rows, ("the whole", f"{whole:.2f}"), ("calls of the JVM", f"{calls / len(epochs) + 1:.0f}")]


if __name__ == "__main__":
    main()

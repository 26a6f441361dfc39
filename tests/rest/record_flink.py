"""Record what the REST API of a real Flink answers, as shapes for the tests: `python record_flink.py OUT_DIRECTORY`.

Run it with an interpreter that has `apache-flink==2.3.0` (not the one that has millstream), Java 17 on the path. It
starts a session cluster of that wheel with one job manager and one task manager on free ports, runs jobs in SQL (one
that goes on, one that fails and restarts, one that failed for good, one that finished, one cancelled), asks every
path, and stops the cluster.

A file holds the answers of one group of paths:

    {"flink": "2.3.0", "answers": [{"cases", "method", "path", "body"?, "status", "shape", "example"?}]}

one answer a line; cases (jobs) whose answers have one shape share a line.

A shape has an object's fields by name, a list as a list with the merged shape of its elements, and else the names of
the JSON types seen, with "|" between them; the text "NaN" stands for a number. Keys that are ids or names of users'
things are ":id", ":name". A field that not all merged objects have ends in "?". Examples are cut short.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).parents[1]))

from servers.ports import free_port

_ID = re.compile(r"[0-9a-f]{32}(_[0-9]+)?|[0-9a-f]{32}_.*|localhost:[0-9]+-.*|127\.0\.0\.1:[0-9]+-.*")
_NAMES_BELOW = {"user-config", "accumulators", "resource", "freeExtendedResources"}
"""Fields whose keys are users' names."""
_EXAMPLE_BYTES = 600
_NO_JOB = "0" * 32

# --- shapes ---------------------------------------------------------------------------------------------------------


def shape_of(value: Any, *, named: bool = False) -> Any:
    """Return the shape of a JSON value; `named` says that an object's keys are a user's names."""
    if isinstance(value, dict):
        merged: dict[str, Any] = {}
        for key, each in value.items():
            name = ":name" if named else ":id" if _ID.fullmatch(key) else key
            shape = shape_of(each, named=key in _NAMES_BELOW)
            merged[name] = merge_shapes(merged[name], shape) if name in merged else shape
        return merged
    if isinstance(value, list):
        merged_element: Any = None
        for index, each in enumerate(value):
            shape = shape_of(each)
            merged_element = shape if index == 0 else merge_shapes(merged_element, shape)
        return [] if merged_element is None else [merged_element]
    return _type_name(value)


def _type_name(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, int):
        return "integer"
    return "number" if isinstance(value, float) or value == "NaN" else "string"


def merge_shapes(first: Any, second: Any) -> Any:
    """Return a shape that covers both."""
    if isinstance(first, dict) and isinstance(second, dict):
        merged = {}
        for key in dict.fromkeys([*(k.rstrip("?") for k in first), *(k.rstrip("?") for k in second)]):
            ours = first.get(key, first.get(f"{key}?"))
            theirs = second.get(key, second.get(f"{key}?"))
            optional = key not in first or key not in second
            shape = theirs if ours is None else ours if theirs is None else merge_shapes(ours, theirs)
            merged[f"{key}?" if optional else key] = shape
        return merged
    if isinstance(first, list) and isinstance(second, list):
        if first and second:
            return [merge_shapes(first[0], second[0])]
        return first or second
    if isinstance(first, str) and isinstance(second, str):
        return "|".join(sorted({*first.split("|"), *second.split("|")}))
    return second if first == "null" else first


def _cut(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _cut(each) for key, each in list(value.items())[:40]}
    if isinstance(value, list):
        return [_cut(each) for each in value[:1]]
    if isinstance(value, str):
        return (
            "…" if "/" in value[1:] and not value.startswith("http") else value[:80]
        )  # paths of this machine
    return value


# --- the cluster ----------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def session_cluster(work: Path, **more: str) -> Iterator[int]:
    """Run a session cluster below a directory, with further options (`__` for a dot); gives its REST API's port."""
    import pyflink

    home = Path(pyflink.__file__).parent
    port = free_port()
    conf = work / "conf"
    shutil.copytree(home / "conf", conf)
    settings = {
        "jobmanager.rpc.address": "localhost",
        "jobmanager.rpc.port": free_port(),
        "jobmanager.bind-host": "localhost",
        "jobmanager.memory.process.size": "900m",
        "taskmanager.host": "localhost",
        "taskmanager.bind-host": "localhost",
        "taskmanager.memory.process.size": "1000m",
        "taskmanager.memory.managed.size": "64m",
        "taskmanager.numberOfTaskSlots": 12,
        "rest.address": "localhost",
        "rest.bind-address": "localhost",
        "rest.port": port,
        "execution.checkpointing.dir": (work / "checkpoints").as_uri(),
        "execution.checkpointing.savepoint-dir": (work / "savepoints").as_uri(),
        "metrics.fetcher.update-interval": 500,
        "web.refresh-interval": 500,
        "rest.flamegraph.enabled": True,
        "env.log.dir": str(work / "log"),
        "env.pid.dir": str(work),
        **{key.replace("__", "."): value for key, value in more.items()},
    }
    # The files of the wheel open what Java 17 closes; the lines of that are kept.
    kept = [
        line
        for line in (home / "conf" / "config.yaml").read_text().splitlines()
        if line.startswith(("env:", "  java:", "    opts:", "      all:"))
    ]
    lines = [f"{key}: {value}" for key, value in settings.items() if not key.startswith("env.")]
    (conf / "config.yaml").write_text("\n".join([*kept, *lines]) + "\n")
    (work / "log").mkdir()
    environment = {
        **os.environ,
        "FLINK_HOME": str(home),
        "FLINK_CONF_DIR": str(conf),
        "FLINK_LOG_DIR": str(work / "log"),
        "FLINK_PID_DIR": str(work),
        "_FLINK_HOME_DETERMINED": "1",
    }
    daemons = []
    try:
        for script, argument in (
            ("jobmanager.sh", ["start-foreground"]),
            ("taskmanager.sh", ["start-foreground"]),
        ):
            with open(work / "log" / f"{script}.out", "w") as log:
                daemons.append(
                    subprocess.Popen(
                        ["bash", str(home / "bin" / script), *argument],
                        env=environment,
                        stdout=log,
                        stderr=log,
                        start_new_session=True,
                    )
                )
        _wait(lambda: ask(port, "GET", "/overview")[1].get("taskmanagers") == 1, 90)
        yield port
    finally:
        for daemon in daemons:
            daemon.terminate()
        for daemon in daemons:
            try:
                daemon.wait(20)
            except subprocess.TimeoutExpired:
                daemon.kill()


def ask(port: int, method: str, path: str, body: str | None = None) -> tuple[int, Any]:
    """Send a request; returns the status code and the parsed body, or its text if it is not JSON."""
    request = urllib.request.Request(
        f"http://localhost:{port}{path}",
        method=method,
        data=None if body is None else body.encode(),
        headers={} if body is None else {"Content-Type": "application/json"},
    )
    try:
        with urllib.request.urlopen(request, timeout=20) as answer:
            status, text = answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        status, text = error.code, error.read().decode()
    except urllib.error.URLError:
        return 0, {}
    try:
        return status, json.loads(text)
    except ValueError:
        return status, text


def _wait(is_so: Callable[[], bool], seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while not is_so():
        if time.monotonic() > deadline:
            raise SystemExit("the cluster did not get there in time")
        time.sleep(0.3)


# --- jobs -----------------------------------------------------------------------------------------------------------


def start_jobs(port: int) -> dict[str, str]:
    """Submit the jobs; returns their ids by name."""
    from pyflink.table import EnvironmentSettings, TableEnvironment

    environment = TableEnvironment.create(EnvironmentSettings.in_streaming_mode())
    config = environment.get_config()
    for key, value in {
        "execution.target": "remote",
        "rest.address": "localhost",
        "rest.port": str(port),
        "execution.checkpointing.interval": "1 s",
        "execution.checkpointing.externalized-checkpoint-retention": "RETAIN_ON_CANCELLATION",
        "parallelism.default": "2",
    }.items():
        config.set(key, value)
    environment.execute_sql("CREATE TABLE nothing (k BIGINT, c BIGINT) WITH ('connector' = 'blackhole')")
    for name, more in (("endless", ""), ("short", ", 'number-of-rows' = '1000'")):
        environment.execute_sql(
            f"CREATE TABLE {name} (n INT, t AS PROCTIME(), ts AS LOCALTIMESTAMP, "
            "WATERMARK FOR ts AS ts - INTERVAL '1' SECOND) WITH ('connector' = 'datagen', "
            f"'fields.n.min' = '0', 'fields.n.max' = '100', 'rows-per-second' = '500'{more})"
        )
    counts = "INSERT INTO nothing SELECT CAST(n AS BIGINT), COUNT(*) FROM {} GROUP BY n"
    fails = "INSERT INTO nothing SELECT CAST(n AS BIGINT), COUNT(100 / n) FROM endless GROUP BY n"
    jobs = {}
    for name, sql, settings in (
        ("running", counts.format("endless"), {}),
        ("finished", counts.format("short"), {}),
        ("canceled", counts.format("endless"), {}),
        ("stopped", counts.format("endless"), {}),
        (
            "restarting",
            fails,
            {
                "restart-strategy.type": "fixed-delay",
                "restart-strategy.fixed-delay.attempts": "10000",
                "restart-strategy.fixed-delay.delay": "2 s",
            },
        ),
        ("failed", fails, {"restart-strategy.type": "disable"}),
    ):
        config.set("pipeline.name", f"{name} job")
        for key, value in settings.items():
            config.set(key, value)
        jobs[name] = str(environment.execute_sql(sql).get_job_client().get_job_id())
    return jobs


# --- what is asked --------------------------------------------------------------------------------------------------

_CLUSTER = [
    ("cluster", path)
    for path in (
        "/overview",
        "/config",
        "/jobmanager/config",
        "/jobmanager/environment",
        "/jobmanager/logs",
        "/jobmanager/metrics",
        "/jobmanager/metrics?get=numRegisteredTaskManagers,nosuch",
        "/jobmanager/thread-dump",
        "/jars",
        "/datasets",
    )
] + [
    ("taskmanagers", path)
    for path in (
        "/taskmanagers",
        "/taskmanagers/:tm",
        "/taskmanagers/:tm/metrics",
        "/taskmanagers/:tm/metrics?get=Status.JVM.CPU.Load",
        "/taskmanagers/:tm/logs",
        "/taskmanagers/:tm/thread-dump",
        "/taskmanagers/metrics",
        "/taskmanagers/metrics?get=Status.JVM.CPU.Load",
    )
]
_JOBS = [
    ("jobs", path)
    for path in (
        "/jobs",
        "/jobs/overview",
        "/jobs/metrics",
        "/jobs/metrics?get=uptime,numRestarts&agg=min,max,sum,avg",
    )
]
_JOB = [
    *(
        ("job", f"/jobs/:job{path}")
        for path in (
            "",
            "/config",
            "/plan",
            "/status",
            "/exceptions",
            "/exceptions?maxExceptions=1",
            "/accumulators",
            "/accumulators?includeSerializedValue=true",
            "/execution-result",
            "/resource-requirements",
            "/jobmanager/config",
            "/jobmanager/environment",
            "/jobmanager/log-url",
            "/rescales",
            "/rescales/overview",
        )
    ),
    *(
        ("metrics", f"/jobs/:job{path}")
        for path in (
            "/metrics",
            "/metrics?get=uptime,numRestarts,nosuch",
            "/vertices/:vertex/metrics",
            "/vertices/:vertex/metrics?get=0.numRecordsOut,1.numRecordsOut",
            "/vertices/:vertex/subtasks/metrics",
            "/vertices/:vertex/subtasks/metrics?get=numRecordsOut",
            "/vertices/:vertex/subtasks/metrics?get=numRecordsOut&agg=max,min,sum,avg&subtasks=0-1",
            "/vertices/:vertex/subtasks/0/metrics",
            "/vertices/:vertex/subtasks/0/metrics?get=numRecordsOut",
            "/vertices/:vertex/jm-operator-metrics",
            "/vertices/:vertex/watermarks",
        )
    ),
    *(
        ("vertices", f"/jobs/:job/vertices/:vertex{path}")
        for path in (
            "",
            "/accumulators",
            "/backpressure",
            "/subtasks/accumulators",
            "/subtasks/0",
            "/subtasks/0/attempts/:attempt",
            "/subtasks/0/attempts/:attempt/accumulators",
            "/subtasktimes",
            "/taskmanagers",
            "/flamegraph",
        )
    ),
    *(
        ("checkpoints", f"/jobs/:job/checkpoints{path}")
        for path in (
            "",
            "/config",
            "/details/:checkpoint",
            "/details/:checkpoint/subtasks/:vertex",
        )
    ),
]
_ERRORS = [
    ("GET", path, None)
    for path in (
        "/nosuch",
        "/jobs/:none",
        "/jobs/xyz",
        "/jobs/:none/plan",
        "/jobs/:none/config",
        "/jobs/:none/exceptions",
        "/jobs/:none/checkpoints",
        "/jobs/:none/checkpoints/config",
        "/jobs/:none/metrics",
        "/jobs/:none/status",
        "/jobs/:job/vertices/:none",
        "/jobs/:job/vertices/xyz",
        "/jobs/:job/vertices/:none/backpressure",
        "/jobs/:job/vertices/:none/watermarks",
        "/jobs/:job/vertices/:none/metrics",
        "/jobs/:job/vertices/:vertex/subtasks/99",
        "/jobs/:job/vertices/:vertex/subtasks/x",
        "/jobs/:job/vertices/:vertex/subtasks/-1",
        "/jobs/:job/vertices/:vertex/subtasks/0/attempts/99",
        "/jobs/:job/checkpoints/details/999999",
        "/jobs/:job/checkpoints/details/x",
        "/jobs/:job/checkpoints/details/999999/subtasks/:vertex",
        "/jobs/:job/checkpoints/details/:checkpoint/subtasks/:none",
        "/jobs/:job/savepoints/:none",
        "/jobs/:job/savepoints/xyz",
        "/jobs/:job/checkpoints/:none",
        "/jobs/:none/savepoints/:none",
        "/taskmanagers/nosuch",
        "/jobs/:job/exceptions?maxExceptions=x",
        "/jobs/:job/accumulators?includeSerializedValue=perhaps",
        "/jobs/:job/vertices/:vertex/subtasks/metrics?agg=x&get=y",
        "/jobs/:job?nosuch=1",
        "/savepoint-disposal/:none",
        "/jobs/:job/rescaling/:none",
    )
] + [
    ("DELETE", "/jobs/:job", None),
    ("POST", "/overview", "{}"),
    ("PUT", "/jobs", "{}"),
    ("POST", "/jobs/:none/savepoints", "{}"),
    ("POST", "/jobs/:job/savepoints", "{"),
    ("POST", "/jobs/:job/savepoints", "[]"),
    ("POST", "/jobs/:job/savepoints", '{"nosuch": 1}'),
    ("POST", "/jobs/:job/savepoints", '{"cancel-job": "perhaps"}'),
    ("POST", "/jobs/:job/savepoints", '{"formatType": "NOSUCH"}'),
    ("POST", "/jobs/:none/stop", "{}"),
    ("POST", "/jobs/:job/checkpoints", '{"checkpointType": "NOSUCH"}'),
    ("PATCH", "/jobs/:none?mode=cancel", None),
    ("PATCH", "/jobs/:job?mode=nosuch", None),
    ("PATCH", "/jobs/:finished?mode=cancel", None),
    ("POST", "/jobs/:finished/savepoints", "{}"),
    ("POST", "/jobs/:finished/stop", "{}"),
    ("PATCH", "/jobs/:job/rescaling?parallelism=1", None),
    ("PUT", "/jobs/:job/resource-requirements", "{}"),
]


class Recorder:
    """Asks, and keeps the answers by group."""

    def __init__(self, port: int) -> None:
        self._port = port
        self.groups: dict[str, list[dict[str, Any]]] = {}

    def record(
        self,
        group: str,
        case: str,
        path: str,
        names: dict[str, Any],
        method: str = "GET",
        body: str | None = None,
    ) -> Any:
        """Ask for a path with its names filled in; returns the answer."""
        real = path
        for name, value in sorted(names.items(), key=lambda item: -len(item[0])):
            real = real.replace(f":{name}", str(value))
        status, answer = ask(self._port, method, real, body)
        entry: dict[str, Any] = {"case": case, "method": method, "path": path}
        if body is not None:
            entry["body"] = body
        entry["status"] = status
        entry["shape"] = shape_of(answer)
        example = _cut(answer)
        if len(json.dumps(example)) <= _EXAMPLE_BYTES:
            entry["example"] = example
        self.groups.setdefault(group, []).append(entry)
        return answer

    def get(self, path: str) -> Any:
        """Ask and keep nothing."""
        return ask(self._port, "GET", path)[1]


def record_all(port: int) -> dict[str, list[dict[str, Any]]]:
    """Run the jobs and ask everything."""
    jobs = start_jobs(port)
    recorder = Recorder(port)

    def state(name: str) -> str:
        return str(recorder.get(f"/jobs/{jobs[name]}").get("state"))

    def completed(name: str) -> int:
        return int(recorder.get(f"/jobs/{jobs[name]}/checkpoints")["counts"]["completed"])

    _wait(lambda: state("finished") == "FINISHED" and state("failed") == "FAILED", 120)
    _wait(lambda: completed("running") > 3 and completed("canceled") > 1 and completed("stopped") > 1, 60)
    names = {"none": _NO_JOB, "job": jobs["running"], "finished": jobs["finished"]}

    def operation(case: str, job: str, path: str, body: str) -> None:
        local = {**names, "job": jobs[job]}
        answer = recorder.record("operations", case, f"/jobs/:job/{path}", local, "POST", body)
        local["trigger"] = answer["request-id"]
        status_path = f"/jobs/:job/{'savepoints' if path == 'stop' else path}/:trigger"
        recorder.record("operations", f"{case}, in progress or done", status_path, local)
        _wait(
            lambda: (
                recorder.get(status_path.replace(":job", jobs[job]).replace(":trigger", local["trigger"]))
                .get("status", {})
                .get("id")
                == "COMPLETED"
            ),
            60,
        )
        recorder.record("operations", f"{case}, done", status_path, local)

    operation("savepoint", "running", "savepoints", "{}")
    operation(
        "savepoint with a directory that cannot be",
        "running",
        "savepoints",
        '{"target-directory": "file:///proc/nosuch"}',
    )
    operation("checkpoint", "running", "checkpoints", "{}")
    operation("stop", "stopped", "stop", '{"drain": false}')
    recorder.record("operations", "cancel", "/jobs/:job?mode=cancel", {"job": jobs["canceled"]}, "PATCH")
    _wait(lambda: state("canceled") == "CANCELED", 60)
    _wait(
        lambda: recorder.get(f"/jobs/{jobs['restarting']}/exceptions")["exceptionHistory"]["entries"] != [],
        60,
    )

    managers = recorder.get("/taskmanagers")["taskmanagers"]
    names["tm"] = managers[0]["id"]
    for group, path in (*_CLUSTER, *_JOBS):
        recorder.record(group, "cluster", path, names)
    for name, job in jobs.items():
        detail = recorder.get(f"/jobs/{job}")
        vertices = [vertex["id"] for vertex in detail["vertices"]]
        history = recorder.get(f"/jobs/{job}/checkpoints").get("history", [])
        done = [each["id"] for each in history if each["status"] == "COMPLETED"]
        local = {
            **names,
            "job": job,
            "vertex": vertices[0],
            "checkpoint": done[0] if done else 1,
            "attempt": 0,
        }
        local["attempt"] = recorder.get(f"/jobs/{job}/vertices/{vertices[0]}/subtasks/0").get("attempt", 0)
        for index, vertex in enumerate(vertices):
            local["vertex"] = vertex
            # Back pressure is sampled: the first answer begins that.
            recorder.get(f"/jobs/{job}/vertices/{vertex}/backpressure")
            for group, path in _JOB:
                if index and (":vertex" not in path or name != "running"):
                    continue
                recorder.record(group, name, path, local)
        if name == "running":
            time.sleep(2)
            recorder.record("vertices", name, "/jobs/:job/vertices/:vertex/backpressure", local)
            names.update(local)
    for method, path, body in _ERRORS:
        recorder.record("errors", "error", path, names, method, body)
    return recorder.groups


def record_rescaling(port: int) -> dict[str, list[dict[str, Any]]]:
    """Ask what only the adaptive scheduler answers: resources that a job asks for, and how it was rescaled."""
    jobs = start_jobs(port)
    recorder = Recorder(port)
    job = jobs["running"]

    def parallelism() -> list[int]:
        return [vertex["parallelism"] for vertex in recorder.get(f"/jobs/{job}")["vertices"]]

    _wait(lambda: recorder.get(f"/jobs/{job}/checkpoints")["counts"]["completed"] > 1, 90)
    names = {"job": job, "none": _NO_JOB}
    wanted = recorder.record("rescaling", "running", "/jobs/:job/resource-requirements", names)
    before = parallelism()
    for each in wanted.values():
        each["parallelism"] = {"lowerBound": 1, "upperBound": 1}
    body = json.dumps(wanted)
    recorder.record("rescaling", "running", "/jobs/:job/resource-requirements", names, "PUT", body)
    _wait(lambda: parallelism() != before, 90)
    for path in (
        "resource-requirements",
        "rescales/overview",
        "rescales/history",
        "rescales/summary",
        "rescales/config",
    ):
        recorder.record("rescaling", "rescaled", f"/jobs/:job/{path}", names)
    return recorder.groups


_PROGRAM = """
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.streaming.api.functions.sink.v2.DiscardingSink;

public class Program {
    public static void main(String[] arguments) throws Exception {
        StreamExecutionEnvironment env = StreamExecutionEnvironment.getExecutionEnvironment();
        env.fromSequence(1, 1_000_000_000_000L)
            .keyBy(number -> number % 10)
            .reduce(Long::sum)
            .sinkTo(new DiscardingSink<>());
        env.execute("program");
    }
}
"""


def compile_program(work: Path) -> Path:
    """Return a jar with a program of one job."""
    import pyflink

    (work / "Program.java").write_text(_PROGRAM)
    path = ":".join(str(jar) for jar in (Path(pyflink.__file__).parent / "lib").glob("*.jar"))
    for command in (
        ["javac", "-cp", path, "Program.java"],
        ["jar", "--create", "--file", "program.jar", "--main-class", "Program", "Program.class"],
    ):
        subprocess.run(command, cwd=work, check=True)
    return work / "program.jar"


def upload(port: int, jar: Path) -> tuple[int, Any]:
    """Upload a jar; returns the status code and the answer."""
    boundary = "a-boundary"
    head = (
        f'--{boundary}\r\nContent-Disposition: form-data; name="jarfile"; filename="program.jar"\r\n'
        "Content-Type: application/x-java-archive\r\n\r\n"
    )
    request = urllib.request.Request(
        f"http://localhost:{port}/jars/upload",
        method="POST",
        data=head.encode() + jar.read_bytes() + f"\r\n--{boundary}--\r\n".encode(),
        headers={"Content-Type": f"multipart/form-data; boundary={boundary}"},
    )
    with urllib.request.urlopen(request, timeout=60) as answer:
        return answer.status, json.loads(answer.read())


def record_programs(port: int, work: Path) -> dict[str, list[dict[str, Any]]]:
    """Upload a program, list, plan, run and delete it."""
    recorder = Recorder(port)
    status, uploaded = upload(port, compile_program(work))
    recorder.groups["programs"] = [
        {
            "case": "upload",
            "method": "POST",
            "path": "/jars/upload",
            "status": status,
            "shape": shape_of(uploaded),
        }
    ]
    names = {"jar": Path(uploaded["filename"]).name}
    recorder.record("programs", "one", "/jars", {})
    recorder.record("programs", "one", "/jars/:jar/plan", names)
    recorder.record("programs", "one", "/jars/:jar/plan", names, "POST", '{"parallelism": 2}')
    started = recorder.record("programs", "one", "/jars/:jar/run", names, "POST", "{}")
    recorder.record("programs", "one", "/jars/:jar/run-application", names, "POST", "{}")
    ask(port, "PATCH", f"/jobs/{started['jobid']}")
    for body in ('{"parallelism": 0}', '{"savepointPath": "/nowhere"}', '{"nosuch": 1}'):
        recorder.record("programs", "wrong", "/jars/:jar/run", names, "POST", body)
    recorder.record("programs", "one", "/jars/:jar", names, "DELETE")
    for method, path in (("GET", "plan"), ("POST", "run"), ("POST", "run-application")):
        body = "{}" if method == "POST" else None
        recorder.record("programs", "gone", f"/jars/:jar/{path}", names, method, body)
    return recorder.groups


def share_shapes(answers: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return answers with those put together that differ in nothing but their case, and in the example."""
    shared: dict[str, dict[str, Any]] = {}
    for answer in answers:
        same = {key: value for key, value in answer.items() if key not in ("case", "example")}
        entry = shared.setdefault(json.dumps(same, sort_keys=True), {"cases": [], **same})
        if answer["case"] not in entry["cases"]:
            entry["cases"].append(answer["case"])
        if "example" in answer:
            entry.setdefault("example", answer["example"])
    return list(shared.values())


def write_group(path: Path, answers: list[dict[str, Any]]) -> None:
    """Write the file of one group."""
    lines = ",\n".join(json.dumps(answer) for answer in share_shapes(answers))
    path.write_text(f'{{"flink": "2.3.0", "answers": [\n{lines}\n]}}\n')


def main() -> None:
    """Record into the directory that is the argument."""
    out = Path(sys.argv[1])
    out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="rest-flink-") as work, session_cluster(Path(work)) as port:
        groups = record_all(port) | record_programs(port, Path(work))
    with (
        tempfile.TemporaryDirectory(prefix="rest-flink-") as work,
        session_cluster(Path(work), jobmanager__scheduler="adaptive") as port,
    ):
        groups |= record_rescaling(port)
    for group, answers in groups.items():
        write_group(out / f"{group}.json", answers)
        print(f"{group}: {len(answers)} answers")


if __name__ == "__main__":
    main()

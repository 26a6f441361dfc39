"""Jobs that run, seen and steered by the REST API: by their sockets, from the archive, in their own process."""

from __future__ import annotations

import logging
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import tempfile
import threading
import time

import httpx
import pytest

from millstream.base.clock import SystemClock
from millstream.base.errors import ConfigurationError
from millstream.common import Types, WatermarkStrategy
from millstream.common.state import ValueStateDescriptor
from millstream.common.watermark_strategy import TimestampAssigner
from millstream.config.configuration import Configuration
from millstream.datastream import StreamExecutionEnvironment
from millstream.datastream.connectors.datagen import DataGeneratorSource, RateLimiterStrategy
from millstream.datastream.functions import KeyedProcessFunction, RuntimeContext, SinkFunction
from millstream.rest.directory import JobDirectory
from millstream.rest.embedded import close_server, process_address
from millstream.rest.server import RestServer
from millstream.rest.settings import RestSettings
from millstream.runtime.checkpoint.restore import find_saved
from millstream.runtime.control.archive import JobArchive
from millstream.runtime.control.channel import find_jobs
from rest.fake_jobs import Client
from rest.shape_check import differences, recorded_shape
from rest.test_documents import MISSING, NOT_HERE, OURS, PATHS, QUERIES

ENDS = {"FINISHED", "FAILED", "CANCELED"}


class Nothing(SinkFunction):
    def invoke(self, value):
        pass


class Timestamps(TimestampAssigner):
    def extract_timestamp(self, value, record_timestamp):
        return value


class Count(KeyedProcessFunction):
    """Counts by key; fails at the fiftieth record in so many attempts."""

    def __init__(self, failures):
        self.failures = failures

    def open(self, runtime_context: RuntimeContext):
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))
        self.attempt = runtime_context.get_attempt_number()

    def process_element(self, value, ctx):
        if self.attempt < self.failures and value == 50:
            raise ValueError("the fiftieth")
        self.count.update((self.count.value() or 0) + 1)
        yield value


def start_job(name, *, records=10**9, failures=0, **settings):
    configuration = Configuration.from_dict(
        {
            "execution.target": "local",
            "parallelism.default": 2,
            "execution.checkpointing.interval": "50 ms",
            "restart-strategy.type": "fixed-delay",
            "restart-strategy.fixed-delay.attempts": 1,
            "restart-strategy.fixed-delay.delay": "1 ms",
            "s3.secret-key": "hush",
            **settings,
        }
    )
    env = StreamExecutionEnvironment.get_execution_environment(configuration)
    source = DataGeneratorSource(
        lambda index: index, records, RateLimiterStrategy.per_second(2_000), Types.LONG()
    )
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(Timestamps())
    stream = env.from_source(source, strategy, "numbers").uid("numbers")
    stream.key_by(lambda value: value % 4).process(Count(failures)).uid("count").name("Count").add_sink(
        Nothing()
    )
    return env.execute_async(name)


def wait_until(condition, what="it"):
    deadline = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < deadline, f"{what} did not come"
        time.sleep(0.02)


@pytest.fixture(scope="module")
def short_directory():
    with tempfile.TemporaryDirectory(dir="/tmp") as directory, pytest.MonkeyPatch.context() as patch:
        patch.setattr("tempfile.tempdir", directory)
        patch.setenv("TMPDIR", directory)
        yield directory


@pytest.fixture(scope="module")
def jobs(short_directory):
    """One job of each kind, and a client that finds them as `millstream dashboard` does."""
    clients = {
        "RUNNING": start_job("running <b>job</b>", failures=1),
        "FINISHED": start_job("short", records=200),
        "FAILED": start_job("failing", failures=9),
        "CANCELED": start_job("unwanted"),
    }
    client = Client(directory=JobDirectory(find_jobs, JobArchive(), SystemClock()))
    ids = {status: str(each.get_job_id()) for status, each in clients.items()}

    def completed(job):
        return client.get(f"/jobs/{job}/checkpoints")["counts"]["completed"]

    wait_until(lambda: completed(ids["CANCELED"]) > 0, "a checkpoint")
    assert client.ask("PATCH", f"/jobs/{ids['CANCELED']}?mode=cancel").status_code == 202
    for status in ENDS:
        wait_until(lambda status=status: client.get(f"/jobs/{ids[status]}")["state"] == status, status)
    wait_until(lambda: completed(ids["RUNNING"]) > 2, "checkpoints")
    wait_until(lambda: client.get(f"/jobs/{ids['RUNNING']}/exceptions")["exceptionHistory"]["entries"])
    wait_until(lambda: client.get(f"/jobs/{ids['RUNNING']}")["state"] == "RUNNING")
    yield client, ids
    for each in clients.values():
        if not each.get_job_status().result().is_terminal_state():
            each.cancel().result()


@pytest.mark.parametrize("status", ["RUNNING", "FINISHED", "FAILED", "CANCELED"])
def test_answers_have_the_fields_and_types_of_flinks(jobs, status):
    client, ids = jobs
    job = ids[status]
    vertices = [vertex["id"] for vertex in client.get(f"/jobs/{job}")["vertices"]]
    done = [
        each["id"]
        for each in client.get(f"/jobs/{job}/checkpoints")["history"]
        if each["status"] == "COMPLETED"
    ]
    managers = [each["id"] for each in client.get("/taskmanagers")["taskmanagers"]]
    assert managers
    found = {}
    for path in PATHS:
        if path in NOT_HERE or (":checkpoint" in path and not done):
            continue
        for vertex in vertices if ":vertex" in path else [""]:
            attempt = client.get(f"/jobs/{job}/vertices/{vertices[0]}/subtasks/0")["attempt"]
            for asked in dict.fromkeys([path, path + QUERIES.get(path, "")]):
                real = asked.replace(":vertex", vertex).replace(":job", job).replace(":attempt", str(attempt))
                real = real.replace(":checkpoint", str(done[0] if done else 0)).replace(":tm", managers[0])
                lines = differences(
                    client.get(real),
                    recorded_shape(asked)[1],
                    ours=frozenset(OURS.get(path, ())),
                    missing=frozenset(MISSING.get(path, ())),
                )
                if lines:
                    found[asked] = lines
    assert found == {}


def test_jobs_are_listed_and_counted(jobs):
    client, ids = jobs
    listed = {job["jid"]: job["state"] for job in client.get("/jobs/overview")["jobs"]}
    assert {ids[status]: status for status in ids}.items() <= listed.items()
    overview = client.get("/overview")
    assert (overview["jobs-running"], overview["jobs-finished"]) == (1, 1)
    assert (overview["jobs-failed"], overview["jobs-cancelled"], overview["slots-total"]) == (1, 1, 2)


def test_a_job_tells_what_it_does(jobs):
    client, ids = jobs
    job = ids["RUNNING"]
    details = client.get(f"/jobs/{job}")
    assert details["name"] == "running <b>job</b>"
    source, count = sorted(details["vertices"], key=lambda vertex: vertex["metrics"]["read-records"])
    assert source["metrics"]["write-records"] > 0 < count["metrics"]["read-records"]
    [node] = [node for node in details["plan"]["nodes"] if "inputs" in node]
    assert node["inputs"][0] | {"id": source["id"], "ship_strategy": "HASH"} == node["inputs"][0]
    config = client.get(f"/millstream/jobs/{job}/config")
    assert {"key": "s3.secret-key", "value": "***"}.items() <= {
        key: value
        for option in config["options"]
        if option["key"] == "s3.secret-key"
        for key, value in option.items()
    }.items()
    assert client.get(f"/millstream/jobs/{job}/epochs?last=2")["epochs"][0]["records"] >= 0
    assert client.get(f"/millstream/jobs/{job}/watermarks")["facts"]
    asked = f"/millstream/jobs/{job}/state?operator=count&state=count&key=1"
    wait_until(lambda: client.get(asked)["type"] == "int", "the first record of a key")
    assert int(client.get(asked)["value"]) > 0
    status, message = client.errors("GET", f"/millstream/jobs/{job}/state?operator=nosuch&state=count&key=1")
    assert (status, 'no operator with uid "nosuch"' in message) == (404, True)


def test_failures_come_with_the_users_traceback(jobs):
    client, ids = jobs
    for status in ("RUNNING", "FAILED"):
        entry = client.get(f"/jobs/{ids[status]}/exceptions")["exceptionHistory"]["entries"][-1]
        assert "ValueError: the fiftieth" in entry["stacktrace"]
        assert "Count" in entry["taskName"]
    result = client.get(f"/jobs/{ids['FAILED']}/execution-result")["job-execution-result"]
    assert "the fiftieth" in result["failure-cause"]["stack-trace"]
    status, message = client.errors("POST", f"/jobs/{ids['FAILED']}/savepoints", content="{}")
    assert (status, "has ended: FAILED" in message) == (409, True)


def test_savepoints_and_checkpoints_are_made(jobs, short_directory):
    client, ids = jobs
    job = ids["RUNNING"]

    def outcome(path, body):
        request = client.ask("POST", f"/jobs/{job}/{path}", content=body).json()["request-id"]
        wait_until(lambda: client.get(f"/jobs/{job}/{path}/{request}")["status"]["id"] == "COMPLETED")
        return client.get(f"/jobs/{job}/{path}/{request}")["operation"]

    made = outcome("savepoints", f'{{"target-directory": "{short_directory}/saved"}}')
    assert find_saved(made["location"]).manifest.checkpoint_id > 0
    assert outcome("checkpoints", "{}")["checkpointId"] > 0
    refused = outcome("savepoints", '{"target-directory": "/proc/nosuch"}')
    assert "/proc/nosuch" in refused["failure-cause"]["stack-trace"]


def test_a_job_that_ends_while_it_is_asked_for_is_always_there(short_directory):
    client = Client(directory=JobDirectory(find_jobs, JobArchive(), SystemClock()))
    handle = start_job("ending")
    job = str(handle.get_job_id())
    wait_until(lambda: client.get(f"/jobs/{job}")["state"] == "RUNNING")
    found, ended = [], threading.Event()

    def ask():
        own = Client(directory=JobDirectory(find_jobs, JobArchive(), SystemClock()))
        while not ended.is_set():
            found.append(own.ask("GET", f"/jobs/{job}").status_code)

    threads = [threading.Thread(target=ask) for _ in range(2)]
    for thread in threads:
        thread.start()
    try:
        handle.cancel().result()
        wait_until(lambda: client.get(f"/jobs/{job}")["state"] == "CANCELED")
    finally:
        ended.set()
        for thread in threads:
            thread.join()
    assert set(found) == {200}


def test_a_program_serves_its_own_jobs_also_when_they_have_ended(short_directory):
    handles = [start_job(name, **{"rest.port": 0}) for name in ("first", "second")]
    try:
        address = process_address()
        with httpx.Client(base_url=address) as client:
            assert {job["name"] for job in client.get("/jobs/overview").json()["jobs"]} == {"first", "second"}
            config = {each["key"]: each["value"] for each in client.get("/jobmanager/config").json()}
            assert (config["rest.port"], config["s3.secret-key"]) == ("0", "***")
            first, second = (str(handle.get_job_id()) for handle in handles)
            wait_until(lambda: client.get(f"/jobs/{first}").json()["state"] == "RUNNING")
            assert client.patch(f"/jobs/{first}").status_code == 202
            wait_until(lambda: client.get(f"/jobs/{first}").json()["state"] == "CANCELED")
            assert client.get(f"/jobs/{second}").json()["state"] == "RUNNING"
            answer = client.post(
                f"/jobs/{second}/stop", json={"targetDirectory": f"{short_directory}/stopped"}
            )
            path = f"/jobs/{second}/savepoints/{answer.json()['request-id']}"
            wait_until(lambda: client.get(path).json()["status"]["id"] == "COMPLETED")
            assert find_saved(client.get(path).json()["operation"]["location"])
            wait_until(lambda: client.get(f"/jobs/{second}").json()["state"] == "FINISHED")
            status = client.patch(f"/jobs/{second}").status_code
            assert status == 409
    finally:
        for handle in handles:
            if not handle.get_job_status().result().is_terminal_state():
                handle.cancel().result()
        close_server()


def test_a_port_that_is_taken_fails_the_program_before_its_job_begins(short_directory):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(ConfigurationError, match=f"port {port}"):
            start_job("never", **{"rest.port": port})
    assert find_jobs() == [] or all(job.name != "never" for job in find_jobs())


def test_the_first_free_port_of_a_range_is_taken_and_names_must_fit(short_directory):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        settings = RestSettings.of(
            Configuration.from_dict({"rest.bind-port": f"{port},0", "rest.address": "flink.internal"})
        )
        server = RestServer(settings, JobDirectory(lambda: [], None, SystemClock()), SystemClock(), {})
        server.start()
        try:
            assert server.address.startswith("http://flink.internal:")
            url = f"http://127.0.0.1:{server.address.rpartition(':')[2]}/jobs"
            for host, status in (("flink.internal", 200), ("evil.example", 403)):
                assert httpx.get(url, headers={"host": host}).status_code == status
            raw = httpx.get(url, headers={"host": "evil.example"})
            assert raw.json()["errors"]
        finally:
            server.close()


@pytest.mark.parametrize(
    "options",
    [
        {"rest.bind-port": "80-"},
        {"rest.bind-port": "99999"},
        {"rest.bind-address": "192.0.2.1", "rest.port": 0},
        {"rest.bind-address": "no such host", "rest.port": 0},
        {"security.ssl.rest.enabled": True},
        {"security.ssl.rest.enabled": True, "millstream.rest.ssl.certificate": "/nosuch", "rest.port": 0},
        {"millstream.rest.token": "é"},
        {"millstream.rest.token-file": "/nosuch"},
    ],
)
def test_options_that_do_not_fit_are_refused(options):
    with pytest.raises(ConfigurationError):
        settings = RestSettings.of(Configuration.from_dict(options))
        RestServer(settings, JobDirectory(lambda: [], None, SystemClock()), SystemClock(), {}).start()


def test_tls_and_a_token_from_a_file(tmp_path):
    if shutil.which("openssl") is None:
        pytest.skip("openssl is not installed")
    certificate, key, token = tmp_path / "cert.pem", tmp_path / "key.pem", tmp_path / "token"
    words = (
        "req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=localhost -addext subjectAltName=DNS:localhost"
    )
    subprocess.run(
        ["openssl", *words.split(), "-keyout", str(key), "-out", str(certificate)],
        check=True,
        capture_output=True,
    )
    token.write_text("hush\n")
    token.chmod(0o600)
    options = {
        "rest.port": 0,
        "security.ssl.rest.enabled": True,
        "millstream.rest.ssl.certificate": str(certificate),
        "millstream.rest.ssl.key": str(key),
        "millstream.rest.token-file": str(token),
    }
    settings = RestSettings.of(Configuration.from_dict(options))
    assert "hush" not in repr(settings)
    server = RestServer(settings, JobDirectory(lambda: [], None, SystemClock()), SystemClock(), {})
    server.start()
    try:
        context = ssl.create_default_context(cafile=str(certificate))
        with httpx.Client(base_url=server.address, verify=context) as client:
            assert client.get("/jobs").status_code == 401
            assert client.get("/jobs", headers={"Authorization": "Bearer hush"}).json() == {"jobs": []}
    finally:
        server.close()
    token.chmod(0o666)
    with pytest.raises(PermissionError):
        RestSettings.of(Configuration.from_dict(options))


def test_a_server_for_everybody_without_a_token_warns(caplog):
    settings = RestSettings(bind_address="0.0.0.0", ports=(0,))
    server = RestServer(settings, JobDirectory(lambda: [], None, SystemClock()), SystemClock(), {})
    with caplog.at_level(logging.WARNING):
        server.start()
    server.close()
    assert "set millstream.rest.token" in caplog.text


def test_the_command_serves_until_it_is_told_to_end(jobs):
    _, ids = jobs
    process = subprocess.Popen(
        [sys.executable, "-m", "millstream.cli", "dashboard", "--port", "0"],
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        address = process.stdout.readline().rpartition(" ")[2].strip()
        listed = {job["id"]: job["status"] for job in httpx.get(f"{address}/jobs", timeout=20).json()["jobs"]}
        assert {ids[status]: status for status in ids}.items() <= listed.items()
    finally:
        process.send_signal(signal.SIGTERM)
        assert process.wait(20) == 0
        process.stdout.close()

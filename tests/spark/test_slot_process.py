"""A slot process by itself: no Spark, this process stands in for the executor's JVM."""

from __future__ import annotations

import contextlib
import ctypes
import os
import pickle
import secrets
import signal
import socket
import subprocess
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from millstream.base.errors import SlotLostError, StaleAttemptError
from millstream.common.watermark_strategy import WatermarkStrategy
from millstream.datastream import MapFunction
from millstream.datastream.connectors.number_seq import NumberSequenceSource
from millstream.graph.epoch_plan import build_epoch_plan
from millstream.graph.job_graph import build_job_graph
from millstream.graph.stream_graph import build_stream_graph
from millstream.runtime.protocol.deployment import Deployment, dump_deployment
from millstream.runtime.protocol.report import EpochHeader
from millstream.runtime.slot.process import SlotBoot
from millstream.runtime.slot.wire import Conversation, Request, SlotSilentError, ask, hold
from millstream.runtime.spark.shuttle import start_slot

pytestmark = pytest.mark.spark

HEADER = EpochHeader(
    attempt=0, epoch=1, committed=0, now_ms=0, checkpoint=False, end_of_input=False, sources={}
)


class Hanging(MapFunction):
    def open(self, runtime_context):
        time.sleep(600)

    def map(self, value):
        return value


class Locks(MapFunction):
    """Holds the interpreter's lock for three seconds."""

    def open(self, runtime_context):
        ctypes.PyDLL(None).sleep(3)

    def map(self, value):
        return value


class Slot:
    def __init__(self, deployment: bytes, *, jvm_pid: int, lease_s: float = 30) -> None:
        self.secret = secrets.token_bytes(32)
        boot = SlotBoot(0, 0, self.secret, lease_s, jvm_pid, "localhost", True, deployment, ())
        self.address = start_slot(boot)
        assert not isinstance(self.address, SlotLostError), self.address

    def ask(self, kind, header=None, *, here="", secret=None, timeout_s=10.0):
        request = Request(kind, None if header is None else pickle.dumps(header))
        return ask(self.address, secret or self.secret, request, here=here, timeout_s=timeout_s)


@pytest.fixture
def start(new_environment, processes):
    slots: list[Slot] = []

    def start(work=lambda value: value, **settings) -> Slot:
        environment = new_environment()
        source = NumberSequenceSource(1, 10)
        environment.from_source(source, WatermarkStrategy.no_watermarks(), "numbers").map(work).print()
        graph = build_stream_graph(environment._job_transformations(), parallelism=1, max_parallelism=128)
        plan = build_epoch_plan(build_job_graph(graph))
        slot = Slot(dump_deployment(Deployment("job", 0, plan)), **{"jvm_pid": os.getpid(), **settings})
        slots.append(slot)
        return slot

    yield start
    for slot in slots:
        try:
            os.kill(slot.address.pid, signal.SIGKILL)
        except ProcessLookupError:
            continue
    processes.wait_until_no_slot()


def test_slot_answers_on_unix_socket_and_tcp_and_ends_when_closed(start, processes):
    slot = start()
    assert slot.ask("ping").text == "pong"
    assert slot.ask("open").error is None
    there = slot.ask("level", HEADER, here="another host").output
    assert there.report is not None
    assert slot.ask("level", HEADER).output == there
    assert slot.ask("stack").text == ""
    assert slot.ask("close").error is None
    processes.wait_until_no_slot()
    with pytest.raises(SlotLostError, match=f"slot 0 .process {slot.address.pid} on localhost. is lost"):
        slot.ask("ping")


@pytest.mark.parametrize("here", ["localhost", "another host"])
def test_whoever_does_not_know_the_secret_is_turned_away_and_the_slot_lives_on(start, here):
    slot = start()
    with pytest.raises(SlotLostError, match="does not prove to know the secret"):
        slot.ask("kill", here=here, secret=b"a guess")
    assert slot.ask("ping", here=here).text == "pong"


@pytest.mark.parametrize("here", ["", "another host"])
def test_connections_that_say_nothing_stop_no_job(start, here):
    slot = start()
    with contextlib.ExitStack() as stack:
        for _ in range(100):
            stream = stack.enter_context(socket.socket(socket.AF_UNIX if not here else socket.AF_INET))
            stream.connect(slot.address.tcp if here else slot.address.unix)
        begun = time.monotonic()
        assert slot.ask("ping", here=here).text == "pong"
        assert slot.ask("open", here=here).error is None
        assert time.monotonic() - begun < 8, "less than the deadline of those who say nothing"


def test_no_other_user_can_connect_to_a_slot_or_take_its_place(start, nobody):
    slot = start()
    path = Path(slot.address.unix)
    assert path.parent.stat().st_mode & 0o777 == 0o700
    pid = slot.address.pid
    assert not [
        line for line in Path("/proc/net/unix").read_text().splitlines() if f"@millstream-{pid}" in line
    ]
    with pytest.raises(SlotLostError, match="PermissionError"):
        nobody.do(lambda: slot.ask("ping"))
    os.kill(pid, signal.SIGKILL)

    def take() -> None:
        with contextlib.suppress(FileNotFoundError):
            path.unlink()
        with socket.socket(socket.AF_UNIX) as stream:
            stream.bind(str(path))

    with pytest.raises(PermissionError):
        nobody.do(take)


def test_slot_imports_nothing_that_others_put_into_the_working_directory(start, nobody, public, monkeypatch):
    caught = public / "caught"
    for name in ("queue", "cloudpickle", "zipfile"):
        path = public / f"{name}.py"
        nobody.do(lambda path=path: path.write_text(f"open({str(caught)!r}, 'w').close()"))
    monkeypatch.chdir(public)
    assert start().ask("open").error is None
    assert not caught.exists()


@pytest.mark.parametrize("here", ["", "another host"])
def test_slot_does_not_answer_for_another_one_of_its_attempt(start, here):
    """Somebody who is asked for a slot that is gone hands all that is said on to another one."""
    slot = start()
    meant = replace(slot.address, slot=1, name="another slot's process")
    with pytest.raises(SlotLostError, match="means another process"):
        ask(meant, slot.secret, Request("ping"), here=here, timeout_s=10)
    assert slot.ask("ping", here=here).text == "pong"


def test_one_connection_serves_for_one_request_after_another(start):
    slot = start()
    slot.ask("open")
    with Conversation(slot.address, slot.secret, here="", timeout_s=10) as conversation:
        answers = []
        for epoch in (1, 1, 2):
            conversation.ask(Request("level", pickle.dumps(replace(HEADER, epoch=epoch))))
            answers.append(conversation.wait().output)
    assert answers[0] == answers[1]
    assert [pickle.loads(answer.report).epoch for answer in answers] == [1, 1, 2]
    assert slot.ask("ping").text == "pong"


def test_socket_of_a_slot_that_has_ended_is_gone(start, processes):
    slot = start()
    slot.ask("open")
    assert os.path.exists(slot.address.unix)
    slot.ask("close")
    processes.wait_until_no_slot()
    assert not os.path.exists(slot.address.unix)


def test_request_of_another_attempt_is_answered_with_an_error(start):
    slot = start()
    slot.ask("open")
    stale = EpochHeader(
        attempt=1, epoch=1, committed=0, now_ms=0, checkpoint=False, end_of_input=False, sources={}
    )
    assert isinstance(slot.ask("level", stale).error, StaleAttemptError)


def test_slot_ends_when_its_jvm_is_gone(start, processes):
    with subprocess.Popen(["sleep", "600"]) as jvm:
        slot = start(jvm_pid=jvm.pid)
        assert slot.ask("ping").text == "pong"
        jvm.kill()
    processes.wait_until_no_slot()


@pytest.mark.parametrize("here", ["", "another host"])
def test_connection_that_is_held_ends_with_the_slot(start, here):
    slot = start()
    with hold(slot.address, slot.secret, here=here, timeout_s=10) as held:
        assert slot.ask("open").error is None
        assert not held.poll(0.1), "the slot lives and is asked by others"
        os.kill(slot.address.pid, signal.SIGKILL)
        assert held.poll(10)
    with pytest.raises(SlotLostError, match=rf"process {slot.address.pid} on localhost. is lost"):
        hold(slot.address, slot.secret, here=here, timeout_s=10)


def test_connection_that_is_held_keeps_no_slot_alive(start, processes):
    slot = start(lease_s=0.5)
    with hold(slot.address, slot.secret, here="", timeout_s=10):
        processes.wait_until_no_slot()


def test_slot_ends_when_nobody_asks_within_its_lease(start, processes):
    slot = start(lease_s=0.5)
    slot.ask("ping")
    processes.wait_until_no_slot()


def test_slot_that_does_not_answer_is_lost_after_the_timeout(start):
    slot = start()
    os.kill(slot.address.pid, signal.SIGSTOP)
    with pytest.raises(SlotLostError, match=r"silent for 0\.2 s"):
        slot.ask("open", timeout_s=0.2)


@pytest.mark.parametrize("here", ["", "another host"])
def test_slot_whose_function_holds_the_interpreters_lock_is_busy_and_not_lost(start, here):
    slot = start(Locks(), lease_s=1)
    with hold(slot.address, slot.secret, here=here, timeout_s=10) as held, ThreadPoolExecutor(1) as pool:
        opening = pool.submit(slot.ask, "open", here=here, timeout_s=0.5)
        time.sleep(1)
        with pytest.raises(SlotSilentError):
            slot.ask("ping", timeout_s=0.5)
        assert opening.result().error is None
        assert not held.poll(0.5), "its lease ran out although it was busy"
    assert slot.ask("ping").text == "pong"


def test_the_stack_of_a_function_that_never_returns_is_its_users(start):
    slot = start(Hanging())
    pool = ThreadPoolExecutor(1)
    opening = pool.submit(slot.ask, "open")
    deadline = time.monotonic() + 30
    while not (stack := slot.ask("stack").text):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    assert "in open" in stack and "time.sleep(600)" in stack
    assert "millstream/runtime" not in stack
    os.kill(slot.address.pid, signal.SIGKILL)
    with pytest.raises(SlotLostError):
        opening.result()
    pool.shutdown()


def test_abort_does_not_wait_for_a_function_that_never_ends(start):
    slot = start(Hanging())

    def ask_open() -> None:
        with contextlib.suppress(SlotLostError):  # the fixture kills it
            slot.ask("open")

    opening = threading.Thread(target=ask_open)
    opening.start()
    with pytest.raises(SlotLostError, match="silent"):
        slot.ask("abort", timeout_s=0.5)
    os.kill(slot.address.pid, signal.SIGKILL)
    opening.join()

"""The driver's end of carriers that stay, with the tasks played by this test."""

from __future__ import annotations

import pickle
import queue
import socket
import threading

import pytest

from millstream.base.clock import ManualClock
from millstream.runtime.connect.channel import Channel
from millstream.runtime.spark.carrier import Carried
from millstream.runtime.spark.carrier_stays import CarrierStays

HEADERS = {0: b"header"}
SMALL = Carried([b"report"])


class Task:
    """One try of Spark's to run a stay's task: connects, then answers as it is told."""

    def __init__(self, stays: CarrierStays, stay: int) -> None:
        ours, theirs = socket.socketpair()
        self.channel = Channel(ours, sending=None, receiving=None)
        driver = Channel(theirs, sending=None, receiving=None)
        self.turned_away = threading.Event()

        def converse() -> None:
            with driver:
                stays.converse(driver)
            self.turned_away.set()

        threading.Thread(target=converse, daemon=True).start()
        self.channel.send_bytes(stay.to_bytes(8, "big"))

    def answer(self, carried: Carried = SMALL) -> None:
        """Take an epoch and answer, on a thread of its own."""
        threading.Thread(target=self._answer, args=(carried,), daemon=True).start()

    def _answer(self, carried: Carried) -> None:
        assert pickle.loads(self.channel.recv_bytes()) == HEADERS
        self.channel.send_bytes(pickle.dumps(carried))

    def is_let_go(self) -> bool:
        """Wait until the driver closes the connection; nothing else may come."""
        if not self.channel.poll(10):
            return False
        with pytest.raises(EOFError):
            self.channel.recv_bytes()
        return True


class Spark:
    """Runs the jobs of stays as the test says."""

    def __init__(self) -> None:
        self.begun: list[tuple[int, int]] = []
        self.ends: dict[int, queue.SimpleQueue[bytes | Exception]] = {}
        self.on_begin = lambda stay: None
        self.clock = ManualClock()
        self.others = False
        self.running: set[object] = set()
        self.stays = CarrierStays(
            self.begin,
            hold_s=2.0,
            running=self.running,
            others_wait=lambda: self.others,
            clock=self.clock,
        )

    def begin(self, stay, epoch):
        self.begun.append((stay, epoch))
        ends = self.ends[stay] = queue.SimpleQueue()
        threading.Thread(target=self.on_begin, args=(stay,), daemon=True).start()

        def wait():
            outcome = ends.get(timeout=30)
            if isinstance(outcome, Exception):
                raise outcome
            return outcome

        return wait


@pytest.fixture
def spark():
    spark = Spark()
    yield spark
    for ends in spark.ends.values():
        ends.put(b"")
    spark.stays.close()


def tasks_of(spark, carried=SMALL):
    """Have each stay run one task, which answers; return those tasks as they come."""
    tasks = []

    def run(stay):
        task = Task(spark.stays, stay)
        tasks.append(task)
        task.answer(carried)

    spark.on_begin = run
    return tasks


def test_one_task_carries_epoch_after_epoch(spark):
    tasks = tasks_of(spark)
    assert spark.stays.carry(5, HEADERS) == SMALL
    for epoch in (6, 7):
        tasks[0].answer()
        assert spark.stays.carry(epoch, HEADERS) == SMALL
    assert spark.begun == [(1, 5)]
    assert len(spark.running) == 1


def test_task_that_ended_between_two_epochs_is_followed_by_another(spark):
    tasks = tasks_of(spark)
    spark.stays.carry(1, HEADERS)
    tasks[0].channel.close()
    spark.ends[1].put(b"")
    assert spark.stays.carry(2, HEADERS) == SMALL
    assert spark.begun == [(1, 1), (2, 2)]


def test_task_that_ends_just_as_an_epoch_comes_is_followed_by_another_that_carries_it(spark):
    tasks = tasks_of(spark)
    spark.stays.carry(1, HEADERS)

    def end_unanswered():
        tasks[0].channel.recv_bytes()
        tasks[0].channel.close()
        spark.ends[1].put(b"")

    threading.Thread(target=end_unanswered, daemon=True).start()
    assert spark.stays.carry(2, HEADERS) == SMALL
    assert spark.begun == [(1, 1), (2, 2)]


def test_task_that_spark_tries_again_gets_the_epoch_that_the_first_did_not_answer(spark):
    def run(stay):
        first = Task(spark.stays, stay)
        assert pickle.loads(first.channel.recv_bytes()) == HEADERS
        first.channel.close()
        Task(spark.stays, stay).answer()

    spark.on_begin = run
    assert spark.stays.carry(1, HEADERS) == SMALL
    assert spark.begun == [(1, 1)]


def test_second_try_gets_nothing_while_the_first_is_there_and_both_are_let_go_at_the_end(spark):
    tasks = tasks_of(spark)
    spark.stays.carry(1, HEADERS)
    second = Task(spark.stays, 1)
    tasks[0].answer()
    spark.stays.carry(2, HEADERS)
    assert not second.channel.poll(0)
    spark.stays.end()
    assert tasks[0].is_let_go()
    assert second.is_let_go()


def test_task_of_a_stay_that_is_over_is_turned_away(spark):
    tasks_of(spark)
    spark.stays.carry(1, HEADERS)
    spark.stays.end()
    spark.stays.carry(2, HEADERS)
    late = Task(spark.stays, 1)
    assert late.is_let_go()


def test_job_that_fails_in_an_epoch_is_raised_though_its_task_hangs_on(spark):
    def run(stay):
        task = Task(spark.stays, stay)
        task.channel.recv_bytes()
        spark.ends[stay].put(OSError("cancelled"))
        task.turned_away.wait(10)

    spark.on_begin = run
    with pytest.raises(OSError, match="cancelled"):
        spark.stays.carry(1, HEADERS)
    assert not spark.running


def test_job_that_fails_before_its_task_runs_is_raised(spark):
    spark.on_begin = lambda stay: spark.ends[stay].put(OSError("no executor"))
    with pytest.raises(OSError, match="no executor"):
        spark.stays.carry(1, HEADERS)


def test_task_that_fails_between_two_epochs_costs_nothing(spark):
    tasks = tasks_of(spark)
    spark.stays.carry(1, HEADERS)
    tasks[0].channel.close()
    spark.ends[1].put(OSError("killed"))
    assert spark.stays.carry(2, HEADERS) == SMALL


def test_where_tasks_cannot_reach_the_driver_nothing_is_carried_nor_tried_again(spark):
    spark.on_begin = lambda stay: spark.ends[stay].put(b"no route to host")
    assert spark.stays.carry(1, HEADERS) is None
    assert spark.stays.carry(2, HEADERS) is None
    assert spark.begun == [(1, 1)]


def test_large_epoch_ends_the_stay(spark):
    tasks = tasks_of(spark, Carried(is_large=True))
    assert spark.stays.carry(1, HEADERS) == Carried(is_large=True)
    assert tasks[0].is_let_go()


def test_stay_ends_when_it_has_lasted_long_enough(spark):
    tasks = tasks_of(spark)
    spark.stays.carry(1, HEADERS)
    spark.clock.advance(1_999)
    tasks[0].answer()
    spark.stays.carry(2, HEADERS)
    assert not tasks[0].channel.poll(0)
    spark.clock.advance(1)
    tasks[0].answer()
    spark.stays.carry(3, HEADERS)
    assert tasks[0].is_let_go()


def test_stay_ends_when_others_wait_which_is_looked_for_now_and_then(spark):
    tasks = tasks_of(spark)
    spark.others = True
    spark.stays.carry(1, HEADERS)
    assert not tasks[0].channel.poll(0)
    spark.clock.advance(100)
    tasks[0].answer()
    spark.stays.carry(2, HEADERS)
    assert tasks[0].is_let_go()


def test_end_of_the_job_is_waited_for_at_the_close(spark):
    tasks_of(spark)
    spark.stays.carry(1, HEADERS)
    spark.ends[1].put(b"")
    assert spark.stays.close()
    assert not spark.running

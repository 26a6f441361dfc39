"""Source functions: what they receive does not come again, so nothing of it may be lost."""

from __future__ import annotations

import os
import threading
from collections import Counter
from pathlib import Path

import pytest

from millstream.base.errors import JobExecutionError, LostInputError, NotSupportedError
from millstream.common.functions import CheckpointedFunction, ProcessFunction
from millstream.common.state import ListStateDescriptor
from millstream.config.configuration import Configuration
from millstream.connectors import source_function
from millstream.connectors.receive_log import ReceiveLog, check_log, read_log
from millstream.datastream.functions import ParallelSourceFunction, SourceFunction
from millstream.operators.base import EpochTime, OperatorContext
from millstream.spi.source import PlanRequest, RangeEnd, SplitRange


class Queue:
    """Gives each number once, whoever asks; in files, so that all attempts share it."""

    def __init__(self, path, count):
        self.path, self.count = str(path), count

    def take(self):
        descriptor = os.open(self.path, os.O_CREAT | os.O_RDWR)
        try:
            number = int(os.read(descriptor, 20) or 0)
            os.pwrite(descriptor, str(number + 1).encode(), 0)
        finally:
            os.close(descriptor)
        return number if number < self.count else None


class FromQueue(SourceFunction):
    def __init__(self, queue):
        super().__init__()
        self.queue = queue

    def run(self, ctx):
        while (number := self.queue.take()) is not None:
            ctx.collect_with_timestamp(number, number)
            if number % 10 == 9:
                ctx.emit_watermark(number)


class See(ProcessFunction):
    def process_element(self, value, ctx):
        yield value, ctx.timestamp(), ctx.timer_service().current_watermark()


def once(count):
    return Counter(range(count))


def failing(faults):
    def check(value):
        for place in "abc":
            faults.hit(place)
        return value

    return check


def test_records_timestamps_and_watermarks_are_those_of_the_function(restarting, tmp_path):
    stream = restarting().add_source(FromQueue(Queue(tmp_path / "q", 35))).process(See())
    results = sorted(stream.execute_and_collect())
    assert [(value, stamp) for value, stamp, _ in results] == [(n, n) for n in range(35)]
    assert [mark for _, _, mark in results[10:]] == [n // 10 * 10 - 1 for n in range(10, 35)]


@pytest.mark.parametrize("skips", [(0,), (30,), (5, 40, 90)])
def test_what_was_received_before_a_failure_is_processed_once(restarting, faults, tmp_path, skips):
    for place, skip in zip("abc", skips, strict=False):
        faults.arm(place, skip=skip)
    stream = restarting().add_source(FromQueue(Queue(tmp_path / "q", 200))).map(failing(faults))
    assert Counter(stream.execute_and_collect()) == once(200)
    assert faults.armed() == []
    assert not (tmp_path / "checkpoints" / "received").exists() or not os.listdir(
        tmp_path / "checkpoints" / "received"
    )


def test_function_that_raises_is_run_again_and_its_records_stay(restarting, faults, tmp_path):
    class Raising(FromQueue):
        def run(self, ctx):
            while (number := self.queue.take()) is not None:
                ctx.collect(number)
                faults.hit("run")

    faults.arm("run", skip=50)
    results = restarting().add_source(Raising(Queue(tmp_path / "q", 100))).execute_and_collect()
    assert Counter(results) == once(100)
    assert faults.armed() == []


class Counting(SourceFunction, CheckpointedFunction):
    """Can go on where it was, so it is not written ahead."""

    def __init__(self, count):
        super().__init__()
        self.count = count

    def initialize_state(self, context):
        self.state = context.get_operator_state_store().get_list_state(ListStateDescriptor("next"))
        self.next = max(self.state.get(), default=0)

    def snapshot_state(self, context):
        self.state.update([self.next])

    def run(self, ctx):
        while self.next < self.count:
            with ctx.get_checkpoint_lock():
                ctx.collect(self.next)
                self.next += 1


@pytest.mark.parametrize("skip", [0, 30, 199])
def test_checkpointed_function_goes_on_where_its_checkpoint_was(
    restarting, faults, tmp_path, monkeypatch, skip
):
    monkeypatch.setattr(source_function, "_BUFFER_ENTRIES", 5)
    faults.arm("a", skip=skip)
    stream = restarting().add_source(Counting(200)).map(failing(faults))
    assert Counter(stream.execute_and_collect()) == once(200)
    assert faults.armed() == []
    assert not (tmp_path / "checkpoints" / "received").exists()


def test_function_waits_while_too_much_is_not_processed(restarting, monkeypatch):
    monkeypatch.setattr(source_function, "_BUFFER_ENTRIES", 3)
    receiver = source_function._Receiver(None, replays=False)
    filled = threading.Event()

    class Many(SourceFunction):
        def run(self, ctx):
            for number in range(100):
                ctx.collect(number)
                if number == 2:
                    filled.set()

    thread = threading.Thread(target=Many().run, args=(receiver,), daemon=True)
    thread.start()
    assert filled.wait(10)
    assert receiver.peek() == [(0, n, None) for n in range(3)]
    taken = []
    while len(taken) < 100:
        taken += receiver.take(2)
        assert len(receiver.peek()) <= 3
    thread.join(10)
    assert [value for (_, value, _), _ in taken] == list(range(100))


def test_stopped_source_processes_what_it_has_received(restarting, tmp_path):
    class Endless(SourceFunction):
        def run(self, ctx):
            number = 0
            while True:
                ctx.collect(number)
                Path(tmp_path, "sent").write_text(str(number))
                number += 1

    environment = restarting(1, records=50)
    environment._configuration.set_integer("millstream.execution.max-epochs", 10)
    results = list(environment.add_source(Endless()).execute_and_collect())
    assert results == list(range(len(results)))
    assert len(results) >= int((tmp_path / "sent").read_text()) + 1


def test_cancel_open_and_close_are_called(restarting, tmp_path):
    class Calls(SourceFunction):
        def note(self, what):
            with open(tmp_path / "calls", "a") as file:
                print(what, file=file)

        def open(self, runtime_context):
            self.ended = threading.Event()
            self.note(f"open {runtime_context.get_index_of_this_subtask()}")

        def run(self, ctx):
            ctx.collect(1)
            self.ended.wait(60)
            self.note("ran")

        def cancel(self):
            self.note("cancel")
            self.ended.set()

        def close(self):
            self.note("close")

    environment = restarting(1)
    environment._configuration.set_integer("millstream.execution.max-epochs", 3)
    assert list(environment.add_source(Calls()).execute_and_collect()) == [1]
    calls = (tmp_path / "calls").read_text().split("\n")
    assert calls[:3] == ["open 0", "cancel", "ran"]
    assert "close" in calls[3:]


def test_only_a_parallel_function_runs_more_than_once(restarting):
    class One(SourceFunction):
        def run(self, ctx):
            ctx.collect("once")

    class Each(ParallelSourceFunction):
        def open(self, runtime_context):
            self.index = runtime_context.get_index_of_this_subtask()

        def run(self, ctx):
            ctx.collect(self.index)

    assert list(restarting(3).add_source(One()).execute_and_collect()) == ["once"]
    assert sorted(restarting(3).add_source(Each()).execute_and_collect()) == [0, 1, 2]


def test_function_without_run_fails_with_its_name(restarting):
    class Empty(SourceFunction):
        pass

    environment = restarting(1)
    environment._configuration.set_integer("restart-strategy.fixed-delay.attempts", 1)
    with pytest.raises(JobExecutionError) as caught:
        list(environment.add_source(Empty()).execute_and_collect())
    assert "Empty does not override run(ctx)" in str(caught.value.__cause__)


def test_java_function_is_refused():
    with pytest.raises(NotSupportedError, match="written in Java"):
        SourceFunction("org.example.Source")


def test_log_ends_at_a_torn_entry_and_goes_on_with_the_next_segment(tmp_path):
    directory = str(tmp_path / "log")
    first = ReceiveLog(directory)
    positions = [first.append(number) for number in range(3)]
    first.close(remove=False)
    path = tmp_path / "log" / "000001.log"
    path.write_bytes(path.read_bytes()[:-1])
    second = ReceiveLog(directory)
    second.append("next")
    assert [entry for entry, _ in read_log(directory)] == [0, 1, "next"]
    assert [entry for entry, _ in read_log(directory, behind=positions[0])] == [1, "next"]
    assert [entry for entry, _ in read_log(directory, before=2)] == [0, 1]


def test_segments_go_when_a_checkpoint_is_behind_them(tmp_path, monkeypatch):
    from millstream.connectors import receive_log

    monkeypatch.setattr(receive_log, "_SEGMENT_BYTES", 40)
    log = ReceiveLog(str(tmp_path))
    positions = [log.append(number) for number in range(20)]
    before = len(list(tmp_path.iterdir()))
    log.forget_before(positions[10])
    assert 1 < len(list(tmp_path.iterdir())) < before
    assert [entry for entry, _ in read_log(str(tmp_path), behind=positions[10])] == list(range(11, 20))


class ThenNothing(SourceFunction):
    """Gives what it is to give each time it is run, and notes that it was."""

    def __init__(self, directory, count):
        super().__init__()
        self.path, self.count = directory / "runs", count

    def run(self, ctx):
        with open(self.path, "a") as file:
            file.write("run\n")
        for number in range(self.count):
            ctx.collect(-1 - number)


@pytest.mark.parametrize("kind", [ThenNothing, type("Parallel", (ThenNothing, ParallelSourceFunction), {})])
def test_function_that_has_ended_is_not_run_again_after_a_failure(restarting, faults, tmp_path, kind):
    for place in "abc":
        faults.arm(place, skip=60)
    environment = restarting(2 if issubclass(kind, ParallelSourceFunction) else 1)
    ended = environment.add_source(kind(tmp_path, 3))
    running = environment.add_source(Slow(200)).map(failing(faults))
    found = Counter(ended.union(running).execute_and_collect())
    assert faults.armed() == []
    runs = len((tmp_path / "runs").read_text().split())
    assert runs == environment.get_parallelism()
    assert found == once(200) + Counter(dict.fromkeys(range(-3, 0), runs))


@pytest.mark.parametrize(
    ("before", "ended", "after", "running"),
    [
        (2, {1}, 2, {0}),
        (2, {0, 1}, 3, set()),
        (2, {1}, 3, {0, 1, 2}),  # functions share out their work anew
        (3, {0, 1, 2}, 1, set()),
    ],
)
def test_functions_that_ended_are_known_at_another_parallelism(before, ended, after, running):
    source = source_function.SourceFunctionSource(ParallelSourceFunction(), Configuration())
    enumerator = source.build_enumerator(before, None)
    enumerator.plan(PlanRequest(before, 10, 0))
    enumerator.advance([RangeEnd(str(subtask), None, finished=True, records=0) for subtask in ended])
    again = source.build_enumerator(after, enumerator.snapshot())
    plan = again.plan(PlanRequest(after, 10, 100))
    assert set(plan.ranges) == running
    assert plan.finished == frozenset(range(after)) - running


class Slow(Counting):
    """Gives checkpoints time to be made before it ends."""

    def run(self, ctx):
        while self.next < self.count:
            with ctx.get_checkpoint_lock():
                ctx.collect(self.next)
                self.next += 1
            threading.Event().wait(0.001)


class Tens(Counting):
    """Emits ten records and then moves on by ten."""

    def run(self, ctx):
        while self.next < self.count:
            with ctx.get_checkpoint_lock():
                for number in range(self.next, self.next + 10):
                    ctx.collect(number)
                self.next += 10


@pytest.mark.parametrize("skip", [0, 12, 33, 87])
def test_records_that_are_emitted_under_one_lock_are_in_a_checkpoint_together(
    restarting, faults, monkeypatch, skip
):
    # The buffer is full in the middle of every ten.
    monkeypatch.setattr(source_function, "_BUFFER_ENTRIES", 4)
    faults.arm("a", skip=skip)
    stream = restarting(1, records=3).add_source(Tens(100)).map(failing(faults))
    assert Counter(stream.execute_and_collect()) == once(100)
    assert faults.armed() == []


def test_function_that_keeps_the_checkpoint_lock_is_told_to_let_go(restarting, monkeypatch):
    monkeypatch.setattr(source_function, "_SETTLE_S", 0.05)

    class Keeping(Counting):
        def run(self, ctx):
            with ctx.get_checkpoint_lock():
                ctx.collect(1)
                threading.Event().wait()

    environment = restarting(1)
    environment._configuration.set_integer("restart-strategy.fixed-delay.attempts", 1)
    with pytest.raises(JobExecutionError) as caught:
        list(environment.add_source(Keeping(1)).execute_and_collect())
    assert "has held the checkpoint lock" in str(caught.value.__cause__)


def test_what_a_checkpoint_refers_to_has_to_be_in_the_log(tmp_path, monkeypatch):
    from millstream.connectors import receive_log

    monkeypatch.setattr(receive_log, "_SEGMENT_BYTES", 40)
    directory = str(tmp_path / "log")
    log = ReceiveLog(directory)
    positions = [log.append(number) for number in range(10)]
    end = log.sync()
    assert end == positions[-1]
    check_log(directory, behind=None, through=end)
    check_log(directory, behind=positions[4], through=end)
    log.forget_before(positions[4])
    check_log(directory, behind=positions[4], through=end)
    check_log(directory, behind=positions[0], through=end)  # going back behind what was processed and removed
    with pytest.raises(LostInputError, match=r"000001\.log' is gone"):
        check_log(str(tmp_path / "elsewhere"), behind=positions[0], through=end)
    last = tmp_path / "log" / f"{end.segment:06d}.log"
    last.write_bytes(last.read_bytes()[:-1])
    with pytest.raises(LostInputError, match=rf"has {end.offset - 1} bytes, {end.offset} were written"):
        check_log(directory, behind=positions[4], through=end)
    check_log(directory, behind=end, through=end)


@pytest.mark.parametrize("gone", [False, True])
def test_records_that_nothing_has_processed_yet_are_in_the_checkpoint_or_missed(tmp_path, gone):
    class Nothing(SourceFunction):
        def run(self, ctx):
            pass

    directory = tmp_path / "log" / "job-op" / "0"
    former = source_function.SourceFunctionReader(Nothing(), str(tmp_path / "log"), 0)
    log = former._log = ReceiveLog(str(directory))
    former._receiver = source_function._Receiver(log, replays=False)
    for number in range(5):
        former._receiver.collect(number)
    snapshot = former.snapshot()
    assert snapshot[:2] == ([], [])
    log.close(remove=gone)
    later = source_function.SourceFunctionReader(Nothing(), None, 0)
    later.restore([snapshot])
    later.bind(OperatorContext("other", "source", "op", 0, 1, 128, 0, EpochTime(), batch=True), None)
    if gone:
        with pytest.raises(LostInputError, match="is gone"):
            later.open()
        return
    later.open()
    found = []
    later.read(SplitRange("0", None, None, max_records=100), lambda batch: found.extend(batch.values))
    assert found == list(range(5))
    later.close()

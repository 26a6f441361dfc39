"""Sink functions and sinks as the engine calls them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from millstream.base.errors import SinkError
from millstream.base.time import MIN_TIMESTAMP
from millstream.common import Configuration
from millstream.common.functions import CheckpointedFunction, CheckpointListener, SinkFunction
from millstream.common.state import ListStateDescriptor
from millstream.common.watermark_strategy import TimestampAssigner, WatermarkStrategy
from millstream.datastream import StreamExecutionEnvironment, functions
from millstream.operators.base import EpochTime, OperatorContext, OperatorReport, RestoreScope
from millstream.operators.budget import EpochLimits
from millstream.operators.sink import CollectSpec, PrintSpec, SinkOperator
from millstream.spi.batch import Rows
from millstream.spi.sink import Sink, SinkWriter
from millstream.state.operator_state import OperatorStateBackend


class BufferingSink(SinkFunction, CheckpointedFunction, CheckpointListener):
    """Writes out when a checkpoint is complete; what waits is in its state. Fails once, at `fails_at`."""

    def __init__(self, target, fails_at):
        self.target, self.fails_at = target, fails_at

    def initialize_state(self, context):
        self.saved = context.get_operator_state_store().get_list_state(ListStateDescriptor("waiting"))
        self.waiting = [tuple(pair) for pair in self.saved.get()]
        self.checkpoint = context.get_restored_checkpoint_id() or 0
        if context.is_restored():  # complete: it was restored
            self.notify_checkpoint_complete(self.checkpoint)

    def invoke(self, value):
        failed = Path(self.target, "failed")
        if value == self.fails_at and not failed.exists():
            failed.write_text("")
            raise ValueError("injected")
        self.waiting.append((None, value))

    def snapshot_state(self, context):
        self.checkpoint = context.get_checkpoint_id()
        self.waiting = [(number or self.checkpoint, value) for number, value in self.waiting]
        self.saved.update(self.waiting)

    def notify_checkpoint_complete(self, checkpoint_id):
        due = [(number, value) for number, value in self.waiting if number and number <= checkpoint_id]
        for number in {number for number, _ in due}:
            values = [value for each, value in due if each == number]
            Path(self.target, f"{number}.json").write_text(json.dumps(values))
        self.waiting = [pair for pair in self.waiting if pair not in due]


@pytest.mark.parametrize("fails_at", [0, 31, 99])
def test_sink_function_with_state_is_exactly_once_over_a_failure(tmp_path, fails_at):
    settings = {
        "execution.target": "local",
        "execution.checkpointing.interval": "1 ms",
        "restart-strategy.type": "fixed-delay",
        "restart-strategy.fixed-delay.delay": "1 ms",
        "millstream.epoch.fixed-records": 10,
    }
    environment = StreamExecutionEnvironment.get_execution_environment(Configuration.from_dict(settings))
    environment.from_collection(list(range(100))).add_sink(BufferingSink(str(tmp_path), fails_at))
    environment.execute()
    assert (tmp_path / "failed").exists()
    written = [value for file in tmp_path.glob("*.json") for value in json.loads(file.read_text())]
    assert sorted(written) == list(range(100))
    assert len(list(tmp_path.glob("*.json"))) > 3


CALLS: list = []


class Recording(SinkWriter):
    def restore(self, snapshots, *, others):
        CALLS.append(("restore", list(snapshots), list(others)))

    def open(self):
        CALLS.append("open")

    def write(self, batch, *, watermark_ms, now_ms):
        values = batch.values
        CALLS.append(("write", values))

    def prepare_commit(self, *, now_ms, checkpoint, end_of_input):
        CALLS.append(("prepare", checkpoint, end_of_input))
        return ["staged"]

    def number_committables(self, committables, checkpoint_id):
        return [(each, checkpoint_id) for each in committables]

    def snapshot(self):
        return "kept"

    def checkpoint_completed(self, checkpoint_id):
        CALLS.append(("completed", checkpoint_id))

    def next_processing_time(self):
        return 42

    def abort(self):
        CALLS.append("abort")

    def close(self):
        CALLS.append("close")


class RecordingSink(Sink):
    def build_writer(self, context):
        assert context.operator_id == "id"
        return Recording()


def operator_of(sink):
    CALLS.clear()
    operator = SinkOperator(sink)
    context = OperatorContext(
        "job", "sink", "id", 1, 2, 128, 3, EpochTime(7), operator_state=OperatorStateBackend()
    )
    operator.setup(context, None)
    return operator


def test_writer_goes_through_its_life_in_order():
    operator = operator_of(RecordingSink())
    for written_by in range(3):
        operator.restore_state(f"of {written_by}", RestoreScope(written_by, 1, 2, lambda key: True))
    operator.open()
    operator.process(Rows([1]))
    assert operator.next_processing_time() == 42
    report = OperatorReport()
    operator.end_epoch(report, checkpoint=True)
    operator.context.operator_state.prepare_snapshot(5, 7)
    assert report.committables == [("staged", 5)]
    assert operator.snapshot_state() == "kept"
    operator.context.operator_state.notify_complete(5)
    operator.end_input()
    assert operator.next_processing_time() is None
    operator.end_epoch(OperatorReport(), checkpoint=True)
    operator.close()
    assert CALLS == [
        ("restore", ["of 1"], ["of 0", "of 2"]),
        "open",
        ("write", [1]),
        ("prepare", True, False),
        ("completed", 5),
        ("prepare", True, True),
        "close",
    ]


def test_sink_whose_writer_cannot_be_made_can_be_aborted_and_closed():
    class Broken(Sink):
        def build_writer(self, context):
            raise SinkError("no")

    operator = operator_of(Broken())
    with pytest.raises(SinkError):
        operator.open()
    operator.abort()
    operator.close()
    assert CALLS == []


class Witness(SinkFunction):
    """Writes down what it is told of each record."""

    def __init__(self, target):
        self.target = target

    def invoke(self, value, context):
        now_ms = context.current_processing_time()
        with open(self.target, "a") as file:
            file.write(f"{value} {context.timestamp()} {context.current_watermark()} {now_ms > 1e12}\n")


class Optional(Witness):
    def invoke(self, value, context=None):
        super().invoke(value, context)


class Unrelated(SinkFunction):
    """A second parameter of its own, which the job leaves alone."""

    def __init__(self, target):
        self.target = target

    def invoke(self, value, ending="!\n"):
        with open(self.target, "a") as file:
            file.write(f"{value}{ending}")


class Plain(Unrelated):
    def invoke(self, value):
        super().invoke(value)


class TakesAll(Unrelated):
    def invoke(self, *values):
        super().invoke(*values)


class Second(TimestampAssigner):
    def extract_timestamp(self, value, record_timestamp):
        return value[1]


def told(tmp_path, function, *, stamped):
    options = {"execution.target": "local", "millstream.epoch.fixed-records": 1}
    env = StreamExecutionEnvironment.get_execution_environment(Configuration.from_dict(options))
    env.set_parallelism(1)
    stream = env.from_collection([("a", 10), ("b", 20), ("c", 15)])
    if stamped:
        strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(Second())
        stream = stream.assign_timestamps_and_watermarks(strategy)
    stream.map(lambda pair: pair[0]).add_sink(function(str(tmp_path / "told")))
    env.execute()
    return (tmp_path / "told").read_text().splitlines()


@pytest.mark.parametrize("function", [Witness, Optional])
def test_a_sink_function_may_ask_for_timestamp_watermark_and_time(tmp_path, function):
    assert told(tmp_path, function, stamped=True) == [
        f"a 10 {MIN_TIMESTAMP} True",
        "b 20 9 True",
        "c 15 19 True",
    ]


def test_a_record_without_timestamp_tells_none(tmp_path):
    assert told(tmp_path, Witness, stamped=False)[0] == f"a None {MIN_TIMESTAMP} True"


@pytest.mark.parametrize("function", [Plain, Unrelated, TakesAll])
def test_a_sink_function_that_asks_for_no_context_is_given_none(tmp_path, function):
    assert told(tmp_path, function, stamped=True) == ["a!", "b!", "c!"]


def test_what_java_has_for_checkpoints_lies_beside_the_other_functions():
    assert functions.CheckpointedFunction is CheckpointedFunction
    assert functions.CheckpointListener is CheckpointListener
    assert functions.FunctionInitializationContext and functions.FunctionSnapshotContext


@pytest.mark.parametrize("spec", [CollectSpec("c"), PrintSpec("")], ids=["collect", "print"])
def test_what_is_gathered_for_the_driver_counts_as_what_is_sent(spec):
    operator = spec.build()
    context = OperatorContext("job", "op", "id", 0, 1, 128, 0, EpochTime())
    operator.setup(context, None)
    operator.open()
    for _ in range(2):
        context.budget.begin(EpochLimits(size_bytes=10_000_000))
        begun = 0
        while begun < 100 and context.budget.take(1):
            operator.process(Rows(["x" * 1_000_000]))
            begun += 1
        assert begun <= 20, "it would have all of them in one report"
        operator.end_epoch(OperatorReport(), checkpoint=False)

from __future__ import annotations

import json
import os
from collections import Counter
from pathlib import Path

import pytest

from millstream.common import WatermarkStrategy
from millstream.common.errors import JobExecutionError, SinkError
from millstream.connectors.number_sequence import NumberSequenceSource
from millstream.datastream.connectors.base import CheckpointCommitter, WriteAheadSink, WriterContext

NUMBERS = 60


class FileMarks(CheckpointCommitter):
    def __init__(self, directory, faults):
        self.directory, self.faults = directory, faults

    def is_checkpoint_committed(self, subtask_index, checkpoint_id):
        return (Path(self.directory) / f"{subtask_index}-{checkpoint_id}").exists()

    def commit_checkpoint(self, subtask_index, checkpoint_id):
        self.faults.hit("mark")
        (Path(self.directory) / f"{subtask_index}-{checkpoint_id}").write_text("")
        self.faults.hit("marked")


class Idempotent(WriteAheadSink):
    """One file for each subtask and checkpoint, replaced if it is sent again."""

    def __init__(self, target, faults, **more):
        super().__init__(**more)
        self.target, self.faults = str(target), faults

    def send_values(self, values, checkpoint_id, subtask_index):
        self.faults.hit("send")
        Path(self.target, f"{subtask_index}-{checkpoint_id}").write_text(json.dumps(values))
        self.faults.hit("sent")
        return True


class Appending(Idempotent):
    def send_values(self, values, checkpoint_id, subtask_index):
        self.faults.hit("send")
        with open(os.path.join(self.target, "all"), "a") as file:
            file.write(json.dumps(values) + "\n")
        self.faults.hit("sent")
        return True


@pytest.fixture
def target(tmp_path):
    directory = tmp_path / "target"
    directory.mkdir()
    return directory


def run(environment, sink, failing=None):
    stream = environment.from_source(
        NumberSequenceSource(0, NUMBERS - 1), WatermarkStrategy.no_watermarks(), "numbers"
    )
    (stream if failing is None else stream.map(failing)).sink_to(sink)
    environment.execute()


def received(target):
    return Counter(
        value
        for file in target.iterdir()
        for line in file.read_text().splitlines()
        for value in json.loads(line)
    )


ONCE = Counter(range(NUMBERS))


@pytest.mark.parametrize("place", ["send", "sent", "map"])
@pytest.mark.parametrize("skip", [0, 4])
def test_idempotent_target_has_every_record_once(restarting, faults, target, tmp_path, place, skip):
    faults.arm(place, skip=skip)

    def failing(value, faults=faults):
        faults.hit("map")
        return value

    waiting = tmp_path / "waiting"
    run(restarting(2), Idempotent(target, faults, directory=str(waiting)), failing)
    assert faults.armed() == []
    assert received(target) == ONCE
    assert os.listdir(waiting) == []


@pytest.mark.parametrize(
    ("place", "twice"), [("send", False), ("sent", True), ("mark", True), ("marked", False)]
)
def test_marks_keep_what_was_noted_from_being_sent_again(restarting, faults, target, tmp_path, place, twice):
    marks = tmp_path / "marks"
    marks.mkdir()
    faults.arm(place, skip=1)
    sink = Appending(
        target, faults, checkpoint_committer=FileMarks(str(marks), faults), directory=str(tmp_path / "w")
    )
    run(restarting(1), sink)
    found = received(target)
    assert set(found) == set(range(NUMBERS))
    assert (max(found.values()) > 1) == twice


def test_nothing_is_sent_before_its_checkpoint_is_complete(restarting, faults, target, tmp_path):
    sink = Idempotent(target, faults, directory=str(tmp_path / "w"))
    sink.check()
    writer = sink.build_writer(WriterContext("job", "sink", 3, 4, 0))
    writer.write([1, 2], None, watermark_ms=0, now_ms=0)
    assert writer.prepare_commit(now_ms=0, checkpoint=False, end_of_input=False) == []
    writer.write([3], None, watermark_ms=0, now_ms=0)
    committables = writer.number_committables(
        writer.prepare_commit(now_ms=0, checkpoint=True, end_of_input=False), 17
    )
    assert list(target.iterdir()) == []
    for _ in range(2):
        sink.build_committer().commit(committables)
    (file,) = target.iterdir()
    assert (file.name, json.loads(file.read_text())) == ("3-17", [1, 2, 3])


def test_values_that_were_not_sent_fail_the_job(restarting, faults, target, tmp_path):
    class Refusing(Idempotent):
        def send_values(self, values, checkpoint_id, subtask_index):
            return False

    environment = restarting(1)
    environment._configuration.set_integer("restart-strategy.fixed-delay.attempts", 1)
    with pytest.raises(JobExecutionError) as caught:
        run(environment, Refusing(target, faults, directory=str(tmp_path / "w")))
    assert isinstance(caught.value.__cause__, SinkError)
    assert "could not be sent by Refusing" in caught.value.__cause__.message


def test_damaged_file_is_not_sent(faults, target, tmp_path):
    sink = Idempotent(target, faults, directory=str(tmp_path / "w"))
    sink.check()
    writer = sink.build_writer(WriterContext("job", "sink", 0, 1, 0))
    writer.write(["abc"], None, watermark_ms=0, now_ms=0)
    committables = writer.prepare_commit(now_ms=0, checkpoint=True, end_of_input=False)
    data = bytearray(Path(committables[0].path).read_bytes())
    data[-2] ^= 1
    Path(committables[0].path).write_bytes(data)
    with pytest.raises(SinkError, match="is damaged"):
        sink.build_committer().commit(committables)
    assert list(target.iterdir()) == []


def test_what_a_killed_attempt_was_writing_is_removed(faults, target, tmp_path):
    sink = Idempotent(target, faults, directory=str(tmp_path / "w"))
    sink.check()
    for job, attempt in (("job", 0), ("other", 0)):
        writer = sink.build_writer(WriterContext(job, "sink", 1, 2, attempt))
        writer.open()
        writer.write([1], None, watermark_ms=0, now_ms=0)
        if job == "job":
            sink_of_next = sink.build_writer(WriterContext(job, "sink", 0, 2, 1))
    sink_of_next.open()
    assert [name.partition("-")[0] for name in os.listdir(tmp_path / "w")] == ["other"]

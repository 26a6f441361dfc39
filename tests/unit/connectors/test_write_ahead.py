from __future__ import annotations

import json
import os
from collections import Counter
from pathlib import Path

import pytest

from millstream.base.errors import ConfigurationError, JobExecutionError, LostOutputError, SinkError
from millstream.common import WatermarkStrategy
from millstream.config.configuration import Configuration
from millstream.connectors.number_sequence import NumberSequenceSource
from millstream.datastream import StreamExecutionEnvironment
from millstream.datastream.connectors.base import CheckpointCommitter, WriteAheadSink, WriterContext
from millstream.files.private_files import NotPrivateError
from millstream.spi.batch import Rows

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
    assert list(waiting.glob("*.waiting")) == []


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
    writer.write(Rows([1, 2]), watermark_ms=0, now_ms=0)
    assert writer.prepare_commit(now_ms=0, checkpoint=False, end_of_input=False) == []
    writer.write(Rows([3]), watermark_ms=0, now_ms=0)
    committables = writer.number_committables(
        writer.prepare_commit(now_ms=0, checkpoint=True, end_of_input=False), 17
    )
    assert list(target.iterdir()) == []
    for _ in range(2):
        sink.build_committer().commit(committables)
    (file,) = target.iterdir()
    assert (file.name, json.loads(file.read_text())) == ("3-17", [1, 2, 3])


def test_a_job_that_went_back_to_an_earlier_savepoint_is_sent_too(faults, target, tmp_path):
    sink = Idempotent(target, faults, directory=str(tmp_path / "w"))
    sink.check()

    def staged(value, checkpoint_id):
        writer = sink.build_writer(WriterContext("job", "sink", 0, 1, 0))
        writer.write(Rows([value]), watermark_ms=0, now_ms=0)
        waiting = writer.prepare_commit(now_ms=0, checkpoint=True, end_of_input=False)
        return writer.number_committables(waiting, checkpoint_id)

    sink.build_committer().commit(staged("before", 10))
    sink.build_committer().commit(staged("after", 6))  # from savepoint 5 on
    sink.build_committer().recover(staged("behind", 7))
    assert (target / "0-7").read_text() == '["behind"]'


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
    writer.write(Rows(["abc"]), watermark_ms=0, now_ms=0)
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
        writer.write(Rows([1]), watermark_ms=0, now_ms=0)
        if job == "job":
            sink_of_next = sink.build_writer(WriterContext(job, "sink", 0, 2, 1))
    sink_of_next.open()
    assert [name.partition("-")[0] for name in os.listdir(tmp_path / "w")] == ["other"]


class ByNumber(CheckpointCommitter):
    """As Flink's `CassandraCommitter`: a table of (job, operator, subtask) with the last checkpoint."""

    def __init__(self, path):
        self.path = Path(path)

    def open(self):
        self.key = f"{self.job_id}/{self.operator_id}"

    def table(self):
        return json.loads(self.path.read_text()) if self.path.exists() else {}

    def is_checkpoint_committed(self, subtask_index, checkpoint_id):
        return self.table().get(f"{self.key}/{subtask_index}", 0) >= checkpoint_id

    def commit_checkpoint(self, subtask_index, checkpoint_id):
        self.path.write_text(json.dumps({**self.table(), f"{self.key}/{subtask_index}": checkpoint_id}))


class Logging(WriteAheadSink):
    """Appends what it is sent, with whose it is."""

    def __init__(self, path, **more):
        super().__init__(**more)
        self.path = str(path)

    def send_values(self, values, checkpoint_id, subtask_index):
        with open(self.path, "a") as file:
            file.write(json.dumps([self.job_id, self.operator_id, checkpoint_id, values]) + "\n")
        return True


def sent(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_runs_and_sinks_that_share_a_committer_lose_nothing(restarting, tmp_path):
    """Numbers of checkpoints begin at 1 in each run, and are the same for all sinks of a job."""
    for _ in range(2):
        environment = restarting(1)
        stream = environment.from_source(
            NumberSequenceSource(0, NUMBERS - 1), WatermarkStrategy.no_watermarks(), "numbers"
        )
        for name in ("a", "b"):
            marks = ByNumber(tmp_path / "marks")
            stream.sink_to(Logging(tmp_path / name, checkpoint_committer=marks)).uid(name)
        environment.execute()
    whose = set()
    for name in ("a", "b"):
        found = sent(tmp_path / name)
        assert Counter(value for *_, values in found for value in values) == Counter(2 * list(range(NUMBERS)))
        whose |= {(name, job, operator) for job, operator, *_ in found}
    assert len(whose) == 4, "two runs of two sinks"
    assert len({operator for _, _, operator in whose}) == 2, "the same operator in each run"
    assert len({job for _, job, _ in whose}) == 2


def prepared(sink, *, job="job", checkpoint_id=1, directory=None, values=(1, 2)):
    context = WriterContext(job, "sink", 0, 1, 0, None, "operator", checkpoint_directory=directory)
    writer = sink.build_writer(context)
    writer.open()
    writer.write(Rows(list(values)), watermark_ms=0, now_ms=0)
    committables = writer.prepare_commit(now_ms=0, checkpoint=True, end_of_input=False)
    return writer.number_committables(committables, checkpoint_id)


def test_records_whose_file_is_gone_fail_the_restore(tmp_path):
    sink = Logging(tmp_path / "log", directory=str(tmp_path / "w"))
    committables = prepared(sink)
    os.unlink(committables[0].path)
    with pytest.raises(LostOutputError, match=r"checkpoint 1, subtask 0, were never sent[\s\S]*is gone"):
        sink.build_committer().recover(committables)


@pytest.mark.parametrize("marked", [True, False])
def test_records_that_were_sent_are_not_missed_whenever_a_savepoint_is_restored(tmp_path, marked):
    marks = ByNumber(tmp_path / "marks") if marked else None
    sink = Logging(tmp_path / "log", directory=str(tmp_path / "w"), checkpoint_committer=marks)
    first = prepared(sink)
    sink.build_committer().commit(first)
    for checkpoint_id in (2, 3):
        sink.build_committer().commit(prepared(sink, checkpoint_id=checkpoint_id))
    sink.build_committer().recover(first)
    assert [checkpoint_id for _, _, checkpoint_id, _ in sent(tmp_path / "log")] == [1, 2, 3]
    if marked:  # the committer's note is as good
        for note in (tmp_path / "w").iterdir():
            note.unlink()
        sink.build_committer().recover(first)


def test_records_of_a_job_that_another_goes_on_from_keep_their_job(tmp_path):
    sink = Logging(
        tmp_path / "log", directory=str(tmp_path / "w"), checkpoint_committer=ByNumber(tmp_path / "m")
    )
    former = prepared(sink, job="former", checkpoint_id=7)
    committer = sink.build_committer()
    committer.recover(former)
    committer.commit(prepared(sink, job="later", checkpoint_id=8))
    committer.close()
    assert [(job, checkpoint_id) for job, _, checkpoint_id, _ in sent(tmp_path / "log")] == [
        ("former", 7),
        ("later", 8),
    ]
    assert sorted(ByNumber(tmp_path / "m").table()) == ["former/operator/0", "later/operator/0"]


def test_records_wait_beside_the_checkpoints_by_default(tmp_path):
    (waiting,) = prepared(Logging(tmp_path / "log"), directory=str(tmp_path / "checkpoints"))
    assert Path(waiting.path).parent == tmp_path / "checkpoints" / "written-ahead"


def test_records_do_not_wait_elsewhere_than_checkpoints_without_a_word(tmp_path):
    with pytest.raises(ConfigurationError, match=r"kept in s3://bucket/x[\s\S]*directory="):
        prepared(Logging(tmp_path / "log"), directory="s3://bucket/x")


def test_a_job_that_recovers_without_its_write_ahead_files_ends_and_says_what_is_lost(tmp_path):
    """As after a reboot that emptied the directory: nothing is tried again, nothing is dropped without a word."""

    class Refusing(Logging):
        def send_values(self, values, checkpoint_id, subtask_index):
            return False

    def start(sink, **options):
        environment = StreamExecutionEnvironment.get_execution_environment(
            Configuration.from_dict(
                {
                    "execution.target": "local",
                    "execution.checkpointing.interval": 1,
                    "execution.checkpointing.dir": str(tmp_path / "checkpoints"),
                    "execution.checkpointing.externalized-checkpoint-retention": "RETAIN_ON_CANCELLATION",
                    "restart-strategy.type": "fixed-delay",
                    "restart-strategy.fixed-delay.attempts": 3,
                    "restart-strategy.fixed-delay.delay": 1,
                    **options,
                }
            )
        )
        environment.from_collection(list(range(9))).uid("numbers").sink_to(sink).uid("sink")
        environment.execute()

    with pytest.raises(JobExecutionError):
        start(Refusing(tmp_path / "log"))
    (checkpoint,) = (tmp_path / "checkpoints").glob("*/chk-*")
    for path in (tmp_path / "checkpoints" / "written-ahead").iterdir():
        path.unlink()
    with pytest.raises(JobExecutionError) as caught:
        start(Logging(tmp_path / "log"), **{"execution.state-recovery.path": str(checkpoint)})
    assert isinstance(caught.value.__cause__, LostOutputError)
    assert not (tmp_path / "log").exists()


def test_a_file_that_is_back_after_power_failed_is_not_sent_again(tmp_path):
    sink = Logging(tmp_path / "log", directory=str(tmp_path / "w"))
    committables = prepared(sink)
    data = Path(committables[0].path).read_bytes()
    sink.build_committer().commit(committables)
    Path(committables[0].path).write_bytes(data)
    sink.build_committer().recover(committables)
    assert len(sent(tmp_path / "log")) == 1


def test_nobody_else_can_write_the_note_that_records_were_sent(tmp_path):
    sink = Logging(tmp_path / "log", directory=str(tmp_path / "w"))
    committables = prepared(sink)
    before = os.umask(0)
    try:
        sink.build_committer().commit(committables)
    finally:
        os.umask(before)
    (note,) = (tmp_path / "w").glob("*.sent")
    assert note.stat().st_mode & 0o022 == 0
    note.chmod(0o666)
    with pytest.raises(NotPrivateError, match="written by somebody else"):
        sink.build_committer().recover(committables)

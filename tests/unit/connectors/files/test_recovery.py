"""Part files over checkpoints and failures: writers are killed by dropping them, without `abort` or `close`."""

from __future__ import annotations

import pickle

import pytest

from millstream.base.errors import SinkError
from millstream.connectors.files.buckets import BucketAssigner
from millstream.connectors.files.compaction import FileCompactor, FileCompactStrategy
from millstream.connectors.files.rolling import RollingPolicy
from millstream.connectors.files.sink import FileSink
from millstream.spi.batch import Rows
from millstream.spi.serialization import Encoder
from millstream.spi.sink import WriterContext

KEEP_OPEN = RollingPolicy.default_rolling_policy(1 << 20, 10**9, 10**9)


def sink_at(path, policy=KEEP_OPEN, compact=None):
    made = FileSink.for_row_format(str(path), Encoder.simple_string_encoder())
    made.with_bucket_assigner(BucketAssigner.base_path_bucket_assigner()).with_rolling_policy(policy)
    if compact is not None:
        made.enable_compact(compact, FileCompactor.concat_file_compactor())
    return made.build()


def start(sink, attempt=0, subtask=0, snapshots=None, others=(), job="job"):
    context = WriterContext(job, "sink", subtask, 2, attempt, None, "operator")
    writer = pickle.loads(pickle.dumps(sink)).build_writer(context)
    if snapshots is not None:
        writer.restore(pickle.loads(pickle.dumps(snapshots)), others=list(others))
    writer.open()
    return writer


def write(writer, *values, now_ms=0):
    writer.write(Rows(list(values)), watermark_ms=0, now_ms=now_ms)


def checkpoint(writer, now_ms=0):
    """Return (committables, snapshot)."""
    committables = writer.prepare_commit(now_ms=now_ms, checkpoint=True, end_of_input=False)
    return committables, pickle.loads(pickle.dumps(writer.snapshot()))


def finish(sink, *writers):
    for writer in writers:
        sink.build_committer().commit(writer.prepare_commit(now_ms=0, checkpoint=True, end_of_input=True))
    for writer in writers:  # of one attempt: none ends before all is committed
        writer.close()


def lines(path):
    return sorted(
        line
        for file in path.rglob("*")
        if file.is_file() and not file.name.startswith(".")
        for line in file.read_text().splitlines()
    )


def hidden(path):
    return sorted(file.name for file in path.rglob(".*"))


def test_row_file_stays_open_over_checkpoints_and_is_one_file_at_the_end(tmp_path):
    sink = sink_at(tmp_path)
    writer = start(sink)
    for value in ("a", "b", "c"):
        write(writer, value)
        assert checkpoint(writer)[0] == []
    finish(sink, writer)
    (file,) = tmp_path.iterdir()
    assert file.read_text() == "a\nb\nc\n"


def test_restored_writer_goes_on_behind_what_the_checkpoint_holds(tmp_path):
    sink = sink_at(tmp_path)
    writer = start(sink)
    write(writer, "a")
    _, snapshot = checkpoint(writer)
    write(writer, "lost with the attempt")
    writer._open[""]._file.flush()
    writer = start(sink, 1, snapshots=[snapshot])
    write(writer, "b")
    finish(sink, writer)
    assert [file.read_text() for file in tmp_path.iterdir()] == ["a\nb\n"]


def test_one_checkpoint_may_be_restored_again_and_again(tmp_path):
    sink = sink_at(tmp_path)
    writer = start(sink)
    write(writer, "a")
    _, snapshot = checkpoint(writer)
    for attempt in (1, 2, 3):
        writer = start(sink, attempt, snapshots=[snapshot])
        write(writer, f"b{attempt}")
        writer.abort()
        writer.close()
    writer = start(sink, 4, snapshots=[snapshot])
    finish(sink, writer)
    assert lines(tmp_path) == ["a"]
    assert hidden(tmp_path) == []


def test_zombie_that_goes_on_writing_does_no_harm(tmp_path):
    sink = sink_at(tmp_path)
    zombie = start(sink)
    write(zombie, "a")
    _, snapshot = checkpoint(zombie)
    writer = start(sink, 1, snapshots=[snapshot])
    write(zombie, "z" * 1_000_000)
    write(writer, "b")
    finish(sink, writer)
    assert lines(tmp_path) == ["a", "b"]


def test_old_file_goes_only_when_a_later_checkpoint_is_complete(tmp_path):
    sink = sink_at(tmp_path)
    writer = start(sink)
    write(writer, "a")
    _, first = checkpoint(writer)
    writer = start(sink, 1, snapshots=[first])
    checkpoint(writer)
    assert len(hidden(tmp_path)) == 2
    assert start(sink, 2, snapshots=[first]).prepare_commit(now_ms=0, checkpoint=True, end_of_input=True)
    writer.checkpoint_completed(2)
    (old,) = first.open
    assert old.staged_path.rpartition("/")[2] not in hidden(tmp_path)


def test_leftovers_of_former_attempts_go_and_those_of_others_stay(tmp_path):
    sink = sink_at(tmp_path)
    for job, attempt in (("job", 0), ("job", 1), ("other", 0)):
        write(start(sink, attempt, job=job), f"{job} {attempt}")
    mine = [name for name in hidden(tmp_path) if "inprogress.job-" in name]
    (tmp_path / ".hidden.of.somebody").write_text("")
    writer = start(sink, 2)
    assert not set(mine) & set(hidden(tmp_path))
    assert len(hidden(tmp_path)) == 2
    writer.close()


def test_leftover_that_another_subtask_needs_stays(tmp_path):
    sink = sink_at(tmp_path)
    snapshots = []
    for subtask in (0, 1):
        writer = start(sink, subtask=subtask)
        write(writer, f"of {subtask}")
        snapshots.append(checkpoint(writer)[1])
    zero = start(sink, 1, 0, [snapshots[0]], [snapshots[1]])
    one = start(sink, 1, 1, [snapshots[1]], [snapshots[0]])
    finish(sink, zero, one)
    assert lines(tmp_path) == ["of 0", "of 1"]


def test_one_writer_takes_over_the_files_of_two(tmp_path):
    sink = sink_at(tmp_path)
    snapshots = []
    for subtask in (0, 1):
        writer = start(sink, subtask=subtask)
        write(writer, f"of {subtask}")
        snapshots.append(checkpoint(writer)[1])
    writer = start(sink, 1, 0, snapshots)
    write(writer, "new")
    finish(sink, writer)
    assert lines(tmp_path) == ["new", "of 0", "of 1"]
    assert len(list(tmp_path.iterdir())) == 2


def test_aborted_committable_that_an_older_checkpoint_refers_to_stays(tmp_path):
    """The file was open at checkpoint 1 and finished before checkpoint 2, which never came."""
    sink = sink_at(tmp_path)
    writer = start(sink)
    write(writer, "a")
    _, first = checkpoint(writer)
    write(writer, "b")
    pending = writer.prepare_commit(now_ms=0, checkpoint=False, end_of_input=True)
    sink.build_committer().abort(pending)
    writer = start(sink, 1, snapshots=[first])
    finish(sink, writer)
    assert lines(tmp_path) == ["a"]


def test_older_checkpoint_finds_its_bytes_in_the_file_that_was_finished_since(tmp_path):
    sink = sink_at(tmp_path)
    writer = start(sink)
    write(writer, "a")
    _, first = checkpoint(writer)
    write(writer, "b")
    finish(sink, writer)
    writer = start(sink, 1, snapshots=[first])
    write(writer, "c")
    finish(sink, writer)
    assert lines(tmp_path) == ["a", "b", "c"]


def test_stop_with_savepoint_leaves_the_open_file_for_the_next_job(tmp_path):
    sink = sink_at(tmp_path)
    writer = start(sink)
    write(writer, "a")
    _, snapshot = checkpoint(writer)
    writer.close()
    writer = start(sink, 0, snapshots=[snapshot], job="next")
    write(writer, "b")
    finish(sink, writer)
    assert lines(tmp_path) == ["a", "b"]


@pytest.mark.parametrize("damage", ["remove", "cut", "alter"])
def test_in_progress_file_that_is_gone_or_altered_is_named(tmp_path, damage):
    sink = sink_at(tmp_path)
    writer = start(sink)
    write(writer, "abc")
    _, snapshot = checkpoint(writer)
    path = tmp_path / hidden(tmp_path)[0]
    if damage == "remove":
        path.unlink()
    else:
        path.write_text("ab" if damage == "cut" else "abd\n")
    with pytest.raises(SinkError, match="is gone or was altered"):
        start(sink, 1, snapshots=[snapshot])


def test_part_numbers_go_on_after_a_restore(tmp_path):
    sink = sink_at(tmp_path, RollingPolicy.on_checkpoint_rolling_policy())
    writer = start(sink)
    for value in ("a", "b"):
        write(writer, value)
        committables, snapshot = checkpoint(writer)
        sink.build_committer().commit(committables)
    writer = start(sink, 1, snapshots=[snapshot])
    write(writer, "c")
    finish(sink, writer)
    assert sorted(file.name.rpartition("-")[2] for file in tmp_path.iterdir()) == ["0", "1", "2"]


def test_finished_file_is_never_replaced(tmp_path):
    sink = sink_at(tmp_path)
    writer = start(sink)
    write(writer, "new")
    (committable,) = writer.prepare_commit(now_ms=0, checkpoint=True, end_of_input=True)
    with open(committable.final_path, "w") as file:
        file.write("old\n")
    with pytest.raises(SinkError, match="is there already and is not replaced"):
        sink.build_committer().commit([committable])
    assert lines(tmp_path) == ["old"]


def test_writer_wants_to_be_asked_when_the_age_of_files_is_looked_at(tmp_path):
    policy = RollingPolicy.default_rolling_policy(1 << 20, 500, 500)
    made = FileSink.for_row_format(str(tmp_path), Encoder.simple_string_encoder())
    writer = start(made.with_rolling_policy(policy).with_bucket_check_interval(200).build())
    assert writer.next_processing_time() is None
    write(writer, "a", now_ms=1_000)
    asked = []
    while (now_ms := writer.next_processing_time()) is not None:
        asked.append(now_ms)
        writer.prepare_commit(now_ms=now_ms, checkpoint=False, end_of_input=False)
    assert asked == [1_200, 1_400, 1_600]


ROLL = RollingPolicy.on_checkpoint_rolling_policy()
EVERY_SECOND = FileCompactStrategy.builder().enable_compaction_on_checkpoint(2).build()


def test_small_files_are_published_as_one_and_never_seen_apart(tmp_path):
    sink = sink_at(tmp_path, ROLL, EVERY_SECOND)
    writer = start(sink)
    seen = []
    for value in ("a", "b", "c", "d"):
        write(writer, value)
        committables, _ = checkpoint(writer)
        sink.build_committer().commit(committables)
        seen.append([len(list(tmp_path.glob("[!.]*"))), lines(tmp_path)])
    assert seen == [[0, []], [1, ["a", "b"]], [1, ["a", "b"]], [2, ["a", "b", "c", "d"]]]
    assert hidden(tmp_path) == []


def test_compaction_waits_for_enough_bytes(tmp_path):
    sink = sink_at(tmp_path, ROLL, FileCompactStrategy.builder().set_size_threshold(5).build())
    writer = start(sink)
    counts = []
    for value in ("a", "b", "c", "d"):  # two bytes each
        write(writer, value)
        counts.append(len(checkpoint(writer)[0]))
    assert counts == [0, 0, 1, 0]


def test_sources_of_a_compaction_stay_until_it_is_published_and_a_commit_may_be_repeated(tmp_path):
    sink = sink_at(tmp_path, ROLL, EVERY_SECOND)
    writer = start(sink)
    write(writer, "a")
    _, first = checkpoint(writer)
    write(writer, "b")
    committables, _ = checkpoint(writer)
    sink.build_committer().abort(committables)  # checkpoint 2 failed: begin again from checkpoint 1
    writer = start(sink, 1, snapshots=[first])
    write(writer, "b again")
    committables, second = checkpoint(writer)
    for _ in range(2):
        sink.build_committer().commit(committables)
    writer = start(sink, 2, snapshots=[second])
    finish(sink, writer)
    assert lines(tmp_path) == ["a", "b again"]
    assert hidden(tmp_path) == []


def test_what_waits_for_compaction_is_published_at_the_end(tmp_path):
    sink = sink_at(tmp_path, ROLL, EVERY_SECOND)
    writer = start(sink)
    write(writer, "a")
    checkpoint(writer)
    write(writer, "b")
    checkpoint(writer)
    write(writer, "c")
    finish(sink, writer)
    assert "c" in lines(tmp_path)


def test_what_a_job_left_that_failed_for_good_is_taken_over_if_its_checkpoint_has_it_and_else_stays_hidden(
    tmp_path,
):
    sink = sink_at(tmp_path)
    failed = start(sink, attempt=2, job="failed")
    write(failed, "a")
    _, snapshot = checkpoint(failed)
    second = start(sink, attempt=2, subtask=1, job="failed")
    write(second, "begun behind the checkpoint")
    second._open[""]._file.flush()
    (recorded,) = snapshot.open
    restored = start(sink, 0, snapshots=[snapshot], job="restored")
    write(restored, "b")
    assert recorded.staged_path.rpartition("/")[2] in hidden(tmp_path), "the checkpoint may be restored again"
    checkpoint(restored)
    restored.checkpoint_completed(1)
    assert recorded.staged_path.rpartition("/")[2] not in hidden(tmp_path)
    finish(sink, restored)
    assert lines(tmp_path) == ["a", "b"]
    (left,) = hidden(tmp_path)
    assert ".inprogress.failed-" in left


def test_slots_that_live_remove_what_they_staged_behind_the_last_checkpoint_when_their_job_fails(tmp_path):
    sink = sink_at(tmp_path)
    recorded, begun = start(sink), start(sink, subtask=1)
    write(recorded, "a")
    _, snapshot = checkpoint(recorded)
    write(begun, "b")
    for writer in (recorded, begun):
        writer.abort()
        writer.close()
    assert hidden(tmp_path) == [snapshot.open[0].staged_path.rpartition("/")[2]]


@pytest.mark.parametrize("restored", [True, False])
def test_what_a_lost_driver_of_the_same_job_left_is_removed_by_the_one_that_took_over(tmp_path, restored):
    sink = sink_at(tmp_path)

    def started(began_ms, snapshots):
        context = WriterContext("job", "sink", 0, 1, 0, None, "operator", began_ms)
        writer = sink.build_writer(context)
        if snapshots is not None:
            writer.restore(snapshots, others=[])
        writer.open()
        return writer

    lost = started(5, None)
    _, snapshot = checkpoint(lost)
    write(lost, "not in the checkpoint")
    writer = started(9, [snapshot] if restored else None)
    assert len(hidden(tmp_path)) == (0 if restored else 1), "without a checkpoint nobody takes over"
    zombie = started(7, [snapshot])
    write(writer, "a")
    zombie.close()
    assert len(hidden(tmp_path)) == 1, "it must not clear up after those who took over from it"
    finish(sink, writer)
    assert lines(tmp_path) == ["a"]

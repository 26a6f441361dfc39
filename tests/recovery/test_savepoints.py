"""Savepoints: made of a running job, stopped with, moved, restored, claimed, refused, damaged."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from pathlib import Path

import pytest
from recovery_programs import PROGRAMS, RECORDS, keyed, plain, tumbling
from recovery_support import (
    FAULTS,
    SAME,
    Tap,
    difference,
    multiset,
    new_environment,
    resume,
    run,
    run_to_savepoint,
    running,
)

from millstream.base.errors import (
    CheckpointDamagedError,
    CheckpointStorageError,
    ConfigurationError,
    JobExecutionError,
    StateIncompatibleError,
)
from millstream.base.time import Time
from millstream.common import Configuration, Duration, Encoder, WatermarkStrategy
from millstream.datastream import ProcessWindowFunction, StreamExecutionEnvironment
from millstream.datastream.connectors.file_system import FileSink, FileSource, StreamFormat
from millstream.datastream.window import TumblingEventTimeWindows
from millstream.runtime.checkpoint.restore import discard, find_saved

WANTED = run(tumbling, epoch=8)


def test_savepoint_of_a_job_that_goes_on_holds_what_was_then(tmp_path):
    everything, path = run_to_savepoint(tumbling, tmp_path, at=20, stop=False)
    assert difference(everything, WANTED) == SAME
    rest = resume(path, tumbling)
    assert rest
    assert rest != WANTED
    assert not rest - WANTED


def test_a_savepoint_comes_with_a_checkpoint_so_what_it_refers_to_outlives_a_failure(tmp_path):
    """Records staged before the savepoint are published once; those behind it once by each of the two jobs."""
    numbers = list(range(300))
    lines = tmp_path / "lines"

    def build(env):
        sink = FileSink.for_row_format(str(lines), Encoder.simple_string_encoder()).build()
        source = env.from_collection(numbers).uid("numbers")
        stream = source.map(Tap()).uid("tap")
        stream.sink_to(sink).uid("lines")
        return stream

    def crash_later():
        FAULTS.cluster.fail_after(40)

    environment = new_environment(epoch=3, execution_checkpointing_interval=100_000_000)
    FAULTS.arm()
    futures = []
    with running() as launcher:

        def ask():
            futures.append(launcher.job().savepoint(str(tmp_path / "savepoints"), stop=False, drain=False))
            crash_later()

        launcher.do_after(100, ask)
        with build(environment).execute_and_collect() as results:
            assert sorted(results) == numbers
    assert FAULTS.raised == 1
    assert FAULTS.seen < 300 + 60, "the second attempt began from the checkpoint beside the savepoint"
    path = futures[0].result(10)

    def written():
        return Counter(int(line) for file in lines.rglob("part-*") for line in file.read_text().splitlines())

    assert written() == Counter(numbers)
    behind = resume(path, build)
    assert 150 < sum(behind.values()) < 250
    assert written() == Counter(numbers) + behind


def test_job_stops_with_a_savepoint_and_another_goes_on(tmp_path):
    first, path = run_to_savepoint(tumbling, tmp_path, at=20)
    assert FAULTS.seen < len(RECORDS) + sum(WANTED.values())
    assert difference(first + resume(path, tumbling), WANTED) == SAME


class Everything(ProcessWindowFunction):
    def process(self, key, context, elements):
        yield from elements

    def clear(self, context):
        pass


def one_window(env):
    return keyed(env).window(TumblingEventTimeWindows.of(Time.hours(1))).process(Everything()).uid("window")


def test_drained_job_gives_the_results_of_what_it_has_read(tmp_path):
    undrained, _ = run_to_savepoint(one_window, tmp_path, at=20)
    drained, _ = run_to_savepoint(one_window, tmp_path, at=20, drain=True)
    assert undrained == Counter()
    assert drained == Counter(RECORDS[:21])


@pytest.mark.parametrize("interval", [None, 4])
def test_drained_job_ends_behind_what_waits_at_inputs_with_the_end(tmp_path, interval):
    """A window that fires at the end gives more than the subtask behind it does in an epoch."""

    def build(env):
        return one_window(env).rebalance().map(str).uid("text")

    options = {} if interval is None else {"execution_checkpointing_interval": interval}
    found, path = run_to_savepoint(
        build, tmp_path, at=20, drain=True, millstream_epoch_hold__after=4, **options
    )
    assert found == Counter(map(str, RECORDS[:21]))
    assert find_saved(path).manifest.is_savepoint


def test_whoever_asked_for_a_savepoint_is_told_that_the_attempt_failed_meanwhile(tmp_path):
    wanted = run(plain)
    environment = new_environment(epoch=3)
    FAULTS.arm(23)
    futures = []
    with running() as launcher:

        def ask():
            futures.append(launcher.job().savepoint(str(tmp_path), stop=True, drain=False))

        launcher.do_after(20, ask)
        with plain(environment).execute_and_collect() as results:
            assert not wanted - multiset(results)
    with pytest.raises(JobExecutionError, match=r"not made[\s\S]*record 23"):
        futures[0].result(1)


def test_savepoint_may_be_moved(tmp_path):
    first, path = run_to_savepoint(tumbling, tmp_path / "a", at=20, parallelism=2)
    shutil.move(path, tmp_path / "elsewhere")
    assert difference(first + resume(f"file://{tmp_path}/elsewhere", tumbling), WANTED) == SAME


def test_manifest_itself_and_a_trailing_slash_name_a_savepoint_too(tmp_path):
    _, path = run_to_savepoint(tumbling, tmp_path, at=20)
    assert find_saved(f"{path}/_metadata").path == find_saved(f"{path}/").path == path


def test_savepoint_without_a_directory_goes_to_the_configured_one_or_is_refused(tmp_path):
    _, path = run_to_savepoint(
        tumbling, "", at=20, execution_checkpointing_savepoint__dir=str(tmp_path / "configured")
    )
    assert Path(path).parent == tmp_path / "configured"
    with pytest.raises(
        ConfigurationError, match=r"without a directory[\s\S]*execution.checkpointing.savepoint-dir"
    ):
        run_to_savepoint(tumbling, "", at=20)


def test_savepoint_that_cannot_be_written_leaves_the_job_running(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(CheckpointStorageError, match="cannot be written"):
        run_to_savepoint(tumbling, tmp_path / "file", at=20)
    assert FAULTS.seen == len(RECORDS) + sum(WANTED.values())


def test_savepoint_asked_for_too_late_says_so(tmp_path):
    with running() as launcher:
        with tumbling(new_environment()).execute_and_collect() as results:
            list(results)
        with pytest.raises(JobExecutionError, match="has ended"):
            launcher.jobs[0].savepoint(str(tmp_path)).result(1)


# Ownership


def checkpoints_of_a_cancelled_job(directory, *, retained=1):
    """Run a job until it is cancelled, with its checkpoints left behind; return where they are, and its results."""
    environment = new_environment(
        1,
        3,
        execution_checkpointing_interval=1,
        execution_checkpointing_dir=str(directory),
        execution_checkpointing_num__retained=retained,
        execution_checkpointing_externalized__checkpoint__retention="RETAIN_ON_CANCELLATION",
    )
    FAULTS.arm()
    found = []
    with running() as launcher:
        launcher.do_after(30, lambda: launcher.job().cancel())
        with (
            tumbling(environment).execute_and_collect() as results,
            pytest.raises(JobExecutionError, match="cancelled"),
        ):
            for each in results:
                found.append(each)
    (job,) = Path(directory).iterdir()
    return job, multiset(found)


def manifests(directory):
    return sorted(path.parent.name for path in Path(directory).rglob("_metadata"))


def test_job_goes_on_from_the_newest_checkpoint_of_another_that_was_cancelled(tmp_path):
    directory, first = checkpoints_of_a_cancelled_job(tmp_path)
    (newest,) = directory.glob("chk-*")
    assert difference(first + resume(str(directory), tumbling), WANTED) == SAME
    assert difference(first + resume(str(newest), tumbling), WANTED) == SAME
    assert newest.is_dir()


@pytest.mark.parametrize("kind", ["checkpoint", "savepoint"])
@pytest.mark.parametrize(("mode", "left"), [("NO_CLAIM", True), ("CLAIM", False)])
def test_job_removes_what_it_was_restored_from_only_if_it_claims_it(tmp_path, kind, mode, left):
    if kind == "savepoint":
        first, path = run_to_savepoint(tumbling, tmp_path / "old", at=20)
    else:
        directory, first = checkpoints_of_a_cancelled_job(tmp_path / "old")
        path = str(next(directory.glob("chk-*")))
    rest = resume(
        path,
        tumbling,
        interval=1,
        epoch=3,
        execution_state__recovery_claim__mode=mode,
        execution_checkpointing_dir=str(tmp_path / "new"),
    )
    assert difference(first + rest, WANTED) == SAME
    assert bool(manifests(tmp_path / "old")) is left
    assert any(path.is_file() for path in (tmp_path / "old").rglob("*")) is left


def test_claimed_savepoint_stays_as_long_as_no_checkpoint_has_taken_its_place(tmp_path):
    first, path = run_to_savepoint(tumbling, tmp_path, at=20)
    rest = resume(path, tumbling, execution_state__recovery_claim__mode="CLAIM")
    assert difference(first + rest, WANTED) == SAME
    assert Path(path).is_dir()


def test_disposing_of_a_checkpoint_leaves_files_that_another_shares(tmp_path):
    directory, first = checkpoints_of_a_cancelled_job(tmp_path, retained=3)
    older, _, newest = sorted(directory.glob("chk-*"), key=lambda path: int(path.name[4:]))
    discard(find_saved(str(older)))
    assert not older.exists()
    assert difference(first + resume(str(newest), tumbling), WANTED) == SAME


def test_disposing_of_a_savepoint_removes_all_of_it(tmp_path):
    _, path = run_to_savepoint(tumbling, tmp_path, at=20)
    discard(find_saved(path))
    assert not Path(path).exists()


# Damage


def damage_missing(path):
    path.unlink()


def damage_truncated(path):
    path.write_bytes(path.read_bytes()[:-5])


def damage_altered(path):
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


DAMAGES = [(damage_missing, "is missing"), (damage_truncated, "bytes"), (damage_altered, "altered")]


@pytest.mark.parametrize("place", ["state", "driver"])
@pytest.mark.parametrize(("damage", "said"), DAMAGES)
def test_damaged_checkpoint_is_named_and_the_newest_intact_one_offered(tmp_path, place, damage, said):
    directory, _ = checkpoints_of_a_cancelled_job(tmp_path, retained=3)
    *_, intact, newest = sorted(directory.glob("chk-*"), key=lambda path: int(path.name[4:]))
    body = json.loads((newest / "_metadata").read_text().partition("\n")[2])
    ref = (
        body["state"][-1]["file"]
        if place == "state"
        else next(o["driver"] for o in body["operators"] if o["driver"])
    )
    damage(directory / ref["path"])
    with pytest.raises(CheckpointDamagedError) as raised:
        resume(str(directory), tumbling)
    assert str(newest) in raised.value.message
    assert said in (raised.value.detail or "")
    assert ref["path"] in (raised.value.detail or "")
    assert raised.value.hint == f"The newest intact checkpoint beside it is {intact}"


@pytest.mark.parametrize("damage", [damage_truncated, damage_altered])
def test_damaged_manifest_is_named_and_never_passed_over_for_an_older_one(tmp_path, damage):
    directory, _ = checkpoints_of_a_cancelled_job(tmp_path, retained=3)
    *_, intact, newest = sorted(directory.glob("chk-*"), key=lambda path: int(path.name[4:]))
    damage(newest / "_metadata")
    for path in (directory, newest):
        with pytest.raises(CheckpointDamagedError) as raised:
            resume(str(path), tumbling)
        assert str(newest / "_metadata") in (raised.value.detail or "")
        assert raised.value.hint == f"The newest intact checkpoint beside it is {intact}"


def test_damaged_savepoint_offers_an_intact_one_beside_it(tmp_path):
    _, intact = run_to_savepoint(tumbling, tmp_path, at=20)
    _, damaged = run_to_savepoint(tumbling, tmp_path, at=30)
    damage_altered(next((Path(damaged) / "files").iterdir()))
    with pytest.raises(CheckpointDamagedError) as raised:
        resume(damaged, tumbling)
    assert raised.value.hint == f"The newest intact savepoint beside it is {intact}"


def test_path_without_a_checkpoint_is_refused_before_anything_runs(tmp_path):
    with pytest.raises(CheckpointStorageError, match="there is no checkpoint or savepoint at"):
        resume(str(tmp_path), tumbling)
    assert FAULTS.seen == 0


def test_state_of_an_operator_that_is_gone_is_refused_by_name(tmp_path):
    first, path = run_to_savepoint(PROGRAMS["every_state"], tmp_path, at=20)
    with pytest.raises(StateIncompatibleError) as raised:
        resume(path, plain)
    assert 'uid "states"' in raised.value.message
    assert 'value state "count"' in (raised.value.detail or "")
    assert "--allow-non-restored-state" in (raised.value.hint or "")
    rest = resume(path, plain, execution_state__recovery_ignore__unclaimed__state=True)
    assert rest == Counter(RECORDS[sum(first.values()) :])


def test_a_checkpoint_comes_though_nothing_more_does(tmp_path):
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "words.txt").write_text("to\nbe\n")
    lines = FileSource.for_record_stream_format(StreamFormat.text_line_format(), str(tmp_path / "in"))
    source = lines.monitor_continuously(Duration.of_millis(20)).build()
    options = {"execution.target": "local", "execution.checkpointing.interval": "50 ms"}
    env = StreamExecutionEnvironment.get_execution_environment(Configuration.from_dict(options))
    words = env.from_source(source, WatermarkStrategy.no_watermarks(), "lines")
    with words.execute_and_collect() as collected:
        # Records are handed on behind the checkpoint that holds them.
        assert sorted(next(collected) for _ in range(2)) == ["be", "to"]

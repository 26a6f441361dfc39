"""What the coordinator removes, when, and what it makes of failures in between."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from millstream.base.clock import ManualClock
from millstream.base.errors import (
    CheckpointStorageError,
    ConfigurationError,
    DriverSupersededError,
)
from millstream.config.configuration import Configuration
from millstream.files.store_local import LocalStore
from millstream.files.stores import open_store
from millstream.runtime.checkpoint.coordinator import CheckpointCoordinator
from millstream.runtime.checkpoint.ownership import Ownership
from millstream.runtime.checkpoint.pointer import RecoveryPointer
from millstream.runtime.checkpoint.restore import find_saved
from millstream.runtime.checkpoint.settings import CheckpointSettings
from millstream.runtime.protocol.orders import CompactionOrder, WrittenState


@pytest.fixture
def home(tmp_path):
    return tmp_path / "job"


def coordinator(tmp_path, **settings):
    built = CheckpointCoordinator(
        CheckpointSettings(interval_ms=10, directory=str(tmp_path), **settings),
        job_id="job",
        job_name="Job",
        job_graph=SimpleNamespace(vertices=[]),
        clock=ManualClock(),
        pointer=RecoveryPointer(str(tmp_path / "ha"), "Job"),
    )
    built.begin_attempt()
    return built


def write(home, order, content=b"state"):
    file = open_store(str(home)).write(f"shared/{order.checkpoint_id}-0", content)
    return [WrittenState(0, file, {}, order.base is not None)]


def make(coordinator, home):
    order = coordinator.begin()
    return coordinator.complete(order, epoch=1, written=write(home, order), driver_states={})


def pointed(tmp_path, term=1):
    """Return the checkpoint that a driver's pointer names."""
    return RecoveryPointer(str(tmp_path / "ha"), "Job", term).read().checkpoint


def names(directory):
    return sorted(path.name for path in directory.iterdir())


def test_files_that_only_their_writer_sees_make_no_checkpoint(tmp_path, home):
    checkpoints = coordinator(tmp_path)
    make(checkpoints, home)
    order = checkpoints.begin()
    elsewhere = write(tmp_path / "another host", order)
    said = r"shared/2-0\", which slot 0 wrote, is not there for the driver"
    with pytest.raises(CheckpointStorageError, match=said) as error:
        checkpoints.complete(order, epoch=2, written=elsewhere, driver_states={})
    assert "a directory that all hosts share" in error.value.hint
    assert names(home) == ["chk-1", "shared"]


def test_a_look_for_files_that_takes_too_long_makes_no_checkpoint(tmp_path, home, monkeypatch):
    checkpoints = coordinator(tmp_path)
    order = checkpoints.begin()
    written = write(home, order)
    clock = checkpoints._clock
    monkeypatch.setattr(LocalStore, "confirm", lambda store, ref, writer: clock.advance(10_000_000))
    with pytest.raises(CheckpointStorageError, match="was not written in time"):
        checkpoints.complete(order, epoch=1, written=written, driver_states={})
    assert names(home) == ["shared"]


def test_files_of_which_the_driver_sees_a_part_make_no_checkpoint(tmp_path, home):
    checkpoints = coordinator(tmp_path)
    order = checkpoints.begin()
    written = write(home, order)
    (home / "shared" / "1-0").write_bytes(b"sta")
    with pytest.raises(CheckpointStorageError, match="slot 0 wrote, has 3 of 5 bytes for the driver"):
        checkpoints.complete(order, epoch=1, written=written, driver_states={})


def test_a_checkpoint_that_is_given_up_is_not_waited_for_where_storage_hangs(tmp_path, home, monkeypatch):
    checkpoints = coordinator(tmp_path)
    order = checkpoints.begin()
    files = [written.file for written in write(home, order) * 3]
    tried = []

    def hang(store, path, *, may_return):
        tried.append(path)
        checkpoints._clock.advance(11_000)

    monkeypatch.setattr(LocalStore, "delete", hang)
    checkpoints.discard(order, files)
    assert tried == ["shared/1-0"]


def test_what_a_killed_slot_left_half_written_goes_with_the_next_checkpoint(tmp_path, home):
    checkpoints = coordinator(tmp_path)
    make(checkpoints, home)
    (home / "shared" / "2-1.abc.staged").write_bytes(b"half")
    (home / "shared" / "1-1").write_bytes(b"of an attempt that failed")
    make(checkpoints, home)
    checkpoints.tidy()
    assert names(home) == ["chk-2", "shared"]
    assert names(home / "shared") == ["1-0", "2-0"]


def test_files_of_a_compaction_that_is_under_way_stay(tmp_path, home):
    checkpoints = coordinator(tmp_path, compact_from_bytes=1, compact_after=1)
    make(checkpoints, home)
    make(checkpoints, home)
    order = checkpoints.begin()
    ((slot, compaction),) = order.compactions.items()
    assert (slot, [file.path for file in compaction.files]) == (0, ["shared/1-0", "shared/2-0"])
    assert isinstance(compaction, CompactionOrder)
    checkpoints.complete(order, epoch=3, written=write(home, order), driver_states={})
    half = home / f"{compaction.target}.abc.staged"
    half.write_bytes(b"half")
    checkpoints.tidy()
    assert half.exists()
    done = home / compaction.target
    half.rename(done)
    make(checkpoints, home)
    checkpoints.tidy()
    assert done.exists()
    checkpoints.begin_attempt()  # its slot is gone
    make(checkpoints, home)
    checkpoints.tidy()
    assert not done.exists()


def test_a_checkpoint_that_seemed_to_fail_goes_when_a_later_one_is_there(tmp_path, home):
    checkpoints = coordinator(tmp_path, tolerable_failures=1)
    make(checkpoints, home)
    order = checkpoints.begin()
    (home / "chk-2").mkdir()
    (home / "chk-2" / "_metadata").write_text("published, and its answer lost")
    checkpoints.failed(order, CheckpointStorageError("lost"))
    checkpoints.tidy()
    assert names(home) == ["chk-1", "chk-2", "shared"]
    make(checkpoints, home)
    checkpoints.tidy()
    assert names(home) == ["chk-3", "shared"]


def test_a_recovery_pointer_that_cannot_be_written_counts_as_a_failed_checkpoint(tmp_path, home):
    checkpoints = coordinator(tmp_path, tolerable_failures=1)
    make(checkpoints, home)
    for name in ("Job.recovery", ""):
        path = tmp_path / "ha" / name
        path.unlink() if name else path.rmdir()
    (tmp_path / "ha").write_text("a file where a directory should be")

    def fail():
        order = checkpoints.begin()
        with pytest.raises(CheckpointStorageError) as raised:
            checkpoints.complete(order, epoch=1, written=write(home, order), driver_states={})
        checkpoints.failed(order, raised.value)

    fail()
    with pytest.raises(CheckpointStorageError, match="ha"):
        fail()


def test_a_retracted_checkpoint_is_gone_and_the_pointer_names_the_one_before(tmp_path, home):
    checkpoints = coordinator(tmp_path, tolerable_failures=1)
    make(checkpoints, home)
    checkpoints.failed(checkpoints.begin(), CheckpointStorageError("lost"))
    (home / "chk-2").mkdir()
    checkpoints.retract()
    assert names(home) == ["chk-1", "shared"]
    assert pointed(tmp_path) == str(home / "chk-1")


def test_a_directory_that_cannot_be_read_is_refused_before_the_start(tmp_path, monkeypatch):
    def refuse(self, directory):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(LocalStore, "_names", refuse)
    with pytest.raises(CheckpointStorageError, match=f"{tmp_path}.* cannot be listed: Permission denied"):
        coordinator(tmp_path).check()


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("execution.checkpointing.max-concurrent-checkpoints", 2),
        ("execution.checkpointing.mode", "AT_LEAST_ONCE"),
        ("execution.checkpointing.unaligned.enabled", True),
        ("execution.checkpointing.unaligned.forced", True),
        ("execution.checkpointing.aligned-checkpoint-timeout", 1000),
        ("state.changelog.enabled", True),
    ],
)
def test_options_that_can_have_no_effect_say_so(option, value, caplog):
    CheckpointSettings.of(Configuration.from_dict({option: value}))
    assert f"{option} is {value} and has no effect: " in caplog.text


def test_options_that_were_not_set_or_act_say_nothing(caplog):
    given = {"execution.checkpointing.timeout": "1 s", "execution.checkpointing.mode": "exactly_once"}
    CheckpointSettings.of(Configuration.from_dict(given))
    assert caplog.text == ""


@pytest.mark.parametrize("storage", ["filesystem", "FileSystem"])
def test_checkpoints_in_files_need_a_directory(storage):
    given = {"execution.checkpointing.storage": storage}
    with pytest.raises(ConfigurationError, match="storage is filesystem, and no directory is named"):
        CheckpointSettings.of(Configuration.from_dict(given))
    settings = CheckpointSettings.of(
        Configuration.from_dict({**given, "execution.checkpointing.dir": "/shared"})
    )
    assert settings.directory == "/shared"


def test_what_is_written_down_for_later_drivers_holds_no_credentials(tmp_path):
    checkpoints = CheckpointCoordinator(
        CheckpointSettings(interval_ms=10, directory="s3://AKIAKEY:SECRET@bucket/x"),
        job_id="job",
        job_name="Job",
        job_graph=SimpleNamespace(vertices=[]),
        clock=ManualClock(),
    )
    checkpoints.begin()
    assert checkpoints.goes_with("FINISHED") == "s3://bucket/x/job"


def recovered(tmp_path, **settings):
    """Return the coordinator of a driver that takes over from one that was killed."""
    lost = RecoveryPointer(str(tmp_path / "ha"), "Job").read()
    after = coordinator(tmp_path, **settings)
    saved = find_saved(lost.checkpoint)
    after.continue_after(saved.manifest.checkpoint_id)
    after.adopt(saved)
    return after


def whole(home):
    """Return the checkpoints that are there, with all that their manifests list."""
    return [find_saved(str(path)).manifest.checkpoint_id for path in sorted(home.glob("chk-*"))]


def test_all_checkpoints_of_a_lost_driver_count_for_what_is_retained(tmp_path, home):
    before = coordinator(tmp_path, retained=3)
    for _ in range(4):
        make(before, home)
        before.tidy()
    assert whole(home) == [2, 3, 4]
    after = recovered(tmp_path, retained=3)
    after.begin_attempt()
    for expected in ([3, 4, 5], [4, 5, 6], [5, 6, 7]):
        make(after, home)
        after.tidy()
        assert whole(home) == expected
    assert names(home / "shared") == ["5-0", "6-0", "7-0"]


def test_a_driver_that_retains_fewer_removes_the_rest_of_what_a_lost_one_retained(tmp_path, home):
    before = coordinator(tmp_path, retained=3)
    for _ in range(3):
        make(before, home)
        before.tidy()
    after = recovered(tmp_path, retained=1)
    make(after, home)
    after.tidy()
    assert whole(home) == [4]
    assert names(home / "shared") == ["4-0"]


def test_what_a_lost_driver_published_and_did_not_point_to_is_retracted(tmp_path, home):
    before = coordinator(tmp_path, retained=3)
    make(before, home)
    pointer = (tmp_path / "ha" / "Job.recovery").read_bytes()
    make(before, home)
    (home / "chk-3").mkdir()
    (tmp_path / "ha" / "Job~2.recovery").write_bytes(pointer)
    after = recovered(tmp_path, retained=3)
    assert after.latest.manifest.checkpoint_id == 1
    make(after, home)
    after.tidy()
    assert whole(home) == [1, 4], "numbers are not given twice"


def test_a_manifest_that_cannot_be_read_goes_as_old_checkpoints_do(tmp_path, home, caplog):
    before = coordinator(tmp_path, retained=3)
    for _ in range(2):
        make(before, home)
    (home / "chk-1" / "_metadata").write_text("nonsense")
    after = recovered(tmp_path, retained=3)
    assert "counts as not made" in caplog.text
    make(after, home)
    after.tidy()
    assert whole(home) == [2, 3]


# Another driver takes over


def owned(tmp_path, *, generation=0, **settings):
    """Return the coordinator of a driver that takes the job over."""
    ownership = Ownership.take(str(tmp_path / "ha"), "Job", job="Job", clock=ManualClock())
    built = CheckpointCoordinator(
        CheckpointSettings(interval_ms=10, directory=str(tmp_path), **settings),
        job_id="job",
        job_name="Job",
        job_graph=SimpleNamespace(vertices=[]),
        clock=ManualClock(),
        pointer=RecoveryPointer(str(tmp_path / "ha"), "Job", ownership.term),
        ownership=ownership,
        generation=generation,
    )
    built.begin_attempt()
    return built


def take_over(tmp_path, home, former, **settings):
    """Return the coordinator of a driver that goes on from the last checkpoint of another one."""
    successor = owned(tmp_path, generation=2, **settings)
    successor.adopt(former.latest)
    successor.continue_after(former.latest.manifest.checkpoint_id)
    return successor


def make_in(checkpoints, home, **how):
    order = checkpoints.begin()
    file = open_store(str(home)).write(f"{order.directory}/{order.checkpoint_id}-0", b"state")
    written = [WrittenState(0, file, {}, order.base is not None)]
    return checkpoints.complete(order, epoch=1, written=written, driver_states={}, **how)


def test_a_superseded_driver_publishes_and_removes_nothing(tmp_path, home):
    former = owned(tmp_path, retained=2)
    for _ in range(3):
        make_in(former, home)
    successor = take_over(tmp_path, home, former)
    before, offered = names(home), []
    order = former.begin()
    for superseded in (
        lambda: former.complete(
            order, epoch=1, written=[], driver_states={}, offer=lambda: offered.append(order)
        ),
        former.tidy,
        former.retract,
        lambda: former.close("FINISHED"),
    ):
        with pytest.raises(DriverSupersededError, match="superseded"):
            superseded()
    assert offered == [], "nothing was written: what is staged may be removed"
    assert names(home) == before == ["chk-1", "chk-2", "chk-3", "shared"]
    successor.check_owner()


def test_a_manifest_that_a_superseded_driver_wrote_is_not_the_newest_and_goes(tmp_path, home):
    former = owned(tmp_path)
    make_in(former, home)
    successors = []
    with pytest.raises(DriverSupersededError):  # it looked, and the other one came before it wrote
        make_in(former, home, offer=lambda: successors.append(take_over(tmp_path, home, former)))
    (successor,) = successors
    assert "chk-2" in names(home)
    make_in(successor, home)
    assert names(home) == ["chk-1", "chk-2", "chk-2.2", "shared", "shared.2"]
    assert find_saved(str(home)).directory == "chk-2.2"
    assert successor.latest.path == str(home / "chk-2.2")
    assert pointed(tmp_path, 2) == str(home / "chk-2.2")
    successor.tidy()
    assert names(home) == ["chk-2.2", "shared.2"]


def test_what_another_driver_has_written_since_is_not_tidied(tmp_path, home):
    former = owned(tmp_path)
    make_in(former, home)
    make_in(former, home)
    successor = take_over(tmp_path, home, former)
    make_in(successor, home)
    former._ownership.check = lambda: None  # it looked before, and was paused
    former.tidy()
    assert names(home) == ["chk-2", "chk-3.2", "shared", "shared.2"]
    assert names(home / "shared.2") == ["3-0"]


# Looks behind the pointer


def superseding_writes(monkeypatch, tmp_path, home, former):
    """Have another driver take over while `former` writes its pointer: it reads what is written just then."""
    write, read = RecoveryPointer.write, []

    def taken_over(self, job):
        write(self, job)
        if not read:
            read.append(self.read())
            take_over(tmp_path, home, former)

    monkeypatch.setattr(RecoveryPointer, "write", taken_over)
    return read


def test_a_driver_that_is_superseded_as_it_ends_behind_a_savepoint_commits_nothing(
    tmp_path, home, monkeypatch
):
    former = owned(tmp_path)
    make_in(former, home)
    order = former.begin_savepoint(str(tmp_path / "savepoints"))
    manifest = former.complete(order, epoch=2, written=[], driver_states={})
    read = superseding_writes(monkeypatch, tmp_path, home, former)
    with pytest.raises(DriverSupersededError):
        former.end_behind(order, manifest)
    assert [each.checkpoint for each in read] == [former.path_of(order)]


def test_a_driver_that_is_superseded_as_it_retracts_a_checkpoint_leaves_it(tmp_path, home, monkeypatch):
    former = owned(tmp_path)
    make_in(former, home)
    begun = former.begin()
    (home / "chk-2").mkdir()
    (home / "chk-2" / "_metadata").write_text("its answer was lost, and another driver begins from it")
    superseding_writes(monkeypatch, tmp_path, home, former)
    with pytest.raises(DriverSupersededError):
        former.retract()
    assert begun.checkpoint_id == 2
    assert names(home) == ["chk-1", "chk-2", "shared"]


def test_later_drivers_are_not_sent_to_a_savepoint_of_which_an_attempt_was_not_sure(tmp_path, home):
    """Whose the job is could not be seen behind the pointer: the next attempt removes what the savepoint refers to."""
    checkpoints = owned(tmp_path)
    make_in(checkpoints, home)
    order = checkpoints.begin_savepoint(str(tmp_path / "savepoints"))
    manifest = checkpoints.complete(order, epoch=2, written=[], driver_states={})
    look, checkpoints._ownership.check = checkpoints._ownership.check, failing
    with pytest.raises(CheckpointStorageError):
        checkpoints.end_behind(order, manifest)
    checkpoints._ownership.check = look
    checkpoints.retract()
    assert checkpoints.latest.path == str(home / "chk-1")
    assert pointed(tmp_path) == str(home / "chk-1")


def failing():
    raise CheckpointStorageError("the directory cannot be listed")

"""What the coordinator decides, with storage in memory and a clock that is moved by hand."""

from __future__ import annotations

import pytest

from millstream.base.clock import ManualClock
from millstream.base.errors import CheckpointStorageError, ConfigurationError, NotSerializableError
from millstream.graph.job_graph import build_job_graph
from millstream.graph.stream_graph import build_stream_graph
from millstream.graph.transformation import Edge, Transformation
from millstream.operators.simple import IdentitySpec
from millstream.runtime.checkpoint.coordinator import CheckpointCoordinator
from millstream.runtime.checkpoint.manifest import read_manifest
from millstream.runtime.checkpoint.settings import CheckpointSettings
from millstream.runtime.protocol.orders import WrittenState
from millstream.testing import MemoryStores

HOME = "/c/job"


def graph():
    first = Transformation(1, "first", IdentitySpec(), uid="one")
    second = Transformation(2, "second", IdentitySpec(), [Edge(first)], parallelism=1)
    return build_job_graph(build_stream_graph([first, second], parallelism=2, max_parallelism=8))


class Coordinated:
    """A coordinator and all around it."""

    def __init__(self, *, generation=0, **settings):
        self.clock = ManualClock()
        self.stores = MemoryStores()
        self.checkpoints = CheckpointCoordinator(
            CheckpointSettings(**{"interval_ms": 100, "directory": "/c", **settings}),
            job_id="job",
            job_name="Job",
            job_graph=graph(),
            clock=self.clock,
            generation=generation,
            open_store=self.stores,
        )
        self.checkpoints.begin_attempt()

    def write(self, order, slots=2, states=None):
        return [
            WrittenState(
                slot,
                self.stores(order.location).write(
                    f"{order.directory}/{order.checkpoint_id}-{slot}", b"state"
                ),
                states or {},
                order.base is not None,
            )
            for slot in range(slots)
        ]

    def complete(self, order, **how):
        given = {"epoch": 1, "written": self.write(order), "driver_states": {}, **how}
        return self.checkpoints.complete(order, **given)

    def make(self):
        return self.complete(self.checkpoints.begin())

    def files(self, prefix=HOME):
        return sorted(
            path.removeprefix(f"{prefix}/") for path in self.stores.files if path.startswith(f"{prefix}/")
        )

    def due_at(self, *times):
        """Return at which of some times, milliseconds, a checkpoint is due; nothing is begun."""
        found = []
        for time in times:
            self.clock.advance(time - self.clock.now_ms())
            if self.checkpoints.due():
                found.append(time)
        return found


def test_a_checkpoint_is_due_an_interval_behind_the_begin_of_the_one_before():
    job = Coordinated()
    assert job.due_at(0, 99, 100, 101) == [100, 101]
    job.clock.advance(-101 + 150)
    order = job.checkpoints.begin()
    job.clock.advance(30)
    job.complete(order)
    assert job.due_at(249, 250) == [250]


def test_between_the_end_of_one_and_the_begin_of_the_next_there_is_a_pause():
    job = Coordinated(min_pause_ms=80)
    job.clock.advance(100)
    order = job.checkpoints.begin()
    job.clock.advance(90)
    job.complete(order)
    assert job.due_at(200, 269, 270) == [270]


def test_without_an_interval_none_is_due_and_none_is_asked_of_storage():
    job = Coordinated(interval_ms=None)
    assert not job.checkpoints.enabled
    assert job.due_at(10**9) == []
    job.checkpoints.check()
    assert job.checkpoints.latest is None


def test_a_declined_checkpoint_is_due_at_once_and_its_number_is_not_used_again():
    job = Coordinated()
    job.clock.advance(100)
    order = job.checkpoints.begin()
    assert not job.checkpoints.due()
    job.checkpoints.declined(order)
    assert job.checkpoints.due()
    assert job.checkpoints.begin().checkpoint_id == 2


def test_a_pause_holds_for_one_that_failed_as_well():
    job = Coordinated(min_pause_ms=100, tolerable_failures=9)
    job.clock.advance(100)
    order = job.checkpoints.begin()
    job.clock.advance(500)
    job.checkpoints.failed(order, CheckpointStorageError("away"))
    assert job.due_at(600, 698, 701) == [701]


def test_the_manifest_lists_all_that_belongs_to_a_checkpoint():
    job = Coordinated()
    job.clock.advance(7)
    order = job.checkpoints.begin()
    written = job.write(order, states={1: {"count": "value state"}})
    made = job.complete(order, epoch=12, written=written, driver_states={2: {"position": 5}})
    manifest = read_manifest(job.stores(HOME), "chk-1")
    assert manifest == made
    assert (manifest.checkpoint_id, manifest.epoch, manifest.job_name, manifest.created_ms) == (
        1,
        12,
        "Job",
        7,
    )
    assert [(each.file.path, each.slot, each.is_delta) for each in manifest.state] == [
        ("shared/1-0", 0, False),
        ("shared/1-1", 1, False),
    ]
    first, second = manifest.operators
    assert (first.uid, first.name, first.parallelism, first.states) == (
        "one",
        "first",
        2,
        {"count": "value state"},
    )
    assert (second.uid, second.parallelism, first.driver) == (None, 1, None)
    assert second.driver.path in job.files()


def test_nothing_refers_to_a_checkpoint_before_all_of_it_is_there():
    """What offers, and so the moment from which sinks remove nothing any more, lies directly before the manifest."""
    job = Coordinated()
    seen = []
    job.complete(job.checkpoints.begin(), driver_states={1: "x"}, offer=lambda: seen.append(job.files()))
    ((driver, *state),) = [sorted(seen[0], key=lambda path: "driver" not in path)]
    assert "driver" in driver
    assert state == ["shared/1-0", "shared/1-1"]
    assert "chk-1/_metadata" in job.files()


def test_the_first_of_an_attempt_is_whole_and_those_behind_it_hold_changes():
    job = Coordinated()
    bases = []
    for attempt in range(2):
        for _ in range(3):
            order = job.checkpoints.begin()
            bases.append(order.base)
            job.complete(order)
        job.checkpoints.begin_attempt()
    assert bases == [None, 1, 2, None, 4, 5]
    assert [each.file.path for each in job.checkpoints.latest.manifest.state if each.slot == 0] == [
        "shared/4-0",
        "shared/5-0",
        "shared/6-0",
    ]


@pytest.mark.parametrize("how", ["failed", "declined"])
def test_behind_one_that_was_not_made_comes_a_whole_one(how):
    job = Coordinated(tolerable_failures=1)
    job.make()
    order = job.checkpoints.begin()
    if how == "failed":
        job.checkpoints.failed(order, CheckpointStorageError("away"))
    else:
        job.checkpoints.declined(order)
    assert job.checkpoints.begin().base is None


def test_as_many_are_kept_as_is_said_with_all_that_they_share():
    job = Coordinated(retained=2)
    for _ in range(4):
        job.make()
        job.checkpoints.tidy()
    # Each is a delta to the one before, so the files of the first are needed still.
    assert [path for path in job.files() if path.startswith("chk")] == ["chk-3/_metadata", "chk-4/_metadata"]
    assert [path for path in job.files() if path.endswith("-0")] == [f"shared/{n}-0" for n in (1, 2, 3, 4)]
    job.checkpoints.begin_attempt()
    for _ in range(2):
        job.make()
        job.checkpoints.tidy()
    assert [path for path in job.files() if path.endswith("-0")] == ["shared/5-0", "shared/6-0"]


def test_failures_are_tolerated_in_a_row_and_counted_anew_behind_one_that_succeeds(caplog):
    job = Coordinated(tolerable_failures=2)
    error = CheckpointStorageError("away")
    for _ in range(2):
        for _ in range(2):
            job.checkpoints.failed(job.checkpoints.begin(), error)
        job.make()
    for _ in range(2):
        job.checkpoints.failed(job.checkpoints.begin(), error)
    with pytest.raises(CheckpointStorageError, match="away"):
        job.checkpoints.failed(job.checkpoints.begin(), error)
    assert caplog.text.count("failed and is left out") == 6


@pytest.mark.parametrize("slow", ["state", "manifest"])
def test_what_takes_longer_than_it_may_makes_no_checkpoint(slow, monkeypatch):
    job = Coordinated(timeout_ms=1_000)
    job.make()
    order = job.checkpoints.begin()
    written = job.write(order)
    store = type(job.stores(HOME))
    put = store._put

    def late(self, path, data):
        if (slow == "manifest") is path.endswith("_metadata"):
            job.clock.advance(1_001)
        put(self, path, data)

    monkeypatch.setattr(store, "_put", late)
    with pytest.raises(CheckpointStorageError, match="was not written in time"):
        job.complete(order, written=written, driver_states={1: "x"})
    assert job.checkpoints.latest.manifest.checkpoint_id == 1


def test_driver_state_that_cannot_be_pickled_is_named_with_its_operator():
    job = Coordinated()
    with pytest.raises(NotSerializableError, match='operator "second"'):
        job.complete(job.checkpoints.begin(), driver_states={2: lambda: None})


def test_a_savepoint_has_a_directory_of_its_own_and_belongs_to_nobody():
    job = Coordinated(savepoint_directory="/s/")
    location = job.checkpoints.savepoint_location(None)
    order = job.checkpoints.begin_savepoint(location)
    manifest = job.complete(order)
    path = job.checkpoints.path_of(order)
    assert path.startswith("/s/savepoint-job-")
    assert job.files(path) == ["_metadata", "files/1-0", "files/1-1"]
    assert manifest.is_savepoint
    assert job.checkpoints.latest is None, "attempts begin from checkpoints"
    job.checkpoints.close("FINISHED")
    assert job.files(path) != []


def test_a_savepoint_beside_a_checkpoint_has_its_number_and_does_not_break_its_chain():
    job = Coordinated()
    job.make()
    order = job.checkpoints.begin()
    savepoint = job.checkpoints.begin_savepoint("/s", beside=order)
    assert (savepoint.checkpoint_id, savepoint.base, order.base) == (2, None, 1)
    job.complete(order)
    job.complete(savepoint)
    assert job.checkpoints.begin().base == 2


def test_a_savepoint_that_failed_leaves_nothing():
    job = Coordinated()
    order = job.checkpoints.begin_savepoint("/s")
    job.write(order)
    job.checkpoints.give_up(order)
    assert job.stores.files == {}


def test_a_savepoint_without_a_directory_is_refused():
    with pytest.raises(ConfigurationError, match="without a directory"):
        Coordinated().checkpoints.savepoint_location(None)


def test_a_job_that_ends_behind_a_savepoint_begins_from_it_again():
    job = Coordinated()
    job.make()
    order = job.checkpoints.begin_savepoint("/s")
    job.checkpoints.end_behind(order, job.complete(order))
    assert job.checkpoints.latest.path == job.checkpoints.path_of(order)
    job.make()
    assert job.checkpoints.latest.path == f"{HOME}/chk-3", "a newer checkpoint comes first"


def test_whoever_begins_anew_retracts_those_of_which_nobody_knows():
    job = Coordinated()
    job.make()
    order = job.checkpoints.begin()
    job.stores(HOME).write(f"{order.manifest_directory}/_metadata", b"its answer was lost")
    job.checkpoints.retract()
    assert [path for path in job.files() if path.startswith("chk")] == ["chk-1/_metadata"]
    job.checkpoints.retract()
    assert job.checkpoints.begin().checkpoint_id == 3


@pytest.mark.parametrize(
    ("status", "settings", "stays"),
    [
        ("FINISHED", {}, False),
        ("FINISHED", {"keep_on_cancel": True, "keep_on_failure": True}, False),
        ("CANCELED", {"keep_on_cancel": True}, True),
        ("CANCELED", {"keep_on_failure": True}, False),
        ("FAILED", {"keep_on_failure": True}, True),
        ("FAILED", {"keep_on_cancel": True}, False),
    ],
)
def test_what_stays_behind_a_job_is_what_was_asked_for(status, settings, stays):
    job = Coordinated(**settings)
    job.make()
    assert job.checkpoints.goes_with(status) == (None if stays else HOME)
    assert job.checkpoints.close(status)
    assert (job.files() != []) is stays


def test_checkpoints_that_cannot_be_removed_are_told_of(caplog, monkeypatch):
    job = Coordinated()
    job.make()

    def refuse(self, path):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(type(job.stores(HOME)), "_remove", refuse)
    assert not job.checkpoints.close("FINISHED")
    assert "could not be removed" in caplog.text


def test_names_of_a_later_driver_are_others():
    job = Coordinated(generation=3)
    job.make()
    assert [path for path in job.files() if "driver" not in path] == [
        "chk-1.3/_metadata",
        "shared.3/1-0",
        "shared.3/1-1",
    ]


def test_numbers_go_on_behind_what_the_job_was_restored_from():
    job = Coordinated()
    job.checkpoints.continue_after(41)
    job.checkpoints.continue_after(7)
    assert job.make().checkpoint_id == 42

"""Checkpoints as they are counted and kept: events in, views out."""

from __future__ import annotations

import pytest

from millstream.runtime.control.checkpoint_history import CheckpointHistory
from millstream.runtime.control.events import (
    CheckpointCompleted,
    CheckpointFailed,
    CheckpointPostponed,
    CheckpointRestored,
    CheckpointTriggered,
)
from millstream.runtime.control.views import CheckpointConfigView, RestoredView, SlotCheckpointView


def history(*, retained=1, size=10):
    return CheckpointHistory(CheckpointConfigView(retained=retained), size=size)


def trigger(checkpoint_id, at_ms=0, *, savepoint=False, stops=False):
    return CheckpointTriggered(
        checkpoint_id, savepoint, stops, epoch=checkpoint_id, at_ms=at_ms, slot_count=2
    )


def complete(checkpoint_id, at_ms=0, *, savepoint=False, size=10, full=100):
    slots = (SlotCheckpointView(0, size, is_delta=False, writing_ms=1),)
    return CheckpointCompleted(checkpoint_id, savepoint, at_ms, size, full, f"/c/chk-{checkpoint_id}", slots)


def feed(core, *events):
    for event in events:
        core.handle(event)
    return core.view()


def test_checkpoint_goes_from_in_progress_to_completed():
    core = history()
    seen = feed(core, trigger(1, 100))
    assert (seen.counts.triggered, seen.counts.in_progress, seen.history[0].status) == (1, 1, "IN_PROGRESS")
    assert seen.history[0].duration_ms is None
    seen = feed(core, complete(1, 130))
    assert (seen.counts.triggered, seen.counts.in_progress, seen.counts.completed) == (1, 0, 1)
    (done,) = seen.history
    assert (done.status, done.duration_ms, done.path, done.slot_count) == ("COMPLETED", 30, "/c/chk-1", 2)
    assert seen.latest_completed == done
    assert seen.duration_ms.max == 30


def test_what_fails_says_why_and_changes_no_figure():
    seen = feed(history(), trigger(1), CheckpointFailed(1, False, 7, "the disk is full"))
    assert (seen.counts.failed, seen.counts.completed, seen.duration_ms.max) == (1, 0, 0)
    assert (seen.latest_failed.failure, seen.latest_failed.duration_ms) == ("the disk is full", 7)


def test_what_is_postponed_was_never_triggered():
    seen = feed(history(), trigger(1), CheckpointPostponed(1, False))
    assert (seen.counts.triggered, seen.counts.in_progress, seen.history) == (0, 0, ())


def test_savepoint_and_checkpoint_of_one_epoch_share_the_id_and_are_told_apart():
    core = history()
    feed(core, trigger(4), trigger(4, savepoint=True, stops=True), complete(4, 5, size=1))
    seen = feed(core, CheckpointFailed(4, True, 9, "no room"))
    assert (seen.counts.completed, seen.counts.failed) == (1, 1)
    assert [(each.is_savepoint, each.stops, each.status) for each in seen.history] == [
        (True, True, "FAILED"),
        (False, False, "COMPLETED"),
    ]


def test_savepoints_count_but_do_not_enter_the_figures_of_checkpoints():
    seen = feed(
        history(),
        trigger(1),
        complete(1, 10, size=5, full=50),
        trigger(2, savepoint=True),
        complete(2, 9_000, savepoint=True, size=900, full=900),
    )
    assert (seen.counts.completed, seen.duration_ms.max, seen.state_size.max) == (2, 10, 50)
    assert (seen.latest_savepoint.checkpoint_id, seen.latest_completed.checkpoint_id) == (2, 1)


def test_figures_are_least_greatest_mean_and_quantiles():
    core = history()
    for number in range(1, 101):
        feed(core, trigger(number), complete(number, number, size=number * 10, full=number * 100))
    duration = core.view().duration_ms
    assert (duration.min, duration.max, duration.avg) == (1, 100, 50)
    assert (duration.p50, duration.p90, duration.p99) == pytest.approx((50.5, 90.1, 99.01))
    assert core.view().checkpointed_size.max == 1_000


def test_the_last_ones_are_kept_the_newest_first_and_those_in_progress_before():
    core = history(size=3)
    for number in range(1, 6):
        feed(core, trigger(number), complete(number))
    seen = feed(core, trigger(6))
    assert [each.checkpoint_id for each in seen.history] == [6, 5, 4, 3]


def test_completed_checkpoints_beyond_the_retained_are_discarded():
    core = history(retained=2)
    for number in range(1, 5):
        feed(core, trigger(number), complete(number))
    assert [(each.checkpoint_id, each.is_discarded) for each in core.view().history] == [
        (4, False),
        (3, False),
        (2, True),
        (1, True),
    ]


def test_an_attempt_that_ends_fails_what_is_in_progress():
    core = history()
    feed(core, trigger(1), trigger(1, savepoint=True))
    core.fail_all(50, "the attempt failed")
    assert core.view().counts.failed == 2
    assert feed(core, complete(1)).counts.completed == 0  # nobody waits for it any more


def test_what_attempts_begin_from_is_counted():
    restored = RestoredView(3, is_savepoint=True, path="/s", restored_ms=5)
    seen = feed(history(), CheckpointRestored(restored), CheckpointRestored(restored))
    assert (seen.counts.restored, seen.latest_restored) == (2, restored)

"""Bugs planted in the protocols on purpose: verify finds each within a bounded number of seeds."""

from __future__ import annotations

from dataclasses import replace

import pytest
from verify_jobs import (
    captured,
    late_records,
    parallel_numbers,
    rules_and_lists,
    timers_and_windows,
)

from millstream.operators.watermarks import SplitWatermarks
from millstream.runtime.checkpoint import chain
from millstream.runtime.checkpoint.coordinator import CheckpointCoordinator
from millstream.runtime.job.sinks import SinkCoordinator
from millstream.runtime.job.sources import SourceCoordinator
from millstream.runtime.task import checkpoint
from millstream.state.key_groups import key_group_range
from millstream.state.keyed import KeyedStateBackend
from millstream.state.operator_state import OperatorStateBackend, OperatorStateMode, redistribute
from millstream.verify.verifier import Verifier

MOST_SEEDS = 120
PLANTED = {}


def planted(job):
    """Register a bug: a function that plants it with monkeypatch, and the job that is to show it."""

    def register(plant):
        PLANTED[plant.__name__] = (plant, job)
        return plant

    return register


@planted(parallel_numbers)
def commit_before_the_manifest_is_durable(patch):
    offer, commit = SinkCoordinator.offer, SinkCoordinator.commit

    def early(self):
        for node_id, committables in self._pending.items():
            self._sealed.setdefault(node_id, []).extend(committables)
        self._pending = {}
        commit(self)

    patch.setattr(SinkCoordinator, "offer", early)
    assert offer is not early


@planted(timers_and_windows)
def timers_are_dropped_at_restore(patch):
    restore = KeyedStateBackend.restore
    patch.setattr(
        KeyedStateBackend,
        "restore",
        lambda self, snapshot, key_groups=None: restore(self, replace(snapshot, timers={}), key_groups),
    )


@planted(timers_and_windows)
def off_by_one_in_a_key_group_range_at_restore(patch):
    def short(*arguments):
        groups = key_group_range(*arguments)
        return range(groups.start, groups.stop - 1)

    patch.setattr(checkpoint, "key_group_range", short)


@planted(rules_and_lists)
def operator_state_is_restored_twice(patch):
    restore = OperatorStateBackend.restore

    def twice(self, snapshot, *, checkpoint_id=None):
        restore(self, snapshot, checkpoint_id=checkpoint_id)
        restore(self, snapshot, checkpoint_id=checkpoint_id)

    patch.setattr(OperatorStateBackend, "restore", twice)


@planted(parallel_numbers)
def deltas_are_applied_in_the_wrong_order(patch):
    right = chain._patch
    patch.setattr(chain, "_patch", lambda whole, patched, *rest: right(whole, list(reversed(patched)), *rest))


@planted(parallel_numbers)
def the_newest_delta_is_left_out(patch):
    right = chain._patch
    patch.setattr(chain, "_patch", lambda whole, patched, *rest: right(whole, patched[:-1], *rest))


@planted(timers_and_windows)
def positions_of_sources_are_those_of_the_epoch_before(patch):
    plan, positions = SourceCoordinator.plan, SourceCoordinator.positions

    def remember(self, **request):
        self.before = positions(self)
        return plan(self, **request)

    patch.setattr(SourceCoordinator, "plan", remember)
    patch.setattr(SourceCoordinator, "positions", lambda self: self.before)


@planted(parallel_numbers)
def committables_of_an_aborted_attempt_are_committed(patch):
    def commit_all(self):
        self.seal()
        self.commit()

    patch.setattr(SinkCoordinator, "abort", commit_all)


@planted(parallel_numbers)
def pending_committables_are_forgotten_in_the_manifest(patch):
    patch.setattr(SinkCoordinator, "pending", lambda self: {})


@planted(rules_and_lists)
def broadcast_state_is_not_restored(patch):
    restore = OperatorStateBackend.restore
    patch.setattr(
        OperatorStateBackend,
        "restore",
        lambda self, snapshot, *, checkpoint_id=None: restore(
            self, replace(snapshot, maps={}), checkpoint_id=checkpoint_id
        ),
    )


@planted(rules_and_lists)
def operator_list_state_is_given_to_all_subtasks(patch):
    def everything(parts, parallelism):
        as_union = [
            replace(
                part,
                modes={
                    name: OperatorStateMode.UNION if mode is OperatorStateMode.SPLIT else mode
                    for name, mode in part.modes.items()
                },
            )
            for part in parts
        ]
        right = redistribute(parts, parallelism)
        return [
            replace(wrong, modes=good.modes)
            for wrong, good in zip(redistribute(as_union, parallelism), right, strict=True)
        ]

    patch.setattr(checkpoint, "redistribute", everything)


@planted(late_records)
def watermarks_are_not_restored_so_that_late_records_are_taken(patch):
    patch.setattr(checkpoint, "_restore_watermark", lambda *arguments, **options: None)
    patch.setattr(SplitWatermarks, "restore", lambda self, snapshot: None)


@planted(parallel_numbers)
def the_manifest_lists_a_file_of_another_checkpoint(patch):
    right = CheckpointCoordinator._state_files

    def wrong(self, order, written):
        files = right(self, order, written)
        self.first = getattr(self, "first", files[0])
        return (self.first, *files[1:]) if len(files) > 1 else (self.first,)

    patch.setattr(CheckpointCoordinator, "_state_files", wrong)


@planted(parallel_numbers)
def cleaning_up_removes_a_file_that_is_still_referred_to(patch):
    tidy = CheckpointCoordinator.tidy

    def too_much(self):
        tidy(self)
        if self._completed:
            self.store.delete(self._completed[-1].state[0].file.path)

    patch.setattr(CheckpointCoordinator, "tidy", too_much)


@planted(parallel_numbers)
def what_may_be_recorded_is_removed_when_an_attempt_fails(patch):
    def only_seal(self):
        for node_id, committables in self._pending.items():
            self._sealed.setdefault(node_id, []).extend(committables)
        self._pending = {}

    patch.setattr(SinkCoordinator, "offer", lambda self: None)
    patch.setattr(SinkCoordinator, "seal", only_seal)


VERIFIERS = {}


def verifier_of(job):
    """Return the job's verifier, which knows what is right before anything is planted."""
    if job not in VERIFIERS:
        VERIFIERS[job] = Verifier(captured(job))
    return VERIFIERS[job]


@pytest.mark.parametrize("name", PLANTED)
def test_verify_finds(name, monkeypatch):
    plant, job = PLANTED[name]
    verifier = verifier_of(job)
    plant(monkeypatch)
    found = next((result for result in verifier.run(range(MOST_SEEDS)) if result.failed), None)
    assert found is not None, f"{name} was not found in {MOST_SEEDS} seeds"
    assert found.faults, "without faults there is nothing to restore, commit again or clean up after"
    monkeypatch.undo()
    assert not verifier.run_seed(found.seed).failed, "the seed fails without the bug as well"
    print(f"{name}: seed {found.seed}")


def test_ten_bugs_and_more_are_planted():
    assert len(PLANTED) >= 10

"""Bugs planted in the protocols on purpose: verify finds each within a bounded number of seeds."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from sink_jobs import (
    SentOnce,
    SqliteRows,
    in_database,
    is_prefix,
    rolling_and_merging,
    transactions,
    written_ahead,
)
from verify_jobs import (
    captured,
    late_records,
    parallel_numbers,
    rules_and_lists,
    timers_and_windows,
)

from millstream.base.ids import new_id
from millstream.connectors import two_phase
from millstream.connectors.files.parts import PartFile
from millstream.connectors.files.sink import _FileCommitter
from millstream.connectors.files.writer import _Compaction
from millstream.operators.stores import WatermarkStore
from millstream.operators.watermarks import SplitWatermarks
from millstream.runtime.checkpoint import chain, pointer
from millstream.runtime.checkpoint.coordinator import CheckpointCoordinator
from millstream.runtime.checkpoint.manifest import generation_of_shared
from millstream.runtime.checkpoint.ownership import Ownership
from millstream.runtime.checkpoint.pointer import RecoveryPointer
from millstream.runtime.job.sinks import SinkCoordinator
from millstream.runtime.job.sources import SourceCoordinator
from millstream.runtime.task import checkpoint
from millstream.state import stores
from millstream.state.key_groups import key_group_range
from millstream.state.operator_state import OperatorStateBackend, OperatorStateMode, redistribute
from millstream.state.stores import TimerStore
from millstream.verify.verifier import Verifier

MOST_SEEDS = 400
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
    patch.setattr(TimerStore, "restore", lambda self, saved: None)


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
    def commit_all(self, *waiting, patience_s=None):
        self.seal()
        self.commit()
        return True

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

    patch.setattr(stores, "redistribute", everything)


@planted(late_records)
def watermarks_are_not_restored_so_that_late_records_are_taken(patch):
    patch.setattr(WatermarkStore, "restore", lambda self, saved: None)
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


@planted(parallel_numbers)
def nobody_waits_for_the_last_commit(patch):
    right = SinkCoordinator.wait
    patch.setattr(
        SinkCoordinator, "wait", lambda self, *how: not how and right(self)
    )  # but for the first one


# Sinks


@planted(in_database)
def a_commit_is_repeated_without_looking_whether_it_was_done(patch):
    patch.setattr(SqliteRows, "is_done", lambda *arguments: False)


@planted(written_ahead)
def what_is_sent_again_does_not_replace_what_was_sent(patch):
    patch.setattr(
        SentOnce,
        "send_values",
        lambda self, values, checkpoint_id, subtask_index: Path(
            self.target, f"{subtask_index}-{checkpoint_id}-{new_id()}"
        ).write_text(json.dumps(values)),
    )


@planted(transactions)
def transactions_are_pre_committed_behind_the_snapshot(patch):
    right = two_phase._TransactionWriter.prepare_commit

    def one_epoch_late(self, **how):
        late, self.late = getattr(self, "late", []), right(self, **how)
        return late + self.late if how["end_of_input"] else late

    patch.setattr(two_phase._TransactionWriter, "prepare_commit", one_epoch_late)


@planted(transactions)
def what_a_killed_slot_staged_is_left(patch):
    patch.setattr(two_phase._TransactionWriter, "_abort_staged", lambda self, or_own: None)


@planted(rolling_and_merging)
def merged_files_are_removed_before_the_one_they_became_is_published(patch):
    right = _Compaction._merge

    def too_soon(self, buckets):
        merged = right(self, buckets)
        for file in merged.values():
            for path in file.merged:
                self._writer.files.remove(path)
        return merged

    patch.setattr(_Compaction, "_merge", too_soon)


@planted(rolling_and_merging)
def files_are_published_as_they_are_finished(patch):
    right = PartFile.settle

    def at_once(self):
        names = right(self)
        self._files.publish(names.staged_path, names.final_path)
        return names

    patch.setattr(PartFile, "settle", at_once)


@planted(rolling_and_merging)
def small_files_are_published_beside_the_one_they_were_merged_into(patch):
    right = _FileCommitter.commit

    def both(self, committables):
        for committable in committables:
            for number, path in enumerate(committable.merged):
                if self._files.size(path) is not None:
                    self._files.publish(path, f"{committable.final_path}-{number}")
        right(self, committables)

    patch.setattr(_FileCommitter, "commit", both)


@planted(parallel_numbers)
def a_recovered_driver_keeps_former_files_of_the_newest_checkpoint_only(patch):
    right = CheckpointCoordinator._tidy_former

    def newest_only(self, retained):
        right(self, retained)
        wanted = {ref.path for ref in retained[-1].files()}
        for name in self.store.names(""):
            generation = generation_of_shared(name)
            if generation is not None and generation < self._generation:
                self._tidy_files(name, wanted)

    patch.setattr(CheckpointCoordinator, "_tidy_former", newest_only)


# Drivers that were superseded


@planted(rolling_and_merging)
def drivers_do_not_see_that_they_are_superseded(patch):
    patch.setattr(Ownership, "check", lambda self: None)


@planted(parallel_numbers)
def whose_the_job_is_is_looked_at_before_the_pointer_is_written_and_not_behind(patch):
    write, check = RecoveryPointer.write, CheckpointCoordinator.check_owner
    patch.setattr(
        RecoveryPointer, "write", lambda self, job: (write(self, job), pointers_written.append(self))[0]
    )

    def only_before(self):
        if self._pointer in pointers_written:
            pointers_written.remove(self._pointer)
            return
        check(self)

    pointers_written = []
    patch.setattr(CheckpointCoordinator, "check_owner", only_before)


@planted(parallel_numbers)
def drivers_share_one_pointer(patch):
    patch.setattr(pointer, "of_term", lambda name, term: name)


VERIFIERS = {}
IN_ORDER = (transactions, in_database, written_ahead)
WITHOUT_FAULTS = {
    "small_files_are_published_beside_the_one_they_were_merged_into",
    "cleaning_up_removes_a_file_that_is_still_referred_to",
    "nobody_waits_for_the_last_commit",
}


def verifier_of(job):
    """Return the job's verifier, which knows what is right before anything is planted."""
    if job not in VERIFIERS:
        VERIFIERS[job] = Verifier(captured(job), check=is_prefix if job in IN_ORDER else None)
    return VERIFIERS[job]


TAKE_LONG = {"drivers_share_one_pointer", "what_a_killed_slot_staged_is_left"}


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=[pytest.mark.long] if name in TAKE_LONG else []) for name in PLANTED],
)
def test_verify_finds(name, monkeypatch):
    plant, job = PLANTED[name]
    verifier = verifier_of(job)
    plant(monkeypatch)
    found = next((result for result in verifier.run(range(MOST_SEEDS)) if result.failed), None)
    assert found is not None, f"{name} was not found in {MOST_SEEDS} seeds"
    if name not in WITHOUT_FAULTS:
        assert found.faults, "without faults there is nothing to restore, commit again or clean up after"
    monkeypatch.undo()
    assert not verifier.run_seed(found.seed).failed, "the seed fails without the bug as well"
    print(f"{name}: seed {found.seed}")


def test_ten_bugs_and_more_are_planted():
    assert len(PLANTED) >= 10

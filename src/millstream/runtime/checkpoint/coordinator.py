"""Makes checkpoints: says when, lists what belongs to one, publishes it, removes those that are not wanted any more.

One checkpoint is the end of one epoch made durable::

    due ─► order (goes to the slots with the epoch) ─► slots write state files, name them in their reports
        ─► complete: driver's state, then the manifest ─► functions are notified; sinks commit ─► tidy

Before the manifest is there nothing refers to the files, so a checkpoint that fails half-way leaves nothing but
files that the next one removes.
"""

from __future__ import annotations

import logging
import math
import os
import pickle
import shutil
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import replace
from functools import partial

from millstream.base.clock import Clock
from millstream.base.crash_points import reach
from millstream.base.errors import CheckpointStorageError, ConfigurationError, NotSerializableError, shorten
from millstream.base.ids import new_id
from millstream.config import options_checkpointing as keys
from millstream.files.scratch import scratch_directory
from millstream.files.stores import FileRef, FileStore, open_store
from millstream.graph.job_graph import JobGraph
from millstream.graph.stream_graph import StreamNode
from millstream.runtime.checkpoint.chain_keeper import ChainKeeper
from millstream.runtime.checkpoint.deadline import within
from millstream.runtime.checkpoint.leftovers import find_left, made_up_to
from millstream.runtime.checkpoint.manifest import (
    Manifest,
    OperatorEntry,
    age_of_checkpoint,
    checkpoint_directory,
    generation_of_shared,
    shared_directory,
    write_manifest,
)
from millstream.runtime.checkpoint.ownership import Ownership
from millstream.runtime.checkpoint.pointer import LostJob, RecoveryPointer
from millstream.runtime.checkpoint.restore import Saved
from millstream.runtime.checkpoint.settings import CheckpointSettings
from millstream.runtime.protocol.orders import CheckpointOrder, StateFile, WrittenState
from millstream.types.forms import form_of

__all__ = ["CheckpointCoordinator"]

log = logging.getLogger(__name__)

_DISCARD_S = 10


class CheckpointCoordinator:
    """The checkpoints of one job, over all its attempts; the job master's thread calls it.

    Every change of the storage is made in the driver's own term (`runtime.checkpoint.ownership`): one that was
    superseded finds out before it publishes or removes anything that its successor does not.

    Attributes:
        job_id: Of the job.
        job_name: Of the job.
        rescaled: The parallelism of operators by id, where it is not the program's: later drivers are told.

    Args:
        settings: Options.
        job_id: Of the job.
        job_name: Of the job.
        job_graph: Its operators.
        clock: Time.
        pointer: Told of each checkpoint; None if nobody takes over from a lost driver.
        ownership: This driver's term; None likewise.
        generation: Tells the names of this driver's checkpoints from those of its predecessors.
        open_store: Opens where checkpoints and savepoints go.
    """

    def __init__(
        self,
        settings: CheckpointSettings,
        *,
        job_id: str,
        job_name: str,
        job_graph: JobGraph,
        clock: Clock,
        pointer: RecoveryPointer | None = None,
        ownership: Ownership | None = None,
        generation: int = 0,
        open_store: Callable[[str], FileStore] = open_store,
    ) -> None:
        self._open_store = open_store
        self._pointer = pointer
        self._ownership = ownership
        self._generation = generation
        self._adopted: dict[int, str] = {}
        self._settings = settings
        self.job_id = self._job_id = job_id
        self.job_name = self._job_name = job_name
        self.rescaled: Mapping[str, int] = {}
        self._nodes: list[StreamNode] = [node for vertex in job_graph.vertices for node in vertex.nodes]
        self._clock = clock
        self._temporary: str | None = None
        self._stores: dict[str, FileStore] = {}
        self._base: str | None = None
        self._completed: list[Manifest] = []
        # Begun, and not known to be complete: the manifest may be there all the same, if an answer was lost.
        self._unknown: set[int] = set()
        # What attempts begin from until there is a newer checkpoint, and whether the pointer may name it already.
        self._savepoint: Saved | None = None
        self._pointer_unknown = False
        self._next_id = 1
        self._last_begin = self._last_end = clock.monotonic()
        self._failures = 0
        self._patchable = False
        self._chains = ChainKeeper(
            compact_from_bytes=settings.compact_from_bytes, compact_after=settings.compact_after
        )

    @property
    def enabled(self) -> bool:
        """Whether the job makes checkpoints by itself: sinks then commit with them."""
        return self._settings.interval_ms is not None

    @property
    def timeout_s(self) -> float:
        """How long a checkpoint may take, seconds."""
        return self._settings.timeout_ms / 1000

    @property
    def latest(self) -> Saved | None:
        """The newest completed checkpoint, or the savepoint behind which the job is to end."""
        if self._savepoint is not None:
            return self._savepoint
        if not self._completed:
            return None
        manifest = self._completed[-1]
        return Saved(self.store, self._directory(manifest.checkpoint_id), manifest)

    @property
    def store(self) -> FileStore:
        """Where the job's checkpoints are."""
        return self._store(self._location())

    def check(self) -> None:
        """See whether the directory of checkpoints can be reached, if the job makes any.

        Raises:
            CheckpointStorageError: If it cannot.
        """
        if self.enabled:
            self.store.names("")

    def check_owner(self) -> None:
        """See whether the job still belongs to this driver; to be called before anything is published or removed.

        Raises:
            DriverSupersededError: If another driver has taken it over.
            CheckpointStorageError: If that cannot be seen.
        """
        if self._ownership is not None:
            self._ownership.check()

    def begin_attempt(self) -> None:
        """Learn that an attempt begins: its slots know nothing of what those before have written."""
        self._patchable = False
        self._chains.begin_attempt()

    def use(self, job_graph: JobGraph, rescaled: Mapping[str, int]) -> None:
        """Learn that the attempts from now on have another plan, as the job was rescaled."""
        self._nodes = [node for vertex in job_graph.vertices for node in vertex.nodes]
        self.rescaled = rescaled

    def _note(self, path: str) -> LostJob:
        return LostJob(self._job_id, path, dict(self.rescaled))

    def continue_after(self, checkpoint_id: int) -> None:
        """Number the next checkpoints behind one that the job was restored from."""
        self._next_id = max(self._next_id, checkpoint_id + 1)

    def adopt(self, saved: Saved) -> None:
        """Take what a driver of this very job, which was lost, has left for one's own.

        All its checkpoints count for what is retained. Those behind `saved` are not known to be complete.

        Raises:
            CheckpointStorageError: If they cannot be listed or read.
        """
        manifest = saved.manifest
        if manifest.job_id != self._job_id:
            return
        if manifest.is_savepoint:
            self._savepoint = saved
        elif saved.store.location != self.store.location:
            return
        left = find_left(self.store)
        counted = made_up_to(saved, left)
        self._completed = [manifest for _, manifest in counted]
        self._adopted = {manifest.checkpoint_id: name for name, manifest in counted}
        # Those of former drivers that do not count go with `_tidy_former`.
        own = {each.checkpoint_id for each in left if each.generation == self._generation}
        self._unknown = own - self._adopted.keys()
        self._next_id = max([self._next_id, *(each.checkpoint_id + 1 for each in left)])

    def due(self, *, early: bool = False) -> bool:
        """Return whether it is time for a checkpoint.

        Args:
            early: Something waits for it: the interval need not have passed, the least pause must have.
        """
        interval_ms = self._settings.interval_ms
        if interval_ms is None:
            return False
        now = self._clock.monotonic()
        since_begin, since_end = (now - self._last_begin) * 1000, (now - self._last_end) * 1000
        return (early or since_begin >= interval_ms) and since_end >= self._settings.min_pause_ms

    def begin(self) -> CheckpointOrder:
        """Begin a checkpoint with the epoch that is about to run."""
        self._last_begin = self._clock.monotonic()
        checkpoint_id = self._take_id()
        self._unknown.add(checkpoint_id)
        order = CheckpointOrder(
            checkpoint_id,
            self._location(),
            shared_directory(self._generation),
            self._directory(checkpoint_id),
            timeout_s=self._settings.timeout_ms / 1000,
        )
        if not self._patchable:
            return order
        last = self._completed[-1]
        plan = self._chains.plan(last, order.location, order.directory, checkpoint_id)
        return replace(order, base=last.checkpoint_id, whole=plan.whole, compactions=plan.compactions)

    def savepoint_location(self, directory: str | None) -> str:
        """Return where a savepoint goes to.

        Args:
            directory: What was asked for; None for the option's.

        Raises:
            ConfigurationError: If there is neither a directory nor the option that gives one.
        """
        location = directory or self._settings.savepoint_directory
        if location is None:
            raise ConfigurationError(
                "a savepoint was asked for without a directory",
                hint=f"Give one, or set {keys.SAVEPOINT_DIRECTORY.key}.",
            )
        return location

    def begin_savepoint(self, location: str, beside: CheckpointOrder | None = None) -> CheckpointOrder:
        """Begin a savepoint.

        Args:
            location: Where to; it gets a directory of its own in it.
            beside: A checkpoint of the same epoch; they share the id.
        """
        name = f"savepoint-{self._job_id[:6]}-{new_id()[:12]}"
        return CheckpointOrder(
            self._take_id() if beside is None else beside.checkpoint_id,
            f"{location.rstrip('/')}/{name}",
            "files",
            "",
            is_savepoint=True,
            timeout_s=self._settings.timeout_ms / 1000,
        )

    def complete(
        self,
        order: CheckpointOrder,
        *,
        epoch: int,
        written: Sequence[WrittenState],
        driver_states: Mapping[int, object],
        offer: Callable[[], None] = lambda: None,
    ) -> Manifest:
        """Publish a checkpoint: everything that belongs to it is durable when this returns.

        Args:
            order: What was ordered.
            epoch: The epoch that it ends.
            written: What the slots wrote.
            driver_states: What the driver keeps, by node id: positions of sources, committables of sinks.
            offer: Called when from now on nobody can be sure that it is not published.

        Raises:
            CheckpointStorageError: If something cannot be written, or what slots wrote is not where the driver finds
                it: the checkpoint is not there.
            DriverSupersededError: If another driver has taken the job over; it does not go on from this checkpoint, or
                it does and publishes what belongs to it.
        """
        store = self._store(order.location)
        deadline = self._clock.monotonic() + order.timeout_s
        state = self._state_files(order, written)
        driver_files: dict[int, FileRef] = {}
        try:
            within(self._clock, deadline, partial(self._confirm, store, state))
            for node in self._nodes:
                if node.id in driver_states:
                    content = driver_states[node.id]
                    driver_files[node.id] = self._write_driver_state(order, node, content, deadline)
            reach("manifest.write", str(order.checkpoint_id))
            within(self._clock, deadline, self.check_owner)
        except CheckpointStorageError:
            self.discard(order, [*(each.file for each in written), *driver_files.values()])
            raise
        manifest = Manifest(
            checkpoint_id=order.checkpoint_id,
            kind=order.kind,
            job_id=self._job_id,
            job_name=self._job_name,
            epoch=epoch,
            created_ms=self._clock.now_ms(),
            operators=tuple(self._entry(node, written, driver_files.get(node.id)) for node in self._nodes),
            state=state,
        )
        offer()
        within(self._clock, deadline, partial(write_manifest, store, order.manifest_directory, manifest))
        reach("manifest.published", str(order.checkpoint_id))
        self._last_end = self._clock.monotonic()
        if not order.is_savepoint:
            if self._pointer is not None:
                lost = self._note(self.path_of(order))
                within(self._clock, deadline, partial(self._pointer.write, lost))
            # Behind the pointer, so that whoever takes over from now on goes on from here.
            within(self._clock, deadline, self.check_owner)
            self._failures = 0
            self._savepoint = None
            self._completed.append(manifest)
            self._chains.published(manifest)
            self._unknown.discard(order.checkpoint_id)
            self._patchable = True
        return manifest

    def end_behind(self, order: CheckpointOrder, manifest: Manifest) -> None:
        """Have attempts, also of later drivers, begin from a savepoint: what it holds is about to be committed.

        Raises:
            CheckpointStorageError: If later drivers cannot be told.
            DriverSupersededError: If another driver has taken the job over.
        """
        if self._pointer is not None:
            self._pointer_unknown = True
            self._pointer.write(self._note(self.path_of(order)))
            self.check_owner()  # behind the pointer, as in `complete`
            self._pointer_unknown = False
        self._savepoint = Saved(self._store(order.location), order.manifest_directory, manifest)

    def retract(self) -> None:
        """Make sure that nobody begins from a checkpoint that seemed to fail; called before another attempt begins.

        That attempt repeats what came behind the last completed one, and clears up what other attempts staged.

        Raises:
            CheckpointStorageError: If it cannot be removed.
            DriverSupersededError: If another driver has taken the job over.
        """
        self.check_owner()
        if not self._unknown and not self._pointer_unknown:
            return
        if self._pointer is not None:
            latest = self.latest
            self._pointer.write(None if latest is None else self._note(latest.path))
            self.check_owner()
        self._pointer_unknown = False
        for checkpoint_id in sorted(self._unknown):
            self.store.delete(self._directory(checkpoint_id))
        self._unknown.clear()

    def discard(self, order: CheckpointOrder, files: Sequence[FileRef]) -> None:
        """Remove files of a checkpoint that was given up before its manifest: the next one may need their room.

        The job waits for it, and the storage may be one that hangs, so it takes no longer than a few seconds: what
        is not removed by then goes when a later checkpoint is complete.
        """
        store = self._store(order.location)
        deadline = self._clock.monotonic() + min(order.timeout_s, _DISCARD_S)
        try:
            for file in files:
                within(self._clock, deadline, partial(store.delete, file.path, may_return=True))
        except CheckpointStorageError as error:
            log.info("files of checkpoint %d stay for now: %s", order.checkpoint_id, error.message)

    def failed(self, order: CheckpointOrder, error: CheckpointStorageError) -> None:
        """Take note of a checkpoint that could not be written.

        Raises:
            CheckpointStorageError: `error`, if more failed than are tolerated.
        """
        self._failures += 1
        self._patchable = False
        self._last_end = self._clock.monotonic()
        if self._failures > self._settings.tolerable_failures:
            raise error
        log.warning("checkpoint %d failed and is left out: %s", order.checkpoint_id, error.message)

    def declined(self, order: CheckpointOrder) -> None:
        """Take note of a checkpoint for which a slot could not write its state now: it is due again at once."""
        self._unknown.discard(order.checkpoint_id)
        self._patchable = False
        self._last_begin = -math.inf

    def give_up(self, savepoint: CheckpointOrder) -> None:
        """Remove what slots wrote of a savepoint that could not be published."""
        try:
            self._store(savepoint.location).delete("")
        except CheckpointStorageError as error:
            log.warning("files of a savepoint that failed could not be removed: %s", error.message)

    def goes_with(self, status: str) -> str | None:
        """Return the directory that is removed when the job ends; None if nothing is, or it is a temporary one.

        It is given as it is shown, without credentials: it is written down for later drivers.

        Args:
            status: How it ends: FINISHED, FAILED or CANCELED.
        """
        kept = {"CANCELED": self._settings.keep_on_cancel, "FAILED": self._settings.keep_on_failure}
        if self._base is None or self._temporary is not None or kept.get(status, False):
            return None
        return self.store.describe("").rstrip("/")

    def close(self, status: str) -> bool:
        """Remove what nobody wants any more: the job has ended.

        Args:
            status: How: FINISHED, FAILED or CANCELED.

        Returns:
            Whether all of it is gone.

        Raises:
            DriverSupersededError: If another driver has taken the job over: it needs what is there.
        """
        gone = True
        try:
            self.check_owner()
            # The pointer first: as long as it is there, so is what it points to.
            if self._pointer is not None:
                self._pointer.clear()
            if self._temporary is not None:
                self.release()
            elif self.goes_with(status) is not None:
                self.store.delete("")
        except CheckpointStorageError as error:  # how the job ended is not changed by that
            log.warning("checkpoints could not be removed: %s", error.message)
            gone = False
        self._completed.clear()
        return gone

    def release(self) -> None:
        """Remove what nobody but this driver can know of: its temporary directory."""
        if self._temporary is not None:
            shutil.rmtree(self._temporary, ignore_errors=True)
            self._temporary = None

    def path_of(self, order: CheckpointOrder) -> str:
        """Return where a checkpoint or savepoint is, as users name it."""
        return self._store(order.location).describe(order.manifest_directory).rstrip("/")

    def learn(self, written: Sequence[WrittenState]) -> None:
        """Take note of what slots tell besides what they wrote, whatever becomes of the checkpoint."""
        self._chains.learn(written)

    def _state_files(self, order: CheckpointOrder, written: Sequence[WrittenState]) -> tuple[StateFile, ...]:
        """Return each slot's chain of files."""
        last = None if order.base is None else self._completed[-1]
        assert last is None or last.checkpoint_id == order.base
        ordered = sorted(written, key=lambda each: each.slot)
        return tuple(file for each in ordered for file in self._chains.extend(last, each))

    def _confirm(self, store: FileStore, state: Sequence[StateFile]) -> None:
        """See that what slots have newly written is where the driver, and other slots, will look for it."""
        known = {ref for manifest in self._completed for ref in manifest.files()}
        for each in state:
            if each.file not in known:
                store.confirm(each.file, f"slot {each.slot}")

    def _write_driver_state(
        self, order: CheckpointOrder, node: StreamNode, state: object, deadline: float
    ) -> FileRef:
        name = f"{order.directory}/{order.checkpoint_id}-{node.operator_id}-driver-{new_id()[:8]}"
        reach("state.driver", node.name)
        content = _pickle_driver_state(node.name, state)
        return within(self._clock, deadline, partial(self._store(order.location).write, name, content))

    def _entry(
        self, node: StreamNode, written: Sequence[WrittenState], driver: FileRef | None
    ) -> OperatorEntry:
        states: dict[str, str] = {}
        for each in written:
            states |= each.states.get(node.id, {})
        return OperatorEntry(
            operator_id=node.operator_id,
            uid=node.uid,
            name=node.name,
            kind=node.spec.kind,
            parallelism=node.parallelism,
            max_parallelism=node.max_parallelism,
            states=states,
            driver=driver,
            form=node.spec.state_form,
            key_type=form_of(node.key_type),
            versions=dict(node.spec.versions),
            description=node.description,
        )

    def _take_id(self) -> int:
        checkpoint_id, self._next_id = self._next_id, self._next_id + 1
        return checkpoint_id

    def _location(self) -> str:
        if self._base is None:
            directory = self._settings.directory
            if directory is None:
                directory = self._temporary = scratch_directory("checkpoints")
            self._base = f"{directory.rstrip('/')}/{self._job_id}"
            if "://" not in self._base:
                self._base = os.path.abspath(os.path.expanduser(self._base))
        return self._base

    def _store(self, location: str) -> FileStore:
        if location not in self._stores:
            self._stores[location] = self._open_store(location)
        return self._stores[location]

    def tidy(self, *, committing: bool = False) -> None:
        """Remove checkpoints that are not retained, then files that belong to none; a failure waits for the next.

        Not called between an order and what becomes of it: files are there then that belong to no checkpoint yet.

        Args:
            committing: Whether what the newest one holds is not committed yet: then it takes the place of none.
        """
        count = self._settings.retained + committing
        retained = self._completed[-count:]
        dropped = {manifest.checkpoint_id for manifest in self._completed[:-count]}
        # Whether they are there or not: a later one is complete, so nobody begins from them.
        dropped |= {each for each in self._unknown if retained and each < retained[-1].checkpoint_id}
        if not dropped:
            return
        reach("tidy")
        try:
            self.check_owner()
            for checkpoint_id in sorted(dropped):
                self.store.delete(self._directory(checkpoint_id))
            self._tidy_former(retained)
            wanted = {
                ref.path for manifest in retained for ref in manifest.files()
            } | self._chains.in_progress
            self._tidy_files(shared_directory(self._generation), wanted)
        except CheckpointStorageError as error:
            log.warning("old checkpoints could not be removed: %s", error.message)
            return
        self._completed = retained
        self._unknown -= dropped
        reach("tidied")

    def _tidy_files(self, shared: str, wanted: Set[str]) -> None:
        for name in self.store.names(shared):
            if f"{shared}/{name}" not in wanted:
                self.store.delete(f"{shared}/{name}", may_return=True)
        for name in self.store.leftovers(shared):  # of slots that were killed; but not of a compaction
            if not any(f"{shared}/{name}".startswith(path) for path in self._chains.in_progress):
                self.store.delete(f"{shared}/{name}", may_return=True)

    def _tidy_former(self, retained: Sequence[Manifest]) -> None:
        """Remove what drivers before this one wrote and nobody begins from; a later one's is none of its business."""
        if not self._generation:
            return
        kept = {self._directory(manifest.checkpoint_id) for manifest in retained}
        wanted = {ref.path for manifest in retained for ref in manifest.files()}
        for name in self.store.names(""):
            age, shared = age_of_checkpoint(name), generation_of_shared(name)
            if age is not None and age[0] < self._generation and name not in kept:
                self.store.delete(name)
            elif shared is not None and shared < self._generation:
                if any(path.startswith(f"{name}/") for path in wanted):
                    self._tidy_files(name, wanted)
                else:
                    self.store.delete(name)

    def _directory(self, checkpoint_id: int) -> str:
        return self._adopted.get(checkpoint_id) or checkpoint_directory(checkpoint_id, self._generation)


def _pickle_driver_state(operator: str, state: object) -> bytes:
    try:
        return pickle.dumps(state, protocol=5)
    except Exception as error:
        raise NotSerializableError(
            f'what operator "{operator}" keeps on the driver cannot be pickled: {type(error).__name__}: {error}',
            detail=f"In: {shorten(state)}",
            hint="Positions of sources and committables of sinks are plain data: classes that can be imported.",
        ) from error

"""How others steer a running job: what is asked of it waits here until the job master looks, between two epochs."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Mapping
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from dataclasses import dataclass, field

from millstream.base.errors import JobExecutionError
from millstream.graph.epoch_plan import EpochPlan
from millstream.runtime.control.commands import Rescaled
from millstream.runtime.control.queryable import Question, fail_queries

__all__ = [
    "CheckpointRequest",
    "EndedForRescaling",
    "JobControl",
    "RescaleRequest",
    "SavepointRequest",
    "StoppedWithSavepoint",
]


@dataclass(slots=True)
class SavepointRequest:
    """A savepoint that somebody waits for.

    Attributes:
        directory: Where to; None for the configured directory.
        stop: Whether the job is to end behind it.
        drain: Whether it is to come to its end before: windows fire, timers too.
        done: Gets the savepoint's path, or why there is none. If the job is to end: when what the savepoint holds is
            committed.
        path: Where the savepoint is, once it is.
    """

    directory: str | None
    stop: bool = False
    drain: bool = False
    done: Future[str] = field(default_factory=Future)
    path: str | None = None


@dataclass(slots=True)
class CheckpointRequest:
    """A checkpoint that somebody waits for.

    Attributes:
        done: Gets the checkpoint's path, or why there is none.
    """

    done: Future[str] = field(default_factory=Future)


@dataclass(slots=True)
class RescaleRequest:
    """Another parallelism that somebody waits for.

    Attributes:
        plan: What is to run then.
        rescaled: The parallelism of operators by id, where it is not the program's.
        before: The greatest parallelism so far.
        is_nothing: Whether everything is as parallel as it is to be.
        begun: Whether an attempt with the new plan has begun.
        checkpoint: What that goes on from.
        done: Gets what has come of it.
    """

    plan: EpochPlan
    rescaled: Mapping[str, int]
    before: int
    is_nothing: bool = False
    begun: bool = False
    checkpoint: str | None = None
    done: Future[Rescaled] = field(default_factory=Future)

    @property
    def outcome(self) -> Rescaled:
        """What is told when it is done."""
        return Rescaled(self.before, self.plan.slots, self.checkpoint)


@dataclass(slots=True)
class JobControl:
    """How others steer a running job: threads set events, the job master looks at them between epochs.

    Attributes:
        cancel: Stop at once; what is staged is removed.
        suspended: Whether that is because the driver ends, and another is to go on with the job; set before `cancel`.
        stop: Read no more, finish what is there.
        wake: Set with any of the others, to end a wait.
        savepoints: Those that are asked for.
        checkpoints: Those that are asked for; one is made for all.
        rescaling: Who wants another parallelism; None if nobody does.
        stopping: Whose savepoint is there: attempts commit what it holds, and end.
        queries: What is asked of the state.
    """

    cancel: threading.Event = field(default_factory=threading.Event)
    suspended: bool = False
    stop: threading.Event = field(default_factory=threading.Event)
    wake: threading.Event = field(default_factory=threading.Event)
    savepoints: deque[SavepointRequest] = field(default_factory=deque)
    checkpoints: deque[CheckpointRequest] = field(default_factory=deque)
    rescaling: RescaleRequest | None = None
    stopping: SavepointRequest | None = None
    queries: deque[Question] = field(default_factory=deque)

    def cancelled(self) -> JobExecutionError:
        """Return the error of a job that was told to stop."""
        return JobExecutionError(f"the job was {'suspended' if self.suspended else 'cancelled'}")

    def tell_stopped(self) -> None:
        """Tell who asked the job to stop that what the savepoint holds is committed."""
        stopping = self.stopping
        if stopping is not None and stopping.path is not None and not stopping.done.done():
            stopping.done.set_result(stopping.path)

    def fail_savepoints(self) -> None:
        """Tell those that wait for a savepoint or checkpoint that the job has ended before; any thread may."""
        for what, requests in (("savepoint", self.savepoints), ("checkpoint", self.checkpoints)):
            while requests:
                with suppress(IndexError, InvalidStateError):  # another thread was faster
                    requests.popleft().done.set_exception(
                        JobExecutionError(f"the job ended before the {what} was made")
                    )

    def fail_all(self, status: str, failure: BaseException | None) -> None:
        """Tell everybody who still waits that the job has ended.

        Args:
            status: How.
            failure: Why, if it failed.
        """
        stopping = self.stopping
        if stopping is not None and not stopping.done.done():
            stopping.done.set_exception(_stopped_halfway(stopping, failure))
        rescaling = self.rescaling
        if rescaling is not None and not rescaling.done.done():
            rescaling.done.set_exception(JobExecutionError(f"the job ended before it was rescaled: {status}"))
        self.fail_savepoints()
        fail_queries(self.queries, f"the job has ended: {status}")


class StoppedWithSavepoint(Exception):
    """The job was to end behind a savepoint, and the savepoint is there."""


class EndedForRescaling(Exception):
    """The attempt was to end behind a checkpoint, and the checkpoint is there: another plan goes on from it."""


def _stopped_halfway(request: SavepointRequest, failure: BaseException | None) -> JobExecutionError:
    return JobExecutionError(
        f'the job was to stop with savepoint "{request.path}", and failed before all that it holds was committed',
        detail=f"The savepoint is complete. {type(failure).__name__}: {failure}",
        hint="Start a job from the savepoint: it commits what is left first.",
    )

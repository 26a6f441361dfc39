"""What clients can trigger, and what comes of it."""

from __future__ import annotations

import traceback
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, Literal

from msgspec import field

from millstream.rest.documents.base import CamelDocument, Document, KebabDocument
from millstream.rest.documents.job import FailureCause, QueueStatus

__all__ = [
    "CheckpointOperation",
    "CheckpointTrigger",
    "Empty",
    "SavepointOperation",
    "SavepointTrigger",
    "StopTrigger",
    "Triggered",
    "failure_of",
]

SavepointFormat = Literal["CANONICAL", "NATIVE"]


class Empty(Document, frozen=True, kw_only=True):
    """A document without fields."""


class SavepointTrigger(KebabDocument, frozen=True, kw_only=True):
    """Body of `POST /jobs/:jobid/savepoints`; savepoints have one format, whichever is asked for."""

    target_directory: str | None = None
    cancel_job: bool = False
    format_type: SavepointFormat | None = field(default=None, name="formatType")
    trigger_id: str | None = field(default=None, name="triggerId")


class StopTrigger(CamelDocument, frozen=True, kw_only=True):
    """Body of `POST /jobs/:jobid/stop`."""

    target_directory: str | None = None
    drain: bool = False
    format_type: SavepointFormat | None = None
    trigger_id: str | None = None


class CheckpointTrigger(CamelDocument, frozen=True, kw_only=True):
    """Body of `POST /jobs/:jobid/checkpoints`; the job decides what it writes, whatever type is asked for."""

    checkpoint_type: Literal["CONFIGURED", "FULL", "INCREMENTAL"] | None = None
    trigger_id: str | None = None


class Triggered(KebabDocument, frozen=True, kw_only=True):
    """What to ask for."""

    request_id: str


class SavepointResult(KebabDocument, frozen=True, kw_only=True, omit_defaults=True):
    """Where the savepoint is, or why there is none."""

    location: str | None = None
    failure_cause: FailureCause | None = None


class SavepointOperation(Document, frozen=True, kw_only=True):
    """`/jobs/:jobid/savepoints/:triggerid`."""

    status: QueueStatus
    operation: SavepointResult | None


class CheckpointResult(Document, frozen=True, kw_only=True, omit_defaults=True):
    """Which checkpoint it is, or why there is none."""

    checkpoint_id: int | None = field(default=None, name="checkpointId")
    failure_cause: FailureCause | None = field(default=None, name="failure-cause")


class CheckpointOperation(Document, frozen=True, kw_only=True):
    """`/jobs/:jobid/checkpoints/:triggerid`."""

    status: QueueStatus
    operation: CheckpointResult | None


def savepoint_operation(future: Future[str]) -> SavepointOperation:
    """Return what has come of a savepoint so far."""
    if not future.done():
        return SavepointOperation(status=QueueStatus(id="IN_PROGRESS"), operation=None)
    cause = failure_of(future)
    result = SavepointResult(failure_cause=cause) if cause else SavepointResult(location=future.result())
    return SavepointOperation(status=QueueStatus(id="COMPLETED"), operation=result)


def checkpoint_operation(future: Future[str], id_of: Callable[[str], int | None]) -> CheckpointOperation:
    """Return what has come of a checkpoint so far.

    Args:
        future: Has its path, or why there is none.
        id_of: Finds the number of the checkpoint at a path.
    """
    if not future.done():
        return CheckpointOperation(status=QueueStatus(id="IN_PROGRESS"), operation=None)
    cause = failure_of(future)
    result = CheckpointResult(failure_cause=cause)
    if cause is None:
        result = CheckpointResult(checkpoint_id=id_of(future.result()))
    return CheckpointOperation(status=QueueStatus(id="COMPLETED"), operation=result)


def failure_of(future: Future[Any]) -> FailureCause | None:
    """Return why an operation that is done failed; None if it did not."""
    error = future.exception()
    if error is None:
        return None
    return FailureCause(
        class_name=type(error).__name__, stack_trace="".join(traceback.format_exception_only(error)).strip()
    )

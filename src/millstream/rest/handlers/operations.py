"""Steering: cancel, and what takes longer than a request."""

from __future__ import annotations

import re
from concurrent.futures import Future
from typing import Any

from millstream.base.errors import MillstreamError
from millstream.rest.documents import operations
from millstream.rest.errors import RestError, describe_error
from millstream.rest.handlers.found import job_of
from millstream.rest.routes import Call
from millstream.runtime.control.commands import (
    Cancel,
    Command,
    Stop,
    TriggerCheckpoint,
    TriggerSavepoint,
)
from millstream.runtime.control.views import CheckpointsView

__all__ = [
    "cancel",
    "checkpoint",
    "checkpoint_result",
    "find_operation",
    "savepoint",
    "savepoint_result",
    "stop",
    "trigger_operation",
]

_SAVEPOINT = "savepoint"
_CHECKPOINT = "checkpoint"
_ID = re.compile(r"[0-9a-f]{32}")


def cancel(call: Call) -> operations.Empty:
    """Answer `PATCH /jobs/:jobid`: the job is told to end; it has not ended yet."""
    _check_running(call)
    asked = call.context.jobs.perform(call.path["jobid"], Cancel())
    if asked.done() and isinstance(error := asked.exception(), MillstreamError):
        raise describe_error(error)
    return operations.Empty()


def savepoint(call: Call) -> operations.Triggered:
    """Answer `POST /jobs/:jobid/savepoints`."""
    body: operations.SavepointTrigger = call.body
    command: Command = TriggerSavepoint(body.target_directory)
    if body.cancel_job:
        command = Stop(body.target_directory)
    return trigger_operation(call, _SAVEPOINT, body.trigger_id, command)


def stop(call: Call) -> operations.Triggered:
    """Answer `POST /jobs/:jobid/stop`; asked for as a savepoint."""
    body: operations.StopTrigger = call.body
    return trigger_operation(call, _SAVEPOINT, body.trigger_id, Stop(body.target_directory, body.drain))


def checkpoint(call: Call) -> operations.Triggered:
    """Answer `POST /jobs/:jobid/checkpoints`."""
    body: operations.CheckpointTrigger = call.body
    return trigger_operation(call, _CHECKPOINT, body.trigger_id, TriggerCheckpoint())


def savepoint_result(call: Call) -> operations.SavepointOperation:
    """Answer `/jobs/:jobid/savepoints/:triggerid`."""
    return operations.savepoint_operation(find_operation(call, _SAVEPOINT))


def checkpoint_result(call: Call) -> operations.CheckpointOperation:
    """Answer `/jobs/:jobid/checkpoints/:triggerid`."""
    return operations.checkpoint_operation(
        find_operation(call, _CHECKPOINT), lambda path: _checkpoint_id(call, path)
    )


def trigger_operation(
    call: Call, kind: str, trigger_id: str | None, command: Command
) -> operations.Triggered:
    """Begin an operation; returns what to ask for."""
    if trigger_id is not None and _ID.fullmatch(trigger_id) is None:
        raise RestError(400, "triggerId has 32 hexadecimal digits, or is left out")
    job_id = call.path["jobid"]

    def begin() -> Future[Any]:
        _check_running(call)
        future: Future[Any] = call.context.jobs.perform(job_id, command)
        return future

    chosen = call.context.operations.trigger(kind, job_id, trigger_id, begin)
    return operations.Triggered(request_id=chosen)


def _check_running(call: Call) -> None:
    job = job_of(call)
    if job.ended_ms is not None:
        raise RestError(409, f'job {job.job_id} "{job.name}" has ended: {job.status}')


def find_operation(call: Call, kind: str) -> Future[Any]:
    """Return what comes of an operation.

    Raises:
        RestError: 404 if there is none.
    """
    future: Future[Any] = call.context.operations.find(kind, call.path["jobid"], call.path["triggerid"])
    return future


def _checkpoint_id(call: Call, path: str) -> int | None:
    """Return the number of the checkpoint at a path; None if it is no longer known."""
    view: CheckpointsView = call.context.jobs.view(call.path["jobid"], CheckpointsView)
    return next((each.checkpoint_id for each in view.history if each.path == path), None)

"""What Flink's REST API does not have, below /millstream: the control plane's views as they are."""

from __future__ import annotations

from concurrent.futures import TimeoutError as NotYet
from dataclasses import replace
from typing import Any

from millstream.rest.directory import StartingProgram
from millstream.rest.documents.own import Health, describe_health
from millstream.rest.errors import RestError
from millstream.rest.handlers.found import checkpoint_of, job_of
from millstream.rest.routes import Call
from millstream.runtime.control.commands import (
    Command,
    KeyPage,
    ListKeys,
    ListStates,
    QueryState,
    StateAnswer,
    StateNames,
)
from millstream.runtime.control.views import (
    CheckpointView,
    ConfigView,
    EpochsView,
    JobView,
    MetricsView,
    WatermarksView,
)

__all__ = [
    "checkpoint",
    "config",
    "epochs",
    "health",
    "job",
    "keys",
    "metrics",
    "ready",
    "starting",
    "state",
    "states",
    "watermarks",
]

_QUERY_S = 8.0


def health(call: Call) -> Health:
    """Answer `/millstream/health`: the server answers."""
    return describe_health(call.context.clock.now_ms() - call.context.started_ms)


def ready(call: Call) -> Health:
    """Answer `/millstream/ready`: jobs can be asked for."""
    call.context.jobs.jobs()
    return describe_health(call.context.clock.now_ms() - call.context.started_ms)


def job(call: Call) -> JobView:
    """Answer `/millstream/jobs/:jobid`."""
    return job_of(call)


def epochs(call: Call) -> EpochsView:
    """Answer `/millstream/jobs/:jobid/epochs`."""
    view: EpochsView = call.context.jobs.view(call.path["jobid"], EpochsView)
    return replace(view, epochs=view.epochs[-call.query["last"] :])


def watermarks(call: Call) -> WatermarksView:
    """Answer `/millstream/jobs/:jobid/watermarks`."""
    view: WatermarksView = call.context.jobs.view(call.path["jobid"], WatermarksView)
    return view


def config(call: Call) -> ConfigView:
    """Answer `/millstream/jobs/:jobid/config`."""
    view: ConfigView = call.context.jobs.view(call.path["jobid"], ConfigView)
    return view


def metrics(call: Call) -> MetricsView:
    """Answer `/millstream/jobs/:jobid/metrics`."""
    view: MetricsView = call.context.jobs.view(call.path["jobid"], MetricsView)
    return view


def checkpoint(call: Call) -> CheckpointView:
    """Answer `/millstream/jobs/:jobid/checkpoints/:checkpointid`."""
    return checkpoint_of(call)


def state(call: Call) -> StateAnswer:
    """Answer `/millstream/jobs/:jobid/state`."""
    missing = [name for name in ("operator", "state", "key") if call.query[name] is None]
    if missing:
        raise RestError(400, f"the query lacks {', '.join(missing)}: which operator, state and key")
    start, end = call.query["windowStart"], call.query["windowEnd"]
    if (start is None) != (end is None):
        raise RestError(400, "a window has a start and an end: give both windowStart and windowEnd, or none")
    question = QueryState(
        call.query["operator"],
        call.query["state"],
        call.query["key"],
        None if start is None else (start, end),
    )
    answer: StateAnswer = _asked(call, question)
    return answer


def starting(call: Call) -> list[StartingProgram]:
    """Answer `/millstream/starting`."""
    return list(call.context.jobs.starting())


def states(call: Call) -> StateNames:
    """Answer `/millstream/jobs/:jobid/states`."""
    found: StateNames = _asked(call, ListStates())
    return found


def keys(call: Call) -> KeyPage:
    """Answer `/millstream/jobs/:jobid/state/keys`."""
    query = call.query
    missing = [name for name in ("operator", "state") if query[name] is None]
    if missing:
        raise RestError(400, f"the query lacks {' and '.join(missing)}: whose keys")
    command = ListKeys(query["operator"], query["state"], query["subtask"], query["offset"], query["limit"])
    page: KeyPage = _asked(call, command)
    return page


def _asked(call: Call, command: Command) -> Any:
    try:
        return call.context.jobs.perform(call.path["jobid"], command).result(_QUERY_S)
    except NotYet:
        raise RestError(
            503, f"the job did not answer within {_QUERY_S:.0f} s: it does so between two epochs"
        ) from None

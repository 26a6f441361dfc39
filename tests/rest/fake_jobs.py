"""Jobs that do not run: gateways with views that are made up, and a client without a network."""

from __future__ import annotations

import asyncio
import json
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from typing import Any

import httpx

from millstream.base.clock import SystemClock
from millstream.base.errors import JobRequestError
from millstream.common.job_failure import JobFailureInfo
from millstream.rest.application import RestApplication
from millstream.rest.context import RestContext
from millstream.rest.directory import JobDirectory
from millstream.rest.openapi import build_openapi
from millstream.rest.operations import Operations
from millstream.rest.routes import Router
from millstream.rest.security import Guard
from millstream.rest.table import ROUTES
from millstream.runtime.control import views
from millstream.runtime.control.commands import (
    Command,
    KeyPage,
    KeyValue,
    ListKeys,
    ListStates,
    OperatorStates,
    QueryState,
    StateAnswer,
    StateName,
    StateNames,
)
from millstream.runtime.control.gateway import JobGateway

SOURCE, SINK = "a" * 32, "b" * 32
_OPENAPI = build_openapi(ROUTES)
_ROUTER = Router(ROUTES)
NOW_MS = 1_795_412_320_000
STARTED_MS = NOW_MS - 10_000


def plan() -> views.PlanView:
    """Return a source that is hashed to a sink."""

    def vertex(vertex_id: str, name: str, level: int) -> views.VertexPlan:
        operator = views.OperatorView(
            level, vertex_id, f"{name}-uid", name, f"<{name}> & more", "map", level == 0, level == 1, True
        )
        return views.VertexPlan(vertex_id, name, 2, 128, "default", level, 0, (operator,))

    return views.PlanView(
        slots=2,
        levels=((SOURCE,), (SINK,)),
        vertices=(vertex(SOURCE, "Source: numbers", 0), vertex(SINK, "count -> Sink", 1)),
        edges=(views.EdgeView(SOURCE, SINK, 0, 1, "HASH", None, 0),),
    )


def job_view(job_id: str, status: str, *, name: str = "a job") -> views.JobView:
    """Return a job with two vertices and two slots."""
    ended = None if status in ("RUNNING", "RESTARTING") else NOW_MS - 1_000
    task = {"RUNNING": "RUNNING", "RESTARTING": "CREATED"}.get(status, status)
    subtask = views.SubtaskView(
        0,
        task,
        attempt=1,
        started_ms=STARTED_MS,
        ended_ms=ended,
        records_in=10,
        records_out=20,
        bytes_in=100,
        bytes_out=None,
        busy_ms_per_second=400,
        idle_ms_per_second=300,
        back_pressured_ms_per_second=300,
        input_watermark_ms=NOW_MS - 5,
    )
    subtasks = (subtask, replace(subtask, subtask=1, busy_ms_per_second=None))
    return views.JobView(
        job_id=job_id,
        name=name,
        job_type="STREAMING",
        status=status,
        seen_ms=NOW_MS,
        started_ms=STARTED_MS,
        ended_ms=ended,
        timestamps={"CREATED": STARTED_MS, "RUNNING": STARTED_MS + 1, status: STARTED_MS + 2},
        changes=(),
        attempt=1,
        restarts=1,
        parallelism=2,
        max_parallelism=128,
        epoch=7,
        epochs=9,
        records_read=20,
        watermark_ms=None,
        stoppable=True,
        failure=None,
        pid=17,
        host="here",
        plan=plan(),
        vertices=(
            views.VertexView(SOURCE, "Source: numbers", task, subtasks),
            views.VertexView(SINK, "count -> Sink", task, subtasks),
        ),
        slots=(views.SlotView(0, "here", 17, "1"), views.SlotView(1, "there", 19, "2")),
    )


def checkpoints_view() -> views.CheckpointsView:
    """Return a completed, a failed and a running checkpoint, and a savepoint."""
    slots = (views.SlotCheckpointView(0, 500, True, 3), views.SlotCheckpointView(1, 700, True, 5))
    done = views.CheckpointView(
        4,
        False,
        False,
        "COMPLETED",
        4,
        NOW_MS - 900,
        NOW_MS - 800,
        1200,
        1200,
        "/c/4",
        slot_count=2,
        slots=slots,
    )
    savepoint = replace(done, checkpoint_id=5, is_savepoint=True, stops=True, path="/s/5")
    failed = views.CheckpointView(
        6, False, False, "FAILED", 6, NOW_MS - 500, NOW_MS - 400, failure="no space left", slot_count=2
    )
    begun = views.CheckpointView(7, False, False, "IN_PROGRESS", 7, NOW_MS - 10, slot_count=2)
    figures = views.SummaryView(1, 9, 5, 5.0, 8.0, 8.5, 9.0, 9.0)
    return views.CheckpointsView(
        counts=views.CheckpointCounts(4, 1, 1, 1, 1),
        duration_ms=figures,
        checkpointed_size=figures,
        state_size=figures,
        latest_completed=done,
        latest_failed=failed,
        latest_savepoint=savepoint,
        latest_restored=views.RestoredView(3, False, "/c/3", STARTED_MS),
        history=(begun, failed, savepoint, done),
        config=views.CheckpointConfigView(interval_ms=1_000, timeout_ms=600_000, keep_on_cancel=True),
    )


def failures_view() -> views.ExceptionsView:
    """Return a failure of a user's function, and one of nobody's."""
    user = JobFailureInfo(
        0, NOW_MS - 5_000, "ValueError", "no", "count", 1, "Traceback …\nValueError: no", 100
    )
    other = JobFailureInfo(
        1, NOW_MS - 4_000, "SlotLostError", "gone", None, None, "SlotLostError: gone", None
    )
    return views.ExceptionsView(
        (views.FailureView(other), views.FailureView(user, SINK, "count -> Sink", "here")), total=2
    )


def metrics_view(job_id: str) -> views.MetricsView:
    """Return one metric of each kind and scope."""
    at = {"vertex_id": SINK, "vertex_name": "count -> Sink", "operator_id": SINK, "operator": "count"}
    metric = views.MetricView
    return views.MetricsView(
        job_id,
        "a job",
        NOW_MS,
        (
            metric("job", "uptime", "gauge", 10_000),
            metric("job", "numRestarts", "gauge", 1),
            metric("task", "numRecordsOut", "counter", 10, SINK, "count -> Sink", subtask=0),
            metric("task", "numRecordsOut", "counter", 30, SINK, "count -> Sink", subtask=1),
            metric("operator", "mine & yours", "meter", {"count": 5, "rate": 2.5}, **at, subtask=0),
            metric("operator", "latency", "histogram", {"count": 2, "p99": 7.5}, **at, subtask=0),
            metric("operator", "text", "gauge", "any", **at, subtask=0),
            metric("operator", "nothing", "gauge", float("nan"), **at, subtask=0),
        ),
    )


@dataclass
class FakeJob(JobGateway):
    """A job with made-up views; commands are kept, their futures are settled by the test."""

    job_id: str
    status: str = "RUNNING"
    name: str = "a job"
    started_ms: int = STARTED_MS
    gone: bool = False
    asked: int = 0
    commands: list[tuple[Command, Future[Any]]] = field(default_factory=list)

    def view(self, kind: type[Any]) -> Any:
        """Return the view."""
        self.asked += 1
        if self.gone:
            raise JobRequestError("it does not answer")
        made = {
            views.JobView: lambda: job_view(self.job_id, self.status, name=self.name),
            views.CheckpointsView: checkpoints_view,
            views.ExceptionsView: failures_view,
            views.MetricsView: lambda: metrics_view(self.job_id),
            views.AccumulatorsView: lambda: views.AccumulatorsView(
                (views.AccumulatorView("n", "int", "5"),),
                {SINK: (views.AccumulatorView("n", "int", "5"),)},
                (views.SubtaskAccumulatorsView(SINK, 1, (views.AccumulatorView("n", "int", "5"),)),),
            ),
            views.ConfigView: lambda: views.ConfigView(
                (views.OptionView("a.b", "c", "code"),), {"mine": "1"}, "none", "0.1"
            ),
            views.EpochsView: views.EpochsView,
            views.ThreadsView: lambda: views.ThreadsView(17, (views.ThreadView("main", 5, "  run()\n"),)),
            views.WatermarksView: lambda: views.WatermarksView(
                self.job_id, self.name, STARTED_MS, NOW_MS, False, 7, -(2**63)
            ),
        }
        return made[kind]()

    def perform(self, command: Command) -> Future[Any]:
        """Keep the command."""
        future: Future[Any] = Future()
        self.commands.append((command, future))
        return future


class AnsweringJob(FakeJob):
    """One that does at once what it is told."""

    def perform(self, command: Command) -> Future[Any]:
        """Answer the command."""
        future = super().perform(command)
        future.set_result(OUTCOMES.get(type(command), "/c/4"))
        return future


OUTCOMES: dict[type[Command], Any] = {
    QueryState: StateAnswer("5", "int"),
    ListStates: StateNames((OperatorStates("count", "Count", 2, (StateName("sum", "value state"),)),)),
    ListKeys: KeyPage((KeyValue("'a'", None, "5", "int"),), more=True),
}


class Client:
    """Asks an application without a network."""

    def __init__(
        self,
        *jobs: JobGateway,
        guard: Guard | None = None,
        archive: Any = None,
        directory: JobDirectory | None = None,
    ) -> None:
        clock = SystemClock()
        self.directory = directory or JobDirectory(lambda: list(jobs), archive, clock)
        context = RestContext(
            jobs=self.directory,
            operations=Operations(clock),
            clock=clock,
            started_ms=clock.now_ms(),
            address="http://localhost:8081",
            options={"parallelism.default": "2"},
            openapi=_OPENAPI,
        )
        self.application = RestApplication(_ROUTER, guard or Guard(), context)

    def ask(
        self,
        method: str,
        path: str,
        *,
        content: bytes | str | None = None,
        headers: dict[str, str] | None = None,
    ) -> httpx.Response:
        """Send a request."""
        chosen = {"content-type": "application/json"} if content is not None else {}

        async def send() -> httpx.Response:
            transport = httpx.ASGITransport(self.application, raise_app_exceptions=True)
            async with httpx.AsyncClient(transport=transport, base_url="http://localhost:8081") as client:
                return await client.request(
                    method, f"http://localhost:8081{path}", content=content, headers=chosen | (headers or {})
                )

        return asyncio.run(send())

    def get(self, path: str) -> Any:
        """Return the document of a path that is there."""
        answer = self.ask("GET", path)
        assert answer.status_code == 200, answer.text
        return json.loads(answer.text)

    def errors(self, method: str, path: str, **more: Any) -> tuple[int, str]:
        """Return the status code and message of a request that is refused."""
        answer = self.ask(method, path, **more)
        document = answer.json()
        assert list(document) == ["errors"] and len(document["errors"]) == 1, document
        return answer.status_code, document["errors"][0]

"""Every path there is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from millstream.rest.directory import StartingProgram
from millstream.rest.documents import (
    accumulators,
    checkpoints,
    cluster,
    job,
    jobs,
    metrics,
    operations,
    plan,
    process,
    programs,
    rescaling,
    taskmanagers,
    vertices,
)
from millstream.rest.documents.own import Health
from millstream.rest.handlers import cluster as on_cluster
from millstream.rest.handlers import jobs as on_jobs
from millstream.rest.handlers import metrics as on_metrics
from millstream.rest.handlers import operations as on_operations
from millstream.rest.handlers import own as on_own
from millstream.rest.handlers import process as on_process
from millstream.rest.handlers import programs as on_programs
from millstream.rest.handlers import rescaling as on_rescaling
from millstream.rest.handlers import vertices as on_vertices
from millstream.rest.parameters import (
    Parameter,
    choice,
    choices,
    hex_id,
    integer,
    names,
    subtask_ranges,
    text,
)
from millstream.rest.routes import Call, PlainText, Route
from millstream.runtime.control.commands import KeyPage, StateAnswer, StateNames
from millstream.runtime.control.views import (
    CheckpointView,
    ConfigView,
    EpochsView,
    JobView,
    MetricsView,
    WatermarksView,
)

__all__ = ["ROUTES"]

_MOST_INDEX = 2**31 - 1
_MOST_KEY_GROUPS = 32_768

_IN_PATHS = {
    each.name: each
    for each in (
        hex_id("jobid", "Id of the job."),
        hex_id("vertexid", "Id of the vertex."),
        hex_id("triggerid", "What the operation's request-id was."),
        integer("subtaskindex", "Index of the subtask, from 0.", maximum=_MOST_INDEX),
        integer("attempt", "Number of the attempt, from 0.", maximum=_MOST_INDEX),
        integer("checkpointid", "Number of the checkpoint."),
        text("jarid", "Id of an uploaded program, as /jars lists it."),
        text("filename", "Name of a log file, as /jobmanager/logs lists it."),
        text("taskmanagerid", "Id of the task manager, as /taskmanagers lists it."),
    )
}
_GET = names("get", "Names of the metrics whose values are wanted; without it the names of all are listed.")
_AGG = choices("agg", "Which figures are wanted; without it all of them.", metrics.AGGREGATIONS)
_VERTEX = "/jobs/:jobid/vertices/:vertexid"
_SUBTASK = f"{_VERTEX}/subtasks/:subtaskindex"
_MANAGER = "/taskmanagers/:taskmanagerid"
_CHECKPOINT = "/jobs/:jobid/checkpoints/details/:checkpointid"
_OWN = "/millstream/jobs/:jobid"


def _route(
    method: str,
    path: str,
    handler: Callable[[Call], Any],
    summary: str,
    answer: Any,
    *,
    query: tuple[Parameter, ...] = (),
    body: Any = None,
    status: int = 200,
    is_open: bool = False,
) -> Route:
    segments = path.strip("/").split("/")
    found = tuple(_IN_PATHS[segment[1:]] for segment in segments if segment.startswith(":"))
    tag = segments[0] if segments[0] in ("jobs", "taskmanagers", "millstream") else "cluster"
    return Route(method, path, handler, summary, answer, found, query, body, status, tag, is_open)


def _get(path: str, handler: Callable[[Call], Any], summary: str, answer: Any, *query: Parameter) -> Route:
    return _route("GET", path, handler, summary, answer, query=query)


def _show(path: str, handler: Callable[[Call], Any], summary: str, answer: Any, *query: Parameter) -> Route:
    """Return a GET whose answer is made of views."""
    return replace(_get(path, handler, summary, answer, *query), of_views=True)


ROUTES = (
    _show("/openapi.json", on_cluster.openapi, "This document.", dict[str, Any]),
    _show("/overview", on_cluster.overview, "How many jobs and slots there are.", cluster.Overview),
    _show("/config", on_cluster.dashboard_config, "What a web interface needs.", cluster.DashboardConfig),
    _show(
        "/jobmanager/config",
        on_cluster.process_config,
        "Options of the process that serves.",
        list[cluster.ConfigEntry],
    ),
    _show(
        "/jobmanager/environment",
        on_cluster.process_environment,
        "What the process that serves runs in.",
        cluster.Environment,
    ),
    _show(
        "/jobmanager/metrics",
        on_cluster.process_metrics,
        "Metrics of all jobs and slots together.",
        list[metrics.Metric],
        _GET,
    ),
    _get(
        "/jobmanager/thread-dump",
        on_process.thread_dump,
        "Threads of the process that serves.",
        process.ThreadDump,
    ),
    _get(
        "/jobmanager/logs",
        on_process.log_files,
        "Log files of a cluster: its own and its programs'.",
        process.LogFiles,
    ),
    _get(
        "/jobmanager/logs/:filename",
        on_process.log_file,
        "A log file, its last ten megabytes at most.",
        PlainText,
    ),
    _get("/jobmanager/log", on_process.main_log, "The dispatcher's log file.", PlainText),
    _get("/jobmanager/stdout", on_process.main_log, "The same.", PlainText),
    _get("/jars", on_programs.files, "Programs that were uploaded to the cluster.", programs.ProgramFiles),
    replace(
        _route(
            "POST",
            "/jars/upload",
            on_programs.upload,
            "Upload a program: a Python file, or a zip archive with a __main__.py.",
            programs.Uploaded,
        ),
        upload=True,
    ),
    _route("DELETE", "/jars/:jarid", on_programs.delete, "Delete an uploaded program.", operations.Empty),
    _route(
        "POST",
        "/jars/:jarid/run",
        on_programs.run,
        "Run an uploaded program; answers when it has submitted a job.",
        programs.JobStarted,
        body=programs.ProgramRun,
    ),
    _get(
        "/jars/:jarid/plan",
        on_programs.plan,
        "The graph of a program's first job, which is not run: the program is, up to there.",
        plan.PlanDocument,
    ),
    _route(
        "POST",
        "/jars/:jarid/plan",
        on_programs.plan,
        "The same, with arguments and options.",
        plan.PlanDocument,
        body=programs.ProgramPlan,
    ),
    _route(
        "POST",
        "/jars/:jarid/run-application",
        on_programs.run_application,
        "Run an uploaded program; answers at once.",
        programs.ApplicationStarted,
        body=programs.ApplicationRun,
        status=202,
    ),
    _show(
        "/taskmanagers",
        on_cluster.managers,
        "Spark's executors, or drivers, with the slots beside them.",
        taskmanagers.TaskManagers,
    ),
    _show(
        "/taskmanagers/metrics",
        on_cluster.managers_metrics,
        "Metrics over task managers: there are none.",
        list[metrics.AggregatedMetric],
        _GET,
        _AGG,
    ),
    _show(
        "/taskmanagers/:taskmanagerid",
        on_cluster.manager,
        "One task manager with its slots.",
        taskmanagers.TaskManagerDetails,
    ),
    _show(
        "/taskmanagers/:taskmanagerid/metrics",
        on_cluster.manager_metrics,
        "Metrics of a task manager: there are none.",
        list[metrics.Metric],
        _GET,
    ),
    _get(
        f"{_MANAGER}/logs",
        on_process.manager_log_files,
        "Log files of a cluster's program: what a task manager's slots print and log is in them.",
        process.LogFiles,
    ),
    _get(
        f"{_MANAGER}/logs/:filename",
        on_process.manager_log_file,
        "One of them, its last ten megabytes at most.",
        PlainText,
    ),
    _get(f"{_MANAGER}/log", on_process.manager_log, "The last one of them.", PlainText),
    _get(f"{_MANAGER}/stdout", on_process.manager_log, "The same.", PlainText),
    _get(
        f"{_MANAGER}/thread-dump",
        on_process.manager_thread_dump,
        "Threads of the process that slots live in, if that is the driver.",
        process.ThreadDump,
    ),
    _show("/jobs", on_jobs.job_ids, "Ids and statuses of all jobs.", jobs.JobIds),
    _show("/jobs/overview", on_jobs.jobs_overview, "A line for each job.", jobs.JobsOverview),
    _show(
        "/jobs/metrics",
        on_metrics.jobs,
        "Metrics over all jobs.",
        list[metrics.AggregatedMetric],
        _GET,
        _AGG,
        names("jobs", "Ids of the jobs that count; without it all of them."),
    ),
    _show("/jobs/:jobid", on_jobs.details, "A job with its vertices and its graph.", job.JobDetails),
    _route(
        "PATCH",
        "/jobs/:jobid",
        on_operations.cancel,
        "Cancel a job.",
        operations.Empty,
        query=(choice("mode", "What to do.", ("cancel",), default="cancel"),),
        status=202,
    ),
    _show("/jobs/:jobid/status", on_jobs.status, "A job's status.", job.JobStatus),
    _show("/jobs/:jobid/plan", on_jobs.job_plan, "A job's graph.", plan.PlanDocument),
    _show("/jobs/:jobid/config", on_jobs.config, "What a job was told.", job.JobConfig),
    _show(
        "/jobs/:jobid/exceptions",
        on_jobs.exceptions,
        "A job's last failures, the latest first.",
        job.Exceptions,
        integer("maxExceptions", "How many at most.", minimum=1, maximum=10_000, default=20),
    ),
    _show(
        "/jobs/:jobid/accumulators",
        on_jobs.accumulators,
        "What a job's functions have accumulated.",
        job.Accumulators,
    ),
    _show(
        "/jobs/:jobid/execution-result",
        on_jobs.execution_result,
        "How a job has ended, if it has.",
        job.ExecutionResult,
    ),
    _show("/jobs/:jobid/metrics", on_metrics.job, "A job's metrics.", list[metrics.Metric], _GET),
    _show(
        "/jobs/:jobid/checkpoints",
        on_jobs.checkpoint_statistics,
        "A job's checkpoints: counts, figures, the last ones.",
        checkpoints.CheckpointStatistics,
    ),
    _show(
        "/jobs/:jobid/checkpoints/config",
        on_jobs.checkpoint_config,
        "What a job's options say of checkpoints.",
        checkpoints.CheckpointConfig,
    ),
    _show(_CHECKPOINT, on_jobs.checkpoint_details, "One checkpoint.", checkpoints.CheckpointDetails),
    _show(
        f"{_CHECKPOINT}/subtasks/:vertexid",
        on_jobs.checkpoint_subtasks,
        "A vertex' part of a checkpoint.",
        checkpoints.SubtaskCheckpoints,
    ),
    _route(
        "POST",
        "/jobs/:jobid/checkpoints",
        on_operations.checkpoint,
        "Make a checkpoint now.",
        operations.Triggered,
        body=operations.CheckpointTrigger,
        status=202,
    ),
    _get(
        "/jobs/:jobid/checkpoints/:triggerid",
        on_operations.checkpoint_result,
        "What has come of that.",
        operations.CheckpointOperation,
    ),
    _route(
        "POST",
        "/jobs/:jobid/savepoints",
        on_operations.savepoint,
        "Make a savepoint.",
        operations.Triggered,
        body=operations.SavepointTrigger,
        status=202,
    ),
    _get(
        "/jobs/:jobid/savepoints/:triggerid",
        on_operations.savepoint_result,
        "What has come of a savepoint or stop.",
        operations.SavepointOperation,
    ),
    _route(
        "POST",
        "/jobs/:jobid/stop",
        on_operations.stop,
        "Make a savepoint and end the job behind it.",
        operations.Triggered,
        body=operations.StopTrigger,
        status=202,
    ),
    _route(
        "PATCH",
        "/jobs/:jobid/rescaling",
        on_rescaling.rescale,
        "Have a job go on with another parallelism.",
        operations.Triggered,
        query=(integer("parallelism", "The parallelism.", minimum=1, maximum=_MOST_KEY_GROUPS),),
    ),
    _get(
        "/jobs/:jobid/rescaling/:triggerid",
        on_rescaling.rescaling_result,
        "What has come of that.",
        rescaling.RescalingOperation,
    ),
    _show(
        "/jobs/:jobid/resource-requirements",
        on_rescaling.requirements,
        "How parallel each vertex is.",
        dict[str, rescaling.VertexResources],
    ),
    _route(
        "PUT",
        "/jobs/:jobid/resource-requirements",
        on_rescaling.change_requirements,
        "Have each vertex go on with the parallelism of its upper bound.",
        operations.Empty,
        body=dict[str, rescaling.VertexResources],
    ),
    _show(
        f"{_VERTEX}/accumulators",
        on_vertices.vertex_accumulators,
        "What the functions of a vertex have accumulated.",
        accumulators.VertexAccumulators,
    ),
    _show(
        f"{_VERTEX}/subtasks/accumulators",
        on_vertices.subtasks_accumulators,
        "The same by subtask.",
        accumulators.SubtasksAccumulators,
    ),
    _show(
        f"{_SUBTASK}/attempts/:attempt/accumulators",
        on_vertices.attempt_accumulators,
        "The same of one subtask.",
        accumulators.SubtaskAccumulators,
    ),
    _show(_VERTEX, on_vertices.details, "A vertex with its subtasks.", vertices.VertexDetails),
    _show(
        f"{_VERTEX}/backpressure",
        on_vertices.back_pressure,
        "How much a vertex waits for others.",
        vertices.BackPressure,
    ),
    _show(f"{_VERTEX}/metrics", on_metrics.vertex, "Metrics of a vertex.", list[metrics.Metric], _GET),
    _show(
        f"{_VERTEX}/jm-operator-metrics",
        on_metrics.coordinator,
        "What the driver tells of a vertex' operators.",
        list[metrics.Metric],
        _GET,
    ),
    _show(
        f"{_VERTEX}/subtasks/metrics",
        on_metrics.subtasks,
        "Metrics over a vertex' subtasks.",
        list[metrics.AggregatedMetric],
        _GET,
        _AGG,
        subtask_ranges("subtasks", "Indexes of those that count, such as 0,2-5; without it all of them."),
    ),
    _show(_SUBTASK, on_vertices.subtask, "A subtask.", vertices.Subtask),
    _show(
        f"{_SUBTASK}/attempts/:attempt",
        on_vertices.subtask,
        "A subtask, if that is its last attempt.",
        vertices.Subtask,
    ),
    _show(f"{_SUBTASK}/metrics", on_metrics.subtask, "Metrics of a subtask.", list[metrics.Metric], _GET),
    _show(
        f"{_VERTEX}/subtasktimes",
        on_vertices.times,
        "When a vertex' subtasks began and ended.",
        vertices.SubtaskTimes,
    ),
    _show(
        f"{_VERTEX}/taskmanagers",
        on_vertices.managers,
        "A vertex' subtasks by task manager.",
        vertices.VertexManagers,
    ),
    _show(
        f"{_VERTEX}/watermarks",
        on_metrics.watermarks,
        "Watermarks of a vertex' subtasks.",
        list[metrics.Metric],
    ),
    _route(
        "GET",
        "/millstream/health",
        on_own.health,
        "That the server answers; without a token.",
        Health,
        is_open=True,
    ),
    _route(
        "GET",
        "/millstream/ready",
        on_own.ready,
        "That jobs can be asked for; without a token.",
        Health,
        is_open=True,
    ),
    _show(
        "/millstream/starting",
        on_own.starting,
        "A cluster's programs that have no job: not yet, or not any more.",
        list[StartingProgram],
    ),
    _show(_OWN, on_own.job, "All that is seen of a job, its vertices and slots.", JobView),
    _show(
        f"{_OWN}/epochs",
        on_own.epochs,
        "A job's last epochs: how long each level took, and what bounded them.",
        EpochsView,
        integer("last", "How many at most.", minimum=1, maximum=100_000, default=300),
    ),
    _show(
        f"{_OWN}/watermarks",
        on_own.watermarks,
        "Event time of each split, and why it stands still.",
        WatermarksView,
    ),
    _show(f"{_OWN}/config", on_own.config, "A job's options, and where each comes from.", ConfigView),
    _show(f"{_OWN}/metrics", on_own.metrics, "All metrics of a job with their scopes.", MetricsView),
    _show(
        f"{_OWN}/checkpoints/:checkpointid",
        on_own.checkpoint,
        "A checkpoint with what each slot wrote.",
        CheckpointView,
    ),
    _get(
        f"{_OWN}/states",
        on_own.states,
        "Which operators of a running job have which keyed states.",
        StateNames,
    ),
    _get(
        f"{_OWN}/state/keys",
        on_own.keys,
        "Some keys of a keyed state in one subtask of a running job, with what they have.",
        KeyPage,
        text("operator", "The operator's uid, or its id; its name if it has neither."),
        text("state", "The state's name."),
        integer("subtask", "Whose keys.", maximum=_MOST_INDEX, default=0),
        integer("offset", "How many keys are left out.", maximum=_MOST_INDEX, default=0),
        integer("limit", "How many keys at most.", minimum=1, maximum=500, default=50),
    ),
    _get(
        f"{_OWN}/state",
        on_own.state,
        "What a key has in a keyed state of a running job.",
        StateAnswer,
        text("operator", "The operator's uid, or its id; its name if it has neither."),
        text("state", "The state's name."),
        text("key", "The key as Python writes it; any other text stands for itself."),
        integer("windowStart", "Start of the window, epoch milliseconds.", minimum=-(2**63)),
        integer("windowEnd", "End of the window, epoch milliseconds.", minimum=-(2**63)),
    ),
)

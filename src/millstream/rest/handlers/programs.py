"""Programs in the place of Flink's jars: upload, list, run, delete."""

from __future__ import annotations

from collections.abc import Mapping

from millstream.config import options, options_checkpointing
from millstream.rest.documents import operations, programs
from millstream.rest.documents.plan import PlanDocument, plan_of_planned
from millstream.rest.errors import RestError
from millstream.rest.multipart import read_file
from millstream.rest.programs import Programs, RunOrder
from millstream.rest.routes import Call

__all__ = ["delete", "files", "plan", "run", "run_application", "upload"]


def files(call: Call) -> programs.ProgramFiles:
    """Answer `/jars`: none where no programs are taken."""
    kept: Programs | None = call.context.programs
    return programs.program_files(call.context.address, () if kept is None else kept.list())


def upload(call: Call) -> programs.Uploaded:
    """Answer `POST /jars/upload`."""
    kept = _programs(call)
    content, content_type = call.body
    uploaded = kept.add(*read_file(content, content_type))
    return programs.Uploaded(filename=f"{uploaded.location}/{uploaded.program_id}")


def delete(call: Call) -> operations.Empty:
    """Answer `DELETE /jars/:jarid`."""
    _programs(call).remove(call.path["jarid"])
    return operations.Empty()


def run(call: Call) -> programs.JobStarted:
    """Answer `POST /jars/:jarid/run`."""
    kept = _programs(call)
    started = kept.run(call.path["jarid"], _order(call.body, _recovery(call.body)))
    return programs.JobStarted(jobid=started.job_id, application_id=started.application_id)


def run_application(call: Call) -> programs.ApplicationStarted:
    """Answer `POST /jars/:jarid/run-application`."""
    kept = _programs(call)
    body: programs.ApplicationRun = call.body
    if body.application_id is not None:
        raise RestError(400, "a cluster chooses its applications' ids: leave applicationId out")
    started = kept.start(call.path["jarid"], _order(body, _recovery(body)))
    return programs.ApplicationStarted(applicationid=started)


def plan(call: Call) -> PlanDocument:
    """Answer `/jars/:jarid/plan`."""
    kept = _programs(call)
    planned = kept.plan(call.path["jarid"], _order(call.body or programs.ProgramPlan(), {}))
    return PlanDocument(plan=plan_of_planned(planned))


def _order(body: programs.ProgramPlan, more: Mapping[str, str]) -> RunOrder:
    if body.entry_class is not None or body.job_id is not None:
        raise RestError(
            400, "a Python program has one entry and chooses its jobs' ids: leave entryClass and jobId out"
        )
    if body.parallelism is not None and body.parallelism < 1:
        raise RestError(400, f"a job cannot have parallelism {body.parallelism}: it is 1 at least")
    chosen = {} if body.parallelism is None else {options.DEFAULT_PARALLELISM.key: str(body.parallelism)}
    return RunOrder(tuple(body.program_args_list), {**body.flink_configuration, **chosen, **more})


def _recovery(body: programs.ProgramRun) -> dict[str, str]:
    given = {
        options_checkpointing.RECOVERY_PATH.key: body.savepoint_path,
        options_checkpointing.CLAIM_MODE.key: body.claim_mode,
    }
    if body.allow_non_restored_state is not None:
        given[options_checkpointing.IGNORE_UNCLAIMED_STATE.key] = str(body.allow_non_restored_state).lower()
    return {key: value for key, value in given.items() if value is not None}


def _programs(call: Call) -> Programs:
    kept: Programs | None = call.context.programs
    if kept is None:
        raise RestError(
            404,
            "programs cannot be uploaded here: a cluster takes them (millstream cluster start) if web.submit.enable is "
            "true",
        )
    return kept

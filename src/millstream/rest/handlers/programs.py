"""Programs in the place of Flink's jars: upload, list, run, delete."""

from __future__ import annotations

from millstream.config import options, options_checkpointing
from millstream.rest.documents import operations, programs
from millstream.rest.errors import RestError
from millstream.rest.multipart import read_file
from millstream.rest.programs import Programs, RunOrder
from millstream.rest.routes import Call

__all__ = ["delete", "files", "run", "upload"]


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
    body: programs.ProgramRun = call.body
    if body.entry_class is not None or body.job_id is not None:
        raise RestError(
            400, "a Python program has one entry and chooses its jobs' ids: leave entryClass and jobId out"
        )
    if body.parallelism is not None and body.parallelism < 1:
        raise RestError(400, f"a job cannot have parallelism {body.parallelism}: it is 1 at least")
    given = {
        options.DEFAULT_PARALLELISM.key: body.parallelism,
        options_checkpointing.RECOVERY_PATH.key: body.savepoint_path,
        options_checkpointing.CLAIM_MODE.key: body.claim_mode,
    }
    if body.allow_non_restored_state is not None:
        given[options_checkpointing.IGNORE_UNCLAIMED_STATE.key] = str(body.allow_non_restored_state).lower()
    chosen = {key: str(value) for key, value in given.items() if value is not None}
    order = RunOrder(tuple(body.program_args_list), {**body.flink_configuration, **chosen})
    return programs.JobStarted(jobid=kept.run(call.path["jarid"], order))


def _programs(call: Call) -> Programs:
    kept: Programs | None = call.context.programs
    if kept is None:
        raise RestError(
            404,
            "programs cannot be uploaded here: a cluster takes them (millstream cluster start) if web.submit.enable is "
            "true",
        )
    return kept

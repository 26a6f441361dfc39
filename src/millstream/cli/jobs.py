"""`millstream list`, `stop` and `cancel`: see and steer the jobs of this user that run on this machine."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from millstream.runtime.control.channel import RemoteJob
    from millstream.runtime.control.gateway import JobGateway

__all__ = ["absolute", "cancel_command", "choose_job", "list_command", "reporting_errors", "stop_command"]

EXIT_FAILED = 1
EXIT_USAGE = 2
_SHOWN_FAILURES = 5

job_argument: Callable[..., Any] = click.argument("job", required=False, metavar="[JOB]")


@contextmanager
def reporting_errors() -> Iterator[None]:
    """End the command with a message, not a traceback, if millstream raises an error."""
    # Not needed to print help.
    from millstream.base.errors import MillstreamError

    try:
        yield
    except MillstreamError as error:
        click.echo(str(error), err=True)
        sys.exit(EXIT_FAILED)


def choose_job(job: str | None) -> RemoteJob:
    """Return the running job of a name, an id or the beginning of one; the only one that runs for None.

    Ends the command if there is none, or several.
    """
    from millstream.runtime.control.channel import find_jobs

    running = find_jobs()
    if not running:
        click.echo("no job runs on this machine for this user", err=True)
        sys.exit(EXIT_FAILED)
    named = [each for each in running if job is None or each.name == job or each.job_id.startswith(job)]
    if len(named) == 1:
        return named[0]
    said = f'no running job is called "{job}"' if not named else f"{len(named)} jobs run: say which one"
    lines = [said, *(f"  {each.job_id}  {each.name}" for each in named or running)]
    click.echo("\n".join(lines), err=True)
    sys.exit(EXIT_USAGE if named else EXIT_FAILED)


def absolute(directory: str | None) -> str | None:
    """Return a directory as the job's process, which may run elsewhere, is to find it."""
    return directory if directory is None or "://" in directory else os.path.abspath(directory)


@click.command("list")
@click.option(
    "--json", "as_json", is_flag=True, help="Print what is known as JSON, with tracebacks of failures."
)
@click.option("-a", "--all", "show_all", is_flag=True, help="List jobs as well that ended lately.")
@click.option(
    "--ended",
    "directory",
    metavar="DIR",
    help="List the jobs that have ended and left their results in DIR (high-availability.storageDir).",
)
def list_command(as_json: bool, show_all: bool, directory: str | None) -> None:
    """List the jobs that run on this machine for this user, with their last failures."""
    if directory is not None:
        _list_ended(directory, as_json=as_json)
        return
    import json

    from millstream.base.errors import JobExecutionError
    from millstream.config.configuration import Configuration
    from millstream.runtime.control.archive import JobArchive
    from millstream.runtime.control.channel import find_jobs

    found = []
    with reporting_errors():
        jobs: dict[str, JobGateway] = {job.job_id: job for job in find_jobs()}
        if show_all:
            for ended in reversed(JobArchive.of(Configuration.load(os.environ)).jobs()):
                jobs.setdefault(ended.job_id, ended)
        for job in jobs.values():
            try:
                found.append(_describe(job))
            except JobExecutionError:
                continue  # it has just ended
    if as_json:
        click.echo(json.dumps(found, indent=2))
        return
    if not found:
        click.echo("no job runs on this machine for this user")
    for each in found:
        restarts = f", {each['restarts']} restarts" if each["restarts"] else ""
        ended_ms = each["ended_ms"]
        where = f"process {each['pid']}" if ended_ms is None else f"ended {_time(ended_ms)}"
        click.echo(
            f"{each['job_id']}  {each['status']:<10}  {each['name']}  "
            f"({where}, epoch {each['epoch']:,}, {each['records_in']:,} records read{restarts})"
        )
        _echo_failures(each["failures"], count=each["failure_count"])


def _describe(job: JobGateway) -> dict[str, Any]:
    """Return what is listed of a job."""
    from millstream.runtime.control.views import ExceptionsView, JobView

    seen, exceptions = job.view(JobView), job.view(ExceptionsView)
    return {
        "job_id": seen.job_id,
        "name": seen.name,
        "status": seen.status,
        "pid": seen.pid,
        "started_ms": seen.started_ms,
        "ended_ms": seen.ended_ms,
        "restarts": seen.restarts,
        "epoch": seen.epoch,
        "records_in": seen.records_read,
        "failure": seen.failure,
        "failures": [each.failure.to_dict() for each in reversed(exceptions.failures)],
        "failure_count": exceptions.total,
    }


def _list_ended(directory: str, *, as_json: bool) -> None:
    import json
    from dataclasses import asdict

    from millstream.runtime.recovery.results import read_results

    with reporting_errors():
        ended = read_results(directory)
    if as_json:
        documents = [asdict(each) for each in ended]
        for document in documents:
            del document["accumulators"]  # pickled
        click.echo(json.dumps(documents, indent=2))
        return
    if not ended:
        click.echo(f'no job has left its result in "{directory}"')
    for each in ended:
        left = "" if each.clean else ", not cleaned up yet"
        click.echo(f"{each.job_id}  {each.status:<10}  {each.name}  (ended {_time(each.ended_ms)}{left})")
        _echo_failures([failure.to_dict() for failure in each.failures], count=len(each.failures))


def _echo_failures(failures: list[dict[str, Any]], *, count: int) -> None:
    """Print the last failures of a job, the oldest first."""
    shown = failures[-_SHOWN_FAILURES:]
    if count > len(shown):
        click.echo(f"    {count - len(shown)} earlier failures")
    for each in shown:
        delay_ms = each["restart_delay_ms"]
        after = "not started again" if delay_ms is None else f"started again after {delay_ms:,} ms"
        click.echo(
            f"    attempt {each['attempt']} failed {_time(each['timestamp_ms'])}, {after}: {each['message']}"
        )


def _time(timestamp_ms: int) -> str:
    from datetime import UTC, datetime

    return f"{datetime.fromtimestamp(timestamp_ms / 1000, UTC):%Y-%m-%d %H:%M:%S} UTC"


@click.command("cancel")
@job_argument
def cancel_command(job: str | None) -> None:
    """Cancel a running job at once; what it has not committed is removed.

    JOB is the job's name, or its id or the beginning of it; it may be left out if one job runs.
    """
    from millstream.base.signals import result_of
    from millstream.runtime.control.commands import Cancel

    with reporting_errors():
        chosen = choose_job(job)
        ended = result_of(chosen.perform(Cancel()))
    click.echo(f'job {chosen.job_id} "{chosen.name}" has ended: {ended}')


@click.command("stop")
@click.option(
    "-p",
    "--savepoint-path",
    "directory",
    metavar="DIR",
    help="Directory of the savepoint; the configured one.",
)
@click.option(
    "-d", "--drain", is_flag=True, help="Bring the job to its end before: windows and timers fire, for good."
)
@job_argument
def stop_command(job: str | None, directory: str | None, drain: bool) -> None:
    """Make a savepoint of a running job, end the job behind it, and print the savepoint's path.

    JOB is the job's name, or its id or the beginning of it; it may be left out if one job runs.
    """
    from millstream.base.signals import result_of
    from millstream.runtime.control.commands import Stop

    with reporting_errors():
        path = result_of(choose_job(job).perform(Stop(absolute(directory), drain)))
    click.echo(path)

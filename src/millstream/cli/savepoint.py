"""`millstream savepoint`: make a savepoint of a running job, look at one, remove one."""

from __future__ import annotations

import sys
from datetime import UTC
from typing import TYPE_CHECKING

import click

from millstream.cli.jobs import EXIT_FAILED, absolute, choose_job, job_argument, reporting_errors

if TYPE_CHECKING:
    from millstream.runtime.checkpoint.restore import Saved

__all__ = ["command"]


@click.group("savepoint")
def command() -> None:
    """Make a savepoint of a running job, look at one, remove one."""


@command.command("trigger")
@job_argument
@click.argument("directory", required=False, metavar="[DIR]")
def trigger(job: str | None, directory: str | None) -> None:
    """Make a savepoint of a running job, which goes on, and print its path.

    JOB is the job's name, or its id or the beginning of it; it may be left out if one job runs. The savepoint is
    made in DIR, by default in the job's execution.checkpointing.savepoint-dir.
    """
    from millstream.base.signals import result_of
    from millstream.runtime.control.commands import TriggerSavepoint

    with reporting_errors():
        path = result_of(choose_job(job).perform(TriggerSavepoint(absolute(directory))))
    click.echo(path)


@command.command("show")
@click.argument("path", metavar="PATH")
def show(path: str) -> None:
    """Tell what is in the savepoint or checkpoint at PATH; reads and checks every file of it."""
    from millstream.runtime.checkpoint.restore import find_saved

    with reporting_errors():
        click.echo(_describe(find_saved(path)))


@command.command("dispose")
@click.option("--yes", is_flag=True, help="Do not ask.")
@click.argument("path", metavar="PATH")
def dispose(path: str, *, yes: bool) -> None:
    """Remove the savepoint or checkpoint at PATH, with all its files that no other checkpoint shares."""
    from millstream.runtime.checkpoint.restore import discard, find_saved
    from millstream.runtime.control.channel import find_jobs

    with reporting_errors():
        saved = find_saved(path)
        owner = saved.manifest.job_id
        if not saved.manifest.is_savepoint and any(job.job_id == owner for job in find_jobs()):
            click.echo(
                f'checkpoint "{saved.path}" belongs to job {owner}, which runs\n'
                "Hint: The job removes its checkpoints itself.",
                err=True,
            )
            sys.exit(EXIT_FAILED)
        if not yes:
            click.confirm(
                f'Remove {saved.manifest.kind} "{saved.path}" of job "{saved.manifest.job_name}"?', abort=True
            )
        discard(saved)
    click.echo(f"removed {saved.path}")


def _describe(saved: Saved) -> str:
    from datetime import datetime

    from millstream.types.forms import describe_form

    manifest = saved.manifest
    made = datetime.fromtimestamp(manifest.created_ms / 1000, UTC)
    lines = [
        f"{manifest.kind} {manifest.checkpoint_id}  {saved.path}",
        f'job       {manifest.job_id} "{manifest.job_name}", epoch {manifest.epoch:,}',
        f"made      {made:%Y-%m-%d %H:%M:%S} UTC",
        f"size      {manifest.size():,} bytes in {len(manifest.files())} files, all intact",
    ]
    for entry in manifest.operators:
        uid = f'uid "{entry.uid}"' if entry.uid else f"id {entry.operator_id}"
        lines += ["", f"{entry.name}  ({uid}, parallelism {entry.parallelism} of {entry.max_parallelism})"]
        if entry.form:
            lines.append(f"  {entry.form}")
        if entry.key_type is not None:
            lines.append(f"  keys of {describe_form(entry.key_type)}")
        lines += [f"  {name}: {kind}" for name, kind in sorted(entry.states.items())]
        if entry.driver is not None:
            lines.append(f"  {entry.driver.size:,} bytes kept by the driver: positions or committables")
    return "\n".join(lines)

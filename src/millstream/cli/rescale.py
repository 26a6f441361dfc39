"""`millstream rescale`: have a running job go on with another parallelism."""

from __future__ import annotations

import click

from millstream.cli.jobs import choose_job, reporting_errors

__all__ = ["command"]


@click.command("rescale")
@click.argument("job")
@click.argument("parallelism", type=click.IntRange(1))
def command(job: str, parallelism: int) -> None:
    """Have a running job go on with another parallelism, from a checkpoint that it makes at once.

    JOB is the job's name, or its id or the beginning of it. Operators with a parallelism of their own keep it. Results
    are exactly as without. A job that cannot run that parallel goes on as before, and the command fails.
    """
    from millstream.base.signals import result_of
    from millstream.runtime.control.commands import Rescale

    with reporting_errors():
        chosen = choose_job(job)
        outcome = result_of(chosen.perform(Rescale(parallelism)))
    if outcome.checkpoint is None:
        click.echo(f'job {chosen.job_id} "{chosen.name}" runs with parallelism {outcome.parallelism} already')
        return
    click.echo(
        f'job {chosen.job_id} "{chosen.name}" goes on with parallelism {outcome.parallelism}, before '
        f"{outcome.before}, from {outcome.checkpoint}"
    )

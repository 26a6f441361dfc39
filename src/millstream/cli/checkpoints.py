"""`millstream checkpoints`: what has become of a job's checkpoints, and how long and large they were."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

import click

from millstream.cli.jobs import EXIT_FAILED, EXIT_USAGE, choose_job, reporting_errors
from millstream.cli.text import columns, format_moment, format_ms, format_size

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from millstream.runtime.control.gateway import JobGateway
    from millstream.runtime.control.views import CheckpointsView, CheckpointView, SummaryView

__all__ = ["command"]


@click.command("checkpoints")
@click.option("--json", "as_json", is_flag=True, help="Print all that is known as JSON.")
@click.argument("job", required=False, metavar="[JOB]")
def command(job: str | None, as_json: bool) -> None:
    """Show a job's checkpoints: the last ones with their sizes and durations, and why one failed.

    JOB is the job's name, or its id or the beginning of it, of a job that runs or ended lately; it may be left out if
    one job runs.
    """
    import json

    from millstream.runtime.control.codec import to_plain
    from millstream.runtime.control.views import CheckpointsView

    with reporting_errors():
        found = _find(job)
        view = found.view(CheckpointsView)
    if as_json:
        click.echo(json.dumps({"job_id": found.job_id, "name": found.name, **to_plain(view)}, indent=2))
        return
    click.echo(f'job {found.job_id} "{found.name}"')
    click.echo("\n".join(_render(view)))


def _find(job: str | None) -> JobGateway:
    """Return the job that runs, or else the one of that name or id that has ended lately."""
    from millstream.config.configuration import Configuration
    from millstream.runtime.control.archive import JobArchive
    from millstream.runtime.control.channel import find_jobs

    def is_meant(each: JobGateway) -> bool:
        return each.name == job or each.job_id.startswith(job or "")

    if job is None or any(map(is_meant, find_jobs())):
        return choose_job(job)
    ended = [each for each in JobArchive.of(Configuration.load(os.environ)).jobs() if is_meant(each)]
    if len(ended) == 1:
        return ended[0]
    said = f'no job that runs or ended lately is called "{job}"'
    if ended:
        said = f"{len(ended)} jobs of that name ended lately: say which one by its id"
    click.echo("\n".join([said, *(f"  {each.job_id}  {each.name}" for each in ended)]), err=True)
    sys.exit(EXIT_USAGE if ended else EXIT_FAILED)


def _render(view: CheckpointsView) -> Iterator[str]:
    config, counts = view.config, view.counts
    every = "makes none" if config.interval_ms is None else f"one each {format_ms(config.interval_ms)}"
    where = config.directory or "a temporary directory"
    yield f"{every}, {config.retained} retained, in {where}; given up after {format_ms(config.timeout_ms)}"
    yield (
        f"{counts.triggered:,} begun: {counts.completed:,} completed, {counts.failed:,} failed, "
        f"{counts.in_progress:,} in progress; {counts.restored:,} restored"
    )
    if view.latest_restored is not None:
        restored = view.latest_restored
        yield f"goes on from {restored.path} since {format_moment(restored.restored_ms)}"
    if view.latest_completed is not None:
        yield ""
        yield from columns(
            [
                ["", "least", "mean", "median", "99 %", "greatest"],
                _summary("duration", view.duration_ms, format_ms),
                _summary("written", view.checkpointed_size, format_size),
                _summary("state", view.state_size, format_size),
            ],
            right=range(1, 6),
        )
    if view.history:
        yield ""
        heads = ["id", "kind", "status", "begun", "duration", "written", "state", "epoch"]
        yield from columns([heads, *map(_row, view.history)], right=[0, 4, 5, 6, 7])
    for each in view.history:
        if each.failure is not None:
            yield f"{_kind(each)} {each.checkpoint_id} failed: {each.failure}"
    latest = view.latest_completed
    if latest is not None and latest.path is not None:
        yield f"latest: {latest.path}"
    if view.latest_savepoint is not None:
        yield f"latest savepoint: {view.latest_savepoint.path}"


def _summary(name: str, figures: SummaryView, form: Callable[[float], str]) -> list[str]:
    return [name, *(form(each) for each in (figures.min, figures.avg, figures.p50, figures.p99, figures.max))]


def _row(each: CheckpointView) -> list[str]:
    done = each.status == "COMPLETED"
    return [
        str(each.checkpoint_id),
        _kind(each),
        "removed since" if done and each.is_discarded else each.status.lower().replace("_", " "),
        format_moment(each.triggered_ms),
        "-" if each.duration_ms is None else format_ms(each.duration_ms),
        format_size(each.checkpointed_size) if done else "-",
        format_size(each.state_size) if done else "-",
        f"{each.epoch:,}",
    ]


def _kind(each: CheckpointView) -> str:
    return ("stop savepoint" if each.stops else "savepoint") if each.is_savepoint else "checkpoint"

"""`millstream explain-watermark`: which source split holds back the watermark of a running job, and what to do."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence, Set
from typing import Any

import click

__all__ = ["command"]

EXIT_FAILED = 1
EXIT_USAGE = 2
_SHOWN = 20

Document = dict[str, Any]


@click.command("explain-watermark")
@click.option("--json", "as_json", is_flag=True, help="Print what is known as JSON.")
@click.option("--all", "show_all", is_flag=True, help=f"Show every split, not the {_SHOWN} lowest only.")
@click.argument("job", required=False, metavar="[JOB]")
def command(job: str | None, *, as_json: bool, show_all: bool) -> None:
    """Tell what holds back the watermark of a job that runs on this machine for this user.

    JOB is the job's name, or its id or the beginning of it; it may be left out if one job runs. What there is to
    tell is known when its first epoch has ended.
    """
    # Not needed to print help.
    from millstream.base.errors import MillstreamError
    from millstream.runtime.control.status_files import read_running_jobs

    try:
        running = read_running_jobs()
        running += _starting({each["job_id"] for each in running})
    except MillstreamError as error:
        click.echo(str(error), err=True)
        sys.exit(EXIT_FAILED)
    found = _choose(running, job)
    if "epoch" not in found:
        _tell_starting(found)
    if as_json:
        click.echo(json.dumps(found, indent=2))
    else:
        click.echo(_render(found, most=None if show_all else _SHOWN))


def _starting(known: Set[str]) -> list[Document]:
    """Return the jobs that run and have not told anything of their watermarks yet."""
    from millstream.runtime.control.channel import find_jobs

    return [
        {"job_id": job.job_id, "name": job.name, "started_ms": job.started_ms}
        for job in find_jobs()
        if job.job_id not in known
    ]


def _tell_starting(job: Document) -> None:
    from millstream.base.clock import SystemClock
    from millstream.runtime.watermarks.advice import format_duration

    ran = format_duration(max(SystemClock().now_ms() - job["started_ms"], 0))
    click.echo(
        f'job {job["job_id"]} "{job["name"]}" began {ran} ago, and its first epoch has not ended\n'
        "Detail: Watermarks are known at the end of each epoch.\n"
        "Hint: Ask again in a second. If it stays so, see what a function or source waits for: `millstream list`, "
        "or the job's own output.",
        err=True,
    )
    sys.exit(EXIT_FAILED)


def _choose(running: Sequence[Document], job: str | None) -> Document:
    if not running:
        click.echo("no job runs on this machine for this user", err=True)
        sys.exit(EXIT_FAILED)
    named = [each for each in running if job is None or each["name"] == job or each["job_id"].startswith(job)]
    if len(named) == 1:
        return named[0]
    said = f'no running job is called "{job}"' if not named else f"{len(named)} jobs run: say which one"
    lines = [said, *(f"  {each['job_id']}  {each['name']}" for each in named or running)]
    click.echo("\n".join(lines), err=True)
    sys.exit(EXIT_USAGE if named else EXIT_FAILED)


def _render(document: Document, *, most: int | None) -> str:
    from millstream.runtime.watermarks.advice import format_timestamp

    lines = [f'job {document["job_id"]} "{document["name"]}", epoch {document["epoch"]:,}']
    lines.append(f"watermark  {format_timestamp(document['watermark_ms'])}")
    if document["batch"]:
        return "\n".join(
            [*lines, "The job runs in batch mode: its only watermark comes at the end of the input."]
        )
    facts = document["facts"]
    if not facts:
        return "\n".join([*lines, "All of its sources have ended."])
    rows = [_row(fact) for fact in facts[:most]]
    lines += ["", *_table(["", "operator", "subtask", "split", "watermark", "last event", "state"], rows)]
    if most is not None and len(facts) > most:
        lines.append(f"... and {len(facts) - most} more; --all shows them")
    for advice in _advice(document):
        lines += ["", *advice]
    return "\n".join(lines)


def _row(fact: Document) -> list[str]:
    from millstream.runtime.watermarks.advice import format_timestamp

    state = "idle" if fact["idle"] else "waits for others" if fact["held_by_alignment"] else "active"
    return [
        ">" if fact["holds_back"] else "",
        fact["operator"],
        str(fact["subtask"]),
        fact["split"] or "-",
        format_timestamp(fact["watermark_ms"]),
        format_timestamp(fact["event_time_ms"]),
        state,
    ]


def _table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(len(cell) for cell in column) for column in zip(header, *rows, strict=True)]
    return [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in (header, *rows)
    ]


def _advice(document: Document) -> list[list[str]]:
    """Return reason and hint of each way in which splits hold back, with the splits it is true of."""
    from millstream.runtime.control.views import WatermarkFact
    from millstream.runtime.watermarks.advice import format_duration, format_timestamp

    told: dict[tuple[str | None, str | None], list[WatermarkFact]] = {}
    for each in document["facts"]:
        fact = WatermarkFact(**each)
        if fact.holds_back:
            told.setdefault((fact.reason, fact.hint), []).append(fact)
    advice = []
    for (reason, hint), facts in told.items():
        first = facts[0]
        others = f" and {len(facts) - 1} more" if len(facts) > 1 else ""
        lines = [f"held back by {first.place}{others}"]
        if first.since_ms is not None:
            ago = format_duration(max(document["written_ms"] - first.since_ms, 0))
            lines.append(f"  since   {format_timestamp(first.since_ms)} UTC ({ago} ago)")
        if first.behind_ms:
            lines.append(f"  behind  {format_duration(first.behind_ms)}")
        if reason:
            lines.append(f"  reason  {reason}")
        if hint:
            lines.append(f"  hint    {hint}")
        advice.append(lines)
    return advice

"""`millstream query`: what a key has in the state of a running job."""

from __future__ import annotations

import json

import click

from millstream.cli.jobs import choose_job, reporting_errors

__all__ = ["command"]


@click.command("query")
@click.option(
    "--window",
    nargs=2,
    type=int,
    metavar="START END",
    help="State of a window: its start and end, epoch milliseconds.",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON: the value's text and type.")
@click.argument("job")
@click.argument("uid")
@click.argument("state")
@click.argument("key")
def command(
    job: str, uid: str, state: str, key: str, *, window: tuple[int, int] | None, as_json: bool
) -> None:
    """Show what KEY has in the keyed STATE of the operator UID of a running job, as of the last epoch that has ended.

    JOB is the job's name, or its id or the beginning of it. KEY is written as Python writes it: 17, "'17'" for the
    text, "('a', 1)"; any other text stands for itself. A key that has nothing shows None.
    """
    from millstream.base.signals import result_of
    from millstream.runtime.control.codec import to_plain
    from millstream.runtime.control.commands import QueryState

    with reporting_errors():
        answer = result_of(choose_job(job).perform(QueryState(uid, state, key, window)))
    click.echo(json.dumps(to_plain(answer), indent=2, ensure_ascii=False) if as_json else answer.value)

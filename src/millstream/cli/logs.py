"""`millstream logs`: what an application of the cluster writes."""

from __future__ import annotations

import sys

import click

from millstream.cli.cluster import running_cluster
from millstream.cli.jobs import EXIT_FAILED, EXIT_USAGE, reporting_errors
from millstream.cli.options import cluster_option

__all__ = ["command"]


@click.command("logs")
@click.option("-f", "--follow", "following", is_flag=True, help="Go on until the application has ended.")
@cluster_option
@click.argument("application", required=False, metavar="[APPLICATION]")
def command(application: str | None, following: bool, cluster: str | None) -> None:
    """Print what an application of the cluster has written, since its process was started last.

    APPLICATION is its name, or its id or the beginning of it; by default the one that was submitted last.
    """
    from millstream.cli.submission import follow

    with reporting_errors():
        running = running_cluster(cluster)
        known = running.applications()
        named = [
            each
            for each in known
            if application is None or each.name == application or each.application_id.startswith(application)
        ]
        if application is None:
            named = named[-1:]
        if len(named) != 1:
            said = "no application" if not named else f"{len(named)} applications"
            click.echo(f'{said} called "{application}"' if application else "no application", err=True)
            for each in named or known:
                click.echo(f"  {each.application_id}  {each.name}  {each.status}", err=True)
            sys.exit(EXIT_USAGE if named else EXIT_FAILED)
        sys.exit(follow(running, named[0].application_id, until_end=following))

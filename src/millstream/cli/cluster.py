"""`millstream cluster`: a session cluster on this machine: one Spark session, many jobs."""

from __future__ import annotations

import os
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click

from millstream.cli.jobs import EXIT_FAILED, reporting_errors
from millstream.cli.options import cluster_option, config_option, parse_definitions

if TYPE_CHECKING:
    from millstream.cluster.applications import Application
    from millstream.cluster.door import RemoteCluster

__all__ = ["command", "default_directory", "running_cluster"]


def default_directory() -> Path:
    """Return where a cluster keeps its applications unless it is told another place."""
    base = os.environ.get("XDG_STATE_HOME") or os.path.expanduser("~/.local/state")
    return Path(base, "millstream", "cluster")


def running_cluster(directory: str | None) -> RemoteCluster:
    """Return the cluster that runs; ends the command if there is none."""
    from millstream.cluster.door import find_cluster

    found = find_cluster(directory)
    if found is None:
        click.echo("no cluster of this user runs on this machine", err=True)
        click.echo("Hint: Start one: millstream cluster start", err=True)
        sys.exit(EXIT_FAILED)
    return found


@click.group("cluster")
def command() -> None:
    """Run jobs side by side in one Spark session that stays.

    Programs run in processes of their own: one that fails touches no other. What was submitted goes on from its last
    checkpoint when a process, the session or the cluster itself is killed.
    """


@command.command()
@config_option
@click.option("--target", help="Spark master of the session, or local for jobs without Spark.")
@click.option(
    "-D",
    "definitions",
    multiple=True,
    metavar="KEY=VALUE",
    callback=parse_definitions,
    help="Set an option of the session, and of jobs that do not set it. May be repeated.",
)
@click.option(
    "--directory",
    type=click.Path(file_okay=False),
    help="Where applications are kept; ~/.local/state/millstream/cluster.",
)
def start(config: str | None, target: str | None, definitions: dict[str, str], directory: str | None) -> None:
    """Start a cluster in the background. Applications that were submitted to its directory before go on."""
    from millstream.cli.options import TARGET_KEY, JobOptions
    from millstream.cluster.starting import start_cluster

    JobOptions(definitions=definitions, target=target, config=config).export()
    given = {**({TARGET_KEY: target} if target else {}), **definitions}
    settings = {"spark.scheduler.mode": "FAIR", **given}
    with reporting_errors():
        cluster = start_cluster(directory or default_directory(), settings)
        waiting = [each for each in cluster.applications() if not each.has_ended]
    click.echo(f"cluster runs: process {cluster.pid}, target {cluster.facts['target']}")
    click.echo(f"directory: {cluster.facts['directory']}")
    click.echo(f"dashboard and REST API: {cluster.facts['rest']}")
    if waiting:
        click.echo(f"{len(waiting)} applications go on")
    click.echo("submit a program: millstream run -d job.py")


@command.command()
@cluster_option
def stop(cluster: str | None) -> None:
    """End the cluster and its session. Applications that run go on when it is started again."""
    from millstream.base.clock import SystemClock
    from millstream.runtime.control.status_files import is_alive, process_start

    with reporting_errors():
        running = running_cluster(cluster)
        began = process_start(running.pid)
        running.stop()
        clock = SystemClock()
        while is_alive(running.pid, began):
            clock.wait(0.05)
    click.echo("cluster has ended")


@command.command()
@cluster_option
@click.option("--json", "as_json", is_flag=True, help="Print what is known as JSON.")
def status(cluster: str | None, as_json: bool) -> None:
    """Show the cluster and its applications."""
    import json

    from millstream.cluster.applications import application_to_json

    with reporting_errors():
        running = running_cluster(cluster)
        applications = running.applications()
    if as_json:
        document = {
            "pid": running.pid,
            **running.facts,
            "applications": [application_to_json(each) for each in applications],
        }
        click.echo(json.dumps(document, indent=2))
        return
    click.echo(
        f"cluster: process {running.pid}, target {running.facts['target']}, since {_time(running.facts['started_ms'])}"
    )
    for each in applications:
        click.echo(_line(each))
        if each.message:
            click.echo("    " + each.message.replace("\n", "\n    "))
    if not applications:
        click.echo("no application was submitted yet: millstream run -d job.py")


def _line(application: Application) -> str:
    process = f", process {application.pid}" if application.pid is not None else ""
    starts = f", started {application.starts} times" if application.starts > 1 else ""
    return (
        f"{application.application_id}  {application.status:<9}  {application.name}  "
        f"(since {_time(application.since_ms)}{process}{starts})"
    )


def _time(timestamp_ms: int) -> str:
    return f"{datetime.fromtimestamp(timestamp_ms / 1000, UTC):%Y-%m-%d %H:%M:%S} UTC"

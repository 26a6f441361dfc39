"""Gives a program to a running cluster, for `millstream run -d` and `--target session`."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from millstream.cli.cluster import running_cluster
from millstream.cli.jobs import EXIT_FAILED, reporting_errors
from millstream.cli.options import (
    FILE_VARIABLE,
    SESSION_TARGET,
    TARGET_KEY,
    JobOptions,
    file_settings,
    inherited_settings,
)

if TYPE_CHECKING:
    from millstream.cluster.door import RemoteCluster

__all__ = ["follow", "submit"]

_LOOK_S = 0.2


def submit(
    program: str,
    arguments: Sequence[str],
    options: JobOptions,
    *,
    pyflink: bool,
    detached: bool,
    cluster: str | None = None,
) -> int:
    """Submit a program; return the exit code.

    Args:
        program: A Python file.
        arguments: Its own arguments.
        options: All of them travel with it, also those of configuration files and of the environment.
        pyflink: Whether `pyflink` in it means millstream.
        detached: Whether to return at once; else its output is shown until it has ended.
        cluster: Directory of the cluster, if several may run.
    """
    from millstream.cluster.applications import Program

    if options.target not in (None, SESSION_TARGET):
        click.echo(f"--detached runs in the cluster's session, not on {options.target}", err=True)
        click.echo("Hint: Leave --target out.", err=True)
        return 2
    given = replace(options, target=None)
    with reporting_errors():
        running = running_cluster(cluster)
        application = running.submit(
            Program(
                path=os.path.abspath(program),
                arguments=tuple(arguments),
                options=_frozen(given),
                working_directory=os.getcwd(),
                pyflink=pyflink,
            )
        )
        click.echo(f"application {application.application_id}", err=not detached)
        if detached:
            return 0
        return follow(running, application.application_id)


def follow(cluster: RemoteCluster, application_id: str, *, until_end: bool = True) -> int:
    """Print what an application writes; return 0 if it ends well, 1 if it does not, behind its end.

    Args:
        cluster: Whose.
        application_id: Which.
        until_end: Whether to wait for its end, rather than to print what is there.
    """
    from millstream.base.clock import SystemClock

    clock = SystemClock()
    shown: dict[Path, int] = {}
    while True:
        found = next(
            each for each in cluster.applications() if each.application_id.startswith(application_id)
        )
        _show_more(cluster.log_file(found.application_id), shown)
        if found.has_ended or not until_end:
            break
        clock.wait(_LOOK_S)
    if found.has_ended and until_end:
        click.echo(f"application {found.application_id} has ended: {found.status}", err=True)
    return EXIT_FAILED if found.status == "FAILED" else 0


def _frozen(options: JobOptions) -> dict[str, str]:
    """Return all options as they are now, so that the program runs with them whenever it is started again."""
    if options.config is not None:
        os.environ[FILE_VARIABLE] = options.config
    settings = {setting.key: str(setting.value) for setting in file_settings()}
    settings |= {key: str(value) for key, value in inherited_settings().items()}
    settings.pop(TARGET_KEY, None)
    return settings | options.settings()


def _show_more(log: Path, shown: dict[Path, int]) -> None:
    """Print what was added to a log since it was shown; each start of an application has one of its own."""
    try:
        with open(log, "rb") as file:
            file.seek(shown.get(log, 0))
            added = file.read()
    except FileNotFoundError:  # it has not been started yet
        return
    shown[log] = shown.get(log, 0) + len(added)
    sys.stdout.write(added.decode("utf-8", errors="replace"))
    sys.stdout.flush()

"""Runs a program in application mode, for `millstream run --application` and `millstream run-application`."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from dataclasses import replace

import click

from millstream.cli.jobs import reporting_errors
from millstream.cli.options import JobOptions

__all__ = ["driver_command", "run_application"]

REST_KEY = "millstream.rest.enabled"


def run_application(program: str, arguments: Sequence[str], options: JobOptions, *, pyflink: bool) -> int:
    """Run a program as an application; return the exit code, see `cluster/application_mode.py`.

    Args:
        program: A Python file.
        arguments: Its own arguments.
        options: What was asked for; the rest of the configuration is read as `millstream run` reads it.
        pyflink: Whether `pyflink` in it means millstream.
    """
    from millstream.cluster.application_mode import supervise
    from millstream.config.configuration import Configuration
    from millstream.config.options_checkpointing import HA_DIRECTORY

    options.export()
    with reporting_errors():
        configuration = Configuration.load(os.environ)
        directory = configuration.get(HA_DIRECTORY)
    if not configuration.contains_key(REST_KEY):
        options = replace(options, definitions={REST_KEY: "true", **options.definitions})
    options.export()
    if directory is None:
        click.echo(
            "warning: high-availability.storageDir is not set, so nothing outlives a driver that is lost, and the "
            "application ends with it",
            err=True,
        )
    switches = ["--progress" if options.progress else "--no-progress"]
    switches += ["--verbose"] * options.verbose + ["--pyflink"] * pyflink
    command = driver_command(program, arguments, switches, recover=directory is not None)
    return supervise(command, os.environ, outlives=directory is not None, tell=_tell)


def driver_command(
    program: str, arguments: Sequence[str], switches: Sequence[str], *, recover: bool
) -> list[str]:
    """Return the command of a driver; other options travel in its environment.

    >>> driver_command("job.py", ["-x"], ["--verbose"], recover=True)[1:]
    ['-m', 'millstream.cli', 'run', '--verbose', '--recover', 'job.py', '-x']
    """
    asked = [*switches, *["--recover"] * recover]
    return [sys.executable, "-m", "millstream.cli", "run", *asked, program, *arguments]


def _tell(line: str) -> None:
    click.echo(f"millstream: {line}", err=True)

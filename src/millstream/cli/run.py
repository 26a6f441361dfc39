"""`millstream run`: run a program."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import Any

import click

from millstream.cli.options import (
    SESSION_TARGET,
    SUPERVISOR_VARIABLE,
    JobOptions,
    cluster_option,
    install_pyflink,
    job_options,
    pyflink_option,
    recovery_options,
)

__all__ = ["application_command", "command", "run_with_options"]


@click.command("run", context_settings={"allow_interspersed_args": False})
@job_options
@recovery_options
@click.option(
    "-d",
    "--detached",
    is_flag=True,
    help="Give the program to the running cluster and return; `--target session` without it waits for its end.",
)
@click.option(
    "--application",
    is_flag=True,
    help="Application mode: watch the program's process, start it again where it was lost, serve the REST API and "
    "dashboard; the exit code says how it ended.",
)
@cluster_option
@pyflink_option
@click.argument("program", type=click.Path(exists=True, dir_okay=False, readable=True), metavar="JOB.PY")
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED, metavar="[ARGS]...")
def command(
    program: str,
    arguments: tuple[str, ...],
    pyflink: bool,
    detached: bool,
    application: bool,
    cluster: str | None,
    **options: Any,
) -> None:
    """Run the program JOB.PY with its own ARGS.

    Options for millstream stand before JOB.PY; they have the last word over the environment and over
    configuration files, a program's own settings over them.
    """
    if application:
        if detached or cluster is not None or options["target"] == SESSION_TARGET:
            raise click.UsageError(
                "--application runs a program outside of clusters: it goes neither with --detached, --cluster nor with "
                f"--target {SESSION_TARGET}"
            )
        # Not needed to run a program in this process.
        from millstream.cli.application import run_application

        sys.exit(run_application(program, arguments, JobOptions(**options), pyflink=pyflink))
    if detached or options["target"] == SESSION_TARGET:
        # Not needed to run a program in this process.
        from millstream.cli.submission import submit

        given = JobOptions(**options)
        sys.exit(submit(program, arguments, given, pyflink=pyflink, detached=detached, cluster=cluster))
    install_pyflink(pyflink)
    sys.exit(run_with_options(program, arguments, JobOptions(**options)))


def _run_application(**options: Any) -> None:
    assert command.callback is not None
    command.callback(**options, application=True, cluster=None, detached=False)


application_command = click.Command(
    "run-application",
    params=[each for each in command.params if each.name not in ("application", "cluster", "detached")],
    callback=_run_application,
    help="Run the program JOB.PY with its own ARGS in application mode: `millstream run --application`.",
    context_settings={"allow_interspersed_args": False},
)
"""Flink's name for `run --application`."""


def run_with_options(program: str, arguments: Sequence[str], options: JobOptions) -> int:
    """Run a program and return its exit code."""
    # Neither is needed to print help or a usage error.
    from millstream.cli.progress import showing_progress
    from millstream.cli.script import EXIT_FAILED, JobRecorder, run_program
    from millstream.config.configuration import Configuration
    from millstream.config.options_operating import LOG_FORMAT
    from millstream.runtime.reporting.log_lines import set_up_logging

    if SUPERVISOR_VARIABLE in os.environ:
        from millstream.cluster.application_mode import end_with_supervisor

        end_with_supervisor(os.environ)
    options.export()
    configuration = Configuration.load(os.environ)
    if options.verbose or configuration.get(LOG_FORMAT) == "json":
        set_up_logging(configuration)
    display = showing_progress(wanted=options.progress)
    recorder = JobRecorder()
    code = run_program(program, arguments, verbose=options.verbose, display=display, recorder=recorder)
    last = recorder.jobs[-1] if recorder.jobs else None
    is_application = SUPERVISOR_VARIABLE in os.environ
    if code == EXIT_FAILED and last is not None and last.status() == "CANCELED":
        # What was cancelled on purpose is not to be started again and again.
        return 0 if last.ended_before or is_application else code
    return code

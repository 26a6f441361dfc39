"""`millstream sql`: a shell, or a script, of SQL."""

from __future__ import annotations

import sys
from typing import Any

import click

from millstream.cli.options import (
    TARGET_KEY,
    JobOptions,
    file_settings,
    inherited_settings,
    job_options,
    recovery_options,
)

__all__ = ["command"]

_PATH = click.Path(exists=True, dir_okay=False, readable=True)


@click.command("sql")
@job_options
@recovery_options
@click.option(
    "-f", "--file", "files", multiple=True, type=_PATH, help="Execute this script and end; may be repeated."
)
@click.option("-i", "--init", type=_PATH, help="Execute this script first: tables, views, options.")
def command(files: tuple[str, ...], init: str | None, **options: Any) -> None:
    """Execute SQL: a shell, or the scripts given with -f.

    What is piped in is a script too. Jobs run in this process (`--target local`) unless an option says otherwise. A
    script is parsed as a whole before its first statement is executed; the command ends when the jobs of its INSERTs
    have ended. --from-savepoint and --recover are for a script with one job, a statement set if need be.
    """
    given = JobOptions(**options)
    if files:
        given.export()
        _default_target()
        sys.exit(_run_scripts(files, init, given))
    given.export()
    _default_target()
    if not sys.stdin.isatty():
        sys.exit(_run_scripts(("-",), init, given))
    # Not needed to print help.
    from millstream.table.session.shell import Shell

    sys.exit(Shell().run(init))


def _default_target() -> None:
    """Have jobs run in this process unless something says where: a shell is to answer at once."""
    import json
    import os

    from millstream.cli.options import CONFIG_VARIABLE

    settings = inherited_settings()
    if TARGET_KEY not in settings and not any(each.key == TARGET_KEY for each in file_settings()):
        os.environ[CONFIG_VARIABLE] = json.dumps({**settings, TARGET_KEY: "local"})


def _run_scripts(files: tuple[str, ...], init: str | None, options: JobOptions) -> int:
    # Not needed to print help.
    from millstream.cli.progress import showing_progress
    from millstream.cli.script import JobRecorder, run_action
    from millstream.table.session.scripts import run_scripts

    display = showing_progress(wanted=options.progress)
    return run_action(
        lambda: run_scripts(files, init),
        files[0],
        verbose=options.verbose,
        recorder=JobRecorder(),
        display=display,
    )

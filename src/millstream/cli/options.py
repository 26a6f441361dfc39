"""The options that `run`, `demo` and `info` share, and how they reach the program.

A program makes its own environment, so options travel to it as the environment variable `MILLSTREAM_CONFIG`,
a JSON object of option keys and values, which `Configuration` reads (and the file that `--config` names as
`MILLSTREAM_CONF`)::

    -p 4 --target local -D a.b=c   ->   {"parallelism.default": "4", "execution.target": "local", "a.b": "c"}
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from millstream.config.config_files import FileSetting

__all__ = [
    "CONFIG_VARIABLE",
    "FILE_VARIABLE",
    "SESSION_TARGET",
    "SUPERVISOR_VARIABLE",
    "TARGET_KEY",
    "JobOptions",
    "check_settings",
    "cluster_option",
    "config_option",
    "file_settings",
    "inherited_settings",
    "install_pyflink",
    "job_options",
    "parse_definitions",
    "pyflink_option",
    "recovery_options",
]

CONFIG_VARIABLE = "MILLSTREAM_CONFIG"
FILE_VARIABLE = "MILLSTREAM_CONF"
PARALLELISM_KEY = "parallelism.default"
TARGET_KEY = "execution.target"
SESSION_TARGET = "session"
"""The target of jobs that a cluster runs; a cluster's own jobs have its master for a target."""
SUPERVISOR_VARIABLE = "MILLSTREAM_SUPERVISOR"
"""Set in the environment of an application's driver, see `cluster/application_mode.py`."""
DEBUG_KEY = "millstream.debug"
VERBOSE_KEY = "millstream.verbose"
SAVEPOINT_KEY = "execution.state-recovery.path"
ALLOW_NON_RESTORED_KEY = "execution.state-recovery.ignore-unclaimed-state"
CLAIM_MODE_KEY = "execution.state-recovery.claim-mode"
RECOVER_KEY = "millstream.recover"

Decorated = TypeVar("Decorated", bound=Callable[..., Any])


@dataclass(frozen=True)
class JobOptions:
    """What the user asked for on the command line.

    Attributes:
        definitions: Options by key, as given with `-D`.
        parallelism: Default parallelism; None for the configured one.
        target: Where to run; None for the configured one.
        debug: Run in this process, so that `breakpoint()` works.
        verbose: Show all frames, also those of millstream and Java.
        progress: Show progress; None if standard error is a terminal.
        from_savepoint: Checkpoint or savepoint to begin from.
        allow_non_restored_state: Whether state in it may be dropped that no operator takes.
        claim_mode: Who owns it, NO_CLAIM or CLAIM; None for the configured mode.
        recover: Go on where a driver was lost.
        config: A configuration file, in place of those that are found.
        python_files: Files that slots are to import, with commas between; as of `python.files`.
        python_archives: Archives that are unpacked for slots; as of `python.archives`.
        python_requirements: Packages that slots need; as of `python.requirements`.
        python_executable: The slots' interpreter; as of `python.executable`.
    """

    definitions: dict[str, str]
    parallelism: int | None = None
    target: str | None = None
    debug: bool = False
    verbose: bool = False
    progress: bool | None = None
    from_savepoint: str | None = None
    allow_non_restored_state: bool = False
    claim_mode: str | None = None
    recover: bool = False
    config: str | None = None
    python_files: str | None = None
    python_archives: str | None = None
    python_requirements: str | None = None
    python_executable: str | None = None

    def settings(self) -> dict[str, str]:
        """Return all of it as option keys and values; `-D` has the last word."""
        settings: dict[str, str] = {}
        if self.parallelism is not None:
            settings[PARALLELISM_KEY] = str(self.parallelism)
        if self.debug:
            settings |= {DEBUG_KEY: "true", TARGET_KEY: "local"}
        if self.target is not None:
            settings[TARGET_KEY] = self.target
        if self.verbose:
            settings[VERBOSE_KEY] = "true"
        if self.from_savepoint is not None:
            settings[SAVEPOINT_KEY] = self.from_savepoint
        if self.allow_non_restored_state:
            settings[ALLOW_NON_RESTORED_KEY] = "true"
        if self.recover:
            settings[RECOVER_KEY] = "true"
        if self.claim_mode is not None:
            settings[CLAIM_MODE_KEY] = self.claim_mode
        shipped = {
            "python.files": self.python_files,
            "python.archives": self.python_archives,
            "python.requirements": self.python_requirements,
            "python.executable": self.python_executable,
        }
        settings |= {key: value for key, value in shipped.items() if value is not None}
        return settings | self.definitions

    def export(self) -> None:
        """Put the options into this process's environment, over those that are there.

        Raises:
            click.UsageError: If a value does not fit its option, the variable holds something else, or a
                configuration file cannot be read.
        """
        if self.config is not None:
            os.environ[FILE_VARIABLE] = self.config
        settings = self.settings()
        check_settings(settings)
        file_settings()
        os.environ[CONFIG_VARIABLE] = json.dumps(inherited_settings() | settings)


def inherited_settings() -> dict[str, Any]:
    """Return the options that this process's environment holds.

    Raises:
        click.UsageError: If the variable does not hold a JSON object.
    """
    text = os.environ.get(CONFIG_VARIABLE, "")
    try:
        settings = json.loads(text) if text.strip() else {}
    except ValueError as error:
        raise click.UsageError(f"{CONFIG_VARIABLE} is not JSON: {error}") from error
    if not isinstance(settings, dict):
        raise click.UsageError(f"{CONFIG_VARIABLE} holds a JSON {type(settings).__name__}, not an object")
    return settings


def file_settings() -> list[FileSetting]:
    """Return the options of configuration files.

    Raises:
        click.UsageError: If one cannot be read, or has a value that does not fit.
    """
    # Not needed to print help.
    from millstream.base.errors import ConfigurationError
    from millstream.config.config_files import read_settings

    try:
        return read_settings(os.environ)
    except ConfigurationError as error:
        raise click.UsageError(str(error)) from error


def check_settings(settings: dict[str, str]) -> None:
    """Check values, and warn of keys that look mistyped or have no effect; others may be a program's own.

    Raises:
        click.UsageError: If a value does not fit its option.
    """
    # Not needed to print help.
    from millstream.base.errors import ConfigurationError
    from millstream.config.options import find_option, warning_about
    from millstream.config.targets import check_target

    for key, value in settings.items():
        option = find_option(key)
        if option is not None:
            try:
                converted = option.convert(value)
                if key == TARGET_KEY:
                    check_target(converted)
            except ConfigurationError as error:
                raise click.UsageError(str(error)) from error
        elif (warning := warning_about(key)) is not None:
            click.echo(f"warning: {warning}", err=True)


def parse_definitions(
    _context: click.Context | None, _parameter: click.Parameter | None, values: tuple[str, ...]
) -> dict[str, str]:
    """Return `key=value` pairs as a dict; a later one replaces an earlier one.

    >>> parse_definitions(None, None, ("a.b=c=d", "e="))
    {'a.b': 'c=d', 'e': ''}

    Raises:
        click.BadParameter: If one has no key or no equals sign.
    """
    definitions = {}
    for text in values:
        key, separator, value = text.partition("=")
        if not separator or not key.strip():
            raise click.BadParameter(f'"{text}" is not of the form key=value')
        definitions[key.strip()] = value.strip()
    return definitions


config_option: Callable[[Decorated], Decorated] = click.option(
    "--config",
    type=click.Path(exists=True, dir_okay=False, resolve_path=True),
    help="Configuration file, millstream.toml or Flink's config.yaml, in place of those that are found.",
)
cluster_option: Callable[[Decorated], Decorated] = click.option(
    "--cluster", metavar="DIR", help="Directory of the cluster, if several run."
)
pyflink_option: Callable[[Decorated], Decorated] = click.option(
    "--pyflink", is_flag=True, help="JOB.PY is written against PyFlink: import millstream as pyflink."
)


def install_pyflink(wanted: bool) -> None:
    """Have programs get millstream when they import pyflink, if that is `wanted`."""
    if wanted:
        # Not needed to print help.
        from millstream.base.pyflink_names import install

        install()


_DECORATORS = (
    config_option,
    click.option("-p", "--parallelism", type=click.IntRange(min=1), help="Default parallelism."),
    click.option(
        "-D",
        "definitions",
        multiple=True,
        metavar="KEY=VALUE",
        callback=parse_definitions,
        help="Set an option; `millstream config` lists them. May be repeated.",
    ),
    click.option(
        "--target",
        help="Where to run: local (this process, no JVM), or a Spark master: local[n], local-cluster[...], "
        "spark://host:port, yarn, k8s://...; or session: the cluster that runs.",
    ),
    click.option("--debug", is_flag=True, help="Run in this process, so that breakpoint() works."),
    click.option("--verbose", is_flag=True, help="Show all frames of errors, also millstream's and Java's."),
    click.option(
        "-pyfs",
        "--pyFiles",
        "--py-files",
        "python_files",
        metavar="FILES",
        help="Python files, packages, wheels and zip files that functions import, with commas between "
        "(python.files).",
    ),
    click.option(
        "-pyarch",
        "--pyArchives",
        "--archives",
        "python_archives",
        metavar="FILES",
        help="Archives that are unpacked where functions run, with commas between; FILE#NAME becomes the directory "
        "NAME (python.archives).",
    ),
    click.option(
        "-pyreq",
        "--pyRequirements",
        "python_requirements",
        metavar="FILE[#DIRECTORY]",
        help="A requirements.txt that pip installs where functions run; from packages in DIRECTORY only, if one is "
        "named (python.requirements).",
    ),
    click.option(
        "-pyexec",
        "--pyExecutable",
        "python_executable",
        metavar="PYTHON",
        help="Interpreter of the functions; a relative path leads into an archive (python.executable).",
    ),
    click.option(
        "--progress/--no-progress", default=None, help="Show progress; by default on a terminal only."
    ),
)


def job_options(function: Decorated) -> Decorated:
    """Give a command the shared options, as arguments named like the fields of `JobOptions`."""
    for decorator in reversed(_DECORATORS):
        function = decorator(function)
    return function


_RECOVERY = (
    click.option("-s", "--from-savepoint", metavar="PATH", help="Begin from this savepoint or checkpoint."),
    click.option(
        "-n",
        "--allow-non-restored-state",
        is_flag=True,
        help="Drop state in it that no operator of the program takes.",
    ),
    click.option(
        "--claim-mode",
        type=click.Choice(["NO_CLAIM", "CLAIM"], case_sensitive=False),
        help="Whether the job removes it when checkpoints of its own have taken its place.",
    ),
    click.option(
        "--recover",
        is_flag=True,
        help="Go on from the last checkpoint of this job if its driver was lost, and run nothing if it had ended "
        "(high-availability.storageDir).",
    ),
)


def recovery_options(function: Decorated) -> Decorated:
    """Give a command the options that say where jobs begin, as arguments named like the fields of `JobOptions`."""
    for decorator in reversed(_RECOVERY):
        function = decorator(function)
    return function

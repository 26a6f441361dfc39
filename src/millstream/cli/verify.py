"""`millstream verify`: run a bounded job again and again under a deterministic simulation of failures."""

from __future__ import annotations

import shlex
import sys
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import click

from millstream.cli.options import JobOptions, config_option, install_pyflink, pyflink_option

if TYPE_CHECKING:
    from millstream.verify.scenario import Variation
    from millstream.verify.session import VerifiedJob
    from millstream.verify.verifier import SeedResult

__all__ = ["command"]

EXIT_FAILED = 1
_SHOWN_FAILURES = 10


@click.command("verify", context_settings={"allow_interspersed_args": True, "ignore_unknown_options": False})
@click.option("--seeds", default=100, show_default=True, type=click.IntRange(min=1), help="How many runs.")
@click.option("--first", default=0, show_default=True, help="The first seed.")
@click.option("--seed", type=int, help="Run this seed only: replays a failure.")
@click.option("--jobs", default=1, show_default=True, type=click.IntRange(min=1), help="Processes to use.")
@click.option(
    "--vary",
    help="What seeds vary, of epochs, parallelism, order and faults. "
    "By default all that the undisturbed results are seen not to depend on.",
)
@click.option(
    "--trace",
    type=click.Path(dir_okay=False, writable=True),
    help="Write what happens in each run to this file; the same seed gives the same bytes.",
)
@click.option(
    "--progress/--no-progress",
    "shows_progress",
    default=True,
    help="Show how many seeds are done and how long the others will take, on standard error.",
)
@config_option
@pyflink_option
@click.argument("program", type=click.Path(exists=True, dir_okay=False, readable=True), metavar="JOB.PY")
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED, metavar="[ARGS]...")
def command(
    program: str,
    arguments: tuple[str, ...],
    *,
    seeds: int,
    first: int,
    seed: int | None,
    jobs: int,
    vary: str | None,
    trace: str | None,
    shows_progress: bool,
    config: str | None,
    pyflink: bool,
) -> None:
    """Prove that the jobs of JOB.PY lose and repeat nothing, whatever fails.

    Each seed runs the job once, in this process: with other cuts between epochs, another parallelism and another
    order of arrival, while slots and the driver crash or hang and storage fails. What its sinks got is compared
    with an undisturbed run. Nothing is written outside a scratch directory.

    The exit code is 1 if a seed found something. ARGS of the program that look like options stand behind "--".
    """
    # Not needed to print help.
    from millstream.base.clock import SystemClock
    from millstream.cli.script import launching_with, run_as_main, tell_error
    from millstream.cli.verify_progress import SeedProgress
    from millstream.verify.session import VerifyingLauncher, VerifyOptions

    install_pyflink(pyflink)
    JobOptions(definitions={}, config=config).export()
    if trace is not None:
        Path(trace).write_text("", encoding="utf-8")
    chosen = _variation(vary)
    chosen_seeds = [seed] if seed is not None else range(first, first + seeds)
    progress = SeedProgress(len(chosen_seeds), sys.stderr if shows_progress else None, SystemClock())
    replay = _replay(program, arguments, vary, pyflink)

    def begin(job: VerifiedJob) -> None:
        _tell_job(job)
        progress.begin()

    def take(job: VerifiedJob, result: SeedResult) -> None:
        if result.failed and len(job.summary.failures) <= _SHOWN_FAILURES:
            progress.end()  # so that something can be printed; the next `advance` shows it again
            _tell_result(result, replay)
        progress.advance(job.summary.seeds, len(job.summary.failures))

    launcher = VerifyingLauncher(
        VerifyOptions(
            seeds=chosen_seeds,
            processes=jobs,
            vary=chosen,
            trace=None if trace is None else Path(trace),
        ),
        on_begin=begin,
        on_result=take,
    )
    try:
        with launching_with(launcher):
            run_as_main(program, arguments)
    except SystemExit as end:
        if end.code not in (None, 0):
            raise
    except KeyboardInterrupt:
        click.echo("interrupted", err=True)
        sys.exit(130)
    except Exception as error:  # noqa: BLE001 - a program may raise anything
        tell_error(error, program)
        sys.exit(EXIT_FAILED)
    finally:
        progress.end()
    if not launcher.jobs:
        click.echo(f'program "{program}" ended without running a job', err=True)
        sys.exit(EXIT_FAILED)
    for job in launcher.jobs:
        _tell_summary(job)
    sys.exit(EXIT_FAILED if any(job.summary.failures for job in launcher.jobs) else 0)


def _variation(names: str | None) -> Variation | None:
    from millstream.verify.scenario import Variation

    if names is None:
        return None
    try:
        return Variation.of(names)
    except ValueError as error:
        raise click.UsageError(
            f'"{error}" cannot be varied; epochs, parallelism, order and faults can'
        ) from error


def _replay(program: str, arguments: tuple[str, ...], vary: str | None, pyflink: bool) -> str:
    """Return the command that replays a seed, up to the seed."""
    parts = ["millstream", "verify"]
    if vary is not None:
        parts += ["--vary", vary]
    if pyflink:
        parts.append("--pyflink")
    parts += [program, *(["--", *arguments] if arguments else [])]
    return shlex.join(parts)


def _tell_job(job: VerifiedJob) -> None:
    click.echo(f'job "{job.name}": {job.records:,} records; varying {job.vary}')
    for sink, guarantee in job.sinks.items():
        click.echo(f"  sink {sink}: {guarantee.value}")
    for dependency in job.dependencies:
        click.echo(f"  left alone, as its results depend on it: {dependency}")


def _tell_result(result: SeedResult, replay: str) -> None:
    click.echo(f"seed {result.seed} found something wrong")
    for difference in result.differences:
        click.echo(f"  {difference}")
    if result.error is not None:
        click.echo(f"  the job failed for good: {result.error}")
    for point, kind in result.faults:
        click.echo(f"  fault: {kind} at {point}")
    if result.also_without_faults:
        click.echo("  It is wrong without the faults as well: look at parallelism, epochs and order first.")
    for culprit in result.culprits:
        click.echo(
            f"  {str(culprit)[0].upper()}{str(culprit)[1:]} is lost by a restart: what it holds belongs in state."
        )
    click.echo(f"  Replay: {_with_seed(replay, result.seed)}")


def _with_seed(replay: str, seed: int) -> str:
    return replay.replace("millstream verify", f"millstream verify --seed {seed}", 1)


def _tell_summary(job: VerifiedJob) -> None:
    summary = job.summary
    kinds: Counter[str] = Counter()
    for (_, kind), count in summary.faults.items():
        kinds[kind] += count
    click.echo(
        f'job "{job.name}": {summary.seeds:,} seeds, {len(summary.failures):,} failed; '
        f"{sum(kinds.values()):,} faults at {len({point for point, _ in summary.faults})} places, "
        f"{summary.restarts:,} restarts"
    )
    if kinds:
        click.echo("  " + ", ".join(f"{kind} {count:,}" for kind, count in kinds.most_common()))
    if not summary.failures:
        click.echo("  0 lost, 0 duplicated")

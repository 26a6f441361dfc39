"""One simulated run from beginning to end: the driver is started until the job ends."""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from millstream.base.errors import JobExecutionError, MillstreamError
from millstream.graph.launcher import RunningJob
from millstream.runtime.checkpoint.manifest import age_of_checkpoint
from millstream.runtime.job.launcher import DefaultLauncher
from millstream.verify.executor import SimulatedExecutor
from millstream.verify.faults import DriverKilled, Fault, InjectedFault
from millstream.verify.members import Members
from millstream.verify.program import Program, SimulatedOutput
from millstream.verify.scenario import Scenario
from millstream.verify.watch import Check, Violation
from millstream.verify.world import World

__all__ = ["Outcome", "scratch_base", "simulate"]

_MOST_STARTS = 20


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a simulated run.

    Attributes:
        scenario: How it was to go.
        outputs: What each sink got.
        error: Why the job failed for good; None if it ended well.
        trace: What happened.
        reached: How often each place was reached.
        fired: What went wrong, with who was there.
        restarts: How often an attempt or the driver began anew.
        records: Records that the sources gave; of the last attempt.
        job: The job of the last start of the driver; None if it could not be started.
        violations: What was wrong in sinks for a moment, or left staged.
    """

    scenario: Scenario
    outputs: Mapping[str, Counter[str]]
    error: BaseException | None
    trace: tuple[str, ...]
    reached: Mapping[str, int]
    fired: tuple[tuple[Fault, str], ...]
    restarts: int
    records: int
    job: RunningJob | None
    violations: tuple[Violation, ...] = ()


def scratch_base() -> str | None:
    """Return a directory in memory if there is one: simulated runs write and sync many small files."""
    shared = Path("/dev/shm")
    return str(shared) if shared.is_dir() else None


def simulate(
    program: Program,
    scenario: Scenario,
    expected: Mapping[str, Counter[str]] | None = None,
    check: Check | None = None,
    members: Members | None = None,
) -> Outcome:
    """Run a job in a world of its own; everything it writes is gone afterwards.

    Args:
        program: The job.
        scenario: How the run goes.
        expected: What the sinks are to have at the end, by label, so that it is seen if they have more at any moment;
            None if that is not known.
        check: A further check of what readers see, whenever that has changed.
        members: Looks at what functions keep in themselves.
    """
    with tempfile.TemporaryDirectory(prefix="millstream-verify-", dir=scratch_base()) as scratch:
        home = Path(scratch)
        watches = program.watches(home, expected, check)
        world = World(scenario, home, watches, program.synced(home), members)
        with world.installed():
            return _Run(program, world).run()


class _Run:
    def __init__(self, program: Program, world: World) -> None:
        self._program = program
        self._world = world
        self._output = SimulatedOutput({})
        self._starts = 0

    def run(self) -> Outcome:
        """Start the driver until the job has ended."""
        world = self._world
        job, error = None, None
        for start in range(_MOST_STARTS):
            disturbed = world.disturbances
            is_paused, ended = world.run_driver(start, partial(self._start, start))
            world.come_back()
            if is_paused:
                continue
            job, error = ended
            if error is None:
                break
            world.note(f"driver ended: {type(error).__name__}")
            if self._had_ended():
                error = None
                break
            # A driver that could not even begin is started again, if that was injected, or another one was faster.
            if not world.driver.dead and not (job is None and world.disturbances > disturbed):
                break
        if error is None:
            world.look("the end")
            world.check_leftovers({*world.job_ids} - {world.ended_job_id})
        world.let_all_arrive()
        world.note("end" if error is None else f"end: {type(error).__name__}")
        # A job that was killed as it ended has no result to ask for.
        progress = None if job is None or error is not None or world.driver.dead else job.wait().progress
        return Outcome(
            scenario=world.scenario,
            outputs=self._program.outputs(world, self._output),
            error=error,
            trace=tuple(world.trace),
            reached=dict(world.reached),
            fired=tuple(world.fired),
            restarts=world.failed_attempts + self._starts - 1,
            records=0 if progress is None else progress.records_in,
            job=job,
            violations=tuple(world.violations),
        )

    def _start(self, start: int) -> tuple[RunningJob | None, BaseException | None]:
        world = self._world
        self._starts += 1
        recovery_path = None if world.scenario.recovers else self._newest_checkpoint()
        where = "what it is told" if world.scenario.recovers else recovery_path
        world.note(f"driver starts, from {where if where and start else 'the beginning'}")
        submission = self._program.build(world, start=start, recovery_path=recovery_path)
        launcher = DefaultLauncher(
            world.clock,
            build_executor=lambda _configuration, _output: SimulatedExecutor(world),
            build_output=self._build_output,
        )
        try:
            job = launcher.launch(submission)
        except (MillstreamError, DriverKilled, InjectedFault, OSError) as error:
            return None, error
        try:
            job.wait()
        except JobExecutionError as error:
            return job, error.__cause__ or error
        return job, None

    def _had_ended(self) -> bool:
        """Return whether a driver was killed when its job had ended and nothing is left to go on from."""
        if not self._world.driver.dead or not self._world.driver.job_ended:
            return False
        if self._world.scenario.recovers:
            # With a result that is there, what the job leaves may have to be removed.
            left = (path for path in self._world.scratch.glob("recovery/**/*") if path.is_file())
            return all(path.parent.suffix == ".owners" for path in left)
        return self._newest_checkpoint() is None

    def _build_output(self, collectors: Mapping[int, str]) -> SimulatedOutput:
        output = SimulatedOutput(collectors)
        output.printed, output.kept = self._output.printed, self._output.kept
        return output

    def _newest_checkpoint(self) -> str | None:
        """Return where the newest checkpoint is, of the last start of the driver that made one."""
        for job_id in reversed(self._world.job_ids):
            directory = self._world.scratch / "checkpoints" / job_id
            if any(age_of_checkpoint(path.parent.name) for path in directory.glob("chk-*/_metadata")):
                return str(directory)
        return None

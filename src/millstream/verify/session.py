"""Verifies the jobs of a program: the program runs as usual, and each job it submits is verified in its place."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import Path

from millstream.graph.launcher import JobLauncher, JobSubmission, RunningJob
from millstream.verify.program import Guarantee, Program
from millstream.verify.scenario import Variation
from millstream.verify.verifier import SeedResult, Summary, Verifier
from millstream.verify.workers import run_shared

__all__ = ["VerifiedJob", "VerifyOptions", "VerifyingLauncher"]


@dataclass(frozen=True, slots=True)
class VerifyOptions:
    """What is asked for.

    Attributes:
        seeds: Which seeds are run.
        processes: How many processes share them.
        vary: What seeds vary; None finds out what results do not depend on.
        trace: File that the traces are written to; None for none.
    """

    seeds: Sequence[int]
    processes: int = 1
    vary: Variation | None = None
    trace: Path | None = None


@dataclass(slots=True)
class VerifiedJob:
    """One job and what became of it.

    Attributes:
        name: Its name.
        records: Records that its sources give.
        sinks: Its sinks and what they promise.
        vary: What the seeds varied.
        dependencies: What results depend on and seeds left alone for that.
        summary: What became of the seeds.
    """

    name: str
    records: int
    sinks: dict[str, Guarantee]
    vary: Variation
    dependencies: list[str]
    summary: Summary = field(default_factory=Summary)


class VerifyingLauncher(JobLauncher):
    """Verifies each job that is submitted, and hands back its undisturbed run.

    Args:
        options: What is asked for.
        on_begin: Told of a job when what is right is known.
        on_result: Told of each seed; it has no trace.

    Attributes:
        jobs: Those that were verified.
    """

    def __init__(
        self,
        options: VerifyOptions,
        *,
        on_begin: Callable[[VerifiedJob], None] = lambda _: None,
        on_result: Callable[[VerifiedJob, SeedResult], None] = lambda _, __: None,
    ) -> None:
        self._options = options
        self._on_begin = on_begin
        self._on_result = on_result
        self.jobs: list[VerifiedJob] = []

    def launch(self, submission: JobSubmission) -> RunningJob:
        """Verify a job.

        Raises:
            MillstreamError: If it cannot be verified, or fails undisturbed.
        """
        verifier = Verifier(Program(submission), self._options.vary)
        job = VerifiedJob(
            submission.name,
            verifier.reference.records,
            verifier.guarantees,
            verifier.vary,
            verifier.dependencies,
        )
        self._on_begin(job)
        trace = self._options.trace
        with nullcontext() if trace is None else trace.open("a", encoding="utf-8") as file:
            for result in self._results(verifier):
                job.summary.add(result)
                if file is not None:
                    file.write("\n".join(result.trace) + "\n")
                self._on_result(job, result)
        self.jobs.append(job)
        undisturbed = verifier.reference.job
        assert undisturbed is not None, "an undisturbed run without a job"
        return undisturbed

    def _results(self, verifier: Verifier) -> Iterator[SeedResult]:
        seeds, processes = self._options.seeds, self._options.processes
        if processes == 1 or len(seeds) == 1:
            return verifier.run(seeds)
        return run_shared(verifier, seeds, processes)

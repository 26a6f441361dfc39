"""Verifies one job: finds out what is right and what may be varied, then runs seed after seed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from millstream.base.errors import MillstreamError
from millstream.verify.compare import Difference, compare
from millstream.verify.members import Members, Variable, find_culprits
from millstream.verify.program import Guarantee, Program
from millstream.verify.run import Outcome, simulate
from millstream.verify.scenario import EVERYTHING, Scenario, Variation, draw_scenario
from millstream.verify.watch import Check, Violation

__all__ = ["SeedResult", "Summary", "Verifier"]

_PROBES = 6
_MOST_BLAMED = 20
"""Of so many failed seeds is the cause looked for in what functions keep; each takes a few runs more."""


@dataclass(frozen=True, slots=True)
class SeedResult:
    """What became of one seed.

    Attributes:
        seed: The seed.
        scenario: What it stands for.
        differences: What is wrong in the sinks, at the end or at any moment before.
        error: Why the job failed for good, as text; None if it did not.
        faults: Place and kind of what went wrong on purpose.
        restarts: How often an attempt or the driver began anew.
        also_without_faults: Whether the same run is wrong without faults too; None if it is right.
        culprits: Variables of functions that a restart loses: with them put back, results are right.
        trace: What happened.
    """

    seed: int
    scenario: Scenario
    differences: tuple[Difference | Violation, ...]
    error: str | None
    faults: tuple[tuple[str, str], ...]
    restarts: int
    also_without_faults: bool | None
    trace: tuple[str, ...]
    culprits: tuple[Variable, ...] = ()

    @property
    def failed(self) -> bool:
        """Whether the seed found something."""
        return bool(self.differences) or self.error is not None


@dataclass(slots=True)
class Summary:
    """What became of all seeds of one job.

    Attributes:
        seeds: How many were run.
        failures: Those that found something.
        faults: How often each kind of fault went off, by place and kind.
        restarts: How often attempts or drivers began anew.
    """

    seeds: int = 0
    failures: list[SeedResult] = field(default_factory=list)
    faults: Counter[tuple[str, str]] = field(default_factory=Counter)
    restarts: int = 0

    def add(self, result: SeedResult) -> None:
        """Take a result in."""
        self.seeds += 1
        self.restarts += result.restarts
        self.faults.update(result.faults)
        if result.failed:
            self.failures.append(replace(result, trace=()))


class Verifier:
    """One job.

    Args:
        program: The job.
        vary: What seeds vary; None finds out what the job's results do not depend on.
        check: A further check of what readers see in sinks that write themselves.

    Attributes:
        vary: What seeds vary.
        reference: The undisturbed run.
        dependencies: What results depend on and is left alone for that, for people.

    Raises:
        MillstreamError: If the job cannot be verified, or fails undisturbed.
    """

    def __init__(self, program: Program, vary: Variation | None = None, check: Check | None = None) -> None:
        program.check()
        self._program = program
        self._check = check
        self._blamed = 0
        self.guarantees: dict[str, Guarantee] = program.sinks()
        self.dependencies: list[str] = []
        self.reference = simulate(program, Scenario(interval_ms=1_000_000))
        if self.reference.error is not None:
            raise MillstreamError("the job fails undisturbed") from self.reference.error
        self.vary = vary or self._find_variation()
        cut = max(self.reference.records // 4, 1) if self.vary.epochs else None
        self._profile = dict(simulate(program, Scenario(epoch_records=cut, interval_ms=10)).reached)

    def __getstate__(self) -> dict[str, Any]:
        """Leave out the reference's job: it is this process's own."""
        return {**self.__dict__, "reference": replace(self.reference, job=None)}

    def run(self, seeds: Iterable[int]) -> Iterator[SeedResult]:
        """Run seeds."""
        for seed in seeds:
            yield self.run_seed(seed)

    def run_seed(self, seed: int) -> SeedResult:
        """Run one seed; if it finds something, also without faults, to tell what it has to do with them."""
        return self.run_scenario(
            draw_scenario(seed, records=self.reference.records, profile=self._profile, vary=self.vary)
        )

    def run_scenario(self, scenario: Scenario) -> SeedResult:
        """Run one scenario and compare."""
        outcome = self._simulate(scenario)
        differences, error = self._judge(outcome)
        also: bool | None = None
        culprits: tuple[Variable, ...] = ()
        if (differences or error) and scenario.faults:
            also = not self._is_right(scenario.without_faults())
            if not also and self._blamed < _MOST_BLAMED:
                self._blamed += 1
                culprits = self._find_culprits(scenario)
        return SeedResult(
            seed=scenario.seed,
            scenario=scenario,
            differences=tuple(differences),
            error=error,
            faults=tuple((fault.point, fault.kind.value) for fault, _ in outcome.fired),
            restarts=outcome.restarts,
            also_without_faults=also,
            trace=outcome.trace,
            culprits=culprits,
        )

    def _find_culprits(self, scenario: Scenario) -> tuple[Variable, ...]:
        """Return what functions keep in themselves and lose, if that explains what is wrong."""
        if scenario.parallelism is not None:
            # Subtasks must be the same ones after a restart for what they had to be put back.
            scenario = replace(scenario, parallelism=scenario.parallelism[:1] * 3)
        members = Members()
        if self._is_right(scenario, members):
            return ()
        return find_culprits(members.suspects, lambda chosen: self._is_right(scenario, Members(chosen)))

    def _is_right(self, scenario: Scenario, members: Members | None = None) -> bool:
        differences, error = self._judge(self._simulate(scenario, members))
        return not differences and error is None

    def _simulate(self, scenario: Scenario, members: Members | None = None) -> Outcome:
        return simulate(self._program, scenario, self.reference.outputs, self._check, members)

    def _judge(self, outcome: Outcome) -> tuple[list[Difference | Violation], str | None]:
        wrong: list[Difference | Violation] = list(outcome.violations)
        if outcome.error is not None:
            return wrong, f"{type(outcome.error).__name__}: {outcome.error}"
        wrong += compare(self.reference.outputs, outcome.outputs, self.guarantees, restarts=outcome.restarts)
        return wrong, None

    def _find_variation(self) -> Variation:
        """Return what results do not depend on, as far as a few undisturbed runs show."""
        alone = Variation(epochs=False, parallelism=False, order=False, faults=False)
        kept = EVERYTHING
        for name, why in (
            ("epochs", "where epochs end, or processing time"),
            ("parallelism", "parallelism: the order in which records of several subtasks meet"),
            ("order", "the order in which records arrive within the bound of the watermarks"),
        ):
            vary = replace(alone, **{name: True})
            if name != "epochs":
                vary = replace(vary, epochs=kept.epochs)
            if not self._same(vary):
                kept = replace(kept, **{name: False})
                self.dependencies.append(why)
        return kept

    def _same(self, vary: Variation) -> bool:
        return all(
            not any(self._judge(self._simulate(scenario)))
            for scenario in (
                draw_scenario(-1 - probe, records=self.reference.records, profile={"plan": 1}, vary=vary)
                for probe in range(_PROBES)
            )
        )


Progress = Callable[[SeedResult], None]

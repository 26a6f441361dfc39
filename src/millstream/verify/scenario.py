"""What one seed stands for: everything that varies from run to run, drawn at random once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from random import Random

from millstream.verify.faults import Fault, FaultKind, kinds_at

__all__ = ["EVERYTHING", "LONG_STALL_MS", "Scenario", "Variation", "draw_scenario"]


@dataclass(frozen=True, slots=True)
class Variation:
    """What seeds may vary.

    Attributes:
        epochs: Where epochs end, and which of them end with a checkpoint.
        parallelism: Parallelism, also from one start of the driver to the next.
        order: The order in which records arrive, within the bound of the watermarks.
        faults: What goes wrong.
    """

    epochs: bool = True
    parallelism: bool = True
    order: bool = True
    faults: bool = True

    @staticmethod
    def of(names: str) -> Variation:
        """Read a list such as "epochs,faults".

        Raises:
            ValueError: If it names something else.

        >>> Variation.of("epochs").faults
        False
        """
        wanted = {name.strip() for name in names.split(",") if name.strip()}
        other = wanted - {"epochs", "parallelism", "order", "faults"}
        if other:
            raise ValueError(", ".join(sorted(other)))
        return Variation(
            epochs="epochs" in wanted,
            parallelism="parallelism" in wanted,
            order="order" in wanted,
            faults="faults" in wanted,
        )

    def __str__(self) -> str:
        named = {
            "epochs": self.epochs,
            "parallelism": self.parallelism,
            "order": self.order,
            "faults": self.faults,
        }
        return ", ".join(name for name, varied in named.items() if varied) or "nothing"


EVERYTHING = Variation()

LONG_STALL_MS = 700_000
"""Longer than checkpoints may take: whoever stood still in the middle of one gives it up."""
_STALLS_MS = (10, 5_000, LONG_STALL_MS)
"""Behind a short one nothing but a look tells a driver that another one has taken over."""
_ONLY_AFTER_A_FAILURE = {"restore": 1, "storage.read": 6, "sink.abort": 2}
"""How often places are reached that an undisturbed run does not come to, about."""
_IN_SINKS = 0.2
"""Probability that a fault is put into sinks, besides those that fall there by chance."""
_BY_KIND = 0.1
"""Probability that a fault's kind is drawn first, and then a place: some kinds are possible at few places only."""

_AS_IT_PUBLISHES = 0.6
"""Probability that a driver is paused as it publishes, besides those for which that place is drawn."""
_PUBLISHES = frozenset(
    ("manifest.write", "manifest.published", "storage.write", "storage.staged", "storage.delete")
)
"""Between two looks whose the job is: what a driver does there is what fencing is for."""


@dataclass(frozen=True, slots=True)
class Scenario:
    """How one simulated run goes.

    Attributes:
        seed: Of all randomness during the run.
        parallelism: At each start of the driver, the last one for all further ones; None as the program says.
        epoch_records: Largest number of records of a source subtask in an epoch; None for no cuts.
        hold_after: Records that a subtask begins in an epoch; the rest is held. None for no limit.
        interval_ms: Time between checkpoints.
        retained: Checkpoints that are kept.
        tolerable_failures: Checkpoints that may fail one after the other.
        incremental: Whether checkpoints hold only what changed.
        compacts: Whether chains of changes are merged beside, as large ones are, or written anew.
        shuffled: Whether records arrive in another order.
        recovers: Whether a driver that comes back is told by high-availability storage where to go on
            (`--recover`), or by a user: from the newest checkpoint that is there.
        repeats: Probability that a slot is asked twice for a level, as by a Spark task that is run again.
        stall_ms: How long a driver stands still that hangs, and at least one that is paused.
        faults: What goes wrong.
    """

    seed: int = 0
    parallelism: tuple[int, ...] | None = None
    epoch_records: int | None = None
    hold_after: int | None = None
    interval_ms: int = 30
    retained: int = 1
    tolerable_failures: int = 0
    incremental: bool = True
    compacts: bool = True
    shuffled: bool = False
    recovers: bool = True
    repeats: float = 0.03
    stall_ms: int = LONG_STALL_MS
    faults: tuple[Fault, ...] = ()

    def without_faults(self) -> Scenario:
        """Return the same run, undisturbed."""
        return replace(self, faults=())

    def _files(self) -> str:
        if not self.incremental:
            return "whole"
        return "incremental, compacted" if self.compacts else "incremental"

    def __str__(self) -> str:
        parallelism = "-" if self.parallelism is None else "/".join(map(str, self.parallelism))
        held = "" if self.hold_after is None else f", held after {self.hold_after}"
        return (
            f"seed {self.seed}, parallelism {parallelism}, epochs up to {self.epoch_records or 'any number of'} "
            f"records{held}, checkpoints every {self.interval_ms} ms ({self.retained} kept, "
            f"{self.tolerable_failures} may fail, {self._files()}), order {'changed' if self.shuffled else 'kept'}, "
            f"recovers from {'the last' if self.recovers else 'the newest'} checkpoint"
        )


def draw_scenario(seed: int, *, records: int, profile: Mapping[str, int], vary: Variation) -> Scenario:
    """Draw what a seed stands for.

    Args:
        seed: Any number; the same gives the same.
        records: How many records the sources give.
        profile: How often each place was reached in a run without faults.
        vary: What varies.
    """
    random = Random(f"scenario/{seed}")
    epochs = random.choice((2, 4, 6, 10, 16))
    parallelism = tuple(random.choices((1, 2, 3, 4), k=3))
    epoch_records = max(2 * records // epochs, 1)
    interval_ms = random.choice((1, 10, 20, 50, 120))
    retained, tolerable = random.choice((1, 1, 2, 3)), random.choice((0, 1, 3))
    incremental, shuffled = random.random() < 0.7, random.random() < 0.7
    faults = tuple(_draw_fault(random, profile) for _ in range(random.choice((0, 1, 1, 2, 2, 3, 4))))
    # A manifest that comes late, after its job went on, must not be taken for the newest: only the pointer tells. And
    # who begins from a path takes nothing over: the other driver, if it lives, has a job of its own.
    needs_pointer = {FaultKind.LATE, FaultKind.PAUSE}
    recovers = random.random() < 0.6 or any(fault.kind in needs_pointer for fault in faults)
    stall_ms = Random(f"stall/{seed}").choice(_STALLS_MS)
    hold_after = Random(f"hold/{seed}").choice((None, max(epoch_records // 3, 1), 2 * epoch_records))
    return Scenario(
        seed=seed,
        parallelism=parallelism if vary.parallelism else None,
        epoch_records=epoch_records if vary.epochs else None,
        hold_after=hold_after if vary.epochs else None,
        interval_ms=interval_ms if vary.epochs else 30,
        retained=retained,
        tolerable_failures=tolerable,
        incremental=incremental,
        compacts=random.random() < 0.7,
        shuffled=shuffled and vary.order,
        recovers=recovers,
        stall_ms=stall_ms,
        faults=faults if vary.faults else (),
    )


def _draw_fault(random: Random, profile: Mapping[str, int]) -> Fault:
    counts = {**_ONLY_AFTER_A_FAILURE, **profile}
    points = sorted(point for point, count in counts.items() if count)
    if random.random() < _IN_SINKS:
        points = [point for point in points if point.startswith("sink.")] or points
    rare = random.choice(list(FaultKind)) if random.random() < _BY_KIND else None
    points = [point for point in points if rare in kinds_at(point)] or points
    point = random.choice(points)
    # Sooner rather than later: a run with fewer checkpoints reaches a place less often than the one counted.
    early = random.random() ** 2
    kinds = kinds_at(point)
    kind = random.choice(kinds)
    kind = rare if rare in kinds else kind
    if kind is FaultKind.PAUSE and random.random() < _AS_IT_PUBLISHES:
        point = random.choice(sorted(_PUBLISHES & counts.keys()) or [point])
    return Fault(point, kind, 1 + int(counts[point] * early))

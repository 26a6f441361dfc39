"""Is a figure as good as the one that is committed? Decided here, from two figures and nothing else."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

from figures import Figure

__all__ = ["LEAST_MARGIN", "Mark", "Row", "compare"]

LEAST_MARGIN = 0.10
"""Runs of the same code differ by so much although the rounds of each hardly do: other processes, other layouts."""


class Mark(Enum):
    """What became of a figure."""

    OK = "ok"
    BETTER = "better"
    BAD = "BAD"
    NEW = "new"
    FAILED = "FAILED"


@dataclass(frozen=True)
class Row:
    """A figure beside the committed one; `now` is None if it was not measured, `before` if none is committed."""

    name: str
    now: Figure | None
    before: Figure | None

    @property
    def margin(self) -> float:
        """How far the figure may fall behind the committed one: as far as that one's own rounds lie apart."""
        return max(LEAST_MARGIN, self.before.scatter if self.before is not None else 0.0)

    @property
    def change(self) -> float | None:
        """How many times as good as the committed figure it is."""
        if self.now is None or self.before is None:
            return None
        ratio = self.now.value / self.before.value
        return 1 / ratio if self.now.less_is_better else ratio

    @property
    def mark(self) -> Mark:
        if self.now is None:
            return Mark.FAILED
        if self.change is None:
            return Mark.NEW
        if self.change < 1 - self.margin:
            return Mark.BAD
        return Mark.BETTER if self.change > 1 + self.margin else Mark.OK

    @property
    def has_lost_its_floor(self) -> bool:
        """Whether the floor is missed that the committed figure, if there is one, met."""
        if self.now is None or self.now.is_floor_met:
            return False
        return self.before is None or self.before.is_floor_met


def compare(now: Mapping[str, Figure], before: Mapping[str, Figure]) -> list[Row]:
    """Return a row for each figure that was measured or is committed, in the order of the new ones."""
    names = [*now, *(name for name in before if name not in now)]
    return [Row(name, now.get(name), before.get(name)) for name in names]

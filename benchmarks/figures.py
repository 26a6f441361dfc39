"""What a benchmark measured, as `bench.py` reads it: figures, each with the rounds that it is the median of."""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Any

__all__ = ["Figure", "add_option", "beside", "by_itself", "from_json", "write"]


@dataclass(frozen=True)
class Figure:
    """A workload beside its peer, or by itself.

    Attributes:
        name: Of the workload, within its benchmark: letters, digits and hyphens.
        title: What it does, in words.
        rounds: For each round how many times as fast as its peer it was; without a peer, what was measured.
        ours: What was measured, the median.
        unit: Of `ours` and `theirs`.
        peer: What it is measured beside; empty if by itself.
        theirs: What was measured of the peer.
        floor: What the ratio must reach; without a peer, what may not be exceeded.
    """

    name: str
    title: str
    rounds: tuple[float, ...]
    ours: float
    unit: str
    peer: str = ""
    theirs: float | None = None
    floor: float | None = None

    @property
    def value(self) -> float:
        """The median of the rounds."""
        return median(self.rounds)

    @property
    def scatter(self) -> float:
        """How far the rounds lie apart: their range, as a part of the median."""
        return (max(self.rounds) - min(self.rounds)) / self.value

    @property
    def less_is_better(self) -> bool:
        return not self.peer

    @property
    def is_floor_met(self) -> bool:
        if self.floor is None:
            return True
        return self.value <= self.floor if self.less_is_better else self.value >= self.floor

    def __post_init__(self) -> None:
        if not re.fullmatch(r"[A-Za-z0-9]+(-[A-Za-z0-9]+)*", self.name):
            raise ValueError(
                f"figure {self.name!r} has a name of other characters than letters, digits, hyphens"
            )
        if not self.rounds or min(self.rounds) <= 0:
            raise ValueError(f"figure {self.name!r} has rounds {self.rounds}: none, or not above zero")


def beside(
    name: str,
    title: str,
    ours: Sequence[float],
    theirs: Sequence[float],
    *,
    unit: str,
    peer: str,
    more_is_better: bool = False,
    floor: float | None = None,
) -> Figure:
    """Return the figure of what was measured beside a peer, round by round: times, or rates if more is better."""
    pairs = zip(ours, theirs, strict=True)
    rounds = tuple(our / their if more_is_better else their / our for our, their in pairs)
    return Figure(_name(name), title, rounds, median(ours), unit, peer, median(theirs), floor)


def by_itself(
    name: str, title: str, rounds: Sequence[float], *, unit: str, limit: float | None = None
) -> Figure:
    """Return the figure of times that have no peer."""
    return Figure(_name(name), title, tuple(rounds), median(rounds), unit, floor=limit)


def _name(text: str) -> str:
    """Return what a benchmark calls its workload, as the name of a figure."""
    return "-".join(re.findall(r"[A-Za-z0-9]+", text))


def add_option(parser: argparse.ArgumentParser) -> None:
    """Add what `bench.py` gives to every benchmark."""
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures to FILE, for bench.py")


def write(path: Path | None, figures: Sequence[Figure]) -> None:
    """Write the figures, if there is a path."""
    if path is not None:
        path.write_text(json.dumps([asdict(figure) for figure in figures], indent=1), encoding="utf-8")


def from_json(found: dict[str, Any]) -> Figure:
    """Return a figure that was written; what the file has beside is left out."""
    fields = {name: found[name] for name in Figure.__dataclass_fields__}
    return Figure(**{**fields, "rounds": tuple(fields["rounds"])})

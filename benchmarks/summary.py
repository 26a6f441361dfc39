"""The figures that are committed: `results/summary.json`, and the tables on pages that are made from it.

A page marks where a table belongs and which benchmarks or figures are in it:

    <!-- figures: flights loops/join -->
    (the table, made by `bench.py --update`)
    <!-- end of figures -->

A name may have a `*` for any characters, so `reading/*columns` is every figure of `reading` that ends in `columns`. A
benchmark that was never measured has no rows.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from figures import Figure, from_json
from short_forms import BENCHMARKS

__all__ = ["Entry", "figure_text", "pages", "read", "rewrite", "summary_page", "value_text", "write"]

ROOT = Path(__file__).resolve().parents[1]
SUMMARY = ROOT / "benchmarks" / "results" / "summary.json"
PAGE = SUMMARY.with_suffix(".md")
BLOCK = re.compile(r"(<!-- figures: ([^>]+?) -->\n).*?(<!-- end of figures -->)", re.DOTALL)


@dataclass(frozen=True)
class Entry:
    """What a benchmark gave when it was last measured.

    Attributes:
        command: That measured it.
        commit: Of the code that was measured.
        date: In UTC.
        machine: Processor, cores and versions.
        load: Of the machine before.
        seconds: That it took.
        figures: By name.
    """

    command: str
    commit: str
    date: str
    machine: str
    load: float
    seconds: float
    figures: Mapping[str, Figure] = field(default_factory=dict)


def read(path: Path = SUMMARY) -> dict[str, Entry]:
    """Return the committed entries by benchmark; none if there is no file."""
    if not path.exists():
        return {}
    return {name: _entry(found) for name, found in json.loads(path.read_text(encoding="utf-8")).items()}


def _entry(found: dict[str, Any]) -> Entry:
    figures = [from_json(each) for each in found["figures"]]
    return Entry(**{**found, "figures": {figure.name: figure for figure in figures}})


def write(entries: Mapping[str, Entry], path: Path = SUMMARY) -> None:
    """Write the entries, with value and scatter of each figure for those who read the file."""
    written = {
        name: {
            **{key: value for key, value in vars(entry).items() if key != "figures"},
            "figures": [
                {**asdict(each), "value": each.value, "scatter": each.scatter}
                for each in entry.figures.values()
            ],
        }
        for name, entry in entries.items()
    }
    path.write_text(json.dumps(written, indent=1) + "\n", encoding="utf-8")


def pages() -> Iterator[Path]:
    """Yield the pages that may have tables."""
    yield ROOT / "README.md"
    yield from sorted((ROOT / "docs").rglob("*.md"))


def rewrite(text: str, entries: Mapping[str, Entry]) -> str:
    """Return a page with each marked table made anew.

    Raises:
        LookupError: If a mark names no benchmark, or a figure that its benchmark does not have.
    """
    return BLOCK.sub(lambda found: found[1] + _table(_chosen(found[2].split(), entries)) + found[3], text)


def summary_page(entries: Mapping[str, Entry]) -> str:
    """Return the page with all that is committed."""
    parts = [_HEADING]
    for name, entry in entries.items():
        parts += [
            f"## {name}\n",
            f"`{entry.command}` at {entry.commit}, {entry.date}; {entry.machine}; load of the machine before: "
            f"{entry.load:.1f}; {entry.seconds:.0f} s.\n",
            _table(entry.figures.values(), whole=True),
        ]
    return "\n".join(parts)


_HEADING = """# What is measured

Made by `make bench BENCH_ARGS=--update` from `summary.json`; [performance.md](../../docs/performance.md) says what the
columns mean.
"""


def _chosen(names: Iterable[str], entries: Mapping[str, Entry]) -> list[Figure]:
    chosen = []
    for wanted in names:
        benchmark, _, name = wanted.partition("/")
        if benchmark not in entries and benchmark in {each.name for each in BENCHMARKS}:
            continue
        found = entries[benchmark].figures if benchmark in entries else {}
        matching = [figure for each, figure in found.items() if fnmatchcase(each, name or "*")]
        if not matching:
            raise LookupError(f"no figure {wanted!r} is in {SUMMARY.name}; there are {', '.join(entries)}")
        chosen += matching
    return chosen


def _table(figures: Iterable[Figure], *, whole: bool = False) -> str:
    lines = ["| what | millstream | beside | times as fast |", "|---|---:|---|---:|"]
    if whole:
        lines = [f"{lines[0]} rounds | wanted |", f"{lines[1]}---|---:|"]
    for figure in figures:
        cells = [figure.title, figure_text(figure.ours, figure.unit)]
        if figure.theirs is None:
            cells += ["", ""]
        else:
            peer = f"{figure.peer}: {figure_text(figure.theirs, figure.unit)}"
            cells += [peer, value_text(figure, figure.value)]
        if whole:
            floor = "" if figure.floor is None else value_text(figure, figure.floor)
            cells += [", ".join(value_text(figure, each) for each in figure.rounds), floor]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join([*lines, ""])


def value_text(figure: Figure, value: float) -> str:
    """Return the ratio, or what was measured where there is no peer, as tables show it."""
    return f"{number_text(value)} x" if figure.peer else figure_text(value, figure.unit)


def figure_text(value: float, unit: str) -> str:
    """Return a figure with its unit."""
    return f"{number_text(value)}{'/s' if unit.endswith('/s') else ' ' + unit}"


def number_text(value: float) -> str:
    """Return a number with as many digits as say something."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.2f}"

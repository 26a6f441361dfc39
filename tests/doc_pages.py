"""Pages of the documentation that are read, and run, from top to bottom."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
ROOMS = {"concepts", "deploy", "how-to", "sql", "start", "tutorials"}
"""Directories of such pages."""
FENCE = re.compile(r"^```(\w+)?([^\n]*)\n(.*?)^```", re.S | re.M)


@dataclass(frozen=True)
class Step:
    """A block to run, and what it has to print."""

    language: str
    text: str
    line: int
    expected: str | None = None
    ordered: bool = True


def is_program(page: Path) -> bool:
    """Whether a page is one of those that run from top to bottom."""
    inside = page.relative_to(ROOT / "docs")
    return inside.parts[0] in ROOMS


def steps_of(page: Path) -> list[Step]:
    """Return the blocks of a page that run."""
    text = page.read_text()
    steps: list[Step] = []
    end_of_last = -1
    for fence in FENCE.finditer(text):
        language, rest, body = fence.group(1) or "", fence.group(2).strip(), fence.group(3)
        if language in ("python", "sql"):
            if rest != "norun":
                steps.append(Step(language, body, text.count("\n", 0, fence.start()) + 2))
                end_of_last = fence.end()
        elif language == "text" and steps and not text[end_of_last : fence.start()].strip():
            last = steps.pop()
            steps.append(Step(last.language, last.text, last.line, body, rest != "unordered"))
    return steps

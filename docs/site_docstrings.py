"""Examples in docstrings, which begin with `>>>`, become blocks of code in the site's reference."""

from __future__ import annotations

import re
import textwrap
from typing import Any

import griffe

_EXAMPLE = re.compile(r"(?:^[ \t]*>>> .*\n?(?:^[ \t]*\S.*\n?)*\n?)+", re.M)


def fenced(text: str) -> str:
    """Put a fence around each run of examples, which may be indented.

    >>> fenced("Sums.\\n\\n>>> 1 + 1\\n2\\n").splitlines()
    ['Sums.', '', '```pycon', '>>> 1 + 1', '2', '```']
    """
    return _EXAMPLE.sub(
        lambda found: f"```pycon\n{textwrap.dedent(found.group(0)).rstrip()}\n```\n", text
    ).rstrip("\n")


class FencedExamples(griffe.Extension):
    """Changes docstrings as they are read."""

    def on_object(self, *, obj: griffe.Object, **kwargs: Any) -> None:
        """Put fences into one object's docstring."""
        if obj.docstring is not None:
            obj.docstring.value = fenced(obj.docstring.value)

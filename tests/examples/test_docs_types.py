"""Every block of Python in README.md and docs/ passes mypy: what users copy has no errors of type.

Blocks are parts of programs: names that they take for granted are imported before them, or are of any type.
"""

from __future__ import annotations

import builtins
import importlib
import re
import subprocess
import symtable
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
TAKEN_FOR_GRANTED = (
    "millstream.common",
    "millstream.common.accumulators",
    "millstream.common.watermark_strategy",
    "millstream.datastream",
    "millstream.datastream.functions",
    "millstream.datastream.state",
    "millstream.datastream.window",
    "millstream.datastream.connectors.file_system",
)
# The project's own rules ask for annotations everywhere; a user's program has them where it likes.
RELAXED = (
    "# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-calls, allow-any-generics, "
    "allow-subclassing-any, allow-untyped-globals, no-warn-return-any, check-untyped-defs\n"
)


def missing_names(text):
    """Return what a block reads and does not define."""
    module = symtable.symtable(text, "block", "exec")
    defined = {
        symbol.get_name() for symbol in module.get_symbols() if symbol.is_assigned() or symbol.is_imported()
    }
    pending, read = [module], set()
    while pending:
        scope = pending.pop()
        pending += scope.get_children()
        read |= {
            symbol.get_name()
            for symbol in scope.get_symbols()
            if symbol.is_referenced() and (scope is module or symbol.is_global())
        }
    return sorted(read - defined - set(dir(builtins)))


def preamble(text):
    lines = ["from typing import Any"]
    for name in missing_names(text):
        module = next(
            (each for each in TAKEN_FOR_GRANTED if hasattr(importlib.import_module(each), name)), None
        )
        if name in ("env", "environment"):
            lines.append("from millstream.datastream import StreamExecutionEnvironment as _Environment")
            lines.append(f"{name} = _Environment.get_execution_environment()")
        else:
            lines.append(f"{name}: Any" if module is None else f"from {module} import {name}")
    return "\n".join(lines) + "\n"


def test_blocks_have_no_errors_of_type(tmp_path):
    files = {}
    for page in PAGES:
        text = page.read_text()
        name = str(page.relative_to(ROOT))
        for number, found in enumerate(re.finditer(r"^```python\n(.*?)^```", text, re.S | re.M)):
            block = found[1]
            head = RELAXED + preamble(block)
            path = tmp_path / f"{re.sub('[^A-Za-z]', '_', name)}_{number}.py"
            path.write_text(head + block)
            files[path.name] = (name, text[: found.start(1)].count("\n") - head.count("\n"))
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "mypy",
            "--config-file",
            "pyproject.toml",
            "--no-error-summary",
            "--hide-error-context",
        ]
        + [str(tmp_path / name) for name in files],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )

    def of_page(line):
        found = re.match(r"(?:.*/)?(\w+\.py):(\d+): (.*)", line)
        if found is None or found[1] not in files:
            return line
        page, offset = files[found[1]]
        return f"{page}:{int(found[2]) + offset}: {found[3]}"

    errors = "\n".join(map(of_page, (done.stdout + done.stderr).splitlines()))
    assert not errors, errors

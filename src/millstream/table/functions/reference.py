"""The list of functions in docs/sql/functions.md, made of the registry.

`python -m millstream.table.functions.reference docs/sql/functions.md` makes it anew: examples are computed.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path

from millstream.table.expressions.compiling import constant_value
from millstream.table.functions.kernels.typeof import type_text
from millstream.table.functions.registry import build_cast, built_in_functions
from millstream.table.functions.signatures import FunctionDefinition
from millstream.table.plan.bind.expressions import ExpressionBinder, Extension
from millstream.table.plan.bind.scope import Scope
from millstream.table.plan.context import PlanContext
from millstream.table.sql.parser import parse_expression
from millstream.types.datatypes import VarCharType

__all__ = ["render_functions", "with_functions"]

_BEGIN = "<!-- functions: made by `make docs` -->"
_END = "<!-- end of functions -->"


def render_functions(definitions: Iterable[FunctionDefinition]) -> str:
    """Return Markdown tables of functions, one for each group."""
    groups: dict[str, list[str]] = {}
    for definition in definitions:
        syntax = "<br>".join(f"`{_cell(each)}`" for each in definition.syntax)
        if definition.aliases:
            syntax += f"<br>also {', '.join(f'`{each}`' for each in definition.aliases)}"
        groups.setdefault(definition.group, []).append(f"| {syntax} | {_example(definition)} |")
    parts = [
        f"### {group}\n\n| function | example |\n|---|---|\n" + "\n".join(rows)
        for group, rows in groups.items()
    ]
    return "\n\n".join(parts) + "\n"


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def _example(definition: FunctionDefinition) -> str:
    if not definition.example:
        return ""
    binder = ExpressionBinder(PlanContext(), Scope(), Extension("an example"))
    bound = binder.bind(parse_expression(definition.example))
    value = constant_value(build_cast(bound, VarCharType()))
    shown = "NULL" if value is None else value
    return f"`{_cell(definition.example)}` is `{_cell(shown)}`, {_cell(type_text(bound.type))}"


def with_functions(page: str) -> str:
    """Return a page with the tables between its marks made anew."""
    before, _, rest = page.partition(_BEGIN)
    _, _, after = rest.partition(_END)
    return f"{before}{_BEGIN}\n\n{render_functions(built_in_functions())}\n{_END}{after}"


if __name__ == "__main__":
    path = Path(sys.argv[1])
    path.write_text(with_functions(path.read_text(encoding="utf-8")), encoding="utf-8")

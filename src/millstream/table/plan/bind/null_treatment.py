"""What an aggregate's text says of NULLs: IGNORE NULLS, RESPECT NULLS, NULL ON NULL, ABSENT ON NULL."""

from __future__ import annotations

from millstream.base.errors import NotSupportedError
from millstream.table.errors import ValidationError
from millstream.table.sql import ast

__all__ = ["null_treatment"]

_DEFAULTS = {
    "ARRAY_AGG": "RESPECT NULLS",
    "FIRST_VALUE": "IGNORE NULLS",
    "LAST_VALUE": "IGNORE NULLS",
    "LAG": "RESPECT NULLS",
    "LEAD": "RESPECT NULLS",
    "JSON_ARRAYAGG": "ABSENT ON NULL",
    "JSON_OBJECTAGG": "NULL ON NULL",
}
"""Functions that may say it, and what they do if nothing is said."""

_OTHERS = ("ARRAY_AGG", "JSON_ARRAYAGG", "JSON_OBJECTAGG")
"""Those that can do otherwise."""


def null_treatment(call: ast.Function, *, user: bool) -> str:
    """Return what a call says of NULLs; empty if that is what its function does anyway.

    Raises:
        ValidationError: If the function has no such clause.
        NotSupportedError: If millstream cannot do as it says.
    """
    said = call.nulls
    for name, value in call.clauses:
        if name == "ON NULL":
            said = f"{value} ON NULL".upper()
        elif name == "FORMAT JSON":
            raise NotSupportedError(
                f"{call.name} with FORMAT JSON is not in millstream yet",
                hint="Leave it out: texts are written as JSON strings.",
            )
    function = call.name.upper()
    default = None if user else _DEFAULTS.get(function)
    if not said or said == default:
        return ""
    if default is None:
        raise ValidationError(
            f'"{call.name}" was given {said}',
            at=call.at,
            detail=f"These have such a clause: {', '.join(sorted(_DEFAULTS))}.",
            hint="Use FILTER (WHERE ... IS NOT NULL) to leave rows out.",
        )
    if function not in _OTHERS:
        raise NotSupportedError(
            f"{function} with {said} is not in millstream yet", detail=f"{function} does {default}."
        )
    return said

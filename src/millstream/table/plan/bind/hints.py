"""Hints of a query: STATE_TTL and LOOKUP have an effect; names that they do not know are errors.

`SELECT /*+ STATE_TTL('o' = '1 d', 'c' = '7 d') */ ...` tells how long joins keep rows of a side that is one table, and
how long aggregations of one table keep groups. A side that is a join keeps rows as `table.exec.state.ttl` says.
`LOOKUP('table' = 'c', ...)` tells how a look-up join asks. Hints about the way of a batch join change no result, and
are not heeded.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from millstream.base.errors import NotSupportedError
from millstream.table.errors import ValidationError, did_you_mean
from millstream.table.plan.bind.scope import Scope
from millstream.table.plan.settings import duration_ms

__all__ = ["Hints", "LookupHint", "check_hints", "lookup_hint", "lookup_options", "side_ttls", "ttl_of"]

Hints = tuple[tuple[str, tuple[Any, ...]], ...]
LookupHint = Mapping[str, str]

_JOINS = ("BROADCAST", "SHUFFLE_HASH", "SHUFFLE_MERGE", "NEST_LOOP", "MULTI_JOIN")
_KNOWN = ("STATE_TTL", "LOOKUP", *_JOINS)
_LOOKUP_OPTIONS = (
    "table",
    "async",
    "output-mode",
    "capacity",
    "timeout",
    "retry-predicate",
    "retry-strategy",
    "fixed-delay",
    "max-attempts",
    "shuffle",
)


def check_hints(hints: Hints, names: Iterable[str], looked_up: Iterable[str]) -> None:
    """Check the hints of a SELECT.

    Args:
        hints: The hints.
        names: Names of tables of its FROM.
        looked_up: Those of FOR SYSTEM_TIME AS OF.

    Raises:
        ValidationError: If one is unknown, names no such table, or has options that it does not have.
    """
    known, temporal = sorted(set(names)), sorted(set(looked_up))
    for name, arguments in hints:
        if name not in _KNOWN:
            raise ValidationError(
                f"hint {name} is not known",
                detail=f"A SELECT has: {', '.join(_KNOWN)}; a table OPTIONS.",
                hint=did_you_mean(name, [*_KNOWN, "OPTIONS"]),
            )
        if name == "STATE_TTL":
            for table, span in _pairs(name, arguments).items():
                duration_ms(span, f"STATE_TTL of {table}")
                _check_table(name, table, known)
        if name == "LOOKUP":
            options = _pairs(name, arguments)
            if "table" not in options:
                raise ValidationError(
                    "hint LOOKUP names no table", hint="Write LOOKUP('table' = 'name', ...)."
                )
            _check_table(name, options["table"], temporal, "of FOR SYSTEM_TIME AS OF")
            lookup_options(options)


def _check_table(hint: str, table: str, names: list[str], what: str = "of FROM") -> None:
    if table not in names:
        raise ValidationError(
            f'hint {hint} names the table "{table}", which is none {what}',
            detail=f"There are: {', '.join(names) or 'none'}. A table with an alias goes by its alias.",
            hint=did_you_mean(table, names),
        )


def _pairs(name: str, arguments: tuple[Any, ...]) -> dict[str, str]:
    for each in arguments:
        if not isinstance(each, tuple):
            raise ValidationError(
                f'hint {name} was given "{each}"', detail="It takes pairs: 'key' = 'value'."
            )
    return {str(key): str(value) for key, value in arguments}


def _name_of(scope: Scope) -> str | None:
    """Return the name of a scope of one table; None of several, or of none that has a name."""
    names = {each.qualifiers[-1:] for each in scope.columns}
    return next(iter(names))[0] if len(names) == 1 and names != {()} else None


def ttl_of(hints: Hints, scope: Scope) -> int | None:
    """Return how long state about a relation is kept, in milliseconds, 0 for ever; None if no hint tells."""
    name = _name_of(scope)
    found = None
    for hint, arguments in hints:
        if hint == "STATE_TTL":
            spans = _pairs(hint, arguments)
            found = duration_ms(spans[name], hint) if name is not None and name in spans else found
    return found


def side_ttls(hints: Hints, left: Scope, right: Scope) -> tuple[int | None, int | None]:
    """Return `ttl_of` both sides of a join."""
    return ttl_of(hints, left), ttl_of(hints, right)


def lookup_hint(hints: Hints, scope: Scope) -> tuple[tuple[str, str], ...]:
    """Return the options of the LOOKUP hint of a table; none if there is no such hint."""
    name = _name_of(scope)
    for hint, arguments in hints:
        if hint == "LOOKUP":
            options = _pairs(hint, arguments)
            if options.get("table") == name:
                return tuple(sorted(options.items()))
    return ()


def lookup_options(options: LookupHint) -> dict[str, Any]:
    """Return what a LOOKUP hint says as fields of `LookupJoinSpec`.

    Raises:
        ValidationError: If an option, or a value, is not known.
        NotSupportedError: If it wants rows to be dealt by key.
    """
    for key in options:
        if key not in _LOOKUP_OPTIONS:
            raise ValidationError(
                f'hint LOOKUP has no option "{key}"',
                detail=f"It has: {', '.join(_LOOKUP_OPTIONS)}.",
                hint=did_you_mean(key, _LOOKUP_OPTIONS),
            )
    if _choice(options, "shuffle", ("true", "false"), "false") == "true":
        raise NotSupportedError(
            "hint LOOKUP: 'shuffle' = 'true' is not in millstream yet",
            hint="Leave it out: results are the same.",
        )
    found: dict[str, Any] = {}
    if "capacity" in options:
        found["capacity"] = _count(options, "capacity")
    if _choice(options, "async", ("true", "false"), "true") == "false":
        found["capacity"] = 1
    if _choice(options, "output-mode", ("ordered", "allow_unordered"), "ordered") == "allow_unordered":
        found["ordered"] = False
    if "timeout" in options:
        found["timeout_ms"] = duration_ms(options["timeout"], "timeout of LOOKUP")
    return {**found, **_retries(options)}


def _retries(options: LookupHint) -> dict[str, Any]:
    names = ("retry-predicate", "retry-strategy", "fixed-delay", "max-attempts")
    given = [name for name in names if name in options]
    if given and len(given) < len(names):
        missing = next(name for name in names if name not in options)
        raise ValidationError(
            f"hint LOOKUP has '{given[0]}' without '{missing}'",
            detail="Retrying takes 'retry-predicate' = 'lookup_miss', 'retry-strategy' = 'fixed_delay', 'fixed-delay' "
            "and 'max-attempts'.",
        )
    if not given:
        return {}
    _choice(options, "retry-predicate", ("lookup_miss",), "")
    _choice(options, "retry-strategy", ("fixed_delay",), "")
    return {
        "attempts": 1 + _count(options, "max-attempts"),
        "retry_delay_ms": duration_ms(options["fixed-delay"], "fixed-delay of LOOKUP"),
        "retry_missing": True,
    }


def _choice(options: LookupHint, name: str, values: tuple[str, ...], default: str) -> str:
    value = options.get(name, default).lower()
    if value not in (*values, default):
        raise ValidationError(
            f"hint LOOKUP has '{name}' = '{options[name]}'", detail=f"It is one of: {', '.join(values)}."
        )
    return value


def _count(options: LookupHint, name: str) -> int:
    text = options[name]
    if not text.isdigit() or int(text) < 1:
        raise ValidationError(f"hint LOOKUP has '{name}' = '{text}'", detail="It is a whole number from 1.")
    return int(text)

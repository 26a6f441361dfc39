"""Texts of expressions with their literals turned into nullable values of a scanned row `(z INT)`, z = 0.

Flink folds constants by other rules than those of its runtime, so the recorded results are those of such expressions.
"""

from __future__ import annotations

import re

_TOKEN = re.compile(
    r"""(?P<s>(?:[xX]|U&)?'(?:[^']|'')*')|(?P<n>\d+(?:\.\d+)?(?:[eE][+-]?\d+)?)|(?P<w>[A-Za-z_]\w*)|(?P<o>\s+|.)""",
    re.S,
)
_SIZED_TYPES = {"DECIMAL", "TIMESTAMP", "CHAR", "VARCHAR", "TIME", "TIMESTAMP_LTZ", "BINARY", "VARBINARY"}
_JSON_PATHS = ("JSON_VALUE", "JSON_QUERY", "JSON_EXISTS")  # only the text may be a column
_LITERAL_ARGUMENTS = {"ROUND": {1}, "TRUNCATE": {1}, "TO_TIMESTAMP_LTZ": {1}, "SHA2": {1}, "RAND": {0}}


def lift(text: str) -> str:
    """Return an expression with `CASE WHEN z = 0 THEN literal END` for its literals."""
    tokens = [(found.lastgroup or "", found.group()) for found in _TOKEN.finditer(text)]
    made: list[str] = []
    raw: list[str] = []
    stack: list[list[object]] = []
    first, of_json, place = True, any(name in text for name in _JSON_PATHS), 0
    while place < len(tokens):
        kind, token = tokens[place]
        before = next((each for each in reversed(raw) if each.strip()), "").upper()
        if kind == "o" and token in "([":
            stack.append([before if re.match(r"\w+$", before) else "", 0])
        if kind == "o" and token in ")]" and stack:
            stack.pop()
        if kind == "o" and token == "," and stack:
            stack[-1][1] = int(str(stack[-1][1])) + 1
        name, argument = stack[-1] if stack else ("", 0)
        timed = kind == "w" and token.upper() in ("DATE", "TIME", "TIMESTAMP") and place + 2 < len(tokens)
        if timed and tokens[place + 1][1].isspace() and tokens[place + 2][0] == "s":
            literal = f"{token} {tokens[place + 2][1]}"
            made.append(f"(CASE WHEN z=0 THEN {literal} END)")
            raw.append(literal)
            place += 3
            continue
        plain = kind in ("s", "n") and before not in ("INTERVAL", "ESCAPE") and name not in _SIZED_TYPES
        plain = plain and argument not in _LITERAL_ARGUMENTS.get(str(name), ()) and (not of_json or first)
        plain = plain and not (kind == "s" and token[0] in "xXU")
        word = kind == "w" and token.upper() in ("TRUE", "FALSE") and before not in ("IS", "NOT")
        if plain:
            first = False
            shown = f"(CASE WHEN z=0 THEN {token} END)"
            made.append(f"CAST(CASE WHEN z=0 THEN {token} END AS STRING)" if kind == "s" else shown)
        elif word and not of_json:
            made.append(f"(CASE WHEN z=0 THEN {token} END)")
        else:
            made.append(token)
        raw.append(token)
        place += 1
    return "".join(made)

"""What a real Flink answered (`shapes/`, see `record_flink.py`), and how an answer of ours differs from it."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

from rest.record_flink import merge_shapes, shape_of

__all__ = ["differences", "recorded_paths", "recorded_shape"]

_SHAPES = Path(__file__).parent / "shapes"
_WIDER = {"integer": {"integer", "number"}}
"""A whole number is a number."""


@cache
def _answers() -> list[dict[str, Any]]:
    return [
        answer
        for file in sorted(_SHAPES.glob("*.json"))
        if file.stem != "errors"
        for answer in json.loads(file.read_text())["answers"]
    ]


def recorded_paths() -> set[tuple[str, str]]:
    """Return method and path of all that was asked, without queries."""
    return {(answer["method"], answer["path"].partition("?")[0]) for answer in _answers()}


def recorded_shape(path: str, method: str = "GET") -> tuple[int, Any]:
    """Return status code and shape of Flink's answers for a path, of all cases together."""
    found = [
        answer
        for answer in _answers()
        if (answer["method"], answer["path"]) == (method, path) and answer["status"] < 400
    ]
    assert found, f"{method} {path} was not recorded"
    shape = found[0]["shape"]
    for answer in found[1:]:
        shape = merge_shapes(shape, answer["shape"])
    return found[0]["status"], shape


def differences(document: Any, recorded: Any, *, ours: frozenset[str], missing: frozenset[str]) -> list[str]:
    """Return where a document's fields or types are not Flink's.

    Args:
        document: Of ours.
        recorded: Flink's shape.
        ours: Fields that only we have, as `a.b[].c`.
        missing: Fields that only Flink has.
    """
    return [
        line
        for line in _compare(shape_of(document), recorded, "")
        if line.rpartition(": ")[0] not in ours | missing
    ]


def _compare(ours: Any, flinks: Any, where: str) -> list[str]:
    if isinstance(flinks, dict) and isinstance(ours, dict):
        return _compare_objects(ours, flinks, where)
    if isinstance(flinks, list) and isinstance(ours, list):
        return _compare(ours[0], flinks[0], f"{where}[]") if ours and flinks else []
    if isinstance(flinks, str) and isinstance(ours, str):
        allowed = set(flinks.split("|"))
        found = set(ours.split("|"))
        if all(each in allowed or _WIDER.get(each, set()) & allowed for each in found):
            return []
    if flinks == "null" or ours == "null":  # the other one was not seen with a value
        return []
    return [f"{where}: {ours} where Flink has {flinks}"]


def _compare_objects(ours: dict[str, Any], flinks: dict[str, Any], where: str) -> list[str]:
    known = {key.rstrip("?"): shape for key, shape in flinks.items()}
    found = {key.rstrip("?"): shape for key, shape in ours.items()}
    lines = [
        f"{where}.{key}: missing"
        for key in flinks
        if not key.endswith("?") and key not in ours and key not in (":id", ":name")
    ]
    if ":name" in known:  # any name of a user's
        return lines
    for key, shape in found.items():
        if key in known:
            lines += _compare(shape, known[key], f"{where}.{key}")
        elif known or not found:
            lines.append(f"{where}.{key}: not Flink's")
    return lines

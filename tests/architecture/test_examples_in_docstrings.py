"""The reference is made of docstrings, and shows how each class is used; the examples run with the other doctests."""

from __future__ import annotations

import doctest
import importlib
import inspect
import runpy
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
API: dict[str, str] = runpy.run_path(str(ROOT / "docs" / "site_hooks.py"))["API"]
"""Modules with a page of reference, by title."""
CLASSES = {
    value: f"{module}.{name}"
    for module in API.values()
    for name in importlib.import_module(module).__all__
    if inspect.isclass(value := getattr(importlib.import_module(module), name))
}


def test_reference_has_classes():
    assert len(CLASSES) > 200


@pytest.mark.parametrize("public", CLASSES, ids=list(CLASSES.values()))
def test_every_class_of_the_reference_has_an_example_that_runs(public):
    examples = doctest.DocTestParser().get_examples(public.__doc__ or "")
    assert [each for each in examples if doctest.SKIP not in each.options], (
        f"{public.__module__}.{public.__qualname__} has no example in its docstring: add one that a reader can copy"
    )

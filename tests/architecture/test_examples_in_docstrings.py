"""The reference is made of docstrings, and shows how each class is used; the examples run with the other doctests."""

from __future__ import annotations

import ast
import builtins
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


def missing_names(source: str) -> set[str]:
    """Return the names that a program uses and neither imports, defines nor has from Python."""
    known, used = set(dir(builtins)), set()
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Name(id=name, ctx=ast.Load()):
                used.add(name)
            case ast.Name(id=name) | ast.arg(arg=name) | ast.FunctionDef(name=name) | ast.ClassDef(name=name):
                known.add(name)
            case ast.AsyncFunctionDef(name=name) | ast.ExceptHandler(name=str(name)):
                known.add(name)
            case ast.alias(name=name, asname=other):
                known.add((other or name).split(".")[0])
    return used - known


def test_reference_has_classes():
    assert len(CLASSES) > 500


@pytest.mark.parametrize("public", CLASSES, ids=list(CLASSES.values()))
def test_every_class_of_the_reference_has_an_example_that_runs(public):
    examples = doctest.DocTestParser().get_examples(public.__doc__ or "")
    assert [each for each in examples if doctest.SKIP not in each.options], (
        f"{public.__module__}.{public.__qualname__} has no example in its docstring: add one that a reader can copy"
    )


def test_missing_names_are_found():
    assert missing_names(
        "import os\nfor each in os.listdir(where): print(each, [n for n in (Types, each)])"
    ) == {
        "Types",
        "where",
    }


def test_examples_import_what_they_use():
    missing = {
        name: names
        for public, name in CLASSES.items()
        if (
            names := missing_names(
                "".join(each.source for each in doctest.DocTestParser().get_examples(public.__doc__ or ""))
            )
        )
    }
    assert not missing, "who copies such an example cannot run it"

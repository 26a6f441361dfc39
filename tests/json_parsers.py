"""The two parsers that decode blocks of JSON lines, each for itself."""

from __future__ import annotations

import importlib.util
import shutil

import pytest

from millstream.formats.json.compiled import CompiledLines
from millstream.formats.json.objects import ObjectLines

__all__ = ["PARSERS", "require_compiled"]

PARSERS = {"compiled": CompiledLines.of, "msgspec": ObjectLines}


def require_compiled() -> None:
    """Skip the test where nothing can be compiled; where it can, `make setup` has done so."""
    if importlib.util.find_spec("millstream_native") is None:
        if shutil.which("cargo") is None:
            pytest.skip("no Rust here, so no compiled parser")
        pytest.fail("there is Rust, but no millstream_native: run `make setup`, or pip install ./native")

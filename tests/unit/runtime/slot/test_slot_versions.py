"""A slot whose interpreter has another version than the driver says so before it unpickles anything."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import millstream
from millstream.base.errors import InterpreterError
from millstream.runtime.slot.process import SlotBoot
from millstream.runtime.slot.versions import find_mismatch
from millstream.runtime.spark.shuttle import start_slot
from millstream.version import __version__


def test_the_same_versions_are_let_be():
    assert find_mismatch(sys.version_info[:2], __version__) is None


def test_another_python_is_told_with_both_versions():
    error = find_mismatch((3, 99), __version__)
    assert isinstance(error, InterpreterError)
    assert "program runs with Python 3.99" in error.message
    assert f"would run with {sys.version.split()[0]}" in error.message
    assert sys.executable in error.detail
    assert "python.executable" in error.hint


def test_another_millstream_is_told_with_what_to_install():
    error = find_mismatch(sys.version_info[:2], "9.8.7")
    assert "program runs with millstream 9.8.7" in error.message
    assert "pip install millstream==9.8.7" in error.hint


def other_interpreter(tmp_path: Path) -> Path:
    """Return an interpreter that has another version of millstream."""
    shutil.copytree(Path(millstream.__file__).parent, tmp_path / "lib" / "millstream")
    (tmp_path / "lib" / "millstream" / "version.py").write_text('__version__ = "0.0.1"\n')
    python = tmp_path / "python"
    python.write_text(f'#!/bin/sh\nPYTHONPATH={tmp_path / "lib"} exec {sys.executable} "$@"\n')
    python.chmod(0o755)
    return python


def test_a_slot_in_another_millstream_does_not_start(tmp_path):
    boot = SlotBoot(0, 0, b"", 1, 0, "here", False, b"nothing that could be unpickled", ())
    error = start_slot(boot, str(other_interpreter(tmp_path)))
    assert isinstance(error, InterpreterError)
    assert (
        f"the program runs with millstream {__version__}, its functions would run with 0.0.1" in error.detail
    )

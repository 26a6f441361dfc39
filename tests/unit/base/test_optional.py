"""Packages of extras: missing ones, and programs that have their names."""

from __future__ import annotations

import sys

import pytest

from millstream.base.errors import ConfigurationError
from millstream.base.optional import load_package


def test_what_is_installed_is_imported():
    assert load_package("json.decoder", extra="x", what="Tests").JSONDecoder


def test_what_is_missing_says_how_to_install_it():
    with pytest.raises(
        ConfigurationError, match="Tests need the package no_such_package, which is not installed"
    ):
        load_package("no_such_package.part", extra="x", what="Tests")


def test_a_program_with_the_name_of_a_package_is_not_run_in_its_place(tmp_path, monkeypatch):
    program = tmp_path / "some_client.py"
    program.write_text("raise SystemExit('it was run once more')")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(sys, "argv", [str(program)])
    with pytest.raises(
        ConfigurationError, match=r"package some_client, but the program .*some_client\.py. has its"
    ):
        load_package("some_client", extra="x", what="Tests")
    assert "some_client" not in sys.modules

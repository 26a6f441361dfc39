"""Connectors are found by entry points: millstream's own, and those of other packages."""

from __future__ import annotations

import importlib
import json
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from click.testing import CliRunner

from millstream.cli.main import main
from millstream.spi.connector import GROUP, Connector, find_connectors, version_of

ROOT = Path(__file__).parents[2]


@pytest.fixture
def installed(tmp_path, monkeypatch):
    """Makes a package as pip leaves it."""

    def install(entry_points, source, name="shop-connectors", version="1.2"):
        info = tmp_path / f"{name.replace('-', '_')}-{version}.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
        lines = [f"{entry} = {value}" for entry, value in entry_points.items()]
        (info / "entry_points.txt").write_text("\n".join([f"[{GROUP}]", *lines, ""]))
        (tmp_path / "shop_connectors.py").write_text(source)

    monkeypatch.syspath_prepend(tmp_path)
    yield install
    sys.modules.pop("shop_connectors", None)


SHOP = """
from millstream.datastream.connectors.base import Connector

SHOP = Connector(
    sources=("shop_connectors.ShopSource",), sinks=("shop_connectors.ShopSink",), lookups=("shop_connectors.Prices",),
    guarantee="at least once", packages=("no-such-package-as-this",), install="shop-connectors[all]",
)
WRONG = "text"
"""


def own():
    return tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["entry-points"][GROUP]


@pytest.mark.parametrize("name", own())
def test_own_connectors_are_what_they_say(name):
    module, _, attribute = own()[name].partition(":")
    connector = getattr(importlib.import_module(module), attribute)
    assert isinstance(connector, Connector)
    for path in (*connector.sources, *connector.sinks, *connector.lookups):
        module, _, attribute = path.rpartition(".")
        assert isinstance(getattr(importlib.import_module(module), attribute), type)
    assert (ROOT / connector.page).exists()
    assert connector.missing() == []  # the packages for development have all
    assert bool(connector.packages) == bool(connector.install)


def test_what_is_registered_imports_no_client_library():
    code = (
        "import sys, millstream.connectors.registered as r; "
        "clients = 'confluent_kafka', 'psycopg', 'redis', 'pyarrow', 'pika', 'deltalake', 'pyiceberg'; "
        "clients += 'cassandra', 'pymongo'; "
        "print([m for m in clients if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_others_are_listed_with_what_they_need(installed):
    installed({"shop": "shop_connectors:SHOP"}, SHOP)
    result = CliRunner().invoke(main, ["connectors"])
    assert result.exit_code == 0
    line = next(line for line in result.output.splitlines() if line.strip().startswith("shop "))
    for text in ("ShopSource", "ShopSink", "Prices", "at least once"):
        assert text in line
    assert "shop-connectors 1.2" in " ".join(result.output.split())
    assert "pip install 'shop-connectors[all]'" in " ".join(result.output.split())
    rows = json.loads(CliRunner().invoke(main, ["connectors", "--json"]).output)
    shop = next(row for row in rows if row["name"] == "shop")
    assert shop["missing"] == ["no-such-package-as-this"]
    assert (shop["package"], shop["version"]) == ("shop-connectors", "1.2")


def test_one_that_cannot_be_loaded_hides_no_other(installed):
    entries = {
        "shop": "shop_connectors:SHOP",
        "gone": "shop_connectors:NOT_THERE",
        "away": "no_such_module_as_this:X",
        "wrong": "shop_connectors:WRONG",
    }
    installed(entries, SHOP)
    found = {each.name: each for each in find_connectors()}
    assert found["shop"].connector is not None
    assert "NOT_THERE" in found["gone"].error
    assert "no_such_module_as_this" in found["away"].error
    assert found["wrong"].error == "shop_connectors:WRONG is a str, not a Connector"
    output = " ".join(CliRunner().invoke(main, ["connectors"]).output.split())
    assert output.count("cannot be loaded") == 3


def test_a_connector_has_something():
    with pytest.raises(ValueError, match="a source, a sink or a look-up"):
        Connector(guarantee="exactly once")
    assert version_of("no-such-package-as-this") is None

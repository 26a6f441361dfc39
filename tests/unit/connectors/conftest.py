from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def driver():
    spec = importlib.util.spec_from_file_location("source_driver", Path(__file__).parent / "driver.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.Driver

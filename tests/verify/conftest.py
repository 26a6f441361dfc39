"""Makes `verify_jobs` importable, and has tests run in all forms of batches, by turns."""

import sys
import zlib
from pathlib import Path

import pytest

from batch_forms import FORMS, in_form

# With `--import-mode=importlib` tests have no directory on the path.
sys.path.insert(0, str(Path(__file__).parent))


@pytest.fixture
def some_form(request):
    """Batches are rows, columns or both in a test, by its name: each form in a third of many tests."""
    form = FORMS[zlib.crc32(request.node.name.encode()) % len(FORMS)]
    request.node.add_report_section("setup", "form of batches", form)
    with in_form(form):
        yield

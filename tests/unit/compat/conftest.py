from __future__ import annotations

import pytest

from millstream.compat import install, uninstall


@pytest.fixture
def pyflink():
    """PyFlink's names in this process, for one test."""
    install()
    yield
    uninstall()

"""Without the libraries of the extra `sql` a program is told what to install."""

import sys

import pytest

from millstream.base.errors import ConfigurationError
from millstream.table import EnvironmentSettings, TableEnvironment


@pytest.mark.parametrize(
    ("missing", "said"),
    [
        (["pyarrow"], "tables need pyarrow, which is not installed"),
        (["pyarrow", "numpy"], "tables need pyarrow and numpy, which are not installed"),
    ],
)
def test_missing_libraries_are_named_with_the_extra(missing, said, monkeypatch):
    for name in missing:
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(ConfigurationError, match=said) as caught:
        TableEnvironment.create(EnvironmentSettings.in_streaming_mode())
    assert 'pip install "millstream[sql]"' in str(caught.value)

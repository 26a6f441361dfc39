"""The page of errors has every code."""

import re
from pathlib import Path

from millstream.base import errors

PAGE = Path(__file__).parents[2] / "docs" / "errors.md"


def test_every_code_is_on_the_page():
    on_page = set(re.findall(r"^\| `([A-Z_]+)`", PAGE.read_text(), re.M))
    known = {
        each.code
        for each in vars(errors).values()
        if isinstance(each, type)
        and issubclass(each, errors.MillstreamError)
        and each is not errors.MillstreamError
    }
    assert on_page >= known

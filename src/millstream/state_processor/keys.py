"""Keys as people write them on a command line."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from typing import Any

from millstream.state.keys import original_key

__all__ = ["KeyText"]


@dataclass(frozen=True, slots=True)
class KeyText:
    """A key that was written as text.

    It stands for every key that is written like that: `a` for "a"; `17` for 17, and for "17"; `('a', 1)` for that
    tuple. In quotes it stands for the text only: `'17'`.

    Attributes:
        text: What was written.
    """

    text: str

    def value(self) -> Any:
        """Return the key that the text most likely means: a Python literal, else the text itself.

        >>> KeyText("17").value(), KeyText("'17'").value(), KeyText("a b").value()
        (17, '17', 'a b')
        """
        try:
            return ast.literal_eval(self.text)
        except (ValueError, SyntaxError, MemoryError, RecursionError):
            return self.text

    def matches(self, key: Any) -> bool:
        """Return whether the text stands for a key.

        >>> [KeyText("17").matches(key) for key in (17, "17", 17.5)]
        [True, True, False]
        """
        key = original_key(key)
        if self.text in (repr(key), str(key)):
            return True
        value = self.value()
        return type(value) is type(key) and bool(value == key)

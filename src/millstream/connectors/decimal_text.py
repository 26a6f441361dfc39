"""Decimals of Arrow, made of text."""

from __future__ import annotations

from typing import Any

__all__ = ["decimals_of"]


def decimals_of(pa: Any, texts: Any, kind: Any) -> Any:
    """Return texts as decimals; pyarrow alone gives wrong numbers for those that are too large for their scale.

    Raises:
        ValueError: If one does not fit.
    """
    import pyarrow.compute as pc  # optional: whoever has an array has it

    pattern = rf"^-?\d{{0,{kind.precision - kind.scale}}}(\.\d{{0,{kind.scale}}}0*)?$"
    fitting = pc.match_substring_regex(texts, pattern)
    if pc.all(fitting).as_py() is False:  # nulls do not count
        raise ValueError(f"invalid value {texts.filter(pc.invert(fitting))[0].as_py()!r}")
    return texts.cast(kind)

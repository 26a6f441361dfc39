"""Pickles values so that they outlive the process: with their class, where no other process could import it."""

from __future__ import annotations

import pickle
import sys
from typing import Any, Final

import cloudpickle

__all__ = ["IS_OF_SLOT", "dump_lasting"]

IS_OF_SLOT: Final = "__millstream_slot__"
"""Name in the main module of a slot, which has the classes of the program's but is gone with the slot."""


def dump_lasting(content: Any) -> bytes:
    """Pickle values for a file: by reference what can be imported, by value classes of a slot's main module.

    Raises:
        Exception: Whatever a value raises that cannot be pickled.
    """
    try:
        data = pickle.dumps(content, protocol=5)
    except (pickle.PicklingError, AttributeError, TypeError):
        return bytes(cloudpickle.dumps(content, protocol=5))
    if b"__main__" in data and hasattr(sys.modules["__main__"], IS_OF_SLOT):
        return bytes(cloudpickle.dumps(content, protocol=5))
    return data

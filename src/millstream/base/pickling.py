"""Pickles functions and classes that no other process could import, and values so that they outlive the process."""

from __future__ import annotations

import io
import pickle
import sys
from collections import ChainMap
from types import CodeType
from typing import Any, Final

import cloudpickle

__all__ = ["IS_OF_SLOT", "CodePickler", "dump_by_value", "dump_lasting"]

IS_OF_SLOT: Final = "__millstream_slot__"
"""Name in the main module of a slot, which has the classes of the program's but is gone with the slot."""


_NO_FILE: Final = "<dynamic-code>"
"""What cloudpickle 3.1.3 says for the file of every function."""


def _reduce_code(code: CodeType) -> Any:
    make, arguments = cloudpickle.CloudPickler.dispatch_table[CodeType](code)
    return make, tuple(
        code.co_filename if type(each) is str and each == _NO_FILE else each for each in arguments
    )


class CodePickler(cloudpickle.CloudPickler):  # type: ignore[misc]
    """Cloudpickle's pickler; functions keep the name of their file, for tracebacks, messages and loops made of them."""

    dispatch_table = ChainMap({CodeType: _reduce_code}, cloudpickle.CloudPickler.dispatch_table)


def dump_by_value(content: Any) -> bytes:
    """Pickle anything: functions and classes by value where they are of the main module or of no module.

    Raises:
        Exception: Whatever a value raises that cannot be pickled.
    """
    file = io.BytesIO()
    CodePickler(file, protocol=5).dump(content)
    return file.getvalue()


def dump_lasting(content: Any) -> bytes:
    """Pickle values for a file: by reference what can be imported, by value classes of a slot's main module.

    Raises:
        Exception: Whatever a value raises that cannot be pickled.
    """
    try:
        data = pickle.dumps(content, protocol=5)
    except (pickle.PicklingError, AttributeError, TypeError):
        return dump_by_value(content)
    if b"__main__" in data and hasattr(sys.modules["__main__"], IS_OF_SLOT):
        return dump_by_value(content)
    return data

"""Functions of BITMAP."""

from __future__ import annotations

from millstream.table.functions.signatures import FunctionDefinition, Result, signature
from millstream.types import datatypes as t
from millstream.types import further_types as f

__all__ = ["DEFINITIONS"]

_BITMAP, _BYTES = f.BitmapType(), t.VarBinaryType()


def _define(
    name: str, parameters: str, result: t.DataType | Result, example: str, fails: bool = False
) -> FunctionDefinition:
    shown = parameters.replace("int_array", "array").replace("binary", "bytes")
    return FunctionDefinition(
        name,
        (signature(parameters, result),),
        syntax=(f"{name}({shown})",),
        group="BITMAP",
        example=example,
        fails=fails,
    )


_A, _B = "BITMAP_BUILD(ARRAY[1, 2])", "BITMAP_BUILD(ARRAY[2, 3])"

DEFINITIONS: tuple[FunctionDefinition, ...] = (
    _define("BITMAP_BUILD", "int_array", _BITMAP, f"BITMAP_TO_STRING({_A})"),
    *(
        _define(f"BITMAP_{name}", "bitmap, bitmap", _BITMAP, f"BITMAP_TO_STRING(BITMAP_{name}({_A}, {_B}))")
        for name in ("AND", "OR", "XOR", "ANDNOT")
    ),
    _define("BITMAP_CARDINALITY", "bitmap", t.BigIntType(), f"BITMAP_CARDINALITY({_A})"),
    _define(
        "BITMAP_FROM_BYTES",
        "binary",
        _BITMAP,
        f"BITMAP_TO_STRING(BITMAP_FROM_BYTES(BITMAP_TO_BYTES({_A})))",
        fails=True,
    ),
    _define("BITMAP_TO_BYTES", "bitmap", _BYTES, f"HEX(CAST(BITMAP_TO_BYTES({_A}) AS STRING)) IS NULL"),
    _define("BITMAP_TO_ARRAY", "bitmap", t.ArrayType(t.IntType()), f"BITMAP_TO_ARRAY({_A})"),
    _define("BITMAP_TO_STRING", "bitmap", t.VarCharType(), f"BITMAP_TO_STRING({_A})"),
)

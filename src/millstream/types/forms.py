"""Declared types as plain data, as checkpoints keep them, and which may take another's place.

A form is a name (`"LONG"`), or a list: `["LIST", element]`, `["MAP", key, value]`, `["TUPLE", field, ...]`,
`["ROW", [name, field], ...]`, the name null in rows without names. It outlives the classes of `typeinfo`.

Values are pickled as they are, so what counts is whether a program that declares the new type can make something of
the values of the old one::

    same type; an integer, a float or a character of a wider type     yes
    fields of a named ROW added, dropped or in another order          yes, fields of the same name must go together
    fields added or dropped at the end of a TUPLE or unnamed ROW      yes, fields at the same place must go together
    elements of lists and arrays, keys and values of maps             if theirs go together
    undeclared, or PICKLED_BYTE_ARRAY, on either side                 yes: nothing is known
    anything else                                                     no
"""

from __future__ import annotations

from typing import Any

from millstream.types.composite import _SequenceTypeInfo
from millstream.types.typeinfo import (
    ExternalTypeInfo,
    MapTypeInfo,
    PickledBytesTypeInfo,
    RowTypeInfo,
    TupleTypeInfo,
    TypeInformation,
)

__all__ = ["TypeForm", "describe_form", "form_of", "may_become"]

TypeForm = str | list[Any]

_WIDER = (("BYTE", "SHORT", "INT", "LONG", "BIG_INT"), ("FLOAT", "DOUBLE"), ("CHAR", "STRING"))


def form_of(type_info: TypeInformation | None) -> TypeForm | None:
    """Return a type as plain data; None if nothing is declared, or anything that pickles.

    >>> from millstream.types.typeinfo import Types
    >>> form_of(Types.MAP(Types.STRING(), Types.ROW_NAMED(["n"], [Types.LONG()])))
    ['MAP', 'STRING', ['ROW', ['n', 'LONG']]]
    """
    if isinstance(type_info, ExternalTypeInfo):
        return form_of(type_info._type_info)
    if type_info is None or isinstance(type_info, PickledBytesTypeInfo):
        return None
    if isinstance(type_info, RowTypeInfo):
        names = type_info.get_field_names() if type_info._named else [None] * len(type_info._field_types)
        return [
            "ROW",
            *([name, form_of(each)] for name, each in zip(names, type_info._field_types, strict=True)),
        ]
    if isinstance(type_info, TupleTypeInfo):
        return ["TUPLE", *map(form_of, type_info.get_field_types())]
    if isinstance(type_info, MapTypeInfo):
        return ["MAP", form_of(type_info._key_type), form_of(type_info._value_type)]
    if isinstance(type_info, _SequenceTypeInfo):
        return [type_info._word, form_of(type_info._element_type)]
    return type_info.describe()


def describe_form(form: TypeForm | None) -> str:
    """Return a form as users read types.

    >>> describe_form(['MAP', 'STRING', ['ROW', ['n', 'LONG'], ['x', None]]])
    'MAP<STRING, ROW<n LONG, x PICKLED_BYTE_ARRAY>>'
    """
    if form is None:
        return "PICKLED_BYTE_ARRAY"
    if isinstance(form, str):
        return form
    word, *parts = form
    if word == "ROW":
        fields = [
            describe_form(each) if name is None else f"{name} {describe_form(each)}" for name, each in parts
        ]
        return f"ROW<{', '.join(fields)}>"
    return f"{word}<{', '.join(map(describe_form, parts))}>"


def may_become(old: TypeForm | None, new: TypeForm | None, *, exactly: bool = False) -> bool:
    """Return whether a program that declares the new type can use values of the old one.

    Args:
        old: Of the values.
        new: Declared now.
        exactly: Fields must stay as they are, as those of keys: with one more it would be another key.

    >>> may_become("INT", "LONG"), may_become("LONG", "STRING"), may_become("LONG", None)
    (True, False, True)
    >>> may_become(["ROW", ["a", "LONG"]], ["ROW", ["b", "STRING"], ["a", "LONG"]])
    True
    """
    if old is None or new is None or old == new:
        return True
    if isinstance(old, str) or isinstance(new, str):
        return isinstance(old, str) and isinstance(new, str) and _is_wider(old, new)
    if old[0] != new[0] or (exactly and len(old) != len(new)):
        return False
    if old[0] == "ROW":
        return _may_become_row(old[1:], new[1:], exactly=exactly)
    # Tuples may be longer or shorter; the others have the same number of parts anyway.
    return all(
        may_become(before, now, exactly=exactly) for before, now in zip(old[1:], new[1:], strict=False)
    )


def _is_wider(old: str, new: str) -> bool:
    return any(old in row and new in row and row.index(old) <= row.index(new) for row in _WIDER)


def _may_become_row(old: list[Any], new: list[Any], *, exactly: bool) -> bool:
    named = all(name is not None for name, _ in (*old, *new))
    if named and not exactly:
        before = dict(old)
        return all(may_become(before[name], form) for name, form in new if name in before)
    pairs = list(zip(old, new, strict=False))
    if exactly and any(name_before != name for (name_before, _), (name, _) in pairs):
        return False
    return all(may_become(before, now, exactly=exactly) for (_, before), (_, now) in pairs)

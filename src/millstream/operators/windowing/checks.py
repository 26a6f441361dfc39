"""Checks of arguments that say what is wrong in the words of the program."""

from __future__ import annotations

from millstream.base.errors import TypeMismatchError

__all__ = ["check_instance"]


def check_instance(where: str, value: object, kind: type, example: str) -> None:
    """Check that an argument is of a kind.

    Args:
        where: What it was given to.
        value: The argument.
        kind: The class it has to be an instance of.
        example: One that would do.

    Raises:
        TypeMismatchError: If it is not.
    """
    if isinstance(value, kind):
        return
    wanted = f"{'an' if kind.__name__[0] in 'AEIOU' else 'a'} {kind.__name__}"
    given = f"the class {value.__name__}" if isinstance(value, type) else f"a {type(value).__name__}"
    forgotten = isinstance(value, type) and issubclass(value, kind)
    raise TypeMismatchError(
        f"{where} was given {given}, not {wanted}",
        hint=f"Give it {'an instance' if forgotten else wanted}, such as {example}.",
    )

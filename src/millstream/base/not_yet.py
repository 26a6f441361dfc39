"""Names of Flink that exist so that programs can be imported, and say what is missing where they are used."""

from __future__ import annotations

from typing import Any, ClassVar, NoReturn

from millstream.base.errors import NotSupportedError

__all__ = ["NotYet", "NotYetAttributeError"]


class NotYetAttributeError(NotSupportedError, AttributeError):
    """An attribute of a class or module that is declared only; `hasattr` tells that it is not there."""


class _NotYetType(type):
    """Raises where a class is asked for a factory or a nested class, such as `builder`."""

    _reason: str
    _hint: str | None

    def __getattr__(cls, name: str) -> NoReturn:
        if name.startswith("_"):
            raise AttributeError(name)
        raise cls._error(f"{cls.__name__}.{name}", NotYetAttributeError)

    def _error(cls, used: str, kind: type[NotSupportedError] = NotSupportedError) -> NotSupportedError:
        return kind(f"{used} is not in millstream yet", detail=cls._reason, hint=cls._hint)


class NotYet(metaclass=_NotYetType):
    """Base of declared classes: can be imported, derived from and named in annotations.

    Making an instance, or asking the class for a public attribute, raises NotSupportedError.
    """

    _reason: ClassVar[str] = "It comes with a later release."
    _hint: ClassVar[str | None] = None

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        raise type(self)._error(type(self).__name__)

"""Names of side outputs (PyFlink's `pyflink.datastream.output_tag`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from millstream.base.errors import ConfigurationError

if TYPE_CHECKING:
    from millstream.types.typeinfo import TypeInformation

__all__ = ["OutputTag"]


class OutputTag:
    """Names a side output; yield `(tag, value)` to emit to it.

    Two tags with the same id are the same tag.

    Args:
        tag_id: The id, not empty.
        type_info: Type of the side output's values; None leaves them unchecked.

    Raises:
        ConfigurationError: If `tag_id` is empty.

    Example:
        >>> from millstream.datastream import OutputTag
        >>> from millstream.datastream.functions import ProcessFunction
        >>> from millstream.testing import OperatorHarness
        >>> refused = OutputTag("refused")
        >>> class Numbers(ProcessFunction):
        ...     def process_element(self, value, ctx):
        ...         yield int(value) if value.isdecimal() else (refused, value)
        >>> harness = OperatorHarness(lambda texts: texts.process(Numbers()))
        >>> harness.push("12"); harness.push("twelve")
        >>> harness.take(), harness.take_side(refused)
        ([12], ['twelve'])
    """

    __slots__ = ("tag_id", "type_info")

    def __init__(self, tag_id: str, type_info: TypeInformation | None = None) -> None:
        if not tag_id:
            raise ConfigurationError("the id of an OutputTag is empty", hint='Name it: OutputTag("late").')
        self.tag_id = tag_id
        self.type_info = type_info

    def __eq__(self, other: object) -> bool:
        return isinstance(other, OutputTag) and self.tag_id == other.tag_id

    def __hash__(self) -> int:
        return hash(self.tag_id)

    def __repr__(self) -> str:
        return f"OutputTag({self.tag_id!r})"

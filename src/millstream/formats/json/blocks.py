r"""Whole blocks of JSON lines into columns.

::

    a block ──► compiled.py  the compiled parser, where it is installed and there are only plain values
      refused ──► objects.py  msgspec
        refused ──► None: rows.py, line by line

Python's json module, which reads line by line, defines what a file means, and what is wrong with which line. The others
are many times faster and stricter: what one of them takes, Python takes with the same result.
"""

from __future__ import annotations

from collections.abc import Sequence

from millstream.formats.block import BlockLayout, ColumnBlock
from millstream.formats.json.compiled import CompiledLines
from millstream.formats.json.objects import ObjectLines
from millstream.spi.formats import BlockDecoder

__all__ = ["JsonBlocks"]

_OBJECT_BYTES = 256 << 10
_COLUMN_BYTES = 1 << 20


class JsonBlocks(BlockDecoder):
    r"""Decodes blocks of JSON lines of one type.

    >>> from millstream.types.datatypes import DataTypes
    >>> kind = DataTypes.ROW([DataTypes.FIELD("name", DataTypes.STRING()), DataTypes.FIELD("age", DataTypes.INT())])
    >>> JsonBlocks(BlockLayout(kind)).decode(b'{"name": "ann", "age": 1}\n{"name": "bo"}\n').rows(0, 2)
    [Row(name='ann', age=1), Row(name='bo', age=None)]
    """

    def __init__(self, layout: BlockLayout) -> None:
        self._compiled = CompiledLines.of(layout)
        self._objects = ObjectLines(layout)

    @property
    def block_bytes(self) -> int:
        """The size of a file's blocks: objects are made into columns while the processor's cache has them."""
        return _OBJECT_BYTES if self._compiled is None else _COLUMN_BYTES

    def whole_records(self, data: bytes) -> int:
        """Return the number of bytes up to the end of the last line."""
        return data.rfind(b"\n") + 1

    def join(self, messages: Sequence[bytes]) -> bytes | None:
        """Return messages of one object each as a block; None if one of them is empty or holds a line break."""
        block = b"\n".join(messages)
        return block if all(messages) and block.count(b"\n") == len(messages) - 1 else None

    def decode(self, block: bytes) -> ColumnBlock | None:
        """Return whole lines, without empty ones; None if they have to be read one by one."""
        found = None if self._compiled is None else self._compiled.decode(block)
        return self._objects.decode(block) if found is None else found

"""The records of one open file, decoded in blocks where that is certain to give the same as one by one.

A reader may stop in the middle of a block: the position is then the block's beginning and the number of records taken
of it. A block that is refused is tried again in smaller pieces: what is odd is in one of them, and only that is read
record by record.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from itertools import chain
from typing import Any

from millstream.formats.block import BlockLayout, ColumnBlock
from millstream.formats.line_file import LineFile, count_lines
from millstream.spi.formats import Block, BlockDecoder, FileRecords
from millstream.types.arrow_records import concat_batches

__all__ = ["SMALLEST_BLOCK_BYTES", "BlockRecords"]

_MOST_BYTES = 8 << 20
"""Columns are made of so much of a file at a time: whole columns cost the same however few rows they have."""
_MOST_ROW_BYTES = 1 << 20
"""Rows are made of so much of a file at a time."""

SMALLEST_BLOCK_BYTES = 8 << 10
"""So few bytes are read sooner record by record than pyarrow is set up for them."""


class BlockRecords(FileRecords):
    """Reads blocks ahead of a file of lines.

    A position is (byte, number of lines before it), and the number of records behind that where a block was begun.

    Args:
        records: The file, at the first record.
        layout: Names and types of the columns.
        decoder: What decodes blocks; None to read all records one by one.
        block_bytes: Size of a block.
    """

    def __init__(
        self, records: LineFile, layout: BlockLayout, decoder: BlockDecoder | None, block_bytes: int
    ) -> None:
        self._records = records
        self._layout = layout
        self._decoder = decoder
        self._most_bytes = self._block_bytes = block_bytes
        self._one_by_one_until = 0  # byte up to which a block was refused
        self._one_by_one_lines = sys.maxsize  # in that block
        self._block: Block | None = None
        self._taken = 0
        self._block_size = (0, 0)  # bytes and lines

    def seek(self, position: tuple[int, ...]) -> None:
        """Go on at a position; called before the first record is read."""
        byte, line, *taken = position
        self._records.seek((byte, line))
        self._records.skip(sum(taken))

    def read(self, max_records: int) -> list[Any]:
        """Return the next records as rows, those of some blocks at most."""
        parts = self._parts(max_records, _MOST_ROW_BYTES)
        return list(chain.from_iterable(block.rows(first, last) for block, first, last in parts))

    def read_columns(self, max_records: int) -> Any:
        """Return the next records as a record batch, those of some blocks at most."""
        # Each block becomes arrays before the next is decoded: its values are in the processor's cache then.
        parts = self._parts(max_records, _MOST_BYTES)
        batches = [block.batch(first, last) for block, first, last in parts]
        batches = [batch for batch in batches if len(batch)] or batches[:1]
        return batches[0] if len(batches) == 1 else concat_batches(batches, [])[0]

    @property
    def position(self) -> tuple[int, ...]:
        """Position behind the last record that was returned."""
        return (*self._records.position, self._taken) if self._taken else self._records.position

    @property
    def exhausted(self) -> bool:
        """Whether nothing follows."""
        return self._block is None and self._records.exhausted

    def close(self) -> None:
        """Close the file."""
        self._records.close()

    def _parts(self, max_records: int, most_bytes: int) -> Iterator[tuple[Block, int, int]]:
        """Take the next records, of at least one block: parts of blocks, some of them empty."""
        part = self._next(max_records)
        yield part
        room, end = max_records - part[2] + part[1], self._records.position[0] + most_bytes
        # What is read one by one may be wrong: the records before it are returned first.
        while room and self._block is None and self._records.position[0] < end and self._next_block():
            part = self._next(room)
            yield part
            room -= part[2] - part[1]

    def _next(self, max_records: int) -> tuple[Block, int, int]:
        """Take the next records: of a block, from one number to another."""
        if self._block is None and not self._next_block():
            columns = self._records.read_columns(min(max_records, self._one_by_one_lines))
            read = ColumnBlock(self._layout, columns or [[] for _ in self._layout.fields])
            return read, 0, len(read)
        block = self._block
        assert block is not None, "there is a next block"
        first, last = self._taken, min(self._taken + max_records, len(block))
        self._taken = last
        if last == len(block):
            self._records.take(*self._block_size)
            self._block, self._taken = None, 0
        return block, first, last

    def _next_block(self) -> bool:
        """Decode the next block; return whether there is one, else records are to be read one by one."""
        start = self._records.position[0]
        decoder = self._decoder
        if decoder is None or start < self._one_by_one_until:
            return False
        while True:
            data, ends = self._records.peek(self._block_bytes)
            # A cut is a copy: not for the rest of the last line.
            piece = data if 4 * len(data) <= 5 * self._block_bytes else data[: self._block_bytes]
            ends = ends and len(piece) == len(data)
            size = len(piece) if ends else decoder.whole_records(piece)
            whole = piece[:size]
            block = decoder.decode(whole) if size >= SMALLEST_BLOCK_BYTES else None
            if block is not None:
                self._block_bytes = min(self._block_bytes * 2, self._most_bytes)
                self._block = block
                self._block_size = (size, count_lines(whole) if block.lines is None else block.lines)
                return True
            if self._block_bytes // 4 < SMALLEST_BLOCK_BYTES:
                self._one_by_one_until = start + len(piece)
                self._one_by_one_lines = piece.count(b"\n") + 1
                return False
            self._block_bytes //= 4

"""What readers of ranges of keys have in common, whatever the system of the database."""

from __future__ import annotations

import logging
from abc import abstractmethod
from typing import Any, ClassVar

from millstream.base.clock import SystemClock
from millstream.base.errors import SourceError
from millstream.connectors.reconnects import ConnectionLost
from millstream.spi.batch import Columns
from millstream.spi.source import EmitBatch, SourceReader, SplitRange

__all__ = ["TableReader"]

_log = logging.getLogger(__name__)

_BATCH_ROWS = 16_384
_FIRST_BATCH_ROWS = 64
_MOST_LOSSES = 10
"""A server that takes every connection away before a row came is no use."""


class TableReader(SourceReader):
    """Reads the ranges of one subtask, one after the other; keeps the statement it is in between epochs.

    Attributes:
        address: Of the server; shown without secrets.
        system: Of the database.
        loss_means: What becomes of what is left when a connection is lost, for the log.
        hint: What to do about a server that ends each transaction.
    """

    gives_away = True

    system: ClassVar[str]
    loss_means: ClassVar[str]
    hint: ClassVar[str]

    def __init__(self, address: Any) -> None:
        self.address = address
        self._connection: Any = None
        self._reading: Any = None
        self._parser: Any = None
        self._place: tuple[str, Any] | None = None
        self._turn = -1
        self._budget = 0
        self._batch_rows = _FIRST_BATCH_ROWS
        self._losses = 0
        self._missed_since: float | None = None

    @abstractmethod
    def _join(self, split: Any) -> None:
        """See the database as all ranges of the split's turn do.

        Raises:
            ConnectionLost: If the server went away.
            SourceError: If it refuses.
        """

    @abstractmethod
    def _statement(self, split: Any, position: Any) -> tuple[Any, Any]:
        """Begin to read a range from a position on; return the statement, which has `has_ended`, and its parser."""

    def _begin_turn(self, split_range: SplitRange) -> None:
        """Learn how many records are wanted, of all ranges of a turn together."""
        if split_range.split.turn != self._turn:
            self._turn, self._budget = split_range.split.turn, split_range.max_records

    def _begin(self, split_id: str, split: Any, position: Any) -> tuple[Any, Any]:
        """Go on with the statement, or begin one where the range starts; return it and its parser."""
        if self._reading is None or self._place != (split_id, position):
            if self._reading is not None and not self._reading.has_ended:
                self.close()
            self._join(split)
            self._reading, self._parser = self._statement(split, position)
            self._place = (split_id, position)
        return self._reading, self._parser

    def _emit(self, data: Any, emit: EmitBatch) -> None:
        """Give a `pyarrow.RecordBatch` away; the next ones are larger."""
        self._losses, self._missed_since = 0, None
        self._budget -= data.num_rows
        self._batch_rows = min(self._batch_rows * 8, _BATCH_ROWS)
        batch = Columns(data)
        if not emit(batch if self.wants_columns else batch.to_rows()):
            self._budget = 0

    def _lose(self, name: str, error: ConnectionLost) -> None:
        """Give the connection up.

        Raises:
            SourceError: If that is so again and again, and for longer than a server that is away is waited for.
        """
        self.close()
        self._losses += 1
        now = SystemClock().monotonic()
        self._missed_since = self._missed_since or now
        if self._losses > _MOST_LOSSES and now - self._missed_since > self.address.patience.total_s:
            raise SourceError(
                f"{self.system} at {self.address} ends each transaction in which {name} is read",
                detail=str(error),
                hint=self.hint,
            ) from error
        if self._losses == 1:
            _log.warning(
                "reading %s from %s at %s: %s; %s", name, self.system, self.address, error, self.loss_means
            )

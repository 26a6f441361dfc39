"""Records put together before they are sent: fewer of them travel, and the receiver has less to do.

An operator that adds up what it gets may say how to begin with that where the records come from
(`OperatorSpec.build_combiner`). Whether it pays depends on the stream: a batch with few keys becomes a few records, one
with many keys as many as it had. So a gate tries it on a batch now and then, and goes on for as long as it pays::

    batches     try  on  on  on  try, no gain  as they are ... (32)  try  ...
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from enum import Enum
from typing import Any

from millstream.base.errors import ConfigurationError, shorten
from millstream.spi.batch import Batch

__all__ = ["CombineMode", "Combiner", "CombiningGate"]

_LEAST_RECORDS = 1_024
_PAYS = 4
_FIRST_PAUSE, _LONGEST_PAUSE = 32, 1_024


class Combiner(ABC):
    """Puts the records of a batch together; one sending subtask calls it.

    Attributes:
        form: The form of batches that it takes; others are sent as they are.
    """

    form: type[Batch]

    @abstractmethod
    def combine(self, batch: Any, sent_ms: int | None) -> Batch | None:
        """Return fewer records, of which the receiver makes the same as of those of the batch.

        Args:
            batch: Of its form, not empty, without watermarks between its records.
            sent_ms: A watermark that the receiver's is not ahead of; None if none is known.

        Returns:
            The batch itself if nothing can be said yet. None if records of these types cannot be put together: no
            batch is given any more.
        """

    def may_go_on(self, batch: Any) -> bool:
        """Return whether records may be put together that come behind a batch of its form, which is sent as it is."""
        return True


class CombineMode(Enum):
    """When records are put together before an exchange; the value is how the option names it."""

    AUTO = "AUTO"
    ALWAYS = "ALWAYS"
    NEVER = "NEVER"

    @staticmethod
    def of(text: str) -> CombineMode:
        """Return a mode by name.

        Raises:
            ConfigurationError: If there is none of that name.
        """
        try:
            return CombineMode(text.upper())
        except ValueError as error:
            raise ConfigurationError(
                f"millstream.exchange.combine is {shorten(text)}", detail="It is AUTO, ALWAYS or NEVER."
            ) from error


class CombiningGate:
    """Has batches combined where that pays.

    Args:
        combiner: What combines them.
        always: Whether it is done whatever it brings.
    """

    def __init__(self, combiner: Combiner, *, always: bool = False) -> None:
        self._combiner: Combiner | None = combiner
        self._always = always
        self._pause = _FIRST_PAUSE
        self._passing = 0

    def pass_through(self, batch: Batch, sent_ms: int | None) -> Batch:
        """Return what to send in the place of a batch that has no watermarks between its records.

        Args:
            batch: The batch.
            sent_ms: A watermark that the receiver's is not ahead of; None if none is known.
        """
        count = len(batch)
        if self._combiner is None or not count or type(batch) is not self._combiner.form:
            return batch
        if not self._always and (count < _LEAST_RECORDS or self._passing):
            if count >= _LEAST_RECORDS:
                self._passing -= 1
            self.let_pass(batch)
            return batch
        combined = self._combiner.combine(batch, sent_ms)
        if combined is None:
            self._combiner = None
            return batch
        if self._always or combined is batch:
            return combined
        if len(combined) * _PAYS > count:
            self._passing, self._pause = self._pause, min(2 * self._pause, _LONGEST_PAUSE)
            return batch
        self._pause = _FIRST_PAUSE
        return combined

    def let_pass(self, batch: Batch) -> None:
        """Take note of a batch that is sent as it is."""
        combiner = self._combiner
        if combiner is not None and type(batch) is combiner.form and not combiner.may_go_on(batch):
            self._combiner = None

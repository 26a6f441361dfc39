"""Checks that records are where their keys belong: for streams that are declared to be dealt by key already."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from millstream.base.errors import StateAccessError, shorten
from millstream.operators.base import Operator, OperatorSpec
from millstream.operators.keys import key_list
from millstream.operators.user_code import attach_element
from millstream.spi.batch import Rows
from millstream.state.key_groups import KeyGroupMemo

__all__ = ["OwnedKeysSpec"]


@dataclass(frozen=True)
class OwnedKeysSpec(OperatorSpec):
    """Declares a check that hands records on as they are.

    Attributes:
        key_selector: Gives a record's key.
    """

    key_selector: Callable[[Any], Any]

    def build(self) -> Operator:
        """Make the running half."""
        return OwnedKeysOperator(self.key_selector)


class OwnedKeysOperator(Operator):
    """Raises at the first record whose key belongs to another subtask."""

    def __init__(self, key_selector: Callable[[Any], Any]) -> None:
        self._key_selector = key_selector

    def open(self) -> None:
        """Prepare the memo of key -> subtask."""
        self._memo = KeyGroupMemo(self.context.max_parallelism, self.context.parallelism)

    def process(self, batch: Rows) -> None:
        """Check a batch and hand it on.

        Raises:
            StateAccessError: If a key belongs to another subtask.
        """
        values = batch.values
        own = self.context.subtask_index
        targets = key_list(self._key_selector, values, self._memo.subtasks)
        if targets.count(own) != len(targets):
            place = next(place for place, target in enumerate(targets) if target != own)
            key = self._key_selector(values[place])
            error = StateAccessError(
                f"key {shorten(key)} came to subtask {own}, but belongs to subtask {targets[place]}",
                detail="A stream reinterpreted as keyed has to be dealt as key_by(...) deals it.",
                hint="Use key_by(...) instead, or deal the stream by the same key before.",
            )
            attach_element(error, values[place])
            raise error
        self.output.emit(batch)

"""One task of Spark's carries the blocks between all slots, and no shuffle is needed.

A stage costs some milliseconds however little it moves: a task for each slot, files for the shuffle, a gap before the
next stage. Where slots send each other little, and work for a short time or have Spark's session to themselves, one
task does it all::

    shuttles   anchor ─► shuttle(0) ─► partitionBy(slot) ─► shuttle(1) ─► …     a stage for each level
    carrier    anchor ─► [ask all slots level 0 ─► ask all slots level 1 ─► …]   one stage, one task

How much an epoch sends is known only when a level has run. A slot that has more for others than a carrier takes keeps
it, and says so; the epoch's job is then run once more with shuttles, which get from each slot what it has kept, as
after any other repeated request (`slot/core.py`). So an epoch that was taken for small costs a job, and nothing runs
twice.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass

from millstream.base.errors import MillstreamError, SlotLostError
from millstream.runtime.protocol.report import LogLine, SlotReport
from millstream.runtime.slot.place import find_place
from millstream.runtime.slot.wire import Answer, Conversation, Request, SlotAddress
from millstream.runtime.spark.shuttle import prepare_worker_once

__all__ = ["Carried", "CarriedEpochs", "EpochCarrier", "carry_epoch"]

_LONG_MS = 100.0
_MOST_BYTES = 64 << 20
"""So much of all slots one task holds at most."""


@dataclass(frozen=True, slots=True)
class Carried:
    """What became of an epoch that one task carried.

    Attributes:
        reports: Pickled, of the slots that came to the end.
        failures: What went wrong, with what user code logged before.
        is_large: Whether a slot has more for others than was allowed: the epoch is not done.
    """

    reports: Sequence[bytes] = ()
    failures: Sequence[tuple[MillstreamError, list[LogLine]]] = ()
    is_large: bool = False


def carry_epoch(
    conversations: Mapping[int, Conversation], headers: Mapping[int, bytes], *, levels: int, at_most: int
) -> Carried:
    """Have every slot run every level of an epoch, level by level, and carry what they send each other.

    Args:
        conversations: By slot.
        headers: By slot, pickled.
        levels: How many there are.
        at_most: How many bytes a slot may send to others on one level.

    Raises:
        OrderEndedError: If the conversations are ordered by somebody who is gone.
    """
    bundles: dict[int, list[bytes]] = {slot: [] for slot in conversations}
    reports: list[bytes] = []
    for level in range(levels):
        requests = {slot: Request("level", headers[slot], level, at_most=at_most) for slot in conversations}
        answers = _ask(conversations, requests, bundles)
        failures = [(each.error, each.logs) for each in answers if each.error is not None]
        if not failures and any(each.output is None for each in answers):
            return Carried(is_large=True)
        bundles = {slot: [] for slot in conversations}
        for output in (each.output for each in answers if each.output is not None):
            if output.report is not None:
                reports.append(output.report)
            for target, bundle in output.bundles.items():
                bundles[target].append(bundle)
        if failures:
            return Carried(reports, failures)
    return Carried(reports)


def _ask(
    conversations: Mapping[int, Conversation],
    requests: Mapping[int, Request],
    bundles: Mapping[int, Sequence[bytes]],
) -> list[Answer]:
    """Ask all slots at once; one that is lost has answered with that."""
    answers: dict[int, Answer] = {}
    for slot, conversation in conversations.items():
        try:
            conversation.ask(requests[slot], bundles[slot])
        except SlotLostError as lost:
            answers[slot] = Answer(error=lost)
    for slot, conversation in conversations.items():
        if slot not in answers:
            try:
                answers[slot] = conversation.wait()
            except SlotLostError as lost:
                answers[slot] = Answer(error=lost)
    return [answers[slot] for slot in conversations]


@dataclass(frozen=True)
class EpochCarrier:
    """Carries one epoch and yields what became of it, pickled.

    Attributes:
        levels: How many there are.
        headers: By slot, pickled.
        addresses: By slot.
        secret: Of the attempt.
        timeout_s: How long a slot may be silent.
        at_most: How many bytes a slot may send to others on one level.
    """

    levels: int
    headers: Mapping[int, bytes]
    addresses: Mapping[int, SlotAddress]
    secret: bytes
    timeout_s: float
    at_most: int

    def __call__(self, partition: int, items: Iterable[object]) -> Iterator[bytes]:
        """Run in Spark's Python worker; the input is always drained, or Spark would discard the worker."""
        for _ in items:
            pass
        prepare_worker_once()
        with ExitStack() as stack:
            conversations = {
                slot: stack.enter_context(
                    Conversation(address, self.secret, here=find_place(), timeout_s=self.timeout_s)
                )
                for slot, address in self.addresses.items()
            }
            carried = carry_epoch(conversations, self.headers, levels=self.levels, at_most=self.at_most)
        yield pickle.dumps(carried, protocol=5)


class CarriedEpochs:
    """Decides which epochs one task carries: those after an epoch in which slots sent each other little; pure.

    If it was a long one, a task for each slot has Spark share its cores: where nobody else wants them, one task does.

    Args:
        slots: How many there are.
        at_most: How many bytes a slot may send to others on one level; 0 for none: shuttles run all epochs.
        is_shared: Tells whether slots have to share Spark's cores.

    Attributes:
        at_most: The same, but no more than a task may hold of all slots.
    """

    def __init__(self, slots: int, at_most: int, is_shared: Callable[[], bool]) -> None:
        self.at_most = min(at_most, _MOST_BYTES // slots)
        self._is_shared = is_shared
        self._was_little = self._was_short = True

    @property
    def is_next(self) -> bool:
        """Whether one task carries the next epoch, and may stay for those behind it."""
        return self.at_most > 0 and self._was_little and (self._was_short or not self._is_shared())

    def learn(self, reports: Sequence[SlotReport]) -> None:
        """Learn how an epoch went."""
        self._was_little = all(report.sent_bytes <= self.at_most for report in reports)
        self._was_short = all(sum(each.busy_ms for each in report.backlogs) <= _LONG_MS for report in reports)

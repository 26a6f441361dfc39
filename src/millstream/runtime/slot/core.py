"""What a slot answers: a machine of requests, without sockets, threads or a clock.

A slot runs each (epoch, level) once, in order, and keeps the output until the epoch is committed, so a repeated
request - a retried or speculative Spark task, a stage run again after a lost shuffle file - gets the same bytes::

    epoch 7:  level 0 ─► level 1 ─► … ─► last level = report
              └── kept, given again to whoever asks again ──┘  until a request says "committed: 7"

A request with another attempt's number is refused. After a failure every request gets the same failure.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable
from dataclasses import dataclass, field

from millstream.base.errors import (
    JobExecutionError,
    MillstreamError,
    NotSerializableError,
    StaleAttemptError,
    shorten,
)
from millstream.base.interrupts import JobInterrupted
from millstream.base.pickling import dump_by_value
from millstream.runtime.protocol.blocks import Block
from millstream.runtime.protocol.report import EpochHeader, LogLine, SlotReport
from millstream.runtime.slot.tasks import SlotTasks

__all__ = ["LevelOutput", "SlotCore", "pack_bundle", "unpack_bundle"]


@dataclass(frozen=True, slots=True)
class LevelOutput:
    """What one level gives.

    Attributes:
        bundles: Blocks for other slots, packed, by slot.
        report: The slot's pickled report; after the last level only.
    """

    bundles: dict[int, bytes] = field(default_factory=dict)
    report: bytes | None = None

    @property
    def size_bytes(self) -> int:
        """How much goes to other slots."""
        return sum(map(len, self.bundles.values()))


def pack_bundle(blocks: list[Block]) -> bytes:
    """Pack blocks for one slot."""
    return pickle.dumps(
        [(block.edge_id, block.sender, block.target, block.payload) for block in blocks], protocol=5
    )


def unpack_bundle(bundle: bytes) -> list[Block]:
    """Unpack what `pack_bundle` gave."""
    return [Block(*fields) for fields in pickle.loads(bundle)]


class SlotCore:
    """Answers requests for one slot in one attempt; the slot's thread calls it.

    Args:
        tasks: The slot's subtasks, opened.
        attempt: Number of the attempt.
        count_modules: Returns how many modules the process has imported; 0 if that does not count.
    """

    def __init__(
        self, tasks: SlotTasks, attempt: int, *, count_modules: Callable[[], int] = lambda: 0
    ) -> None:
        self._tasks = tasks
        self._count_modules = count_modules
        self._attempt = attempt
        self._kept: dict[tuple[int, int], LevelOutput] = {}
        self._next = (1, 0)
        self._failure: MillstreamError | None = None
        self._modules = 0

    def run_level(
        self, header: EpochHeader, level: int, bundles: list[bytes], logs: list[LogLine]
    ) -> LevelOutput:
        """Run a level, or give its output again.

        Args:
            header: The epoch.
            level: The level.
            bundles: What other slots sent.
            logs: What user code printed; filled by the slot while the level runs, put into the report.

        Raises:
            StaleAttemptError: If the request is of another attempt, or neither the next level nor one kept.
            MillstreamError: What a subtask raised, now or before.
        """
        if header.attempt != self._attempt:
            raise StaleAttemptError(
                f"slot {self._tasks.slot} of attempt {self._attempt} was asked for attempt {header.attempt}"
            )
        if self._failure is not None:
            raise self._failure
        self._drop_committed(header.committed)
        kept = self._kept.get((header.epoch, level))
        if kept is not None:
            return kept
        if (header.epoch, level) != self._next:
            raise StaleAttemptError(
                f"slot {self._tasks.slot} was asked for level {level} of epoch {header.epoch}",
                detail=f"Its next is level {self._next[1]} of epoch {self._next[0]}.",
            )
        try:
            output = self._run(header, level, bundles, logs)
        except MillstreamError as error:
            self._failure = error
            raise
        except JobInterrupted:
            self._failure = JobExecutionError("the job was cancelled")
            raise self._failure from None
        self._kept[header.epoch, level] = output
        self._next = (header.epoch + 1, 0) if output.report is not None else (header.epoch, level + 1)
        return output

    def _run(self, header: EpochHeader, level: int, bundles: list[bytes], logs: list[LogLine]) -> LevelOutput:
        if level == 0:
            self._modules = self._count_modules()
        blocks = [block for bundle in bundles for block in unpack_bundle(bundle)]
        leaving: dict[int, list[Block]] = {}
        for block in self._tasks.run_level(header, level, blocks):
            leaving.setdefault(block.target, []).append(block)
        packed = {slot: pack_bundle(blocks) for slot, blocks in leaving.items()}
        if level + 1 < self._tasks.level_count:
            return LevelOutput(packed)
        report = self._tasks.report(header)
        report.logs, logs[:] = list(logs), []
        report.imported = self._count_modules() > self._modules
        report.sent_bytes = max(
            (output.size_bytes for (epoch, _), output in self._kept.items() if epoch == header.epoch),
            default=0,
        )
        return LevelOutput(packed, pickle_report(report, self._tasks.name_of))

    def _drop_committed(self, committed: int) -> None:
        for key in [key for key in self._kept if key[0] <= committed]:
            del self._kept[key]


def pickle_report(report: SlotReport, name_of: Callable[[int], str] = str) -> bytes:
    """Pickle a report; cloudpickle where collected records are of classes of the main module.

    Args:
        report: The report.
        name_of: Gives an operator's name by its node id.

    Raises:
        NotSerializableError: If a collected record or a committable cannot be pickled; names it and the operator.
    """
    try:
        return pickle.dumps(report, protocol=5)
    except (pickle.PicklingError, AttributeError, TypeError):
        pass
    try:
        return dump_by_value(report)
    except Exception as error:
        raise _not_serializable(report, name_of, error) from error


def _not_serializable(
    report: SlotReport, name_of: Callable[[int], str], error: BaseException
) -> MillstreamError:
    for node_id, operator in report.operators:
        for what, values in (
            ("collected record", operator.collected),
            ("committable", operator.committables),
        ):
            for value in values:
                try:
                    dump_by_value(value)
                except Exception as cause:  # noqa: BLE001 - any object may refuse to be pickled in any way
                    return NotSerializableError(
                        f"{what} {shorten(value)} of type {type(value).__name__} cannot be pickled: {cause}",
                        detail="It travels from the slot to the driver.",
                        hint="Emit plain data: numbers, strings, tuples, Rows, dataclasses.",
                    ).at(name_of(node_id), report.slot)
    return NotSerializableError(f"the report of slot {report.slot} cannot be pickled: {error}")

from __future__ import annotations

import pickle

import pytest

from millstream.base.errors import SourceError, StaleAttemptError
from millstream.runtime.protocol.blocks import Block
from millstream.runtime.protocol.report import EpochHeader, LogLine, SlotReport
from millstream.runtime.slot.core import SlotCore, pack_bundle, unpack_bundle

LAST = 1


class FakeTasks:
    """Two levels; writes down what ran; level 0 sends a block to slot 1 with the number of runs so far."""

    slot = 0
    level_count = LAST + 1

    def __init__(self) -> None:
        self.ran: list[tuple[int, int, list[object]]] = []
        self.failure: SourceError | None = None
        self.imports = False
        self.modules = 100

    def run_level(self, header: EpochHeader, level: int, blocks: list[Block]) -> list[Block]:
        self.ran.append((header.epoch, level, [block.payload for block in blocks]))
        if self.failure is not None:
            raise self.failure
        self.modules += self.imports
        return [Block(0, 0, 1, b"%d" % len(self.ran))] if level == 0 else []

    def name_of(self, node_id: int) -> str:
        return f"operator {node_id}"

    def report(self, header: EpochHeader) -> SlotReport:
        return SlotReport(self.slot, header.epoch)


class Slot:
    def __init__(self) -> None:
        self.tasks = FakeTasks()
        self.core = SlotCore(self.tasks, attempt=4, count_modules=lambda: self.tasks.modules)
        self.logs: list[LogLine] = []

    def ask(self, epoch: int, level: int, *, committed: int | None = None, attempt: int = 4, bundles=()):
        header = EpochHeader(
            attempt=attempt,
            epoch=epoch,
            committed=epoch - 1 if committed is None else committed,
            now_ms=0,
            checkpoint=False,
            end_of_input=False,
            sources={},
        )
        return self.core.run_level(header, level, list(bundles), self.logs)


@pytest.fixture
def slot():
    return Slot()


def test_levels_run_in_order_and_the_last_one_gives_the_report(slot):
    first = slot.ask(1, 0)
    assert first.report is None
    assert [block.payload for block in unpack_bundle(first.bundles[1])] == [b"1"]
    last = slot.ask(1, LAST, bundles=[pack_bundle([Block(0, 1, 0, b"from slot 1")])])
    assert pickle.loads(last.report) == SlotReport(0, 1, sent_bytes=first.size_bytes)
    assert first.size_bytes == len(first.bundles[1])
    slot.ask(2, 0)
    assert slot.tasks.ran == [(1, 0, []), (1, 1, [b"from slot 1"]), (2, 0, [])]


def test_repeated_request_gets_the_same_bytes_and_nothing_runs_twice(slot):
    first, last = slot.ask(1, 0), slot.ask(1, LAST)
    assert slot.ask(1, 0).bundles == first.bundles
    assert slot.ask(1, LAST).report == last.report
    assert len(slot.tasks.ran) == 2


def test_epoch_that_is_not_committed_is_kept_while_the_next_one_runs(slot):
    first = slot.ask(1, 0)
    slot.ask(1, LAST)
    slot.ask(2, 0, committed=0)
    assert slot.ask(1, 0, committed=0).bundles == first.bundles


def test_epoch_that_is_committed_is_forgotten(slot):
    slot.ask(1, 0)
    slot.ask(1, LAST)
    slot.ask(2, 0, committed=1)
    with pytest.raises(StaleAttemptError, match="level 0 of epoch 1"):
        slot.ask(1, 0)
    assert len(slot.tasks.ran) == 3


@pytest.mark.parametrize("attempt", [3, 5])
def test_request_of_another_attempt_is_refused_and_changes_nothing(slot, attempt):
    with pytest.raises(StaleAttemptError, match=f"attempt 4 was asked for attempt {attempt}"):
        slot.ask(1, 0, attempt=attempt)
    assert slot.tasks.ran == []
    assert slot.ask(1, 0).bundles


@pytest.mark.parametrize(("epoch", "level"), [(1, 1), (2, 0)])
def test_request_out_of_order_is_refused_and_names_the_next_one(slot, epoch, level):
    with pytest.raises(StaleAttemptError, match=f"level {level} of epoch {epoch}") as caught:
        slot.ask(epoch, level)
    assert caught.value.detail == "Its next is level 0 of epoch 1."
    assert slot.tasks.ran == []


def test_failure_is_given_again_to_whoever_asks(slot):
    slot.tasks.failure = SourceError("the file is gone")
    with pytest.raises(SourceError, match="the file is gone"):
        slot.ask(1, 0)
    slot.tasks.failure = None
    for epoch, level in [(1, 0), (1, 1), (2, 0)]:
        with pytest.raises(SourceError, match="the file is gone"):
            slot.ask(epoch, level)
    assert len(slot.tasks.ran) == 1


def test_lines_that_user_code_wrote_leave_with_the_report_once(slot):
    line = LogLine("map#0", "hello")
    slot.ask(1, 0)
    slot.logs.append(line)
    assert pickle.loads(slot.ask(1, LAST).report).logs == [line]
    assert slot.logs == []
    slot.ask(2, 0)
    assert pickle.loads(slot.ask(2, LAST).report).logs == []


def test_report_tells_whether_modules_were_imported_on_any_level(slot):
    reports = []
    for epoch, importing in ((1, None), (2, 0), (3, LAST), (4, None)):
        for level in (0, LAST):
            slot.tasks.imports = level == importing
            output = slot.ask(epoch, level)
        reports.append(pickle.loads(output.report).imported)
    assert reports == [False, True, True, False]

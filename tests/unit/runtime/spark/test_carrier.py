"""What one task carries between all slots."""

from __future__ import annotations

import pickle

import pytest

from millstream.base.errors import SlotLostError, SourceError
from millstream.runtime.protocol.report import Backlog, SlotReport
from millstream.runtime.slot.core import LevelOutput
from millstream.runtime.slot.wire import Answer, SlotAddress
from millstream.runtime.spark import carrier
from millstream.runtime.spark.carrier import Carried, CarriedEpochs, EpochCarrier

SLOTS = {number: SlotAddress(number, "here", 1, "") for number in range(3)}
HEADERS = {number: b"header %d" % number for number in SLOTS}


class Slots:
    """Three slots: on each level but the last each sends its number and the level to the next one."""

    def __init__(self):
        self.asked = []
        self.answers = {}

    def converse(self, address, secret, *, here, timeout_s):
        return Conversation(self, address.slot)

    def answer(self, slot, level):
        planned = self.answers.get((slot, level))
        if isinstance(planned, Exception):
            raise planned
        if planned is not None:
            return planned
        if level == 2:
            return Answer(output=LevelOutput(report=b"report %d" % slot))
        return Answer(output=LevelOutput({(slot + 1) % 3: b"%d from %d" % (level, slot)}))


class Conversation:
    def __init__(self, slots, slot):
        self.slots, self.slot, self.waits_for = slots, slot, None

    def __enter__(self):
        return self

    def __exit__(self, *_):
        assert self.waits_for is None, "every answer was waited for"

    def ask(self, request, bundles):
        assert self.waits_for is None, "one thing after another"
        assert request.header == HEADERS[self.slot]
        assert request.at_most == 1_000
        self.slots.asked.append((request.level, self.slot, list(bundles)))
        self.waits_for = request.level

    def wait(self):
        level, self.waits_for = self.waits_for, None
        return self.slots.answer(self.slot, level)


@pytest.fixture
def slots(monkeypatch):
    slots = Slots()
    monkeypatch.setattr(carrier, "Conversation", slots.converse)
    monkeypatch.setattr(carrier, "prepare_worker_once", lambda: None)
    return slots


def carry() -> Carried:
    task = EpochCarrier(3, HEADERS, SLOTS, b"secret", 1.0, 1_000)
    items = iter([1, 2])
    (frame,) = task(0, items)
    assert not list(items), "the input is drained"
    return pickle.loads(frame)


def test_each_slot_is_asked_once_for_each_level_with_what_others_sent_on_the_level_before(slots):
    assert carry() == Carried([b"report 0", b"report 1", b"report 2"])
    assert slots.asked == [
        *((0, slot, []) for slot in range(3)),
        *((1, slot, [b"0 from %d" % ((slot - 1) % 3)]) for slot in range(3)),
        *((2, slot, [b"1 from %d" % ((slot - 1) % 3)]) for slot in range(3)),
    ]


def test_behind_a_failure_no_further_level_is_asked_for(slots):
    slots.answers[1, 1] = Answer(error=SourceError("broken"), logs=["before"])
    carried = carry()
    assert [(str(error), logs) for error, logs in carried.failures] == [("[SOURCE] broken", ["before"])]
    assert [(level, slot) for level, slot, _ in slots.asked] == [
        (0, 0),
        (0, 1),
        (0, 2),
        (1, 0),
        (1, 1),
        (1, 2),
    ]


def test_reports_of_slots_that_came_to_the_end_are_there_beside_a_failure(slots):
    slots.answers[1, 2] = Answer(error=SourceError("broken"))
    carried = carry()
    assert carried.reports == [b"report 0", b"report 2"]
    assert len(carried.failures) == 1


def test_slot_that_is_lost_is_a_failure_and_the_others_are_waited_for(slots):
    slots.answers[0, 1] = SlotLostError("slot 0 is lost")
    ((error, logs),) = carry().failures
    assert isinstance(error, SlotLostError)
    assert logs == []
    assert (1, 2, [b"0 from 1"]) in slots.asked


def test_slot_that_keeps_its_output_makes_the_epoch_large_and_no_further_level_is_asked_for(slots):
    slots.answers[2, 0] = Answer()
    assert carry() == Carried(is_large=True)
    assert {level for level, _, _ in slots.asked} == {0}


def test_failure_counts_more_than_what_is_large(slots):
    slots.answers |= {(2, 0): Answer(), (0, 0): Answer(error=SourceError("broken"))}
    assert [str(error) for error, _ in carry().failures] == ["[SOURCE] broken"]


def report(sent_bytes=0, busy_ms=()):
    return SlotReport(0, 1, sent_bytes=sent_bytes, backlogs=tuple(Backlog(busy_ms=each) for each in busy_ms))


@pytest.mark.parametrize(
    ("reports", "carried"),
    [
        ([report(), report()], True),
        ([report(1_000), report(1_000)], True),
        ([report(), report(1_001)], False),
        ([report(busy_ms=[50, 40]), report(busy_ms=[90])], True),
        ([report(busy_ms=[60, 60]), report()], False),
    ],
)
def test_epoch_is_carried_if_the_one_before_was_small(reports, carried):
    epochs = CarriedEpochs(2, 1_000, is_shared=lambda: True)
    assert epochs.is_next, "the first epochs are small"
    epochs.learn(reports)
    assert epochs.is_next == carried
    epochs.learn([report(), report()])
    assert epochs.is_next


def test_long_epoch_is_carried_while_nobody_else_wants_the_cores():
    shared = True
    epochs = CarriedEpochs(2, 1_000, is_shared=lambda: shared)
    epochs.learn([report(busy_ms=[60, 60]), report()])
    assert not epochs.is_next
    shared = False
    assert epochs.is_next
    epochs.learn([report(1_001, [60, 60]), report()])
    assert not epochs.is_next, "what is sent goes through the shuttles"


def test_one_task_carries_no_more_than_it_may_hold_and_none_with_a_limit_of_nothing():
    assert CarriedEpochs(2, 1_000, is_shared=lambda: False).at_most == 1_000
    assert CarriedEpochs(64, 8 << 20, is_shared=lambda: False).at_most == 1 << 20
    assert not CarriedEpochs(1, 0, is_shared=lambda: False).is_next

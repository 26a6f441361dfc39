"""What Spark's tasks carry to the slots and back."""

from __future__ import annotations

import pickle

import pytest

from millstream.base.errors import SlotLostError
from millstream.runtime.slot.core import LevelOutput
from millstream.runtime.slot.wire import Answer, SlotAddress
from millstream.runtime.spark import shuttle
from millstream.runtime.spark.shuttle import BrokenInputError, LevelShuttle, pack_target

SLOTS = {number: SlotAddress(number, "here", 1, "") for number in range(3)}


@pytest.fixture
def asked(monkeypatch):
    """What slots were asked; each sends something to slot 2."""
    asked = []

    def ask(address, secret, request, bundles, **options):
        asked.append((address.slot, request.level, bundles))
        return Answer(output=LevelOutput({2: b"blocks"}, b"report"))

    monkeypatch.setattr(shuttle, "ask", ask)
    monkeypatch.setattr(shuttle, "prepare_worker_once", lambda: None)
    return asked


def carry(level, frames, *, is_last=False, slot=1):
    work = LevelShuttle(level, is_last, dict.fromkeys(SLOTS), SLOTS, b"secret", 1.0)
    return list(work(slot, iter(frames)))


def sent(*frames):
    return [each for slot, frame in enumerate(frames) for each in (pack_target(slot), frame)]


def test_every_slot_is_sent_one_frame_though_there_is_nothing_in_it(asked):
    assert carry(0, [1]) == sent(b"B", b"B", b"Bblocks")
    assert asked == [(1, 0, [])]


def test_slot_is_asked_with_what_there_is_in_the_frames(asked):
    assert carry(1, [b"Bx", b"B", b"By"], is_last=True) == [b"Rreport"]
    assert asked == [(1, 1, [b"x", b"y"])]


@pytest.mark.parametrize("frames", [[], [b"Bx"], [b"Bx", b"By"], [b"Bx", b"Eerror"]])
@pytest.mark.parametrize("is_last", [True, False])
def test_slot_is_not_asked_with_a_part_of_its_input(asked, frames, is_last):
    with pytest.raises(BrokenInputError, match=f"{len(frames)} of 3 frames came"):
        carry(1, frames, is_last=is_last)
    assert asked == []


def test_first_error_is_handed_on_to_every_slot_and_none_is_asked(asked):
    assert carry(1, [b"Bx", b"Efirst", b"Esecond"]) == sent(b"Efirst", b"Efirst", b"Efirst")
    assert carry(2, [b"Efirst"] * 3, is_last=True) == [b"Efirst"]
    assert asked == []


def test_slot_that_is_lost_is_an_error_for_every_slot(asked, monkeypatch):
    def ask(*arguments, **options):
        raise SlotLostError("slot 1 is lost")

    monkeypatch.setattr(shuttle, "ask", ask)
    frames = carry(0, [1])
    assert frames[::2] == [pack_target(slot) for slot in SLOTS]
    assert {str(pickle.loads(frame[1:])[0]) for frame in frames[1::2]} == {"[SLOT_LOST] slot 1 is lost"}

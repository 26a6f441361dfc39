"""Batches that are sent while others are under way."""

from __future__ import annotations

import threading

import pytest

from millstream.base.errors import ConfigurationError, SinkError
from millstream.connectors.batches import BatchLimits, BatchSender, Refused
from millstream.connectors.patience import Patience

QUICK = Patience(total_s=5, first_s=0.001, longest_s=0.002)


def limits(size: int = 3, in_flight: int = 2, buffered: int = 100, batch_bytes: int = 100) -> BatchLimits:
    return BatchLimits(size, in_flight, buffered, batch_bytes, 1_000, 50)


def sender(send, **options) -> BatchSender:
    options = {"patience": QUICK, "give_up": SinkError, **options}
    return BatchSender(options.pop("limits", limits()), send, **options)


def test_batches_are_as_large_as_they_may_be():
    sent: list[list[int]] = []
    batches = sender(sent.append, limits=limits(in_flight=1))
    for number, size in enumerate([1, 1, 1, 60, 60, 1]):
        batches.add(number, size)
    batches.flush()
    batches.close()

    assert sent == [[0, 1, 2], [3], [4, 5]]


def test_what_is_refused_is_sent_again():
    taken: list[int] = []

    def send(batch):
        taken.append(batch[0])
        return Refused(batch[1:], "busy") if len(batch) > 1 else None

    batches = sender(send, limits=limits(in_flight=1))
    for number in range(7):
        batches.add(number, 1)
    batches.flush()
    batches.close()

    assert taken == list(range(7))


@pytest.mark.parametrize("options", [{"fail_on_error": True}, {"patience": Patience(0, 0.001, 0.001)}])
def test_error_says_why(options):
    batches = sender(lambda batch: Refused(batch, "too busy"), **options)
    batches.add(1, 1)
    with pytest.raises(SinkError, match="too busy"):
        batches.flush()
    batches.close()


def test_no_more_are_under_way_than_may_be():
    lock, open_now, most = threading.Lock(), 0, 0
    both = threading.Barrier(2, timeout=10)

    def send(batch):
        nonlocal open_now, most
        with lock:
            open_now += 1
            most = max(most, open_now)
        both.wait()
        with lock:
            open_now -= 1

    batches = sender(send, limits=limits(size=1))
    for number in range(8):
        batches.add(number, 1)
    batches.flush()
    batches.close()

    assert most == 2


def test_entries_that_are_buffered_are_bounded():
    open_now = 0
    most = 0
    lock = threading.Lock()

    def send(batch):
        nonlocal open_now, most
        with lock:
            open_now += len(batch)
            most = max(most, open_now)
        threading.Event().wait(0.002)
        with lock:
            open_now -= len(batch)

    batches = sender(send, limits=limits(size=3, in_flight=50, buffered=6))
    for number in range(60):
        batches.add(number, 1)
    batches.flush()
    batches.close()

    assert most <= 6


def test_limits_of_a_service():
    limits().check(batch_size=3, batch_bytes=100, record_bytes=50)
    for wrong in (limits(size=0), limits(size=4), limits(buffered=2), limits(batch_bytes=101)):
        with pytest.raises(ConfigurationError):
            wrong.check(batch_size=3, batch_bytes=100, record_bytes=50)


def test_last_entry_of_a_key_is_the_one_that_is_sent():
    sent: list[list[str]] = []
    batches = sender(sent.append, limits=limits(in_flight=1))
    for entry in ("a1", "b1", "a2", "c1", "c2"):
        batches.add(entry, 30, entry[0])
    batches.flush()
    batches.close()

    assert sent == [["b1", "a2", "c1"], ["c2"]]


def test_batch_waits_for_those_with_its_keys():
    """The first batch is held until the second one, of another key, is under way; the third has the first one's key."""
    second, taken = threading.Event(), []

    def send(batch):
        if batch == ["a1"]:
            assert second.wait(10)
        if batch == ["b1"]:
            second.set()
        taken.append(batch[0])

    batches = sender(send, limits=limits(size=1, in_flight=3))
    for entry in ("a1", "b1", "a2"):
        batches.add(entry, 1, entry[0])
    batches.flush()
    batches.close()

    assert taken.index("a1") < taken.index("a2")

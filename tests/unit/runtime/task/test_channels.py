from __future__ import annotations

import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millstream.base.time import MAX_TIMESTAMP
from millstream.operators.budget import EpochLimits, WorkBudget
from millstream.runtime.task.channels import ChannelId, ChannelMerger
from millstream.spi.batch import ACTIVE, IDLE, Marks, Rows, Watermark

A, B = ChannelId(0, 0), ChannelId(0, 1)


class Recorder:
    """Merges and writes down, as one line, all that the subtask is given."""

    def __init__(self, channels: dict[ChannelId, int], aligned=()) -> None:
        self.events: list[str] = []
        self.budget = WorkBudget()
        handlers = [self._handler(f"{number}:") for number in range(1 + max(channels.values()))]
        if len(handlers) == 1:
            handlers = [self._handler("")]
        self._merger = ChannelMerger(
            channels,
            handlers,
            lambda mark: self.events.append(f"W{mark}"),
            lambda status: self.events.append("idle" if status is IDLE else "active"),
            self.budget,
            aligned,
        )

    def _handler(self, prefix: str):
        return lambda batch: self.events.extend(f"{prefix}{value}" for value in batch.values)

    def run(self, most: int | None = None, **lines: str) -> str:
        """Run one epoch of at most so many records; each channel's input is a line such as `a b W5 idle`."""
        self.budget.begin(EpochLimits(records=most))
        self._merger.run({{"a": A, "b": B}[name]: parse(line) for name, line in lines.items()})
        taken, self.events[:] = " ".join(self.events), []
        return taken


def parse(line: str):
    elements = []
    for word in line.split():
        if word in ("idle", "active"):
            elements.append(IDLE if word == "idle" else ACTIVE)
        elif word[0] == "W":
            elements.append(Watermark(int(word[1:])))
        else:
            elements.append(Rows([word]))
    return elements


@pytest.fixture
def two():
    return Recorder({A: 0, B: 0})


def test_merge_goes_on_with_the_channel_whose_watermark_is_lowest(two):
    """::

    a   p q W5 r W9
    b   x W3 y W7
    """
    assert two.run(a="p q W5 r W9", b="x W3 y W7") == "p q x W3 y W5 r W7"


def test_watermark_is_the_minimum_also_over_a_channel_without_input(two):
    assert two.run(a="p W5") == "p"
    assert two.run(b="x W3") == "x W3"
    assert two.run(b="y W9") == "y W5"


def test_channel_that_is_behind_goes_first_in_the_next_epoch(two):
    two.run(a="W5", b="W3")
    assert two.run(a="p W8", b="x W4 y W6") == "x W4 y W5 p W6"


def test_idle_channel_does_not_hold_the_watermark_back(two):
    assert two.run(a="p W5", b="idle") == "p W5"
    assert two.run(a="W7") == "W7"


def test_channel_that_is_active_again_counts_from_when_it_has_caught_up(two):
    """Flink's valve: a channel behind what was told neither turns the watermark back nor stops it."""
    two.run(a="W5", b="idle")
    assert two.run(b="active x W2") == "x"
    assert two.run(a="q W9") == "q W9"
    assert two.run(b="W6") == ""
    assert two.run(b="W9") == ""
    assert two.run(a="W12") == ""
    assert two.run(b="W10") == "W10"


def test_channel_that_is_active_again_and_not_behind_holds_it_back_at_once(two):
    two.run(a="W5", b="W7 idle")
    assert two.run(b="active") == ""
    assert two.run(a="W9") == "W7"


def test_last_channel_that_goes_idle_releases_the_largest_watermark_if_it_held_it_back(two):
    """a is idle at 9, b at 4 holds it back: nobody is left to wait for once b is idle too."""
    assert two.run(a="W9", b="W4") == "W4"
    assert two.run(a="idle") == ""
    assert two.run(b="idle") == "W9 idle"


def test_watermark_of_a_channel_ahead_is_not_released_by_its_own_idleness(two):
    two.run(a="W9", b="W4")
    assert two.run(a="idle", b="W5") == "W5"


def test_inputs_are_combined_as_they_are_not_their_channels():
    """Input 1 is idle as a whole, so input 0 decides alone; awake again it is behind and holds back."""
    both = Recorder({A: 0, B: 1})
    both.run(a="W5", b="W3")
    assert both.run(b="idle") == "W5"
    assert both.run(b="active", a="W8") == ""
    assert both.run(b="W7") == "W7"


def test_status_is_told_when_all_channels_are_idle_and_when_one_is_active_again(two):
    assert two.run(a="idle") == ""
    assert two.run(b="idle") == "idle"
    assert two.run(a="active") == "active"
    assert two.run(a="p") == "p"


def test_records_of_each_input_go_to_its_own_handler():
    both = Recorder({A: 0, B: 1})
    assert both.run(a="p W1", b="x W2") == "0:p 1:x W1"


EPOCHS = st.lists(
    st.tuples(*[st.lists(st.integers(0, 3) | st.just("v"), max_size=6) for _ in range(2)]), max_size=4
)


@given(EPOCHS)
def test_order_depends_on_content_not_on_the_order_in_which_blocks_arrive(epochs):
    runs = []
    for order in (("a", "b"), ("b", "a")):
        merger, marks, numbers, told = Recorder({A: 0, B: 0}), {"a": 0, "b": 0}, {"a": 0, "b": 0}, []
        for epoch in epochs:
            lines = {}
            for name, items in zip("ab", epoch, strict=True):
                words = []
                for item in items:
                    if item == "v":
                        numbers[name] += 1
                        words.append(f"{name}{numbers[name]}")
                    else:
                        marks[name] += item + 1
                        words.append(f"W{marks[name]}")
                lines[name] = " ".join(words)
            told.append(merger.run(**{name: lines[name] for name in order}))
        runs.append(told)
        words = " ".join(told).split()
        for name in "ab":  # nothing lost, order within a channel kept
            of_channel = [word for word in words if word[0] == name]
            assert of_channel == [f"{name}{number + 1}" for number in range(numbers[name])]
        seen = [int(word[1:]) for word in words if word[0] == "W"]
        assert seen == sorted(set(seen))
    assert runs[0] == runs[1]


# What does not fit into an epoch


def test_what_is_held_goes_on_before_what_comes_later_and_watermarks_stay_in_their_place(two):
    assert two.run(2, a="p q r W5", b="W9") == "p q"
    assert two._merger.held == 1
    assert two.run(1, a="s W7") == "r W5"
    assert two.run(5) == "s W7"
    assert two._merger.held == 0


def test_a_batch_is_cut_where_the_budget_ends(two):
    two.budget.begin(EpochLimits(records=3))
    two._merger.run({A: [Rows([1, 2, 3, 4, 5], [10, 20, 30, 40, 50])]})
    assert two.events == ["1", "2", "3"]
    _, pending = two._merger.snapshot()
    assert pending == {A: [Rows([4, 5], [40, 50])]}


def test_input_has_ended_when_nothing_is_held_and_all_channels_gave_the_final_watermark(two):
    end = f"W{MAX_TIMESTAMP}"
    two.run(1, a=f"p q {end}", b="idle")
    assert not two._merger.has_ended
    two.run(5)
    assert not two._merger.has_ended, "an idle channel may come back"
    two.run(5, b=f"active {end}")
    assert two._merger.has_ended


def test_aligned_channels_are_run_out_for_a_checkpoint():
    recorder = Recorder({A: 0, B: 1}, aligned=[B])
    assert recorder.run(1, a="p q r W5", b="x W3 y") == "0:p"
    recorder._merger.align()
    assert recorder.events == ["1:x", "1:y"]
    _, pending = recorder._merger.snapshot()
    assert pending.keys() == {A}


words = st.one_of(
    st.sampled_from(["p", "q", "r", "s"]),
    st.sampled_from(["idle", "active"]),
    st.integers(0, 9).map("W{}".format),
)


@given(
    st.lists(st.tuples(st.lists(words, max_size=6), st.lists(words, max_size=6)), max_size=4),
    st.lists(st.integers(1, 5), max_size=10),
)
def test_a_merger_that_is_restored_wherever_it_stands_goes_on_as_if_nothing_had_been(epochs, limits):
    channels = {A: 0, B: 0}
    through, restored = Recorder(channels), Recorder(channels)
    seen, again = [], []
    for number, (a, b) in enumerate([*epochs, *[([], [])] * 30]):
        most = limits[number % len(limits)] if limits and number < len(epochs) else 40
        seen += through.run(most, a=" ".join(a), b=" ".join(b)).split()
        again += restored.run(most, a=" ".join(a), b=" ".join(b)).split()
        time, pending = pickle.loads(pickle.dumps(restored._merger.snapshot()))
        restored = Recorder(channels)
        restored._merger.restore_channels(time, pending)
    assert again == seen
    assert through._merger.held == 0


def test_what_is_behind_a_watermark_waits_until_all_that_it_fires_has_had_room():
    log, room = [], [False, False, True]

    def advance(timestamp_ms):
        reached = room.pop(0)
        log.append((timestamp_ms, reached))
        return reached

    merger = ChannelMerger(
        {ChannelId(0, 0): 0},
        [lambda batch: log.append(batch.values)],
        log.append,
        log.append,
        advance=advance,
    )
    merger.run({ChannelId(0, 0): [Rows([1]), Watermark(5), Rows([2])]})
    assert log == [[1], (5, False)]
    assert merger.held == 2
    assert not merger.has_ended
    merger.run({})
    merger.run({})
    assert log == [[1], (5, False), (5, False), (5, True), [2]]
    assert merger.held == 0


class Marked:
    """Merges batches with watermarks between their records; each call is a line, `!` where there was no room."""

    def __init__(self, channels: dict[ChannelId, int], full: set[int] = frozenset()) -> None:
        self.calls: list[str] = []
        self._full = set(full)
        self.budget = WorkBudget()
        self.merger = ChannelMerger(
            channels,
            [lambda batch: self.calls.append(" ".join(batch.values))] * (1 + max(channels.values())),
            lambda mark: self.calls.append(f"W{mark}"),
            lambda status: self.calls.append("idle" if status is IDLE else "active"),
            self.budget,
            advance=self._advance,
            marked=self._process,
        )

    def _advance(self, mark: int) -> bool:
        full = mark in self._full
        self._full.discard(mark)
        self.calls.append(f"W{mark}!" if full else f"W{mark}")
        return not full

    def _process(self, batch, reach):
        values, marks = batch.values, batch.marks
        words, start = [], 0
        for index, (position, mark) in enumerate(zip(*marks, strict=True)):
            words += values[start:position]
            start = position
            if mark in self._full:
                self.calls.append(" ".join(words))
                assert not reach(mark)
                return index
            words.append(f"W{mark}")
        self.calls.append(" ".join([*words, *values[start:]]))
        return None

    def run(self, most: int | None = None, **lines: str) -> list[str]:
        """Run one epoch of at most so many records; return what was called."""
        self.budget.begin(EpochLimits(records=most))
        self.merger.run({{"a": A, "b": B}[name]: [one_batch(line)] for name, line in lines.items()})
        taken, self.calls[:] = list(self.calls), []
        return taken


def one_batch(line: str) -> Rows:
    values, marks = [], Marks([], [])
    for word in line.split():
        if word[0] == "W":
            marks.positions.append(len(values))
            marks.watermarks.append(int(word[1:]))
        else:
            values.append(word)
    return Rows(values, list(range(len(values))), marks if marks.positions else None)


def warm(channels, full=frozenset()):
    """Return a merger that begins several records at once."""
    merger = Marked(channels, full)
    merger.run(a="p q r s t u v w")
    return merger


def test_batch_of_the_only_channel_comes_whole_with_the_watermarks_between_its_records():
    one = warm({A: 0})
    assert one.run(a="x W1 y z W2 W3 v") == ["x W1 y z W2 W3 v"]
    assert one.merger.snapshot()[0][0] == 3


def test_what_has_no_room_waits_with_the_watermarks_behind_it():
    one = warm({A: 0})
    assert one.run(3, a="x W1 W2 y z W3 v W4") == ["x W1 W2 y z W3"]
    assert one.merger.held == 1
    assert one.run() == ["v W4"]


def test_watermark_for_which_there_is_no_room_is_reached_before_what_is_behind_it():
    one = warm({A: 0}, full={2})
    assert one.run(a="x W1 y W2 W3 z W4") == ["x W1 y", "W2!"]
    assert one.merger.held == 2
    assert one.run() == ["W2", "W3 z W4"]
    assert one.merger.snapshot()[0][0] == 4


def test_batches_of_several_channels_are_cut_and_take_their_turn():
    two = Marked({A: 0, B: 0})
    assert two.run(a="x W2 y W5", b="v W3 w W4") == ["x", "v", "W2", "y", "W3", "w", "W4"]


def test_each_input_has_a_watermark_of_its_own():
    merging = Recorder({A: 1, B: 0})
    assert merging.run(a="W5", b="W3") == "W3"
    assert merging._merger.input_watermarks == {0: 3, 1: 5}

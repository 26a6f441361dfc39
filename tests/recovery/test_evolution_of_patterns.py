"""State of a pattern goes on with that pattern, at any parallelism; another pattern is refused, naming both."""

from __future__ import annotations

import pytest
from recovery_support import Tap, multiset, resume, run, run_to_savepoint

from millstream.base.errors import StateIncompatibleError
from millstream.cep import CEP, AfterMatchSkipStrategy, Pattern
from millstream.common import WatermarkStrategy
from millstream.common.watermark_strategy import TimestampAssigner

EVENTS = [("abxcab"[number % 6], number, number % 5) for number in range(120)]


class Stamp(TimestampAssigner):
    def extract_timestamp(self, value, record_timestamp):
        return value[1]


def part(name):
    return lambda event: event[0] == name


def three_parts(last="c", within=60, strategy=None):
    return (
        Pattern.begin("a", strategy).where(part("a"))
        .followed_by("b").where(part("b")).one_or_more()
        .followed_by(last).where(part("c")).within(within)
    )  # fmt: skip


def program(pattern):
    def build(env):
        strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(Stamp())
        stream = (
            env.from_collection(EVENTS).uid("events").map(Tap()).assign_timestamps_and_watermarks(strategy)
        )
        keyed = stream.uid("stamps").key_by(lambda event: event[2])
        return CEP.pattern(keyed, pattern).select(times_of).uid("pattern").name("Three parts")

    return build


def times_of(match):
    return tuple((name, tuple(event[1] for event in events)) for name, events in match.items())


@pytest.mark.parametrize("parallelism", [1, 3])
@pytest.mark.parametrize("backend", ["hashmap", "rocksdb"])
def test_a_pattern_goes_on_from_a_savepoint(tmp_path, parallelism, backend):
    whole = run(program(three_parts()))
    assert len(whole) > 20
    before, path = run_to_savepoint(program(three_parts()), tmp_path, at=50, state_backend_type=backend)
    assert before and before != whole
    after = resume(path, program(three_parts()), parallelism=parallelism, state_backend_type=backend)
    assert multiset([*before.elements(), *after.elements()]) == whole


CHANGED = {
    "a part's name": (three_parts("d"), "a followed_by b{1,} followed_by d within 60 ms"),
    "its time": (three_parts(within=50), "followed_by c within 50 ms"),
    "what matches rule out": (
        three_parts(strategy=AfterMatchSkipStrategy.skip_to_next()),
        "ms, skip to next",
    ),
}


@pytest.mark.parametrize("what", CHANGED)
def test_another_pattern_is_refused_with_both(tmp_path, what):
    changed, described = CHANGED[what]
    _, path = run_to_savepoint(program(three_parts()), tmp_path, at=50)
    with pytest.raises(StateIncompatibleError) as caught:
        resume(path, program(changed))
    message = str(caught.value)
    assert '"Three parts" (uid "pattern")' in message
    assert "a followed_by b{1,} followed_by c within 60 ms" in message
    assert described in message

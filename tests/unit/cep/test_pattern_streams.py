"""What pattern streams do beside matching: time, late events, functions, state, patterns that are replaced."""

from __future__ import annotations

import pytest

from millstream.base.errors import JobExecutionError
from millstream.cep import (
    CEP,
    AfterMatchSkipStrategy,
    EventComparator,
    Pattern,
    PatternFlatSelectFunction,
    PatternFlatTimeoutFunction,
    PatternSelectFunction,
    RichIterativeCondition,
    SimpleCondition,
    WithinType,
    explain_pattern,
)
from millstream.common import Duration, WatermarkStrategy
from millstream.common.watermark_strategy import TimestampAssigner
from millstream.datastream import OutputTag

LATE, TIMED_OUT = OutputTag("late"), OutputTag("timed out")


class Stamp(TimestampAssigner):
    def extract_timestamp(self, value, record_timestamp):
        return value[1]


def letter(wanted):
    return lambda event: event[0] == wanted


def pair(within=10):
    return Pattern.begin("a").where(letter("a")).followed_by("b").where(letter("b")).within(within)


def stamped(environment, events, bound=0):
    strategy = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_millis(bound))
    stream = environment.from_collection(events)
    return stream.assign_timestamps_and_watermarks(strategy.with_timestamp_assigner(Stamp()))


def collect(stream):
    with stream.execute_and_collect() as results:
        return list(results)


def text(match):
    return " ".join(f"{name}={','.join(str(event[1]) for event in events)}" for name, events in match.items())


def test_a_stream_without_keys_is_one_sequence(new_environment):
    events = [("a", 1, "x"), ("b", 2, "y"), ("a", 3, "x"), ("b", 4, "x")]
    found = CEP.pattern(stamped(new_environment(parallelism=3), events), pair()).select(text)
    assert found._transformation.parallelism == 1
    assert sorted(collect(found)) == ["a=1 b=2", "a=3 b=4"]


def test_events_of_one_time_are_ordered_by_the_comparator(new_environment):
    class ByLetter(EventComparator):
        def compare(self, first, second):
            return (first[0] > second[0]) - (first[0] < second[0])

    events = [("b", 1, 0), ("a", 1, 0)]
    stream = stamped(new_environment(), events).key_by(lambda event: event[2])
    assert collect(CEP.pattern(stream, pair()).select(text)) == []
    assert collect(CEP.pattern(stream, pair(), ByLetter()).select(text)) == ["a=1 b=1"]


def test_late_events_go_to_the_side_output(new_environment):
    environment = new_environment(options={"millstream.epoch.fixed-records": 1})
    events = [("a", 1, 0), ("x", 20, 0), ("b", 5, 0), ("a", 30, 0), ("b", 31, 0)]
    stream = stamped(environment, events).key_by(lambda event: event[2])
    found = CEP.pattern(stream, pair()).side_output_late_data(LATE).select(text)
    assert collect(found.get_side_output(LATE)) == [("b", 5, 0)]
    assert collect(found) == ["a=30 b=31"]


def test_processing_time_takes_events_as_they_come(new_environment):
    events = [("b", 0, 0), ("a", 9, 0), ("b", 3, 0)]
    stream = new_environment().from_collection(events).key_by(lambda event: event[2])
    assert collect(CEP.pattern(stream, pair(60_000)).in_processing_time().select(text)) == ["a=9 b=3"]


def test_event_time_without_timestamps_is_refused(new_environment):
    stream = new_environment().from_collection([("a", 1, 0)]).key_by(lambda event: event[2])
    with pytest.raises(JobExecutionError, match="a record has no timestamp"):
        collect(CEP.pattern(stream, pair()).select(text))


def test_flat_select_with_time_outs(new_environment):
    class Both(PatternFlatSelectFunction):
        def flat_select(self, pattern):
            yield from pattern["a"]
            yield from pattern["b"]

    class Lost(PatternFlatTimeoutFunction):
        def timeout(self, pattern, timeout_timestamp):
            yield timeout_timestamp
            yield from pattern["a"]

    events = [("a", 1, 0), ("b", 2, 0), ("a", 50, 0)]
    stream = stamped(new_environment(), events).key_by(lambda event: event[2])
    found = CEP.pattern(stream, pair()).flat_select(TIMED_OUT, Lost(), Both())
    assert collect(found) == [("a", 1, 0), ("b", 2, 0)]
    assert collect(found.get_side_output(TIMED_OUT)) == [60, ("a", 50, 0)]


def test_functions_and_rich_conditions_are_opened_and_closed(new_environment, tmp_path):
    log = str(tmp_path / "log")

    def write(word):
        with open(log, "a") as file:
            file.write(word + " ")

    class Selecting(PatternSelectFunction):
        def open(self, runtime_context):
            write("open-function")

        def close(self):
            write("close-function")

        def select(self, pattern):
            return text(pattern)

    class Rich(RichIterativeCondition):
        def open(self, runtime_context):
            write(f"open-{self.get_runtime_context().get_index_of_this_subtask()}")

        def close(self):
            write("close-condition")

        def filter(self, value, ctx):
            return value[0] == "b" and ctx.timestamp() == value[1]

    pattern = Pattern.begin("a").where(letter("a")).next("b").where(Rich())
    stream = stamped(new_environment(), [("a", 1, 0), ("b", 2, 0)]).key_by(lambda event: event[2])
    assert collect(CEP.pattern(stream, pattern).select(Selecting())) == ["a=1 b=2"]
    words = (tmp_path / "log").read_text().split()
    assert sorted(words) == ["close-condition", "close-function", "open-0", "open-function"]


def test_conditions_are_combined():
    class Small:
        size = 1

    pattern = (
        Pattern.begin("a")
        .subtype(Small)
        .where(lambda event: event.size < 3)
        .or_(SimpleCondition.of(lambda event: event is None))
    )
    test = pattern._condition.test
    assert [test(Small()), test(None), test(5)] == [True, True, False]


@pytest.mark.filterwarnings("ignore:part .c. of a pattern is waited for")
def test_gaps_between_events_are_bounded(new_environment):
    pattern = (
        Pattern.begin("a").where(letter("a"))
        .followed_by("b").where(letter("b")).within(3, WithinType.PREVIOUS_AND_CURRENT)
        .followed_by("c").where(letter("c")).times(2, Duration.of_millis(5))
    )  # fmt: skip
    events = [
        ("a", 0, 0),
        ("b", 2, 0),
        ("c", 9, 0),
        ("c", 13, 0),
        ("a", 20, 0),
        ("b", 23, 0),
        ("c", 24, 0),
        ("c", 25, 0),
    ]
    stream = stamped(new_environment(), events).key_by(lambda event: event[2])
    assert collect(CEP.pattern(stream, pattern).select(text)) == ["a=0 b=2 c=9,13"]


def test_a_match_that_cannot_be_skipped_to_fails_if_asked(new_environment):
    strategy = AfterMatchSkipStrategy.skip_to_first("b").throw_exception_on_miss()
    pattern = Pattern.begin("a", strategy).where(letter("a")).next("b").where(letter("b")).optional()
    stream = stamped(new_environment(), [("a", 1, 0), ("x", 2, 0)]).key_by(lambda event: event[2])
    with pytest.raises(JobExecutionError, match='a match has no event "b" to skip to'):
        collect(CEP.pattern(stream, pattern).select(text))


def test_what_the_function_does_to_a_match_changes_no_other_one(new_environment):
    def spoil(match):
        value = match["a"][0].copy()
        match["a"][0][2] = "spoiled"
        return value

    events = [["a", 1, 0], ["b", 2, 0], ["b", 3, 0]]
    pattern = Pattern.begin("a").where(letter("a")).followed_by_any("b").where(letter("b")).within(10)
    stream = stamped(new_environment(), events).key_by(lambda event: 0)
    assert collect(CEP.pattern(stream, pattern).select(spoil)) == [["a", 1, 0], ["a", 1, 0]]


def test_a_pattern_counts_from_its_time_on_whatever_comes_first(new_environment):
    events = [("a", 1, 0), ("b", 2, 0), ("a", 3, 0), ("a", 6, 0), ("b", 7, 0), ("c", 8, 0)]
    other = Pattern.begin("b").where(letter("b")).next("c").where(letter("c"))

    def to_pattern(change):
        return {"pair": pair(), "other": other}[change[0]]

    for records in (1, 100):
        environment = new_environment(options={"millstream.epoch.fixed-records": records})
        control = stamped(environment, [("pair", 0), ("other", 5)]).map(to_pattern)
        stream = stamped(environment, events).key_by(lambda event: event[2])
        assert collect(CEP.dynamic_patterns(stream, control).select(text)) == ["a=1 b=2", "b=7 c=8"]


def test_explained_pattern_names_states_and_transitions():
    pattern = Pattern.begin("a").next("b").times(2).not_next("d").followed_by("c")
    drawn = explain_pattern(pattern)
    assert drawn.splitlines()[0] == "a next b{2} not_next d followed_by c"
    assert [line for line in drawn.splitlines() if line.startswith("[")] == [
        "[start]",
        "[a]",
        "[b 1]",
        "[b 2]",
        "[c]  (a match ends here)",
    ]
    assert "  ──► c: the next that fits, c and not d" in drawn

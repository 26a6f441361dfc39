"""What is wrong with a pattern is said when the program is built, with the part's name."""

from __future__ import annotations

import threading
import warnings

import pytest

from millstream.base.errors import ConfigurationError, NotSerializableError, TypeMismatchError
from millstream.base.time import Time
from millstream.cep import (
    CEP,
    AfterMatchSkipStrategy,
    GrowingStateWarning,
    MalformedPatternError,
    Pattern,
    PatternProcessFunction,
    SimpleCondition,
    WithinType,
    explain_pattern,
)


def begin(name="a"):
    return Pattern.begin(name).where(lambda event: event == name)


def group():
    return begin("x").next("y")


BUILT = {
    "until on a part that does not loop": (
        lambda: begin().until(lambda event: True),
        'until was called on part "a", which does not loop',
    ),
    "until on a range": (lambda: begin().times(2, 3).until(lambda event: True), "does not loop"),
    "two until conditions": (
        lambda: begin().one_or_more().until(lambda event: True).until(lambda event: True),
        'part "a" has an until condition already',
    ),
    "two quantities": (lambda: begin().one_or_more().times(2), r'times\(...\) was called on part "a"'),
    "no events": (lambda: begin().times(0), "asks for 0 events"),
    "upside down": (lambda: begin().times(3, 2), "asks for 3 to 2 events"),
    "optional twice": (lambda: begin().optional().optional(), 'part "a" is optional already'),
    "optional behind greedy": (
        lambda: begin().one_or_more().greedy().next("b").optional(),
        'the optional part "b" comes behind the greedy part "a"',
    ),
    "greedy group": (lambda: Pattern.begin(group()).greedy(), r"greedy\(\) was called on the group \(x y\)"),
    "greedy single": (lambda: begin().greedy(), "which has one event"),
    "greedy combinations": (
        lambda: begin().one_or_more().greedy().allow_combinations(),
        "is to be greedy and to allow combinations",
    ),
    "combinations greedy": (
        lambda: begin().one_or_more().allow_combinations().greedy(),
        "is to be greedy and to allow combinations",
    ),
    "consecutive single": (lambda: begin().consecutive(), "which has one event"),
    "consecutive combinations": (
        lambda: begin().one_or_more().consecutive().allow_combinations(),
        "has been told what lies between its events",
    ),
    "not behind optional": (
        lambda: begin().optional().not_followed_by("b"),
        r'not_followed_by\("b"\) comes behind the optional part "a"',
    ),
    "not behind a group that may end early": (
        lambda: Pattern.begin(begin("x").next("y").optional()).not_next("b"),
        r'not_next\("b"\) comes behind the optional part',
    ),
    "quantity of what must not be there": (
        lambda: begin().not_next("b").one_or_more(),
        r'one_or_more\(...\) was called on part "b", which must not be there',
    ),
    "condition of a group": (
        lambda: Pattern.begin(group()).where(lambda event: True),
        r"where was called on the group \(x y\)",
    ),
    "no name": (lambda: Pattern.begin(""), "an empty name"),
    "no time": (lambda: begin().within(0), "within was given 0 ms"),
    "strict skip to next": (
        lambda: AfterMatchSkipStrategy.skip_to_next().throw_exception_on_miss(),
        "does not apply",
    ),
}


@pytest.mark.parametrize("what", BUILT)
def test_a_call_that_makes_no_sense_is_refused(what):
    build, message = BUILT[what]
    with pytest.raises(MalformedPatternError, match=message):
        build()


def test_a_greedy_group_is_told_what_to_do_instead():
    with pytest.raises(MalformedPatternError) as raised:
        Pattern.begin(group()).one_or_more().greedy()
    assert "a group has none of its own" in raised.value.detail
    assert "greedy() on a part inside the group" in raised.value.hint
    inside = Pattern.begin(begin("x").next("y").one_or_more().greedy())
    assert "(x next y{1,} greedy)" in explain_pattern(inside.times(2))


WRONG_TYPES = {
    "name": lambda: Pattern.begin(3),
    "strategy": lambda: Pattern.begin("a", "no_skip"),
    "condition": lambda: begin().where("a"),
    "condition class": lambda: begin().where(SimpleCondition),
    "subtype": lambda: begin().subtype("int"),
    "length": lambda: begin().within("1 s"),
    "type of within": lambda: begin().within(5, "first"),
    "times": lambda: begin().times(1.5),
}


@pytest.mark.parametrize("what", WRONG_TYPES)
def test_an_argument_of_another_type_is_refused(what):
    with pytest.raises(TypeMismatchError):
        WRONG_TYPES[what]()


WHOLE = {
    "two parts of a name": (
        lambda: begin().next("b").followed_by("a"),
        'two parts of a pattern are named "a"',
    ),
    "a name in a group": (lambda: begin().next(Pattern.begin("b").next("a")), 'are named "a"'),
    "not_followed_by at the end": (
        lambda: begin().not_followed_by("b"),
        r'ends with not_followed_by\("b"\) and has no within',
    ),
    "a group that ends with what must not be": (
        lambda: Pattern.begin(begin("x").not_followed_by("y")).next("z"),
        'a group ends with a part that must not be there: "y"',
    ),
    "gap beyond the whole": (
        lambda: begin().next("b").within(10, WithinType.PREVIOUS_AND_CURRENT).within(5),
        'the events of part "b" may be 10 ms behind',
    ),
    "skip to nowhere": (
        lambda: Pattern.begin("a", AfterMatchSkipStrategy.skip_to_first("z")).next("b"),
        'to skip to "z", and the pattern has no such part',
    ),
}


@pytest.mark.parametrize("what", WHOLE)
def test_a_pattern_that_makes_no_sense_is_refused_before_the_job_starts(what, new_environment):
    build, message = WHOLE[what]
    stream = new_environment().from_collection([1])
    with pytest.raises(MalformedPatternError, match=message):
        CEP.pattern(stream, build())


def test_a_condition_that_cannot_be_pickled_is_refused_with_its_part(new_environment):
    lock = threading.Lock()
    pattern = begin().next("b").where(lambda event: lock.locked())
    with pytest.raises(NotSerializableError, match='a condition of part "b" cannot be pickled'):
        CEP.pattern(new_environment().from_collection([1]), pattern)


def test_a_strategy_needs_a_name():
    with pytest.raises(ConfigurationError, match="skip_to_last was given ''"):
        AfterMatchSkipStrategy.skip_to_last("")


@pytest.mark.parametrize("loop", [lambda part: part.one_or_more(), lambda part: part.times_or_more(2)])
def test_a_loop_that_may_grow_without_bound_is_named(loop, new_environment):
    stream = new_environment().from_collection([1])
    with pytest.warns(GrowingStateWarning, match='part "b" of a pattern loops'):
        CEP.pattern(stream, loop(begin().next("b")).next("c"))


def test_a_group_that_may_grow_without_bound_is_named(new_environment):
    stream = new_environment().from_collection([1])
    with pytest.warns(GrowingStateWarning, match=r"the group \(x next y\)\{1,\} of a pattern loops"):
        CEP.pattern(stream, Pattern.begin(group()).one_or_more())


WAITS = {
    "followed_by": lambda: begin().followed_by("b"),
    "followed_by_any": lambda: begin().next("c").followed_by_any("b"),
    "in a group": lambda: begin().next(Pattern.begin("x").followed_by("b")),
    "times": lambda: Pattern.begin("b").times(2),
    "behind what must not come": lambda: begin().not_followed_by("n").followed_by("b"),
}


@pytest.mark.parametrize("name", WAITS)
def test_a_part_that_is_waited_for_without_end_is_named(name, new_environment):
    stream = new_environment().from_collection([1])
    with pytest.warns(GrowingStateWarning, match='part "b" of a pattern is waited for without within'):
        CEP.pattern(stream, WAITS[name]())


BOUNDED = {
    "within": lambda: begin().followed_by("b").within(5),
    "within behind the part before": lambda: (
        begin().followed_by("b").within(5, WithinType.PREVIOUS_AND_CURRENT)
    ),
    "right behind": lambda: begin().next("b").not_next("c").next("d"),
    "consecutive": lambda: begin().times(3).consecutive(),
    "times less than a time apart": lambda: begin().times(2, Time.seconds(3)),
}


@pytest.mark.parametrize("name", BOUNDED)
def test_a_pattern_that_is_bounded_is_not_warned_of(name, new_environment):
    stream = new_environment().from_collection([1])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        CEP.pattern(stream, BOUNDED[name]())


def test_a_loop_with_a_bound_is_not_warned_of(new_environment):
    stream = new_environment().from_collection([1])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        CEP.pattern(stream, begin().one_or_more().next("c").within(Time.seconds(1)))
        CEP.pattern(stream, begin().one_or_more().until(lambda event: event == "u").next("c"))


def test_arguments_of_the_stream_are_checked(new_environment):
    stream = new_environment().from_collection([1])
    with pytest.raises(TypeMismatchError, match="not a DataStream"):
        CEP.pattern([1], begin())
    with pytest.raises(TypeMismatchError, match="not a Pattern"):
        CEP.pattern(stream, "a")
    with pytest.raises(TypeMismatchError, match="not an EventComparator"):
        CEP.pattern(stream, begin(), 5)
    found = CEP.pattern(stream, begin())
    with pytest.raises(TypeMismatchError, match="not a PatternProcessFunction"):
        found.process(lambda match: match)
    with pytest.raises(TypeMismatchError, match="was given 2 functions"):
        found.select(len, len)
    with pytest.raises(TypeMismatchError, match="not an OutputTag"):
        found.select("late", len, len)
    with pytest.raises(TypeMismatchError, match="not an OutputTag"):
        found.side_output_late_data("late")
    with pytest.raises(TypeMismatchError, match="not a PatternFlatSelectFunction"):
        found.flat_select(PatternProcessFunction)

"""What a user reads who errs: what was seen, where, and what to write instead."""

from __future__ import annotations

import logging

import pytest

from millstream.base.errors import ConfigurationError, JobExecutionError, TypeMismatchError
from millstream.common import Configuration, Time, Types, WatermarkStrategy
from millstream.datastream import (
    AsyncDataStream,
    AsyncFunction,
    CoProcessFunction,
    FlatMapFunction,
    KeyedProcessFunction,
    ProcessFunction,
    ProcessWindowFunction,
    StreamExecutionEnvironment,
    WindowFunction,
)
from millstream.datastream.functions import ProcessAllWindowFunction


def environment(**options):
    settings = {
        "execution.target": "local",
        **{key.replace("_", "."): value for key, value in options.items()},
    }
    made = StreamExecutionEnvironment.get_execution_environment(Configuration.from_dict(settings))
    return made.set_parallelism(1)


def by_itself(numbers):
    return numbers.key_by(lambda number: number)


def failure_of(stream):
    with pytest.raises(JobExecutionError) as caught, stream.execute_and_collect() as results:
        list(results)
    return caught.value.__cause__


class Forgetful(ProcessFunction):
    def process_element(self, value, ctx):
        return value


class KeyedForgetful(KeyedProcessFunction):
    def process_element(self, value, ctx):
        return value


class CoForgetful(CoProcessFunction):
    def process_element1(self, value, ctx):
        return value

    def process_element2(self, value, ctx):
        return value


class ForgetfulWindow(ProcessWindowFunction):
    def process(self, key, context, elements):
        return key


class ForgetfulAllWindow(ProcessAllWindowFunction):
    def process(self, context, elements):
        return 17


class ForgetfulApply(WindowFunction):
    def apply(self, key, window, inputs):
        return key


@pytest.mark.parametrize(
    ("build", "method"),
    [
        (lambda numbers: by_itself(numbers).count_window(1).process(ForgetfulWindow()), "process"),
        (lambda numbers: by_itself(numbers).count_window(1).apply(ForgetfulApply()), "apply"),
        (lambda numbers: numbers.count_window_all(1).process(ForgetfulAllWindow()), "process"),
        (lambda numbers: numbers.flat_map(lambda number: number), "flat_map"),
        (lambda numbers: numbers.process(Forgetful()), "process_element"),
        (lambda numbers: by_itself(numbers).process(KeyedForgetful()), "process_element"),
        (lambda numbers: numbers.connect(numbers.map(str)).process(CoForgetful()), "process_element1"),
    ],
)
def test_results_that_are_no_results_are_named_with_the_method_that_returned_them(build, method):
    error = failure_of(build(environment().from_collection([17], Types.INT())))
    assert isinstance(error, TypeMismatchError)
    assert f"{method} returned 17 of type int" in str(error)
    assert "Yield them" in error.hint


def test_an_error_of_the_function_itself_stays_as_it_is():
    class Failing(FlatMapFunction):
        def flat_map(self, value):
            raise TypeError("of the user's own")

    error = failure_of(environment().from_collection([17]).flat_map(Failing()))
    assert "of the user's own" in str(error)
    assert "Yield" not in str(error)


def test_the_text_of_a_failed_job_holds_the_error_of_the_users_function():
    def fail(value):
        raise ValueError("no\n  such thing")

    env = environment()
    env.from_collection([17]).map(fail).name("failing").print()
    with pytest.raises(JobExecutionError) as failed:
        env.execute("told")
    assert str(failed.value) == (
        '[JOB_FAILED] job "told" failed\n'
        'Detail: [USER_FUNCTION] ValueError was raised in operator "failing", subtask 0:\n'
        "ValueError: no\n  such thing"
    )


def test_the_text_of_a_failed_job_holds_detail_and_hint_of_our_own_errors():
    class Forgets(AsyncFunction):
        async def async_invoke(self, value):
            return None

    env = environment()
    stream = AsyncDataStream.unordered_wait(env.from_collection([17]), Forgets(), Time.seconds(5))
    stream.print()
    with pytest.raises(
        JobExecutionError, match=r"gave None.*The result of AsyncFunction cannot be none"
    ) as failed:
        env.execute()
    assert failed.value.hint == "Return [result], or [] for no result."


def test_a_number_is_no_collection():
    with pytest.raises(TypeMismatchError, match="from_collection was given a int"):
        environment().from_collection(5)


def test_an_error_of_the_users_iterator_stays_as_it_is():
    def numbers():
        yield 1
        raise TypeError("of the user's own")

    with pytest.raises(TypeError, match="of the user's own"):
        environment().from_collection(numbers())


def test_a_bound_needs_a_unit():
    with pytest.raises(ConfigurationError, match=r"Duration\.of_seconds"):
        WatermarkStrategy.for_bounded_out_of_orderness(5)


def test_a_slot_sharing_group_is_a_name_or_a_group():
    with pytest.raises(TypeMismatchError, match="was given a int"):
        environment().from_collection([1]).slot_sharing_group(5)


def test_a_mistyped_option_in_a_program_is_warned_of(caplog):
    made = environment(**{"execution.checkpointing.intervall": "10 s", "my.own": 1, "spark.sql.shufle": 1})
    with (
        caplog.at_level(logging.WARNING, "millstream"),
        made.from_collection([1]).execute_and_collect() as found,
    ):
        assert list(found) == [1]
    warnings = [entry.getMessage() for entry in caplog.records if "no option is named" in entry.getMessage()]
    assert warnings == [
        'no option is named "execution.checkpointing.intervall"; did you mean "execution.checkpointing.interval"?'
    ]

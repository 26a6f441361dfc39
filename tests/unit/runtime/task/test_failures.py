"""Whatever a function raises is told as its error, and never taken for an end."""

import pytest

from millstream.base.errors import JobExecutionError, UserFunctionError
from millstream.common import Configuration, Types, WatermarkStrategy
from millstream.common.watermark_strategy import TimestampAssigner
from millstream.datastream import StreamExecutionEnvironment
from millstream.datastream.connectors.datagen import DataGeneratorSource
from millstream.datastream.functions import MapFunction


def bad(value):
    """A usual mistake: `next` of something that has nothing."""
    return next(iter([])) if value == 7 else value


class InOpen(MapFunction):
    def open(self, runtime_context):
        bad(7)

    def map(self, value):
        return value


class Stamps(TimestampAssigner):
    def extract_timestamp(self, value, record_timestamp):
        return bad(value)


class Partner:
    def __init__(self, value):
        self.value = value

    def __reduce__(self):
        return Partner, (bad(self.value),)


class Closed:
    """Can be sent, but not received."""

    def __init__(self, value):
        self.value = value

    def __setstate__(self, state):
        raise ValueError("nobody opens me")


def numbers(env):
    return env.from_collection(list(range(20)), Types.LONG())


def generated(env):
    source = DataGeneratorSource(bad, 20, type_info=Types.LONG())
    return env.from_source(source, WatermarkStrategy.no_watermarks(), "numbers")


STAMPED = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(Stamps())
JOBS = {
    "generator": (generated, "7"),
    "timestamps": (lambda env: numbers(env).assign_timestamps_and_watermarks(STAMPED), "7"),
    "keys": (lambda env: numbers(env).key_by(bad).reduce(lambda a, b: a + b), "7"),
    "reduce": (lambda env: numbers(env).key_by(lambda value: 0).reduce(lambda a, b: bad(b)), "7"),
    "list": (lambda env: numbers(env).flat_map(lambda value: [bad(value)]), "7"),
    "open": (lambda env: numbers(env).map(InOpen()), None),
    "pickled": (lambda env: numbers(env).map(Partner).rebalance().map(lambda partner: partner.value), None),
}


def failure_of(build):
    options = {"execution.target": "local", "restart-strategy.type": "none", "parallelism.default": "2"}
    env = StreamExecutionEnvironment.get_execution_environment(Configuration.from_dict(options))
    with pytest.raises(JobExecutionError) as raised, build(env).execute_and_collect() as results:
        list(results)
    return raised.value.__cause__


@pytest.mark.parametrize("name", JOBS)
def test_a_stop_iteration_is_the_functions_error_and_ends_no_batch_early(name):
    build, element = JOBS[name]
    error = failure_of(build)
    assert isinstance(error, UserFunctionError), error
    assert "StopIteration" in error.user_traceback
    assert error.operator != "?"
    assert error.element == element or (element is None and "Partner" in str(error.element))


def test_a_record_that_cannot_be_unpickled_names_the_operator_that_receives_it():
    error = failure_of(
        lambda env: numbers(env).map(Closed).rebalance().map(lambda closed: closed).name("receiver")
    )
    assert isinstance(error, UserFunctionError)
    assert error.operator == "receiver"
    assert "ValueError: nobody opens me" in error.user_traceback

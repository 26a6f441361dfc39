"""What `execute_and_collect` brings: records in the order in which a subtask emitted them."""

from __future__ import annotations

import pytest

from millstream.common import Configuration
from millstream.datastream import StreamExecutionEnvironment

NUMBERS = list(range(3_000))


def environment(parallelism):
    made = StreamExecutionEnvironment.get_execution_environment(
        Configuration.from_dict({"execution.target": "local"})
    )
    return made.set_parallelism(parallelism)


def collected(stream):
    with stream.execute_and_collect() as results:
        return list(results)


# PyFlink 2.3 at parallelism 2 gives [0, 1, 2, ...] for all of these, as its collecting sink has parallelism 1.
@pytest.mark.parametrize("parallelism", [1, 2, 3])
def test_a_stream_of_one_subtask_comes_in_its_order(parallelism):
    assert collected(environment(parallelism).from_collection(NUMBERS)) == NUMBERS
    mapped = environment(parallelism).from_collection(NUMBERS).map(lambda n: -n).force_non_parallel()
    assert collected(mapped) == [-number for number in NUMBERS]


def test_a_union_of_such_streams_keeps_the_order_of_each():
    env = environment(2)
    both = env.from_collection(NUMBERS).union(env.from_collection([-n for n in NUMBERS[1:]]))
    made = collected(both)
    assert [number for number in made if number >= 0] == NUMBERS
    mixed = environment(2)
    parallel = mixed.from_collection([-n for n in NUMBERS[1:]]).map(lambda n: n)
    made = collected(mixed.from_collection(NUMBERS).union(parallel))
    assert [number for number in made if number >= 0] == NUMBERS
    assert len(made) == 2 * len(NUMBERS) - 1


def test_each_subtask_of_a_parallel_stream_keeps_its_order():
    made = collected(environment(2).from_collection(NUMBERS).map(lambda n: n))
    assert [n for n in made if n % 2 == 0] == NUMBERS[::2]
    assert [n for n in made if n % 2] == NUMBERS[1::2]


def test_a_limit_gives_the_first():
    assert environment(2).from_collection(NUMBERS).execute_and_collect(limit=5) == NUMBERS[:5]

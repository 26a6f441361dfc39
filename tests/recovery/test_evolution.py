"""A program that has changed goes on from the savepoint of the one before: operators are found again by uid."""

from __future__ import annotations

import logging
import re
import subprocess
import sys
from collections import Counter

import pytest
from recovery_programs import RECORDS, key_of, plain, stamped
from recovery_support import (
    FAULTS,
    SAME,
    difference,
    resume,
    run,
    run_to_savepoint,
)

from millstream.base.errors import (
    JobDefinitionError,
    JobExecutionError,
    MillstreamError,
    StateIncompatibleError,
)
from millstream.base.time import Time
from millstream.datastream import KeyedProcessFunction, ProcessWindowFunction
from millstream.datastream.state import ListStateDescriptor, ValueStateDescriptor
from millstream.datastream.window import TumblingEventTimeWindows


class Count(KeyedProcessFunction):
    def open(self, runtime_context):
        self.count = runtime_context.get_state(ValueStateDescriptor("count"))

    def process_element(self, value, ctx):
        self.count.update((self.count.value() or 0) + 1)
        yield value[0], self.count.value()


class CountAndKeep(Count):
    """The same with a state more."""

    def open(self, runtime_context):
        super().open(runtime_context)
        self.last = runtime_context.get_list_state(ListStateDescriptor("last"))

    def process_element(self, value, ctx):
        self.last.add(value[2])
        yield from super().process_element(value, ctx)


class CountInList(Count):
    """The same with the state being another kind."""

    def open(self, runtime_context):
        self.count = runtime_context.get_list_state(ListStateDescriptor("count"))


def counting(env):
    return plain(env).key_by(key_of).process(Count()).uid("count")


COUNTED = run(counting, epoch=8)


def test_operators_may_be_added_and_reordered(tmp_path):
    def changed(env):
        other = (
            env.from_collection([1, 2, 3]).uid("another").map(lambda number: ("new", number)).uid("new map")
        )
        stream = plain(env).filter(lambda record: True).uid("filter").map(lambda record: record).uid("same")
        return stream.key_by(key_of).process(Count()).uid("count").union(other)

    first, path = run_to_savepoint(counting, tmp_path, at=20)
    rest = resume(path, changed)
    assert difference(first + rest, COUNTED + Counter({("new", n): 1 for n in (1, 2, 3)})) == SAME


def test_state_may_be_added_and_removed(tmp_path):
    def keeping(env):
        return plain(env).key_by(key_of).process(CountAndKeep()).uid("count")

    first, path = run_to_savepoint(counting, tmp_path, at=15)
    second, again = run_to_savepoint(keeping, tmp_path, at=15, execution_state__recovery_path=path)
    third = resume(again, counting)
    assert second
    assert third
    assert difference(first + second + third, COUNTED) == SAME


def test_operator_without_state_may_be_removed_and_the_chain_be_cut(tmp_path):
    def shorter(env):
        stream = env.from_collection(RECORDS).uid("records").disable_chaining()
        return stream.key_by(key_of).process(Count()).uid("count")

    first, path = run_to_savepoint(counting, tmp_path, at=20)
    assert difference(first + resume(path, shorter), COUNTED) == SAME


class Listing(ProcessWindowFunction):
    def process(self, key, context, elements):
        yield key, context.window().start, tuple(sorted(elements))

    def clear(self, context):
        pass


def windows_of(stream):
    by_key = stream.key_by(key_of)
    return by_key.window(TumblingEventTimeWindows.of(Time.seconds(10))).process(Listing()).uid("windows")


def two_sources(env, *, added=False):
    """One source ends long before the other; the savepoint is made in between."""
    short = stamped(env, RECORDS[:6], "short")
    if added:
        short = short.map(lambda record: record).uid("added").set_parallelism(1)
    return windows_of(short.union(stamped(env, RECORDS[6:], "long")))


def test_operator_added_behind_a_source_that_has_ended_learns_of_its_end(tmp_path):
    wanted = run(two_sources, epoch=8)
    first, path = run_to_savepoint(two_sources, tmp_path, at=30)
    rest = resume(path, lambda env: two_sources(env, added=True))
    assert rest
    assert difference(first + rest, wanted) == SAME


def test_window_operator_that_is_gone_is_refused_though_it_declares_no_state(tmp_path):
    _, path = run_to_savepoint(lambda env: windows_of(stamped(env)), tmp_path, at=20)
    with pytest.raises(StateIncompatibleError) as raised:
        resume(path, stamped)
    assert 'uid "windows"' in raised.value.message


def test_uid_given_to_an_operator_of_another_kind_is_refused_with_both_kinds(tmp_path):
    _, path = run_to_savepoint(counting, tmp_path, at=20)

    def summing(env):
        return plain(env).key_by(key_of).sum(2).uid("count")

    with pytest.raises(
        StateIncompatibleError, match="is a ReduceSpec, its state .* is of a KeyedProcessSpec"
    ):
        resume(path, summing)
    assert FAULTS.seen == 0


def test_another_number_of_key_groups_is_refused(tmp_path):
    _, path = run_to_savepoint(counting, tmp_path, at=20)
    with pytest.raises(StateIncompatibleError, match="has 64 key groups, its state .* has 128"):
        resume(path, counting, pipeline_max__parallelism=64)


def test_state_of_another_kind_is_refused_before_the_first_record_and_not_tried_again(tmp_path):
    _, path = run_to_savepoint(counting, tmp_path, at=20)

    def changed(env):
        return plain(env).key_by(key_of).process(CountInList()).uid("count")

    with pytest.raises(JobExecutionError) as raised:
        resume(path, changed)
    cause = raised.value.__cause__
    assert isinstance(cause, MillstreamError)
    told = str(cause)
    assert all(part in told for part in ('"count"', "value state", "list state", 'operator "'))
    assert FAULTS.seen == 0


def test_operators_with_state_and_no_uid_are_named_once_if_checkpoints_are_made(caplog):
    def without_uid(env):
        return (
            env.from_collection(RECORDS)
            .name("numbers")
            .uid("n")
            .key_by(key_of)
            .process(Count())
            .name("nameless")
        )

    caplog.set_level(logging.WARNING)
    run(without_uid, interval=1)
    warnings = [record.getMessage() for record in caplog.records if "uid" in record.getMessage()]
    assert len(warnings) == 1
    assert '"nameless"' in warnings[0]
    assert '"numbers"' not in warnings[0]
    caplog.clear()
    run(without_uid)
    assert not caplog.records


def test_the_id_in_the_warning_keeps_the_state_of_an_operator_without_uid(caplog, tmp_path):
    """The program changes so that its place is another; its id is given by hand."""

    def without_uid(env):
        return plain(env).key_by(key_of).process(Count()).name("nameless")

    def changed(env, give=lambda stream, _: stream):
        stream = plain(env).map(lambda record: record).uid("new")
        return give(stream.key_by(key_of).process(Count()).name("renamed"), None)

    caplog.set_level(logging.WARNING)
    first, path = run_to_savepoint(without_uid, tmp_path, at=20, execution_checkpointing_interval="1 h")
    (uid_hash,) = re.findall(r'"nameless" \(([0-9a-f]{32})\)', caplog.text)
    with pytest.raises(StateIncompatibleError, match='"nameless" of savepoint .* is not in the program'):
        resume(path, changed)
    for given in (uid_hash, uid_hash.upper()):
        caplog.clear()
        rest = resume(
            path,
            lambda env, given=given: changed(env, lambda stream, _: stream.set_uid_hash(given)),
            execution_checkpointing_interval="1 h",
        )
        assert difference(first + rest, COUNTED) == SAME
        assert "renamed" not in caplog.text, "its id is the user's own"


def test_two_operators_of_one_uid_hash_are_refused():
    def twice(env):
        stream = plain(env).map(lambda record: record).set_uid_hash("0f" * 16)
        return stream.map(lambda record: record).set_uid_hash("0F" * 16)

    with pytest.raises(JobDefinitionError, match="have the same uid hash"):
        run(twice)


SCRIPT = """
import dataclasses, sys
from millstream.common import Configuration, Types, WatermarkStrategy
from millstream.datastream import KeyedProcessFunction, StreamExecutionEnvironment
from millstream.datastream.connectors.datagen import DataGeneratorSource, RateLimiterStrategy
from millstream.datastream.state import ListStateDescriptor

@dataclasses.dataclass
class Reading:
    {fields}

    def program(self):
        return {program!r}

class Keep(KeyedProcessFunction):
    def open(self, context):
        self.readings = context.get_list_state(ListStateDescriptor("readings"))

    def process_element(self, value, context):
        self.readings.add(Reading({values}))
        yield [(type(each) is Reading, each.program(), dataclasses.astuple(each)) for each in self.readings.get()]

target, path, *restored = sys.argv[1:]
options = {{"execution.target": target}}
if restored:
    options["execution.state-recovery.path"] = restored[0]
env = StreamExecutionEnvironment.get_execution_environment(Configuration.from_dict(options))
env.set_parallelism(1)
source = DataGeneratorSource(lambda index: index, 1_000_000, RateLimiterStrategy.per_second(50), Types.LONG())
numbers = env.from_source(source, WatermarkStrategy.no_watermarks(), "numbers").uid("numbers")
results = numbers.key_by(lambda value: 0).process(Keep()).uid("keep").execute_and_collect()
first = next(results)
if restored:
    print(first[0], first[-1])
    results.close()
else:
    results._job.savepoint(path, stop=True).result(30)
"""
OLD = {"fields": "sensor: str; celsius: float", "values": "'old', 1.5", "program": "first"}
NEW = {"fields": "sensor: str; unit: str = 'C'", "values": "'new'", "program": "second"}


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("local", "local"),
        pytest.param("local[1]", "local[1]", marks=pytest.mark.spark),
        pytest.param("local[1]", "local", marks=pytest.mark.spark),
        pytest.param("local", "local[1]", marks=pytest.mark.spark),
    ],
)
def test_values_of_a_class_of_the_main_module_become_ones_of_the_new_program(tmp_path, first, second):
    """The class has lost a field and got another with a default."""
    (tmp_path / "first.py").write_text(SCRIPT.format(**OLD))
    (tmp_path / "second.py").write_text(SCRIPT.format(**NEW))
    saved = tmp_path / "saved"
    subprocess.run([sys.executable, tmp_path / "first.py", first, saved], check=True, timeout=120)
    (path,) = saved.iterdir()
    command = [sys.executable, tmp_path / "second.py", second, "-", path]
    said = subprocess.run(
        command, check=True, capture_output=True, text=True, timeout=120
    ).stdout.splitlines()
    assert said[-1] == "(True, 'second', ('old', 'C')) (True, 'second', ('new', 'C'))"

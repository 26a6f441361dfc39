"""Replays of operators with several inputs and of operators behind others; `cli/test_replay.py` has the rest."""

from __future__ import annotations

import re

import pytest

from millstream.datastream import FlatMapFunction, KeyedProcessFunction
from millstream.datastream.functions import (
    KeyedBroadcastProcessFunction,
    KeyedCoProcessFunction,
)
from millstream.datastream.state import MapStateDescriptor, ValueStateDescriptor
from millstream.datastream.utils import DataStreamUtils
from millstream.graph.launcher import JobLauncher, set_launcher_override
from millstream.state_processor import BroadcastBootstrap, KeyedBootstrap, SavepointWriter
from millstream.state_processor.keys import KeyText
from millstream.state_processor.replay import ReplayRequest, replay

LEFT = [("a", 1, 1), ("b", 2, 2), ("a", 3, 3), ("a", 4, 40)]
RIGHT = [("b", 10, 1), ("a", 20, 2), ("b", 30, 3), ("a", 40, 41)]
COUNT = ValueStateDescriptor("count")
RULES = MapStateDescriptor("rules")


class Capture(JobLauncher):
    def launch(self, submission):
        self.submission = submission
        raise InterruptedError


@pytest.fixture
def replayed(environment, tmp_path, capsys):
    """Replays a key of a program's operator "op" from a savepoint with a few operators; returns what was printed."""

    def run(build, key, *bootstraps, used_by=None, others=(), **request):
        writer = SavepointWriter.new().with_operator("op", *bootstraps, used_by=used_by)
        for uid, bootstrap in others:
            writer.with_operator(uid, bootstrap)
        path = writer.write(str(tmp_path / "savepoint"))
        env = environment(3)
        build(env)
        capture = Capture()
        before = set_launcher_override(capture)
        try:
            with pytest.raises(InterruptedError):
                env.execute()
        finally:
            set_launcher_override(before)
        replay(capture.submission, ReplayRequest(path, "op", KeyText(key), **request))
        return capsys.readouterr().out

    return run


def outputs(text):
    return re.findall(r"^  output  (.*)$", text, re.MULTILINE)


def count(start):
    return KeyedBootstrap(start, 0, {"count": (COUNT, 1)})


class Both(KeyedCoProcessFunction):
    def open(self, runtime_context):
        self.count = runtime_context.get_state(COUNT)

    def _next(self, value):
        self.count.update((self.count.value() or 0) + 1)
        return value[:2], self.count.value()

    def process_element1(self, value, ctx):
        yield "left", *self._next(value)

    def process_element2(self, value, ctx):
        yield "right", *self._next(value)


def test_both_inputs_give_the_keys_records_only(replayed):
    def build(env):
        left, right = (env.from_collection(rows).key_by(lambda r: r[0]) for rows in (LEFT, RIGHT))
        left.connect(right).process(Both()).uid("op").print()

    text = replayed(build, "a", count([("a", 10), ("b", 20)]), used_by="co_process")
    shown = outputs(text)
    expected = {("left", row[:2]) for row in LEFT if row[0] == "a"} | {
        ("right", row[:2]) for row in RIGHT if row[0] == "a"
    }
    assert {eval(each)[:2] for each in shown} == expected
    assert [eval(each)[2] for each in shown] == [11, 12, 13, 14, 15]
    assert "of input 0: ('a', 1, 1)" in text
    assert "of input 1: ('a', 20, 2)" in text
    assert "'b'" not in text


class Rules(KeyedBroadcastProcessFunction):
    def open(self, runtime_context):
        self.count = runtime_context.get_state(COUNT)

    def process_element(self, value, ctx):
        self.count.update((self.count.value() or 0) + 1)
        yield value[0], self.count.value(), sorted(ctx.get_broadcast_state(RULES).items())

    def process_broadcast_element(self, value, ctx):
        ctx.get_broadcast_state(RULES).put(*value[:2])


def test_broadcast_records_are_all_there(replayed):
    def build(env):
        rules = env.from_collection(RIGHT[:2]).broadcast(RULES)
        env.from_collection(LEFT).key_by(lambda r: r[0]).connect(rules).process(Rules()).uid("op").print()

    text = replayed(
        build, "b", count([("a", 10), ("b", 20)]), BroadcastBootstrap({"rules": (RULES, {"z": 0})}), records=1
    )
    assert outputs(text) == ["('b', 21, [('a', 20), ('b', 10), ('z', 0)])"]
    assert text.count("broadcast record") == 2


class Number(KeyedProcessFunction):
    def open(self, runtime_context):
        self.count = runtime_context.get_state(COUNT)

    def process_element(self, value, ctx):
        self.count.update((self.count.value() or 0) + 1)
        yield value[0], self.count.value()


def test_operators_before_it_go_on_with_their_own_state(replayed):
    def build(env):
        numbered = env.from_collection(LEFT).key_by(lambda r: r[0]).process(Number()).uid("before")
        numbered.key_by(lambda r: r[1] % 2).process(Number()).uid("op").print()

    # "a" is counted from 101, "b" from 201: records of the key 1 are a's first and third, and b's only one.
    others = [("before", count([("a", 100), ("b", 200)]))]
    text = replayed(build, "1", count([(1, 5), (0, 7)]), others=others)
    assert sorted(re.findall(r"^record \d+: (.*)$", text, re.MULTILINE)) == [
        "('a', 101)",
        "('a', 103)",
        "('b', 201)",
    ]
    assert outputs(text) == ["('a', 6)", "('b', 7)", "('a', 8)"]
    assert "count = 5" in text
    assert "count = 7" not in text.partition("record 1")[0]


class Same(FlatMapFunction):
    def flat_map(self, value):
        return [value]


def test_a_stream_that_is_declared_to_be_keyed_is_filtered_too(replayed):
    def build(env):
        same = env.from_collection(LEFT).key_by(lambda r: r[0]).flat_map(Same())
        keyed = DataStreamUtils.reinterpret_as_keyed_stream(same, lambda r: r[0])
        keyed.process(Number()).uid("op").print()

    text = replayed(build, "a", count([("a", 10), ("b", 20)]))
    assert outputs(text) == ["('a', 11)", "('a', 12)", "('a', 13)"]


class Hundreds(Number):
    def process_element(self, value, ctx):
        self.count.update((self.count.value() or 0) + 100)
        return None


def test_an_operator_without_uid_is_found_though_its_siblings_are_left_out(
    environment, savepoint_of, tmp_path, capsys
):
    def build(stream):
        keyed = stream.key_by(lambda r: r[0])
        keyed.process(Hundreds()).name("first").print()
        keyed.filter(lambda r: True).key_by(lambda r: r[1] % 2).process(Number()).name("other").print()
        keyed.process(Number()).name("second").print()

    # The source begins anew, but has the id of the other, which the ids of all that follow are made of.
    path = SavepointWriter.from_existing(savepoint_of(build, LEFT)).remove_operator("records")
    path = path.write(str(tmp_path / "without source"))
    env = environment(2)
    build(env.from_collection([("a", 5, 50)]).uid("records"))
    capture = Capture()
    before = set_launcher_override(capture)
    try:
        with pytest.raises(InterruptedError):
            env.execute()
    finally:
        set_launcher_override(before)
    replay(capture.submission, ReplayRequest(path, "second", KeyText("a")))
    assert outputs(capsys.readouterr().out) == ["('a', 4)"]

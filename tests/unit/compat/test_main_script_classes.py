"""Classes and functions of the main script as records, keys and state: a whole program, run as users run it."""

from __future__ import annotations

import subprocess
import sys

import pytest

PROGRAM = """
import enum
from collections import namedtuple
from dataclasses import dataclass, field

from millstream.common import Types
from millstream.datastream import KeyedProcessFunction, StreamExecutionEnvironment
from millstream.datastream.state import MapStateDescriptor, ValueStateDescriptor


class Color(enum.Enum):
    RED = "r"
    BLUE = "b"


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 2


Point = namedtuple("Point", "x y")


@dataclass(frozen=True)
class Key:
    color: Color
    point: Point


@dataclass
class Reading:
    key: Key
    value: int
    tags: list = field(default_factory=list)

    class Summary:
        def __init__(self, total):
            self.total = total

        def __repr__(self):
            return f"Summary({self.total})"


def double(reading):
    return Reading(reading.key, reading.value * FACTOR, reading.tags + [Level.HIGH])


FACTOR = 2


class Sum(KeyedProcessFunction):
    def open(self, context):
        self.total = context.get_state(ValueStateDescriptor("total", Types.PICKLED_BYTE_ARRAY()))
        self.seen = context.get_map_state(
            MapStateDescriptor("seen", Types.PICKLED_BYTE_ARRAY(), Types.PICKLED_BYTE_ARRAY())
        )

    def process_element(self, reading, context):
        key = context.get_current_key()
        assert type(key) is Key and isinstance(key.color, Color) and reading.tags == [Level.HIGH]
        summary = self.total.value() or Reading.Summary(0)
        summary = Reading.Summary(summary.total + reading.value)
        self.total.update(summary)
        self.seen.put(key.point, reading)
        yield key.color.name, key.point.x, summary, len(list(self.seen.items()))


env = StreamExecutionEnvironment.get_execution_environment()
readings = [Reading(Key(list(Color)[i % 2], Point(i % 3, 0)), i) for i in range(12)]
results = (
    env.from_collection(readings).rebalance().map(double).key_by(lambda r: r.key).process(Sum()).execute_and_collect()
)
last = {}
with results:
    for color, x, summary, seen in results:
        assert seen == 1 and type(summary) is Reading.Summary
        last[color, x] = max(last.get((color, x), 0), summary.total)
print(sorted(last.items()))
"""


@pytest.mark.slow
def test_classes_of_the_main_script_are_records_keys_and_state(tmp_path):
    (tmp_path / "job.py").write_text(PROGRAM)
    command = [sys.executable, "-m", "millstream.cli", "run", "--target", "local", "-p", "2"]
    command += ["-D", "millstream.epoch.fixed-records=3", str(tmp_path / "job.py")]
    result = subprocess.run(command, capture_output=True, text=True)
    totals: dict[tuple[str, int], int] = {}
    for i in range(12):
        key = (("RED", "BLUE")[i % 2], i % 3)
        totals[key] = totals.get(key, 0) + 2 * i
    assert (result.returncode, result.stdout) == (0, f"{sorted(totals.items())}\n"), result.stderr


TYPES = """
from pyflink.common import Row, Types
from pyflink.datastream import ProcessWindowFunction, StreamExecutionEnvironment
from pyflink.datastream.window import TimeWindow

ROW = Types.ROW_NAMED(["a"], [Types.INT()])


class Subscripted(ProcessWindowFunction[tuple, tuple, str, TimeWindow]):
    def process(self, key: str, context: ProcessWindowFunction.Context[TimeWindow], elements):
        return []


def check(value):
    assert ROW.get_field_names() == ["a"]
    return Row(a=value)


env = StreamExecutionEnvironment.get_execution_environment()
env.from_collection([1]).map(check, output_type=ROW).map(check, output_type=Types.PICKLED_BYTE_ARRAY()).print()
env.execute()
Subscripted()
"""


@pytest.mark.slow
def test_type_at_module_level_is_an_output_type_and_used_in_functions(tmp_path):
    # PyFlink cannot pickle the function any more once the type was used as an output type.
    (tmp_path / "job.py").write_text(TYPES)
    command = [sys.executable, "-m", "millstream.compat", "--target", "local", str(tmp_path / "job.py")]
    result = subprocess.run(command, capture_output=True, text=True)
    assert (result.returncode, result.stdout) == (0, "Row(a=Row(a=1))\n"), result.stderr

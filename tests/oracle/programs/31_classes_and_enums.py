"""Objects of classes of the program: dataclasses as records and state, enums and tuples as keys."""

import enum
from dataclasses import dataclass, field

from pyflink.common import Types
from pyflink.datastream import KeyedProcessFunction, StreamExecutionEnvironment
from pyflink.datastream.state import ValueStateDescriptor


class Color(enum.Enum):
    RED = 1
    BLUE = "b"


@dataclass(frozen=True)
class Shape:
    color: Color
    sides: int
    tags: tuple = ()


@dataclass
class Tally:
    count: int = 0
    shapes: list = field(default_factory=list)


class Count(KeyedProcessFunction):
    def open(self, runtime_context):
        self.tally = runtime_context.get_state(ValueStateDescriptor("tally", Types.PICKLED_BYTE_ARRAY()))

    def process_element(self, value, ctx):
        tally = self.tally.value() or Tally()
        tally.count += 1
        tally.shapes.append(value.sides)
        self.tally.update(tally)
        yield ctx.get_current_key(), tally.count, list(tally.shapes), value.color is Color.RED


SHAPES = [
    Shape(Color.RED, 3),
    Shape(Color.BLUE, 4, ("big",)),
    Shape(Color.RED, 5),
    Shape(Color.RED, 3),
    Shape(Color.BLUE, 4, ("big", None)),
]

env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(1)
shapes = env.from_collection(SHAPES)
shapes.print("shape")
shapes.key_by(lambda shape: shape.color.name).process(Count()).print("name")
shapes.key_by(lambda shape: (shape.color.name, shape.sides)).process(Count()).print("tuple")
shapes.key_by(lambda shape: shape.color).process(Count()).map(lambda t: (t[0].name, *t[1:])).print("enum")
env.execute()

"""What a function raises in a slot is its own error, not the slot's loss."""

import asyncio

import pytest

from millstream.base.errors import JobExecutionError, UserFunctionError
from millstream.datastream.functions import MapFunction


class Fails(MapFunction):
    def __init__(self, kind, where):
        self.kind = kind
        self.where = where

    def open(self, runtime_context):
        self.fail("open", None)

    def map(self, value):
        self.fail("map", value)
        return value

    def close(self):
        self.fail("close", None)

    def fail(self, where, value):
        if where == self.where and value in (None, 3):
            raise self.kind("of the user")


@pytest.mark.parametrize("where", ["open", "map", "close"])
@pytest.mark.parametrize("kind", [SystemExit, KeyboardInterrupt, asyncio.CancelledError, GeneratorExit])
def test_what_a_function_raises_in_a_slot_is_told_like_any_error(new_environment, kind, where):
    environment = new_environment("local[2]", 1)
    environment.from_collection([1, 2, 3, 4]).map(Fails(kind, where)).name("fails").print()
    with pytest.raises(JobExecutionError) as raised:
        environment.execute()
    error = raised.value.__cause__
    assert isinstance(error, UserFunctionError), error
    assert f"{kind.__name__}: of the user" in error.user_traceback
    assert (error.operator, error.subtask) == ("fails", 0)
    assert error.element == ("3" if where == "map" else None)

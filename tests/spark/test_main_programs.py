"""A program's main module is there for its functions on Spark as it is locally."""

from __future__ import annotations

import json
import sys
import textwrap

import pytest

from millstream.cli.script import run_program

PROGRAM = """
from __future__ import annotations

import asyncio, os, pickle, sys, typing
import urllib.request
import xml.etree.ElementTree
from collections import namedtuple
from dataclasses import dataclass
from enum import Enum

from millstream.common import Time
from millstream.datastream import AsyncDataStream, AsyncFunction, MapFunction, StreamExecutionEnvironment


class Colour(Enum):
    RED = 1


@dataclass
class Point:
    x: int
    colour: Colour = Colour.RED


Pair = namedtuple("Pair", "a b")


class Parser:
    def parse(self):
        return [(lambda: xml.etree.ElementTree.fromstring("<a/>").tag)() for _ in range(1)]


def submodule_in_nested_function():
    def host():
        return urllib.request.Request("http://host").host

    return host()


def submodule_in_lambda_of_method():
    return Parser().parse()


def submodule_by_getattr():
    return getattr(getattr(xml, "etree"), "ElementTree").__name__


def hints():
    return sorted(typing.get_type_hints(Point))


def pickled():
    return pickle.loads(pickle.dumps([Point(1), Pair(1, 2), Colour.RED]))[:2]


def looked_up():
    return sys.modules[__name__].Point(2).x


def limits():
    return sys.getrecursionlimit()


def called_with():
    return sys.argv[1:], os.path.basename(__file__)


class Ask(AsyncFunction):
    async def async_invoke(self, value):
        def ask():
            return urllib.request.Request("http://asked").host

        return [await asyncio.get_running_loop().run_in_executor(None, ask)]


class Call(MapFunction):
    def __init__(self, function):
        self.function = function

    def map(self, _):
        return self.function.__name__, self.function()


if __name__ == "__main__":
    sys.setrecursionlimit(4321)
    env = StreamExecutionEnvironment.get_execution_environment().set_parallelism(1)
    one = env.from_collection([1])
    AsyncDataStream.unordered_wait(one, Ask(), Time.seconds(10)).print()
    for function in (
        submodule_in_nested_function, submodule_in_lambda_of_method, submodule_by_getattr, hints, pickled,
        looked_up, limits, called_with,
    ):
        one.map(Call(function)).print()
    env.execute()
"""

PRINTED = [
    "('called_with', (['a', 'b'], 'job.py'))",
    "('hints', ['colour', 'x'])",
    "('limits', 4321)",
    "('looked_up', 2)",
    "('pickled', [Point(x=1, colour=<Colour.RED: 1>), Pair(a=1, b=2)])",
    "('submodule_by_getattr', 'xml.etree.ElementTree')",
    "('submodule_in_lambda_of_method', ['a'])",
    "('submodule_in_nested_function', 'host')",
    "asked",
]


@pytest.mark.parametrize("target", ["local", pytest.param("local[2]", marks=pytest.mark.spark)])
def test_functions_find_in_the_main_module_what_the_program_put_there(target, tmp_path, monkeypatch, capsys):
    path = tmp_path / "job.py"
    path.write_text(textwrap.dedent(PROGRAM))
    monkeypatch.setenv("MILLSTREAM_CONFIG", json.dumps({"execution.target": target}))
    limit = sys.getrecursionlimit()
    try:
        code = run_program(str(path), ["a", "b"])
    finally:
        sys.setrecursionlimit(limit)
    printed = capsys.readouterr()
    assert (code, printed.err) == (0, "")
    assert sorted(printed.out.splitlines()) == PRINTED

"""Finds the one operator that a snippet of a program builds, and how its inputs are dealt to its subtasks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from millstream.base.errors import JobDefinitionError
from millstream.config.configuration import Configuration
from millstream.datastream.stream_execution_environment import StreamExecutionEnvironment
from millstream.datastream.streams.data_stream import DataStream
from millstream.datastream.streams.settings import Port
from millstream.graph.transformation import Transformation
from millstream.operators.base import Operator, OperatorSpec
from millstream.operators.partitioners import Partitioning

__all__ = ["DeclaredInput", "DeclaredOperator", "find_operator"]

_HINT = "Give it a snippet with one operator, or run the whole program on a MiniCluster."


@dataclass(frozen=True, slots=True)
class DeclaredInput:
    """One stream that an operator reads.

    Attributes:
        index: Which of the operator's inputs it feeds.
        partitioning: How its records are dealt to subtasks; None lets the graph choose.
    """

    index: int
    partitioning: Partitioning | None = None


@dataclass(frozen=True, slots=True)
class DeclaredOperator:
    """An operator before it runs.

    Attributes:
        name: Its name.
        spec: What it does.
        inputs: What it reads, in the order in which the program is given it.
    """

    name: str
    spec: OperatorSpec
    inputs: tuple[DeclaredInput, ...]


@dataclass(frozen=True)
class _InputSpec(OperatorSpec):
    """Stands where a program has a source; it is not run."""

    is_source = True

    def build(self) -> Operator:
        """Raise an error: what a harness is given is pushed."""
        raise JobDefinitionError("the input of a harness was run as a job", hint=_HINT)


def find_operator(program: Callable[..., DataStream[Any]], inputs: int) -> DeclaredOperator:
    """Return the operator that a snippet builds.

    Args:
        program: Takes the input streams, gives the stream that the operator makes.
        inputs: How many streams it takes.

    Raises:
        JobDefinitionError: If it builds none, or several that read one another.
    """
    environment = StreamExecutionEnvironment(Configuration())
    sources = [environment._add_transformation(f"input {index}", _InputSpec(), []) for index in range(inputs)]
    result = program(*(DataStream(environment, (Port(source),), None) for source in sources))
    if not isinstance(result, DataStream):
        raise JobDefinitionError(
            f"the program under test gave a {type(result).__name__}, not a stream",
            hint="Return the stream that the operator makes: lambda stream: stream.map(f).",
        )
    found = _behind({port.source.id: port.source for port in result._ports}, sources)
    if any(each.spec.is_source for each in found):
        raise JobDefinitionError(
            "the program under test has a source, and a harness is what the operator's records come from",
            hint="Push the records, or run the program on a MiniCluster; check_source is for sources.",
        )
    if len(found) != 1:
        names = ", ".join(f'"{each.name}"' for each in found) or "none"
        raise JobDefinitionError(
            f"a harness runs one operator, and the program under test has {len(found)}: {names}", hint=_HINT
        )
    (operator,) = found
    return DeclaredOperator(operator.name, operator.spec, _inputs(operator, sources))


def _behind(results: dict[int, Transformation], sources: list[Transformation]) -> list[Transformation]:
    """Return the operators between the inputs and the result."""
    found: dict[int, Transformation] = {}
    waiting = list(results.values())
    while waiting:
        each = waiting.pop()
        if each in sources or each.id in found:
            continue
        found[each.id] = each
        waiting += [edge.source for edge in each.inputs]
    return [found[number] for number in sorted(found)]


def _inputs(operator: Transformation, sources: list[Transformation]) -> tuple[DeclaredInput, ...]:
    """Return what the operator makes of each of the streams.

    Raises:
        JobDefinitionError: If it reads one not at all, or twice.
    """
    inputs = {}
    for edge in operator.inputs:
        inputs[sources.index(edge.source)] = DeclaredInput(edge.input_index, edge.partitioning)
    if len(operator.inputs) != len(sources) or len(inputs) != len(sources):
        raise JobDefinitionError(
            f'operator "{operator.name}" of the program under test reads {len(operator.inputs)} streams, and the '
            f"program was given {len(sources)}",
            hint="Have it read each stream once; inputs=2 gives it two.",
        )
    return tuple(inputs[index] for index in range(len(sources)))

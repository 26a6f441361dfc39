"""From which operator to which an exchange leads, by their names: for errors of what is sent over it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from millstream.base.errors import NotSerializableError
from millstream.graph.job_graph import JobEdge, JobGraph
from millstream.runtime.task.failures import guarded

__all__ = ["Route"]

Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class Route:
    """The two ends of an exchange.

    Attributes:
        sender: Name of the operator whose output is sent.
        receiver: Name of the operator that reads it.
    """

    sender: str
    receiver: str

    @staticmethod
    def of(exchange: JobEdge, job_graph: JobGraph) -> Route:
        """Look the names up."""
        names = {node.id: node.name for vertex in job_graph.vertices for node in vertex.nodes}
        return Route(names[exchange.edge.source], names[exchange.edge.target])

    def naming(self, send: Callable[[], Result]) -> Result:
        """Return what `send` gives; whatever it raises is the sender's, and tells the way.

        Raises:
            NotSerializableError: If a record cannot be pickled.
        """
        try:
            result: Result = guarded(send, self.sender)()
        except NotSerializableError as error:
            error.detail = (
                f'It was on its way from operator "{self.sender}" to operator "{self.receiver}", '
                "which may run in another process."
            )
            raise
        return result

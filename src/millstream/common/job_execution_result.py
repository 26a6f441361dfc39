"""How a job ended (PyFlink's `pyflink.common.job_execution_result`)."""

from __future__ import annotations

from typing import Any

from millstream.base.errors import shorten
from millstream.base.html import html_table
from millstream.common.job_id import JobID

__all__ = ["JobExecutionResult"]


class JobExecutionResult:
    """The outcome of a job that ended well.

    Example:
        >>> from millstream.datastream.functions import MapFunction
        >>> from millstream.testing import MiniCluster
        >>> class Counted(MapFunction):
        ...     def open(self, runtime_context):
        ...         self.seen = runtime_context.get_int_counter("seen")
        ...     def map(self, value):
        ...         self.seen.add(1)
        ...         return value
        >>> with MiniCluster() as cluster:
        ...     env = cluster.environment()
        ...     sink = env.from_collection(["tea", "cake"]).map(Counted()).print()
        ...     env.execute("shop").get_accumulator_result("seen")
        2
    """

    def __init__(
        self, job_id: JobID, net_runtime_ms: int, accumulators: dict[str, Any] | None = None
    ) -> None:
        self._job_id = job_id
        self._net_runtime_ms = net_runtime_ms
        self._accumulators = accumulators or {}

    def get_job_id(self) -> JobID:
        """Return the job's id."""
        return self._job_id

    def get_net_runtime(self) -> int:
        """Return how long it ran, in milliseconds."""
        return self._net_runtime_ms

    def get_accumulator_result(self, accumulator_name: str) -> Any:
        """Return one accumulator, None if there is none of that name."""
        return self._accumulators.get(accumulator_name)

    def get_all_accumulator_results(self) -> dict[str, Any]:
        """Return all accumulators by name."""
        return dict(self._accumulators)

    def __repr__(self) -> str:
        accumulators = f", accumulators={shorten(self._accumulators)}" if self._accumulators else ""
        return f"JobExecutionResult(job {self._job_id}, {self._net_runtime_ms} ms{accumulators})"

    def _repr_html_(self) -> str:
        rows = [(name, shorten(result)) for name, result in sorted(self._accumulators.items())]
        return html_table(str(self), ("accumulator", "result"), rows)

    def __str__(self) -> str:
        return f"Job {self._job_id} finished in {self._net_runtime_ms} ms"

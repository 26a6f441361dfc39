"""Jobs of statements: what is planned becomes streams, and these a job."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from millstream.common.job_client import JobClient
from millstream.table.connectors.collect import CollectSqlSpec
from millstream.table.expressions.rex import RowSchema
from millstream.table.result import ResultKind, TableResult
from millstream.types.datatypes import BigIntType

__all__ = ["JobRecord", "SessionJobs"]


@dataclass(frozen=True)
class JobRecord:
    """A job that the session started.

    Attributes:
        job_id: Its id.
        name: Its name.
        started_ms: When, epoch milliseconds.
        client: What is held of it.
    """

    job_id: str
    name: str
    started_ms: int
    client: JobClient


class SessionJobs:
    """Starts jobs of plans in a stream environment, beside what a program builds there.

    Args:
        environment: The `StreamExecutionEnvironment`.
        clock: For start times.
    """

    def __init__(self, environment: Any, clock: Any) -> None:
        self._environment = environment
        self._clock = clock
        self.records: list[JobRecord] = []

    def collect(
        self, planned: Any, schema: RowSchema, *, streaming: bool, max_width: int, zone: str
    ) -> TableResult:
        """Run a query and bring its rows here."""
        environment = self._environment
        collect_id = environment._next_collect_id()

        def build() -> None:
            stream = self._translated(planned)
            sink = stream._transform("Collect table sink", CollectSqlSpec(collect_id))
            parallel = {port.source.parallelism for port in stream._ports}
            for port in sink._ports:
                port.source.parallelism = parallel.copy().pop() if len(parallel) == 1 else 1

        job = self._launched("collect", build)

        def batches() -> Iterator[tuple[Any, Any]]:
            for batch in job.collected(collect_id):
                yield batch.kinds, batch.data

        return TableResult(
            ResultKind.SUCCESS_WITH_CONTENT,
            schema,
            batches,
            job=self._client(job, "collect"),
            close=job.cancel,
            shows_kinds=streaming,
            fixed_widths=True,
            max_width=max_width,
            zone=zone,
        )

    def insert(self, planned: Sequence[Any], targets: Sequence[str]) -> TableResult:
        """Run the sinks of INSERTs as one job."""
        name = f"insert-into_{','.join(targets)}"

        def build() -> None:
            from millstream.table.plan.translate import translate_all

            translate_all(planned, self._environment)

        job = self._launched(name, build)
        client = self._client(job, name)
        schema = RowSchema(tuple(targets), tuple(BigIntType() for _ in targets))
        result = TableResult.of_rows(
            list(zip(schema.names, schema.types, strict=True)), [[-1] * len(targets)], raw="-1"
        )
        result.attach(client, job.cancel)
        return result

    def stream_of(self, planned: Any) -> Any:
        """Return a planned query as a DataStream of `Columns`, built beside what the program builds."""
        return self._translated(planned)

    def _translated(self, planned: Any) -> Any:
        from millstream.table.plan.translate import translate

        return translate(planned, self._environment)

    def _launched(self, name: str, build: Callable[[], None]) -> Any:
        """Launch what `build` builds, and nothing that the program built before."""
        environment = self._environment
        others = list(environment._transformations)
        environment._transformations.clear()
        try:
            build()
            return environment._launch(self._job_name(name))
        finally:
            environment._transformations[:] = others

    def _job_name(self, name: str) -> str:
        said: str | None = self._environment._configuration.get_string("pipeline.name", None)
        return said or name

    def _client(self, job: Any, name: str) -> JobClient:
        from millstream.datastream.stream_execution_environment import _wait

        client = JobClient(job, lambda: _wait(job))
        self.records.append(JobRecord(job.job_id, self._job_name(name), self._clock.now_ms(), client))
        return client

"""Where records leave a job: sinks with writer and committer, printing, collecting, sink functions."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import repeat
from typing import Any

from millstream.base.crash_points import reach
from millstream.base.time import MIN_TIMESTAMP
from millstream.common.functions import SinkFunction
from millstream.operators.base import (
    Operator,
    OperatorContext,
    OperatorReport,
    OperatorSpec,
    Output,
    RestoreScope,
    connector_name,
)
from millstream.operators.functions_adapter import open_function
from millstream.operators.runtime_context import OperatorRuntimeContext
from millstream.operators.user_code import attach_element
from millstream.operators.weight import estimate_bytes
from millstream.spi.batch import Batch, Rows
from millstream.spi.sink import Sink, WriterContext
from millstream.spi.versions import FIRST_VERSION, bring_up
from millstream.types.typeinfo import TypeInformation

__all__ = ["CollectSpec", "PrintSpec", "SinkFunctionSpec", "SinkSpec"]


@dataclass(frozen=True)
class SinkSpec(OperatorSpec):
    """Declares a sink.

    Attributes:
        sink: The sink.
        value_type: Declared type of the records, None if there is none.
    """

    sink: Sink
    value_type: TypeInformation | None = None
    takes_columns = True

    @property
    def state_form(self) -> str:
        """Whose committables are kept."""
        return connector_name(self.sink)

    @property
    def writes(self) -> Sink:
        """The sink."""
        return self.sink

    @property
    def keeps_state(self) -> bool:
        """Committables are state."""
        return True

    @property
    def versions(self) -> Mapping[str, int]:
        """Of its writers' snapshots and committables."""
        return {"snapshot": self.sink.snapshot_version, "committable": self.sink.committable_version}

    def bring_up_driver_state(self, kept: Any, versions: Mapping[str, int]) -> Any:
        """Return committables in today's form."""
        sink = self.sink
        return [
            bring_up(
                committable,
                versions.get("committable", FIRST_VERSION),
                sink.committable_version,
                sink.upgrade_committable,
                what=f'committable of sink "{type(sink).__name__}"',
            )
            for committable in kept
        ]

    def build(self) -> Operator:
        """Make the running half."""
        return SinkOperator(self.sink, self.value_type)


@dataclass(frozen=True)
class PrintSpec(OperatorSpec):
    """Declares printing to the driver's standard output or error.

    Attributes:
        identifier: Put before each value.
        to_stderr: Whether to print to standard error.
        value_type: Says how values look (a declared tuple as `(a,1)`); None prints them as Python does.
    """

    identifier: str | None = None
    to_stderr: bool = False
    value_type: TypeInformation | None = None

    def build(self) -> Operator:
        """Make the running half."""
        return PrintOperator(self)


@dataclass(frozen=True)
class CollectSpec(OperatorSpec):
    """Declares that records are brought to the driver.

    Attributes:
        collect_id: Names what is collected, unique within the job.
    """

    collect_id: str

    @property
    def collects(self) -> str:
        """The name."""
        return self.collect_id

    def build(self) -> Operator:
        """Make the running half."""
        return CollectOperator()


@dataclass(frozen=True)
class SinkFunctionSpec(OperatorSpec):
    """Declares a SinkFunction."""

    function: SinkFunction

    def build(self) -> Operator:
        """Make the running half."""
        return SinkFunctionOperator(self.function)


class SinkOperator(Operator):
    """Stages records with the sink's writer; its committables go into the report."""

    def __init__(self, sink: Sink, value_type: TypeInformation | None = None) -> None:
        self._sink = sink
        self._value_type = value_type
        self._ended = False
        self._report: OperatorReport | None = None
        self._restored: list[tuple[bool, Any]] = []
        self._built = False

    def open(self) -> None:
        """Make the writer, have it go on from a checkpoint, and open it."""
        context = self.context
        self._writer = self._sink.build_writer(
            WriterContext(
                context.job_id,
                context.name,
                context.subtask_index,
                context.parallelism,
                context.attempt,
                self._value_type,
                context.operator_id,
                context.time.now_ms,
                context.checkpoint_directory,
                context.generation,
            )
        )
        self._built = True
        reach("sink.open", context.name)
        if self._restored:
            mine = [snapshot for adopted, snapshot in self._restored if adopted]
            others = [snapshot for adopted, snapshot in self._restored if not adopted]
            self._writer.restore(mine, others=others)
            self._restored.clear()
        if context.operator_state is not None:
            context.operator_state.on_snapshot(self._number)
            context.operator_state.on_complete(self._writer.checkpoint_completed)
        self._writer.open()

    @property
    def wants_columns(self) -> bool:
        """Whether the writer takes columns."""
        return self._writer.takes_columns

    def process(self, batch: Batch) -> None:
        """Stage a batch."""
        writer = self._writer
        writer.write(
            batch if writer.takes_columns else batch.to_rows(),
            watermark_ms=self.watermark_ms,
            now_ms=self.context.time.now_ms,
        )

    def process_watermark(self, timestamp_ms: int) -> None:
        """Take note of it; there is nobody behind a sink."""
        self.watermark_ms = timestamp_ms

    def end_input(self) -> None:
        """Have everything returned at the end of this epoch."""
        self._ended = True

    def end_epoch(self, report: OperatorReport, *, checkpoint: bool) -> None:
        """Return what is ready to be published."""
        reach("sink.precommit", self.context.name)
        report.committables = self._writer.prepare_commit(
            now_ms=self.context.time.now_ms, checkpoint=checkpoint, end_of_input=self._ended
        )
        reach("sink.precommitted", self.context.name)
        self._report = report

    def _number(self, checkpoint_id: int, timestamp_ms: int) -> None:
        if self._report is not None and self._report.committables:
            self._report.committables = self._writer.number_committables(
                self._report.committables, checkpoint_id
            )

    def next_processing_time(self) -> int | None:
        """Return when the writer wants to look at what it has staged."""
        return None if self._ended else self._writer.next_processing_time()

    def snapshot_state(self) -> Any:
        """Return what the writer keeps open."""
        return self._writer.snapshot()

    def restore_state(self, snapshot: Any, scope: RestoreScope) -> None:
        """Keep it for the writer, which is made later; every subtask sees all."""
        sink = self._sink
        snapshot = bring_up(
            snapshot,
            scope.version,
            sink.snapshot_version,
            sink.upgrade_snapshot,
            what=f'writer\'s snapshot of sink "{type(sink).__name__}"',
        )
        self._restored.append((scope.adopts, snapshot))

    def abort(self) -> None:
        """Remove what was staged."""
        if self._built:
            self._writer.abort()

    def close(self) -> None:
        """Close the writer."""
        if self._built:
            self._writer.close()


class PrintOperator(Operator):
    """Prints `prefix> value`: prefix is the identifier and, above parallelism 1, the subtask from 1."""

    def __init__(self, spec: PrintSpec) -> None:
        self._spec = spec
        self._lines: list[str] = []
        self._gathered_bytes = 0

    def setup(self, context: OperatorContext, output: Output) -> None:
        """Be told where it runs; what is gathered for the driver counts as what is sent."""
        super().setup(context, output)
        context.budget.scales.append(lambda: self._gathered_bytes)

    def open(self) -> None:
        """Make the prefix."""
        parts = [self._spec.identifier] if self._spec.identifier else []
        if self.context.parallelism > 1:
            parts.append(str(self.context.subtask_index + 1))
        self._prefix = ":".join(parts) + "> " if parts else ""

    def process(self, batch: Rows) -> None:
        """Format a batch."""
        values = batch.values
        prefix, declared = self._prefix, self._spec.value_type
        texts = values if declared is None else map(declared.to_printed, values)
        lines = [f"{prefix}{text}" for text in texts]
        self._gathered_bytes += estimate_bytes(lines)
        self._lines += lines

    def end_epoch(self, report: OperatorReport, *, checkpoint: bool) -> None:
        """Report the lines."""
        report.lines, self._lines = self._lines, []
        self._gathered_bytes = 0
        report.stderr = self._spec.to_stderr


class CollectOperator(Operator):
    """Gathers records for the driver."""

    def __init__(self) -> None:
        self._collected: list[Any] = []
        self._gathered_bytes = 0

    def setup(self, context: OperatorContext, output: Output) -> None:
        """Be told where it runs; what is gathered for the driver counts as what is sent."""
        super().setup(context, output)
        context.budget.scales.append(lambda: self._gathered_bytes)

    def process(self, batch: Rows) -> None:
        """Gather a batch."""
        values = batch.values
        self._gathered_bytes += estimate_bytes(values)
        self._collected.extend(values)

    def end_epoch(self, report: OperatorReport, *, checkpoint: bool) -> None:
        """Report the records."""
        report.collected, self._collected = self._collected, []
        self._gathered_bytes = 0


class _SinkContext(SinkFunction.Context):
    """Tells of the record at hand, whose timestamp the operator sets."""

    def __init__(self, operator: Operator) -> None:
        self._operator = operator
        self.stamp = MIN_TIMESTAMP

    def timestamp(self) -> int | None:
        return None if self.stamp == MIN_TIMESTAMP else self.stamp

    def current_watermark(self) -> int:
        return self._operator.watermark_ms

    def current_processing_time(self) -> int:
        return self._operator.context.time.now_ms


def _takes_context(function: SinkFunction) -> bool:
    """Return whether `invoke` needs a second argument, or names one as Flink does."""
    try:
        parameters = list(inspect.signature(function.invoke).parameters.values())
    except (TypeError, ValueError):  # written in C
        return False
    if len(parameters) < 2 or parameters[1].kind not in _POSITIONAL:
        return False
    return parameters[1].default is inspect.Parameter.empty or parameters[1].name in ("context", "ctx")


_POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


class SinkFunctionOperator(Operator):
    """Calls a SinkFunction for each record, at least once."""

    def __init__(self, function: SinkFunction) -> None:
        self._function = function

    def open(self) -> None:
        """Open the function."""
        open_function(self._function, OperatorRuntimeContext(self.context))
        self._takes_context = _takes_context(self._function)

    def process(self, batch: Rows) -> None:
        """Invoke the function for each record."""
        values, timestamps = batch.values, batch.timestamps
        if self._takes_context:
            self._process_with_context(values, timestamps)
            return
        invoke = self._function.invoke
        for value in values:
            try:
                invoke(value)
            except BaseException as error:
                attach_element(error, value)
                raise

    def _process_with_context(self, values: list[Any], timestamps: list[int] | None) -> None:
        invoke = self._function.invoke
        context = _SinkContext(self)
        for value, context.stamp in zip(values, timestamps or repeat(MIN_TIMESTAMP), strict=False):
            try:
                invoke(value, context)
            except BaseException as error:
                attach_element(error, value)
                raise

    def end_input(self) -> None:
        """Let the function write what it still holds."""
        self._function.finish()

    def close(self) -> None:
        """Close the function."""
        self._function.close()

"""A program's job, rewritten for the simulation: its sinks write where they are looked at, its sources are cut.

=====================  =============================================  ==============
sink                   in the simulation                              compared as
=====================  =============================================  ==============
FileSink               itself, in a directory of the run              exactly once
a `VerifiableSink`     itself, in a directory of the run              exactly once
any other Sink         a sink that keeps records in memory, with       exactly once
                       committables of its own
collect                itself; as any other Sink where the driver is   exactly once
                       killed, as whoever collects is gone then
print                  itself, its lines are caught                   at least once
SinkFunction           a function that keeps records in memory        at least once
=====================  =============================================  ==============
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random
from typing import Any

from millstream.base.errors import NotSupportedError
from millstream.config import options
from millstream.config import options_checkpointing as keys
from millstream.config.configuration import Configuration
from millstream.connectors.cache import CacheSink
from millstream.connectors.files.sink import FileSink
from millstream.graph.launcher import JobSubmission
from millstream.graph.runtime_mode import is_batch
from millstream.graph.transformation import Edge, Transformation
from millstream.operators.base import OperatorSpec
from millstream.operators.collect_columns import CollectColumnsSpec, Gathered
from millstream.operators.sink import CollectSpec, PrintSpec, SinkFunctionSpec, SinkSpec
from millstream.operators.source import SourceSpec
from millstream.operators.watermarks import WatermarksSpec
from millstream.runtime.control.console import JobOutput
from millstream.verify.compare import Guarantee
from millstream.verify.faults import FaultKind
from millstream.verify.scenario import Scenario
from millstream.verify.sinks import RecordingFunction, RecordingSink, as_text
from millstream.verify.sources import SimulatedSource, shuffled
from millstream.verify.watch import Check, FilesWatch, SinkWatch, SyncingSink, VerifiableSink, Watch
from millstream.verify.world import World

__all__ = ["Guarantee", "Program", "SimulatedOutput"]

_PRINTED = re.compile("\x00(\\d+)\x00(?::\\d+)?> ")


class SimulatedOutput(JobOutput):
    """Keeps what a job prints and collects.

    Args:
        collectors: Collect id by node id.
    """

    def __init__(self, collectors: Mapping[int, str]) -> None:
        super().__init__(collectors)
        self.printed: list[str] = []
        self.kept: dict[int, list[str]] = {}

    def lines(self, lines: Sequence[str], *, stderr: bool) -> None:
        """Keep lines."""
        self.printed.extend(lines)

    def logs(self, logs: Any) -> None:
        """Drop what user code printed and logged: a disturbed run does that more often."""

    def collected(self, node_id: int, records: Sequence[Any]) -> None:
        """Keep records, and hand them on."""
        kept = self.kept.setdefault(node_id, [])
        for each in records:
            kept.extend(map(as_text, each.records() if isinstance(each, Gathered) else [each]))
        super().collected(node_id, records)

    @property
    def waiting_bytes(self) -> int:
        """Nothing: nobody takes the records of a simulated job, and it must not wait for that."""
        return 0


@dataclass(frozen=True)
class Program:
    """One job of a program, as it was submitted.

    Attributes:
        submission: What was submitted.
    """

    submission: JobSubmission

    def check(self) -> None:
        """Make sure that it can be verified.

        Raises:
            NotSupportedError: If it does not end, or runs in batch mode, or fills a cache.
        """
        for each in self.submission.transformations:
            if not each.inputs and not each.bounded:
                raise NotSupportedError(
                    f'source "{each.name}" never ends',
                    detail="What a job gives can be compared when it has given everything.",
                    hint="Bound the source, as from_collection(...) or set_bounded(...) do.",
                )
            if isinstance(each.spec, SinkSpec) and isinstance(each.spec.sink, CacheSink):
                raise NotSupportedError("a job that fills a cached stream cannot be verified")
        if is_batch(self.submission.transformations, self.submission.configuration):
            raise NotSupportedError(
                "a job in batch mode cannot be verified",
                detail="It makes no checkpoints: after a failure it begins anew.",
                hint="Leave execution.runtime-mode at STREAMING.",
            )

    def sinks(self) -> dict[str, Guarantee]:
        """Return the guarantees of the sinks by label."""
        guarantees = {}
        for each in self.submission.transformations:
            if isinstance(each.spec, (PrintSpec, SinkFunctionSpec)):
                guarantees[label(each)] = Guarantee.AT_LEAST_ONCE
            elif isinstance(each.spec, (CollectSpec, SinkSpec)):
                guarantees[label(each)] = Guarantee.EXACTLY_ONCE
        return guarantees

    def watches(
        self, scratch: Path, expected: Mapping[str, Counter[str]] | None, check: Check | None
    ) -> list[Watch]:
        """Return what looks at the sinks that write themselves, in a simulation.

        Args:
            scratch: The simulation's directory.
            expected: What is to be in the sinks at the end, by label; None if that is not known.
            check: A further check.
        """
        watches: list[Watch] = []
        for each in self.submission.transformations:
            name, directory = label(each), _directory(scratch, each)
            right = None if expected is None else expected.get(name)
            if isinstance(each.spec, SinkSpec):
                if isinstance(each.spec.sink, FileSink):
                    watches.append(FilesWatch(name, directory, right, check))
                elif isinstance(each.spec.sink, VerifiableSink):
                    sink = each.spec.sink.at(str(directory))
                    assert isinstance(sink, VerifiableSink), f"{name}: what at() returns cannot be looked at"
                    watches.append(SinkWatch(name, directory, right, check, sink))
        return watches

    def synced(self, scratch: Path) -> list[Path]:
        """Return the directories in which all is synced that somebody relies on, in a simulation.

        Args:
            scratch: The simulation's directory.
        """
        directories = [scratch / "checkpoints", scratch / "recovery"]
        for each in self.submission.transformations:
            if isinstance(each.spec, SinkSpec):
                directory = _directory(scratch, each)
                if isinstance(each.spec.sink, FileSink):
                    directories.append(directory)
                elif isinstance(each.spec.sink, SyncingSink):
                    directories += map(Path, each.spec.sink.at(str(directory)).synced())
        return directories

    def build(self, world: World, *, start: int, recovery_path: str | None) -> JobSubmission:
        """Return what is submitted in a simulation.

        Args:
            world: The simulation.
            start: How often the driver was started before.
            recovery_path: The checkpoint that the job goes on from, if any.
        """
        scenario = world.scenario
        default = self.submission.configuration.default_parallelism()
        parallelism = _parallelism(scenario, start) or default
        copies: dict[int, Transformation] = {}
        for each in self.submission.transformations:
            spec = self._spec(each, world)
            own = each.parallelism
            if own in (None, default) and not each.fixed_parallelism:
                own = parallelism
            copies[each.id] = replace(
                each,
                spec=spec,
                parallelism=own,
                inputs=[_relinked(edge, copies) for edge in each.inputs],
            )
        return JobSubmission(
            name=self.submission.name,
            transformations=list(copies.values()),
            configuration=self._configuration(world, parallelism, recovery_path, recover=start > 0),
            on_progress=None,
        )

    def outputs(self, world: World, output: SimulatedOutput) -> dict[str, Counter[str]]:
        """Return what the sinks got, by label, as it is at the end of a simulation.

        Args:
            world: The simulation.
            output: Of all starts of the driver.
        """
        seen = {watch.label: watch.records() for watch in world.watches}
        printed: dict[int, Counter[str]] = {}
        for line in output.printed:
            found = _PRINTED.match(line)
            assert found is not None, line
            printed.setdefault(int(found[1]), Counter())[line[found.end() :]] += 1
        outputs = {}
        for each in self.submission.transformations:
            name = label(each)
            if isinstance(each.spec, PrintSpec):
                outputs[name] = printed.get(each.id, Counter())
            elif isinstance(each.spec, SinkFunctionSpec):
                outputs[name] = Counter(world.emitted.get(name, ()))
            elif name in seen:
                outputs[name] = seen[name]
            elif isinstance(each.spec, (SinkSpec, CollectSpec)):
                recorded = world.recorded.get(name, {}).values()
                outputs[name] = Counter(record for records in recorded for record in records)
                outputs[name].update(output.kept.get(each.id, ()))
        return outputs

    def _spec(self, transformation: Transformation, world: World) -> OperatorSpec:
        spec, name = transformation.spec, label(transformation)
        if isinstance(spec, SourceSpec):
            return replace(
                spec, source=SimulatedSource(self._source(transformation, spec, world), _cut(world))
            )
        if isinstance(spec, PrintSpec):
            return replace(spec, identifier=f"\x00{transformation.id}\x00")
        if isinstance(spec, SinkFunctionSpec):
            return SinkFunctionSpec(RecordingFunction(name))
        if isinstance(spec, SinkSpec):
            if isinstance(spec.sink, (FileSink, VerifiableSink)):
                return replace(spec, sink=spec.sink.at(str(_directory(world.scratch, transformation))))
            return replace(spec, sink=RecordingSink(name))
        if isinstance(spec, CollectSpec) and may_lose_driver(world.scenario):
            return SinkSpec(RecordingSink(name))
        if isinstance(spec, CollectColumnsSpec):  # columns of a declared type do not show what records were
            return CollectColumnsSpec(spec.collect_id)
        return spec

    def _source(self, transformation: Transformation, spec: SourceSpec, world: World) -> Any:
        if not world.scenario.shuffled:
            return spec.source
        strategy = spec.strategy
        if strategy.timestamp_assigner is None:
            readers = [
                each
                for each in self.submission.transformations
                if any(edge.source.id == transformation.id for edge in each.inputs)
            ]
            if len(readers) == 1 and isinstance(readers[0].spec, WatermarksSpec):
                strategy = readers[0].spec.strategy
        random = Random(f"order/{world.scenario.seed}/{transformation.id}")
        return shuffled(spec.source, strategy, random) or spec.source

    def _configuration(
        self, world: World, parallelism: int, recovery_path: str | None, *, recover: bool
    ) -> Configuration:
        scenario = world.scenario
        configuration = Configuration(self.submission.configuration)
        settings = {
            options.TARGET: "local",
            options.DEBUG: True,
            options.DEFAULT_PARALLELISM: parallelism,
            options.WATERMARK_STALL_WARNING: 0,
            keys.CHECKPOINT_INTERVAL: scenario.interval_ms,
            keys.CHECKPOINT_DIRECTORY: str(world.scratch / "checkpoints"),
            keys.EXTERNALIZED_RETENTION: "RETAIN_ON_CANCELLATION",
            keys.RETAINED_CHECKPOINTS: scenario.retained,
            keys.TOLERABLE_FAILURES: scenario.tolerable_failures,
            keys.INCREMENTAL: scenario.incremental,
            keys.COMPACT_FROM_BYTES: 1 if scenario.compacts else 1 << 30,
            keys.COMPACT_AFTER: 2,
            keys.MIN_PAUSE: 0,
            keys.RESTART_STRATEGY: "fixed-delay",
            keys.RESTART_FIXED_DELAY_ATTEMPTS: 12,
            keys.RESTART_DELAY: 1,
            options.COMMIT_WAIT_WHEN_BEHIND: Random(f"behind/{scenario.seed}").choice((0, 10_000)),
        }
        for option, value in settings.items():
            configuration.set(option, value)
        configuration.remove_config(options.EPOCH_FIXED_RECORDS.key)
        configuration.remove_config(options.EPOCH_HOLD_AFTER.key)
        if scenario.hold_after is not None:
            configuration.set(options.EPOCH_HOLD_AFTER, scenario.hold_after)
        for option in (keys.RECOVERY_PATH, keys.HA_DIRECTORY, keys.RECOVER):
            configuration.remove_config(option.key)
        if scenario.recovers:
            configuration.set(keys.HA_DIRECTORY, str(world.scratch / "recovery"))
            configuration.set(keys.RECOVER, recover)
        elif recovery_path is not None:
            configuration.set(keys.RECOVERY_PATH, recovery_path)
        return configuration


def label(transformation: Transformation) -> str:
    """Return how messages name a sink."""
    return f"{transformation.name} ({transformation.id})"


def may_lose_driver(scenario: Scenario) -> bool:
    """Return whether another driver may take over."""
    gone = {FaultKind.KILL, FaultKind.KILL_DRIVER, FaultKind.POWER_LOSS, FaultKind.PAUSE}
    return any(fault.kind in gone for fault in scenario.faults)


def _parallelism(scenario: Scenario, start: int) -> int | None:
    chosen = scenario.parallelism
    return None if chosen is None else chosen[min(start, len(chosen) - 1)]


def _cut(world: World) -> int | None:
    return world.scenario.epoch_records


def _relinked(edge: Edge, copies: Mapping[int, Transformation]) -> Edge:
    return replace(edge, source=copies[edge.source.id])


def _directory(scratch: Path, transformation: Transformation) -> Path:
    return scratch / "sinks" / str(transformation.id)

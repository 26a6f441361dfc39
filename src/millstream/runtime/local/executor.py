"""The inline executor: all slots in this process and thread, no JVM; reference semantics, tests, debugging."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

from millstream.runtime.job.executor import Executor
from millstream.runtime.slot.tasks import SlotTasks
from millstream.runtime.task.blocks import Block
from millstream.runtime.task.deployment import Deployment, dump_deployment, load_deployment
from millstream.runtime.task.report import EpochHeader, SlotReport

__all__ = ["LocalExecutor"]


class LocalExecutor(Executor):
    """Runs the same slots, subtasks and blocks as the Spark executor, one after the other."""

    def __init__(self) -> None:
        self._slots: list[SlotTasks] = []

    def deploy(self, deployment: Deployment) -> None:
        """Build the slots, each from its own copy of the job, and open them."""
        payload = dump_deployment(deployment)
        for slot in range(deployment.plan.slots):
            self._slots.append(SlotTasks(load_deployment(payload), slot))
        for tasks in self._slots:
            tasks.open()

    def run_epoch(self, headers: Mapping[int, EpochHeader]) -> Sequence[SlotReport]:
        """Run level after level, in each slot after slot."""
        travelling: dict[int, list[Block]] = defaultdict(list)
        for level in range(self._slots[0].level_count):
            arriving, travelling = travelling, defaultdict(list)
            for tasks in self._slots:
                for block in tasks.run_level(headers[tasks.slot], level, arriving[tasks.slot]):
                    travelling[block.target].append(block)
        return [tasks.report(headers[tasks.slot]) for tasks in self._slots]

    def finish(self) -> None:
        """Close the operators."""
        slots, self._slots = self._slots, []
        for tasks in slots:
            tasks.close()

    def abort(self) -> None:
        """Remove what was staged and close the operators."""
        for tasks in self._slots:
            tasks.abort()
        self.finish()

    def keep_alive(self) -> None:
        """Nothing to do: the slots live in this process."""

    def release(self) -> None:
        """Nothing to do."""

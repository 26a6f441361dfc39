"""The local executor with slots that die, hang and are asked twice."""

from __future__ import annotations

import pickle
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial

from millstream.base.errors import SlotLostError, StaleAttemptError
from millstream.runtime.local.executor import LocalExecutor
from millstream.runtime.protocol.deployment import Deployment, dump_deployment, load_deployment
from millstream.runtime.protocol.report import EpochHeader, SlotReport
from millstream.runtime.slot.compactor import InlineCompactor
from millstream.runtime.slot.core import LevelOutput, SlotCore
from millstream.runtime.slot.tasks import SlotTasks
from millstream.verify.faults import DriverKilled, SlotKilled
from millstream.verify.world import World

__all__ = ["SimulatedExecutor", "ZombieAnswered"]


class ZombieAnswered(AssertionError):
    """A slot did something for an attempt that is not its own."""


class SimulatedExecutor(LocalExecutor):
    """Runs one attempt in a world; its slots answer as slot processes do (`SlotCore`).

    Args:
        world: Where it runs.
    """

    def __init__(self, world: World) -> None:
        super().__init__()
        self._world = world
        self._cores: dict[int, SlotCore] = {}
        self._gone: set[int] = set()
        self._hung: set[int] = set()
        self._aborting = False
        self._job_id = ""

    def deploy(self, deployment: Deployment) -> None:
        """Build the slots, each from its own copy of the job, and open them."""
        world = self._world
        world.note(f"attempt {deployment.attempt} on {deployment.plan.slots} slots")
        self._job_id = deployment.job_id
        world.job_ids.append(deployment.job_id)
        payload = dump_deployment(deployment)
        cached_files = self._enter_workspace(deployment)
        for slot in range(deployment.plan.slots):
            tasks = SlotTasks(
                load_deployment(payload, cached_files), slot, clock=world.clock, compactor=InlineCompactor()
            )
            self._slots.append(tasks)
            self._cores[slot] = SlotCore(tasks, deployment.attempt)
        for tasks in self._slots:
            self._ask(tasks.slot, tasks.open)
        if world.members is not None:
            restore = deployment.restore
            world.members.opened(
                self._slots, None if restore is None else (restore.location, restore.checkpoint_id)
            )

    def run_epoch(self, headers: Mapping[int, EpochHeader]) -> Sequence[SlotReport]:
        """Run level after level, in each slot after slot; some requests come twice."""
        world = self._world
        world.begin_epoch()
        header = headers[0]
        world.note(
            f"epoch {header.epoch} of attempt {header.attempt}"
            f"{''.join(f', {order.kind} {order.checkpoint_id}' for order in header.orders)}"
            f"{', the last' if header.end_of_input else ''}"
        )
        travelling: dict[int, list[bytes]] = defaultdict(list)
        reports: list[SlotReport] = []
        for level in range(self._slots[0].level_count):
            arriving, travelling = travelling, defaultdict(list)
            for slot in list(self._cores):
                output = self._run_level(slot, headers[slot], level, arriving[slot])
                for target, bundle in output.bundles.items():
                    travelling[target].append(bundle)
                if output.report is not None:
                    reports.append(pickle.loads(output.report))
        records = sum(
            end.records for report in reports for _, each in report.operators for end in each.range_ends
        )
        world.note(f"epoch {header.epoch} read {records} records")
        if world.members is not None:
            for order in header.orders:
                world.members.checkpoint(self._slots, (order.location, order.checkpoint_id))
        return reports

    def _run_level(self, slot: int, header: EpochHeader, level: int, bundles: list[bytes]) -> LevelOutput:
        core = self._cores[slot]
        output: LevelOutput = self._ask(slot, partial(core.run_level, header, level, bundles, []))
        if self._world.random.random() < self._world.scenario.repeats:  # a Spark task that is run again
            self._world.note(f"slot {slot} is asked again for level {level}")
            again: LevelOutput = self._ask(slot, partial(core.run_level, header, level, bundles, []))
            if again != output:
                raise ZombieAnswered(f"slot {slot} gave something else when it was asked again")
            self._check_fenced(core, header, level, bundles)
        return output

    def _check_fenced(self, core: SlotCore, header: EpochHeader, level: int, bundles: list[bytes]) -> None:
        try:
            core.run_level(replace(header, attempt=header.attempt + 1), level, bundles, [])
        except StaleAttemptError:
            return
        raise ZombieAnswered("a slot answered a request of another attempt")

    def _ask(self, slot: int, action: partial[LevelOutput] | object) -> LevelOutput:
        try:
            return self._world.call_slot(slot, action)  # type: ignore[arg-type,no-any-return]
        except SlotKilled as killed:
            self._gone.add(slot)
            raise SlotLostError(f"slot {slot} was killed (simulated)") from killed
        except SlotLostError:  # it goes on later, and needs what it has until then
            self._gone.add(slot)
            self._hung.add(slot)
            raise

    def finish(self, completed_checkpoint: int | None = None) -> None:
        """Close the operators."""
        super().finish(completed_checkpoint)
        self._cores.clear()
        self._world.driver.job_ended = not self._aborting
        if not self._aborting:
            self._world.ended_job_id = self._job_id

    def abort(self) -> None:
        """Have the slots that live remove what they staged; a driver that is gone tells nobody anything."""
        world = self._world
        self._aborting = True
        dead = [tasks for tasks in self._slots if world.driver.dead or tasks.slot in self._gone]
        for tasks in dead:
            if tasks.slot not in self._hung:
                _release_state(tasks)
        self._slots = [tasks for tasks in self._slots if tasks not in dead]
        if world.driver.dead:
            self._leave_workspace()
            raise DriverKilled
        world.failed_attempts += 1
        world.note("attempt failed")
        super().abort()

    def release(self) -> None:
        """Nothing to do; a driver that is gone does nothing more."""
        if self._world.driver.dead:
            raise DriverKilled


def _release_state(tasks: SlotTasks) -> None:
    """Give back the memory and disk of a dead slot's state, as the system would."""
    for subtask in tasks._subtasks():
        for _, operator in subtask.operators:
            if operator.context.keyed_state is not None:
                operator.context.keyed_state.close()

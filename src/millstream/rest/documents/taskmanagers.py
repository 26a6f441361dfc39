"""Task managers: the processes beside which slots live, Spark's executors or the driver itself."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from millstream.rest.documents.base import UNKNOWN, CamelDocument, Document
from millstream.runtime.control.views import JobView, SlotView

__all__ = ["Manager", "TaskManager", "TaskManagerDetails", "TaskManagers", "group_slots", "manager_id"]

_ENDS = frozenset({"FINISHED", "FAILED", "CANCELED", "SUSPENDED"})


@dataclass(frozen=True, slots=True)
class Manager:
    """Slots of one job beside one executor.

    Attributes:
        id: `<host>:<driver's process>-<executor>`.
        job: The job.
        slots: Those that live there.
    """

    id: str
    job: JobView
    slots: tuple[SlotView, ...]


class Resource(CamelDocument, frozen=True, kw_only=True):
    """Resources; -1 for those that are not known."""

    cpu_cores: float = float(UNKNOWN)
    task_heap_memory: int = UNKNOWN
    task_off_heap_memory: int = UNKNOWN
    managed_memory: int = UNKNOWN
    network_memory: int = UNKNOWN
    extended_resources: dict[str, float] = {}


class Hardware(CamelDocument, frozen=True, kw_only=True):
    """What the host has; -1 for what is not known."""

    cpu_cores: int = UNKNOWN
    physical_memory: int = UNKNOWN
    free_memory: int = UNKNOWN
    managed_memory: int = UNKNOWN


class MemoryConfiguration(CamelDocument, frozen=True, kw_only=True):
    """Flink's parts of memory, which slots do not have: always -1."""

    framework_heap: int = UNKNOWN
    task_heap: int = UNKNOWN
    framework_off_heap: int = UNKNOWN
    task_off_heap: int = UNKNOWN
    network_memory: int = UNKNOWN
    managed_memory: int = UNKNOWN
    jvm_metaspace: int = UNKNOWN
    jvm_overhead: int = UNKNOWN
    total_flink_memory: int = UNKNOWN
    total_process_memory: int = UNKNOWN


class TaskManager(CamelDocument, frozen=True, kw_only=True):
    """One of `/taskmanagers`."""

    id: str
    path: str
    data_port: int
    jmx_port: int
    time_since_last_heartbeat: int
    slots_number: int
    free_slots: int
    assigned_tasks: int
    total_resource: Resource
    free_resource: Resource
    hardware: Hardware
    memory_configuration: MemoryConfiguration


class TaskManagers(Document, frozen=True, kw_only=True):
    """`/taskmanagers`."""

    taskmanagers: list[TaskManager]


class AllocatedSlot(CamelDocument, frozen=True, kw_only=True):
    """A slot and whose it is."""

    job_id: str
    resource: Resource
    assigned_tasks: int


class TaskManagerDetails(TaskManager, frozen=True, kw_only=True):
    """`/taskmanagers/:taskmanagerid`; Flink's `metrics`, all of a JVM's memory, are left out."""

    allocated_slots: list[AllocatedSlot]


def manager_id(job: JobView, slot: SlotView) -> str:
    """Return the id of the task manager of a slot."""
    return f"{slot.host}:{job.pid}-{'local' if slot.executor is None else slot.executor}"


def group_slots(jobs: Sequence[JobView]) -> list[Manager]:
    """Return the task managers of all jobs that run; two jobs never share one, as each slot is one job's."""
    managers: list[Manager] = []
    for job in jobs:
        if job.status in _ENDS:
            continue
        slots: dict[str, list[SlotView]] = {}
        for slot in job.slots:
            slots.setdefault(manager_id(job, slot), []).append(slot)
        managers.extend(Manager(name, job, tuple(grouped)) for name, grouped in slots.items())
    return managers


def task_managers(jobs: Sequence[JobView]) -> TaskManagers:
    """Return the task managers."""
    return TaskManagers(taskmanagers=[TaskManager(**_fields(manager)) for manager in group_slots(jobs)])


def task_manager(manager: Manager) -> TaskManagerDetails:
    """Return one of them."""
    slots = [
        AllocatedSlot(
            job_id=manager.job.job_id, resource=Resource(), assigned_tasks=_tasks(manager.job, slot.slot)
        )
        for slot in manager.slots
    ]
    return TaskManagerDetails(**_fields(manager), allocated_slots=slots)


def _fields(manager: Manager) -> dict[str, Any]:
    return {
        "id": manager.id,
        "path": "",
        "data_port": UNKNOWN,
        "jmx_port": UNKNOWN,
        "time_since_last_heartbeat": manager.job.seen_ms,
        "slots_number": len(manager.slots),
        "free_slots": 0,
        "assigned_tasks": sum(_tasks(manager.job, slot.slot) for slot in manager.slots),
        "total_resource": Resource(),
        "free_resource": Resource(),
        "hardware": Hardware(),
        "memory_configuration": MemoryConfiguration(),
    }


def _tasks(job: JobView, slot: int) -> int:
    """Return how many subtasks run in a slot."""
    return sum(
        subtask.subtask == slot and subtask.status == "RUNNING"
        for vertex in job.vertices
        for subtask in vertex.subtasks
    )

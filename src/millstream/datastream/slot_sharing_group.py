"""Slot sharing groups under PyFlink's names (`pyflink.datastream.slot_sharing_group`).

A slot holds one subtask of every vertex, whatever the groups; plans show a group's name, and its resources are
kept and given back.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import total_ordering

from millstream.base.errors import ConfigurationError, TypeMismatchError

__all__ = ["MemorySize", "SlotSharingGroup"]

_KIBI = 1024


@total_ordering
class MemorySize:
    """An amount of memory.

    >>> from millstream.datastream import MemorySize
    >>> str(MemorySize.of_mebi_bytes(2)), MemorySize(bytes_size=4096).get_kibi_bytes()
    ('2 mb', 4)
    """

    __slots__ = ("_bytes",)

    def __init__(self, j_memory_size: MemorySize | None = None, bytes_size: int | None = None) -> None:
        size = j_memory_size.get_bytes() if isinstance(j_memory_size, MemorySize) else bytes_size
        if size is None or size < 0:
            raise ConfigurationError(f"a memory size of {size} bytes was given")
        self._bytes = size

    @staticmethod
    def of_mebi_bytes(mebi_bytes: int) -> MemorySize:
        """Make an amount of mebibytes."""
        return MemorySize(bytes_size=mebi_bytes * _KIBI**2)

    def get_bytes(self) -> int:
        """Return it in bytes."""
        return self._bytes

    def get_kibi_bytes(self) -> int:
        """Return it in units of 2**10 bytes, rounded down."""
        return self._bytes // _KIBI

    def get_mebi_bytes(self) -> int:
        """Return it in units of 2**20 bytes, rounded down."""
        return self._bytes // _KIBI**2

    def get_gibi_bytes(self) -> int:
        """Return it in units of 2**30 bytes, rounded down."""
        return self._bytes // _KIBI**3

    def get_tebi_bytes(self) -> int:
        """Return it in units of 2**40 bytes, rounded down."""
        return self._bytes // _KIBI**4

    def __eq__(self, other: object) -> bool:
        return isinstance(other, MemorySize) and self._bytes == other._bytes

    def __hash__(self) -> int:
        return hash(self._bytes)

    def __lt__(self, other: MemorySize) -> bool:
        if not isinstance(other, MemorySize):
            raise TypeMismatchError(f"a memory size was compared with {other!r}")
        return self._bytes < other._bytes

    def __le__(self, other: MemorySize) -> bool:
        return self == other or self < other

    def __str__(self) -> str:
        for power, unit in ((4, "tb"), (3, "gb"), (2, "mb"), (1, "kb")):
            if self._bytes and self._bytes % _KIBI**power == 0:
                return f"{self._bytes // _KIBI**power} {unit}"
        return f"{self._bytes} bytes"

    def __repr__(self) -> str:
        return f"MemorySize({self})"


@dataclass(frozen=True)
class SlotSharingGroup:
    """Names operators that belong together.

    Attributes:
        name: The group's name.

    Example:
        >>> from millstream.datastream import MemorySize, SlotSharingGroup, StreamExecutionEnvironment
        >>> env = StreamExecutionEnvironment.get_execution_environment()
        >>> heavy = SlotSharingGroup.builder("heavy").set_cpu_cores(2.0).set_task_heap_memory_mb(512).build()
        >>> stream = env.from_collection([1, 2]).map(str).slot_sharing_group(heavy)
        >>> heavy.get_name(), heavy.get_cpu_cores()
        ('heavy', 2.0)
    """

    name: str
    _cpu_cores: float | None = None
    _task_heap_memory: MemorySize | None = None
    _task_off_heap_memory: MemorySize | None = None
    _managed_memory: MemorySize | None = None
    _external_resources: dict[str, float] = field(default_factory=dict, hash=False)

    def get_name(self) -> str:
        """Return the group's name."""
        return self.name

    def get_managed_memory(self) -> MemorySize | None:
        """Return the managed memory that was asked for."""
        return self._managed_memory

    def get_task_heap_memory(self) -> MemorySize | None:
        """Return the heap memory that was asked for."""
        return self._task_heap_memory

    def get_task_off_heap_memory(self) -> MemorySize | None:
        """Return the off-heap memory that was asked for."""
        return self._task_off_heap_memory

    def get_cpu_cores(self) -> float | None:
        """Return the cores that were asked for."""
        return self._cpu_cores

    def get_external_resources(self) -> dict[str, float]:
        """Return other resources that were asked for, by name."""
        return dict(self._external_resources)

    @staticmethod
    def builder(name: str) -> SlotSharingGroup.Builder:
        """Begin a group of that name."""
        return SlotSharingGroup.Builder(name)

    class Builder:
        """Makes a group; each method returns the builder."""

        def __init__(self, name: str) -> None:
            self._name = name
            self._cpu_cores: float | None = None
            self._heap: MemorySize | None = None
            self._off_heap: MemorySize | None = None
            self._managed: MemorySize | None = None
            self._external: dict[str, float] = {}

        def set_cpu_cores(self, cpu_cores: float) -> SlotSharingGroup.Builder:
            """Ask for cores.

            Raises:
                ConfigurationError: If they are not positive.
            """
            if cpu_cores <= 0:
                raise ConfigurationError(f"{cpu_cores} cores were asked for", detail="They must be positive.")
            self._cpu_cores = cpu_cores
            return self

        def set_task_heap_memory(self, task_heap_memory: MemorySize) -> SlotSharingGroup.Builder:
            """Ask for heap memory.

            Raises:
                ConfigurationError: If it is zero.
            """
            if task_heap_memory.get_bytes() == 0:
                raise ConfigurationError(
                    "a task heap memory of 0 bytes was asked for", detail="It must be positive."
                )
            self._heap = task_heap_memory
            return self

        def set_task_heap_memory_mb(self, task_heap_memory_mb: int) -> SlotSharingGroup.Builder:
            """Ask for heap memory in mebibytes.

            Raises:
                ConfigurationError: If it is zero.
            """
            return self.set_task_heap_memory(MemorySize.of_mebi_bytes(task_heap_memory_mb))

        def set_task_off_heap_memory(self, task_off_heap_memory: MemorySize) -> SlotSharingGroup.Builder:
            """Ask for off-heap memory."""
            self._off_heap = task_off_heap_memory
            return self

        def set_task_off_heap_memory_mb(self, task_off_heap_memory_mb: int) -> SlotSharingGroup.Builder:
            """Ask for off-heap memory in mebibytes."""
            return self.set_task_off_heap_memory(MemorySize.of_mebi_bytes(task_off_heap_memory_mb))

        def set_managed_memory(self, managed_memory: MemorySize) -> SlotSharingGroup.Builder:
            """Ask for managed memory."""
            self._managed = managed_memory
            return self

        def set_managed_memory_mb(self, managed_memory_mb: int) -> SlotSharingGroup.Builder:
            """Ask for managed memory in mebibytes."""
            return self.set_managed_memory(MemorySize.of_mebi_bytes(managed_memory_mb))

        def set_external_resource(self, name: str, value: float) -> SlotSharingGroup.Builder:
            """Ask for another resource."""
            self._external[name] = value
            return self

        def build(self) -> SlotSharingGroup:
            """Make the group.

            Raises:
                ConfigurationError: If other resources are asked for without cores and heap memory.
            """
            asked = (self._off_heap, self._managed, self._external or None)
            complete = self._cpu_cores is not None and self._heap is not None
            if any(each is not None for each in (*asked, self._cpu_cores, self._heap)) and not complete:
                raise ConfigurationError(
                    f'slot sharing group "{self._name}" asks for resources but not for cores and heap memory',
                    detail="A group asks for both of them, or for nothing.",
                )
            return SlotSharingGroup(
                self._name,
                self._cpu_cores,
                self._heap,
                self._off_heap if self._off_heap or not complete else MemorySize(bytes_size=0),
                self._managed if self._managed or not complete else MemorySize(bytes_size=0),
                dict(self._external),
            )

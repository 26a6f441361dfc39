"""Slot sharing groups under PyFlink's names (`pyflink.datastream.slot_sharing_group`)."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["SlotSharingGroup"]


@dataclass(frozen=True)
class SlotSharingGroup:
    """Names operators that belong together; plans show it, slots hold every vertex anyway.

    Attributes:
        name: The group's name.
    """

    name: str

    def get_name(self) -> str:
        """Return the group's name."""
        return self.name

    @staticmethod
    def builder(name: str) -> SlotSharingGroup.Builder:
        """Begin a group of that name."""
        return SlotSharingGroup.Builder(name)

    class Builder:
        """Makes a group."""

        def __init__(self, name: str) -> None:
            self._name = name

        def build(self) -> SlotSharingGroup:
            """Make the group."""
            return SlotSharingGroup(self._name)

"""What every stream is made of: the outputs it reads, and the settings of the operator behind it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeVar

from millstream.base.errors import ConfigurationError, JobDefinitionError, TypeMismatchError
from millstream.datastream.slot_sharing_group import SlotSharingGroup
from millstream.graph.transformation import ChainingStrategy, Transformation
from millstream.operators.partitioners import Partitioning
from millstream.types.typeinfo import TypeInformation

__all__ = ["OperatorSettings", "Port", "check_positive", "check_type", "describe_port"]


@dataclass(frozen=True, slots=True)
class Port:
    """An output that is read.

    Attributes:
        source: The transformation.
        partitioning: How its records are dealt to the reader; None lets the graph choose.
        side_output: Id of the side output; None for the main one.
    """

    source: Transformation
    partitioning: Partitioning | None = None
    side_output: str | None = None


def describe_port(port: Port) -> str:
    """Return an output's operator, and what becomes of its records, for people."""
    side = "" if port.side_output is None else f' side output "{port.side_output}"'
    dealt = "" if port.partitioning is None else f" {port.partitioning.name}"
    return f'"{port.source.name}"{side}{dealt}'


OperatorT = TypeVar("OperatorT", bound="OperatorSettings")


class OperatorSettings:
    """Setters of the operator behind a stream or sink; each returns itself."""

    _ports: tuple[Port, ...]

    @property
    def _transformation(self) -> Transformation:
        """The operator whose direct result this is.

        Raises:
            JobDefinitionError: If it is not one operator's direct result.
        """
        port = self._ports[0]
        if len(self._ports) > 1 or port.partitioning is not None or port.side_output is not None:
            raise JobDefinitionError(
                "a setting of an operator was made on a stream that is not an operator's direct result",
                detail="Streams made by union(), key_by(), rebalance(), get_side_output() have no operator.",
                hint="Make the setting right behind the operator it is meant for: stream.map(f).name(...).",
            )
        return port.source

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(self._described())})"

    def _described(self) -> list[str]:
        """Return what tells the stream from others, for people who look at it."""
        parts = [" + ".join(describe_port(port) for port in self._ports)]
        if len(self._ports) == 1:
            parallelism = self._ports[0].source.parallelism
            parts += [] if parallelism is None else [f"parallelism={parallelism}"]
        return parts

    def name(self: OperatorT, name: str) -> OperatorT:
        """Set the operator's name, for plans, logs and errors."""
        self._transformation.name = name
        return self

    def uid(self: OperatorT, uid: str) -> OperatorT:
        """Set the stable name under which the operator's state is found again; unique within the job."""
        self._transformation.uid = uid
        return self

    def set_uid_hash(self: OperatorT, uid_hash: str) -> OperatorT:
        """Set the hash in place of the one made of the uid.

        Raises:
            ConfigurationError: If it is not 32 hexadecimal digits.
        """
        if len(uid_hash) != 32 or not set(uid_hash.lower()) <= set("0123456789abcdef"):
            raise ConfigurationError(f"the uid hash is {uid_hash!r}", detail="It has 32 hexadecimal digits.")
        self._transformation.uid_hash = uid_hash
        return self

    def set_description(self: OperatorT, description: str) -> OperatorT:
        """Set a longer text for plans."""
        self._transformation.description = description
        return self

    def set_parallelism(self: OperatorT, parallelism: int) -> OperatorT:
        """Set the operator's parallelism.

        Raises:
            ConfigurationError: If it is not positive, or the operator cannot run in parallel.
        """
        transformation = self._transformation
        check_positive("parallelism", parallelism)
        if transformation.fixed_parallelism and parallelism != transformation.parallelism:
            raise ConfigurationError(
                f'operator "{transformation.name}" was given parallelism {parallelism}',
                detail=f"It runs with parallelism {transformation.parallelism} only.",
                hint="Call rebalance() behind it, and set the parallelism of the next operator.",
            )
        transformation.parallelism = parallelism
        transformation.own_parallelism = True
        return self

    def set_max_parallelism(self: OperatorT, max_parallelism: int) -> OperatorT:
        """Set the operator's number of key groups.

        Raises:
            ConfigurationError: If it is not positive.
        """
        check_positive("maximum parallelism", max_parallelism)
        self._transformation.max_parallelism = max_parallelism
        return self

    def disable_chaining(self: OperatorT) -> OperatorT:
        """Chain the operator neither to the one before nor to those behind."""
        self._transformation.chaining = ChainingStrategy.NEVER
        return self

    def slot_sharing_group(self: OperatorT, slot_sharing_group: str | SlotSharingGroup) -> OperatorT:
        """Set the group's name, for plans.

        Raises:
            TypeMismatchError: If it is neither a name nor a SlotSharingGroup.
        """
        group = slot_sharing_group
        if not isinstance(group, (str, SlotSharingGroup)):
            raise TypeMismatchError(
                f"slot_sharing_group was given a {type(group).__name__}, not a name or a SlotSharingGroup"
            )
        self._transformation.slot_sharing_group = group if isinstance(group, str) else group.get_name()
        return self


def check_positive(what: str, number: object) -> None:
    """Check an argument.

    Raises:
        ConfigurationError: If it is not a positive integer.
    """
    if not isinstance(number, int) or isinstance(number, bool) or number < 1:
        raise ConfigurationError(f"the {what} is {number!r}", detail="It must be a positive integer.")


def check_type(output_type: TypeInformation | None) -> None:
    """Check an argument.

    Raises:
        TypeMismatchError: If it is neither None nor a type.
    """
    if output_type is not None and not isinstance(output_type, TypeInformation):
        raise TypeMismatchError(
            f"output_type is {output_type!r}", hint="Give it a type, with brackets: Types.INT()."
        )

"""State under PyFlink's names (`pyflink.datastream.state`)."""

from millstream.common.state import State, StateDescriptor, ValueState, ValueStateDescriptor

__all__ = ["State", "StateDescriptor", "ValueState", "ValueStateDescriptor"]

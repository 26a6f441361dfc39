"""What sinks guarantee (PyFlink's `DeliveryGuarantee`)."""

from __future__ import annotations

from enum import Enum

__all__ = ["DeliveryGuarantee"]


class DeliveryGuarantee(Enum):
    """How often a record is seen in a sink if the job fails and goes on."""

    EXACTLY_ONCE = 0
    AT_LEAST_ONCE = 1
    NONE = 2

"""What sinks guarantee (PyFlink's `DeliveryGuarantee`)."""

from __future__ import annotations

from enum import Enum

__all__ = ["DeliveryGuarantee"]


class DeliveryGuarantee(Enum):
    """How often a record is seen in a sink if the job fails and goes on.

    Example:
        >>> from millstream.datastream.connectors import DeliveryGuarantee
        >>> [guarantee.name for guarantee in DeliveryGuarantee]
        ['EXACTLY_ONCE', 'AT_LEAST_ONCE', 'NONE']
    """

    EXACTLY_ONCE = 0
    AT_LEAST_ONCE = 1
    NONE = 2

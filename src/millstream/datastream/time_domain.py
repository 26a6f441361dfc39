"""Kinds of time under PyFlink's name (`pyflink.datastream.time_domain`)."""

from millstream.common.functions import TimeDomain

__all__ = ["TimeDomain"]

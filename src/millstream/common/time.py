"""Durations and instants, under PyFlink's name (`pyflink.common.time`)."""

from millstream.base.time import Duration, Instant, Time

__all__ = ["Duration", "Instant", "Time"]

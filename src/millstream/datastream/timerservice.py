"""Timers under PyFlink's name (`pyflink.datastream.timerservice`)."""

from millstream.common.functions import TimerService

__all__ = ["TimerService"]

"""Restart strategies, under PyFlink's name (`pyflink.common.restart_strategy`)."""

from millstream.config.restart_strategy import RestartStrategies, RestartStrategyConfiguration

__all__ = ["RestartStrategies", "RestartStrategyConfiguration"]

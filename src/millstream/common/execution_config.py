"""Execution configuration, under PyFlink's name (`pyflink.common.execution_config`)."""

from millstream.config.execution_config import ExecutionConfig

__all__ = ["ExecutionConfig"]

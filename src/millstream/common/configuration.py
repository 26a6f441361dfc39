"""Configuration, under PyFlink's name (`pyflink.common.configuration`)."""

from millstream.config.configuration import Configuration

__all__ = ["Configuration"]

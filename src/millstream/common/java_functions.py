"""Functions that PyFlink only knows as wrappers of Java classes (`pyflink.datastream.functions.SourceFunction`)."""

from millstream.common.source_functions import SourceFunction

__all__ = ["SourceFunction"]

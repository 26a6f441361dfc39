"""Side outputs under PyFlink's name (`pyflink.datastream.output_tag`)."""

from millstream.common.output_tag import OutputTag

__all__ = ["OutputTag"]

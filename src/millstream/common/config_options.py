"""Options with a type and a default, under PyFlink's name (`pyflink.common.config_options`)."""

from millstream.config.config_options import ConfigOption, ConfigOptions

__all__ = ["ConfigOption", "ConfigOptions"]

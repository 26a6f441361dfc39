"""Options under PyFlink's names (`pyflink.common.config_options`)."""

from __future__ import annotations

from typing import Any

from millstream.config.options import ConfigOption, OptionType

__all__ = ["ConfigOption", "ConfigOptions"]


class ConfigOptions:
    """Makes options of your own, to be read with `Configuration.get`.

    >>> from millstream.common import ConfigOptions
    >>> ConfigOptions.key("my.limit").int_type().default_value(3).default
    3
    """

    @staticmethod
    def key(key: str) -> ConfigOptions.OptionBuilder:
        """Begin an option of that key."""
        return ConfigOptions.OptionBuilder(key)

    class OptionBuilder:
        """An option whose type is to be told."""

        def __init__(self, key: str) -> None:
            self._key = key

        def string_type(self) -> ConfigOptions.TypedConfigOptionBuilder:
            """The option takes strings."""
            return self._typed(OptionType.STRING)

        def int_type(self) -> ConfigOptions.TypedConfigOptionBuilder:
            """The option takes integers."""
            return self._typed(OptionType.INTEGER)

        def long_type(self) -> ConfigOptions.TypedConfigOptionBuilder:
            """The option takes integers."""
            return self._typed(OptionType.INTEGER)

        def float_type(self) -> ConfigOptions.TypedConfigOptionBuilder:
            """The option takes numbers."""
            return self._typed(OptionType.FLOAT)

        def double_type(self) -> ConfigOptions.TypedConfigOptionBuilder:
            """The option takes numbers."""
            return self._typed(OptionType.FLOAT)

        def boolean_type(self) -> ConfigOptions.TypedConfigOptionBuilder:
            """The option takes true and false."""
            return self._typed(OptionType.BOOLEAN)

        def duration_type(self) -> ConfigOptions.TypedConfigOptionBuilder:
            """The option takes durations and gives milliseconds."""
            return self._typed(OptionType.DURATION)

        def map_type(self) -> ConfigOptions.TypedConfigOptionBuilder:
            """The option takes mappings of strings."""
            return self._typed(OptionType.MAP)

        def _typed(self, kind: OptionType) -> ConfigOptions.TypedConfigOptionBuilder:
            return ConfigOptions.TypedConfigOptionBuilder(self._key, kind)

    class TypedConfigOptionBuilder:
        """An option whose default is to be told."""

        def __init__(self, key: str, kind: OptionType) -> None:
            self._key = key
            self._kind = kind

        def default_value(self, value: Any) -> ConfigOption:
            """Finish the option with a default."""
            return ConfigOption(self._key, self._kind, ConfigOption(self._key, self._kind).convert(value))

        def no_default_value(self) -> ConfigOption:
            """Finish the option without one."""
            return ConfigOption(self._key, self._kind)

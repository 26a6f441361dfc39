"""Options under PyFlink's names (`pyflink.common.config_options`)."""

from __future__ import annotations

from typing import Any

from millstream.common.options import ConfigOption, OptionType

__all__ = ["ConfigOption", "ConfigOptions"]


class ConfigOptions:
    """Makes options of your own, to be read with `Configuration.get`.

    >>> ConfigOptions.key("my.limit").int_type().default_value(3).default
    3
    """

    def __init__(self, key: str) -> None:
        self._key = key

    @staticmethod
    def key(key: str) -> ConfigOptions:
        """Begin an option of that key."""
        return ConfigOptions(key)

    def string_type(self) -> _TypedOption:
        """The option takes strings."""
        return _TypedOption(self._key, OptionType.STRING)

    def int_type(self) -> _TypedOption:
        """The option takes integers."""
        return _TypedOption(self._key, OptionType.INTEGER)

    def long_type(self) -> _TypedOption:
        """The option takes integers."""
        return _TypedOption(self._key, OptionType.INTEGER)

    def float_type(self) -> _TypedOption:
        """The option takes numbers."""
        return _TypedOption(self._key, OptionType.FLOAT)

    def double_type(self) -> _TypedOption:
        """The option takes numbers."""
        return _TypedOption(self._key, OptionType.FLOAT)

    def boolean_type(self) -> _TypedOption:
        """The option takes true and false."""
        return _TypedOption(self._key, OptionType.BOOLEAN)

    def duration_type(self) -> _TypedOption:
        """The option takes durations and gives milliseconds."""
        return _TypedOption(self._key, OptionType.DURATION)

    def map_type(self) -> _TypedOption:
        """The option takes mappings of strings."""
        return _TypedOption(self._key, OptionType.MAP)


class _TypedOption:
    def __init__(self, key: str, kind: OptionType) -> None:
        self._key = key
        self._kind = kind

    def default_value(self, value: Any) -> ConfigOption:
        """Finish the option with a default."""
        return ConfigOption(self._key, self._kind, ConfigOption(self._key, self._kind).convert(value))

    def no_default_value(self) -> ConfigOption:
        """Finish the option without one."""
        return ConfigOption(self._key, self._kind)

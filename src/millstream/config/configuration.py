"""Option values (PyFlink's `pyflink.common.configuration`).

Values lie in layers, and where each came from is remembered::

    default  <  file  <  environment and command line  <  code
"""

from __future__ import annotations

import builtins
import json
import os
from collections.abc import Mapping
from enum import Enum
from pathlib import Path
from typing import Any

from millstream.base.errors import ConfigurationError
from millstream.config.config_files import read_settings
from millstream.config.options import (
    DEFAULT_PARALLELISM,
    SPARK_PREFIX,
    TARGET,
    ConfigOption,
    OptionType,
    current_key,
    find_option,
)

__all__ = ["CONFIG_VARIABLE", "ConfigSource", "Configuration"]

CONFIG_VARIABLE = "MILLSTREAM_CONFIG"
"""Environment variable in which the command line leaves its options: a JSON object."""


class ConfigSource(Enum):
    """Where a value came from."""

    DEFAULT = "default"
    FILE = "file"
    ENV = "env"
    COMMAND_LINE = "command line"
    CODE = "code"


class Configuration:
    """Option values by key; known options are checked when they are set.

    Keys that millstream does not know are kept as they are: they may be a user's own, or Spark's. Older keys of
    Flink are other names of the current ones, in every method.

    >>> from millstream.common import Configuration
    >>> configuration = Configuration().set_string("execution.checkpointing.interval", "10 s")
    >>> configuration.get_integer("execution.checkpointing.interval", 0)
    10000
    """

    def __init__(self, other: Configuration | None = None) -> None:
        self._values: dict[str, Any] = {} if other is None else dict(other._values)
        self._sources: dict[str, ConfigSource] = {} if other is None else dict(other._sources)

    @classmethod
    def from_dict(cls, map: Mapping[str, Any]) -> Configuration:
        """Make a configuration of keys and values.

        Raises:
            ConfigurationError: If a value does not fit its option.
        """
        configuration = cls()
        for key, value in map.items():
            configuration.set(key, value)
        return configuration

    @staticmethod
    def load(environment: Mapping[str, str], directory: Path | None = None) -> Configuration:
        """Make a configuration of what files say, under what the command line left in `MILLSTREAM_CONFIG`.

        Args:
            environment: Variables of the process.
            directory: Where to look for a project's file; by default the present directory.

        Raises:
            ConfigurationError: If a file or the variable cannot be read, or a value does not fit its option.
        """
        configuration = Configuration()
        for setting in read_settings(environment, directory):
            configuration.set(setting.key, setting.value, source=ConfigSource.FILE)
        return configuration.add_all(Configuration.from_environment(environment))

    @staticmethod
    def from_environment(environment: Mapping[str, str]) -> Configuration:
        """Make a configuration of what the command line left in `MILLSTREAM_CONFIG`.

        Raises:
            ConfigurationError: If it is not a JSON object, or a value does not fit its option.
        """
        configuration = Configuration()
        text = environment.get(CONFIG_VARIABLE, "").strip()
        if not text:
            return configuration
        try:
            values = json.loads(text)
        except ValueError as error:
            raise ConfigurationError(
                f"environment variable {CONFIG_VARIABLE} is not JSON: {error}"
            ) from error
        if not isinstance(values, dict):
            raise ConfigurationError(
                f"environment variable {CONFIG_VARIABLE} holds a JSON {type(values).__name__}",
                detail="It must be an object of option keys and values.",
            )
        for key, value in values.items():
            configuration.set(key, value, source=ConfigSource.COMMAND_LINE)
        return configuration

    def set(
        self, option: ConfigOption | str, value: Any, *, source: ConfigSource = ConfigSource.CODE
    ) -> Configuration:
        """Set an option; returns itself.

        Raises:
            ConfigurationError: If the value does not fit; names key, value and expected type.
        """
        key = option.key if isinstance(option, ConfigOption) else option
        if not isinstance(key, str) or not key:
            raise ConfigurationError(
                f"the key of an option is {key!r}", detail="It must be a non-empty string."
            )
        known = option if isinstance(option, ConfigOption) else find_option(key)
        key = current_key(key)
        self._values[key] = value if known is None else known.convert(value)
        self._sources[key] = source
        return self

    def get(self, option: ConfigOption | str, default: Any = None) -> Any:
        """Return an option's value in the option's own type, durations in milliseconds.

        Args:
            option: An option or a key.
            default: What to return if it is not set and has no default.
        """
        key = option.key if isinstance(option, ConfigOption) else option
        known = option if isinstance(option, ConfigOption) else find_option(key)
        key = current_key(key)
        if key in self._values:
            value = self._values[key]
            return value if known is None else known.convert(value)
        return default if known is None or known.default is None else known.default

    def source(self, key: str) -> ConfigSource:
        """Return where the value of `key` came from; DEFAULT if nobody set it."""
        return self._sources.get(current_key(key), ConfigSource.DEFAULT)

    def get_string(self, key: str, default_value: str | None = None) -> str | None:
        """Return a value as a string, `default_value` if it is not set."""
        key = current_key(key)
        return _as_string(self._values[key]) if key in self._values else default_value

    def set_string(self, key: str, value: str) -> Configuration:
        """Set a value from a string."""
        return self.set(key, value)

    def get_integer(self, key: str, default_value: int | None = None) -> int | None:
        """Return a value as an integer, `default_value` if it is not set."""
        number: int | None = self._get_as(key, OptionType.INTEGER, default_value)
        return number

    def set_integer(self, key: str, value: int) -> Configuration:
        """Set a value from an integer."""
        return self.set(key, value)

    def get_boolean(self, key: str, default_value: bool | None = None) -> bool | None:
        """Return a value as a bool, `default_value` if it is not set."""
        flag: bool | None = self._get_as(key, OptionType.BOOLEAN, default_value)
        return flag

    def set_boolean(self, key: str, value: bool) -> Configuration:
        """Set a value from a bool."""
        return self.set(key, value)

    def get_float(self, key: str, default_value: float | None = None) -> float | None:
        """Return a value as a float, `default_value` if it is not set."""
        number: float | None = self._get_as(key, OptionType.FLOAT, default_value)
        return number

    def set_float(self, key: str, value: float) -> Configuration:
        """Set a value from a float."""
        return self.set(key, value)

    def get_bytearray(self, key: str, default_value: bytearray | None = None) -> bytearray | None:
        """Return bytes, `default_value` if they are not set."""
        value = self._values.get(key)
        return default_value if value is None else bytearray(value)

    def set_bytearray(self, key: str, value: bytearray) -> Configuration:
        """Set bytes."""
        return self.set(key, bytearray(value))

    def key_set(self) -> builtins.set[str]:
        """Return the keys that are set."""
        return set(self._values)

    def contains_key(self, key: str) -> bool:
        """Return whether a key is set."""
        return current_key(key) in self._values

    def remove_config(self, key: str) -> bool:
        """Unset a key; returns whether it was set."""
        key = current_key(key)
        self._sources.pop(key, None)
        return self._values.pop(key, self) is not self

    def add_all(self, other: Configuration, prefix: str | None = None) -> Configuration:
        """Set all that `other` sets, with `prefix` before each key; returns itself."""
        for key, value in other._values.items():
            self.set((prefix or "") + key, value, source=other._sources[key])
        return self

    def add_all_to_dict(self, target_dict: dict[str, Any]) -> None:
        """Put all values into a dict."""
        target_dict.update(self._values)

    def to_dict(self) -> dict[str, str]:
        """Return all values that are set, as strings."""
        return {key: _as_string(value) for key, value in self._values.items()}

    def default_parallelism(self) -> int:
        """Return the parallelism of operators that have none of their own.

        It is `parallelism.default`, else the cores of the Spark master in `execution.target`: 1 on the local
        executor, this machine's cores for a master that does not tell.

        >>> Configuration.from_dict({"execution.target": "local-cluster[2,2,1024]"}).default_parallelism()
        4
        """
        parallelism: int | None = self.get(DEFAULT_PARALLELISM)
        if parallelism is not None:
            return parallelism
        target: str = self.get(TARGET)
        if target == "local":
            return 1
        numbers = [
            int(part) for part in target.partition("[")[2].rstrip("]").split(",") if part.strip().isdigit()
        ]
        if target.startswith("local-cluster") and len(numbers) == 3:
            return numbers[0] * numbers[1]
        return numbers[0] if numbers and target.startswith("local") else os.cpu_count() or 1

    def spark_settings(self) -> dict[str, str]:
        """Return the settings that go to Spark: those whose key begins with `spark.`."""
        return {key: _as_string(value) for key, value in self._values.items() if key.startswith(SPARK_PREFIX)}

    @staticmethod
    def parse_list_value(value: str) -> list[str]:
        """Return the parts of a list written as `a;b`, or in YAML: as `[a, b]` or with a line `- a` for each part.

        >>> [Configuration.parse_list_value(text) for text in ("a;b", "[a, 'b']", "- a\\n- b")]
        [['a', 'b'], ['a', 'b'], ['a', 'b']]
        """
        text = (value or "").strip()
        if text.startswith("[") and text.endswith("]"):
            return [_unquoted(part) for part in text[1:-1].split(",") if part.strip()]
        lines = [line.strip() for line in text.splitlines() if line.strip()]
        if lines and all(line.startswith("- ") for line in lines):
            return [_unquoted(line[2:]) for line in lines]
        return [part.strip() for part in text.split(";") if part.strip()]

    def _get_as(self, key: str, kind: OptionType, default: Any) -> Any:
        key = current_key(key)
        if key not in self._values:
            return default
        return ConfigOption(key, kind).convert(self._values[key])

    def __deepcopy__(self, memo: dict[int, Any] | None = None) -> Configuration:
        return Configuration(self)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Configuration) and self._values == other._values

    def __hash__(self) -> int:
        return hash(frozenset(self.to_dict().items()))

    def __str__(self) -> str:
        return f"{{{', '.join(f'{key}={value}' for key, value in self.to_dict().items())}}}"

    def __repr__(self) -> str:
        return f"Configuration({self.to_dict()!r})"


def _unquoted(part: str) -> str:
    """Return an item of a YAML list without blanks and quotation marks around it."""
    part = part.strip()
    return part[1:-1] if len(part) > 1 and part[0] == part[-1] and part[0] in "'\"" else part


def _as_string(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, Mapping):
        return json.dumps(value)
    return str(value)

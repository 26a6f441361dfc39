"""Options in files: `millstream.toml` of a project, Flink's `config.yaml`.

====================================  ==========================================================================
read                                  when
====================================  ==========================================================================
what `MILLSTREAM_CONF` names          always, and then nothing else (`--config` sets it); .toml, .yaml or .yml
`config.yaml` in `FLINK_CONF_DIR`     else, if the variable is set and the file is there
`millstream.toml`                     and this over it: of the present directory, or of one above it up to the
                                      project's root (the first with `pyproject.toml` or `.git`)
====================================  ==========================================================================

Keys are written flat or nested, as one likes::

    parallelism.default = 4                  parallelism.default: 4
    [execution.checkpointing]                execution:
    interval = "10 s"                          checkpointing:
                                                 interval: 10 s
"""

from __future__ import annotations

import logging
import os
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from millstream.base.errors import ConfigurationError
from millstream.config.options import OptionType, find_intended_key, find_option

__all__ = ["FILE_VARIABLE", "FileSetting", "read_settings"]

FILE_VARIABLE = "MILLSTREAM_CONF"
"""Environment variable that names a configuration file."""

_FLINK_VARIABLE = "FLINK_CONF_DIR"
_FLINK_FILES = ("config.yaml", "flink-conf.yaml")
_PROJECT_FILE = "millstream.toml"
_ROOT_MARKS = ("pyproject.toml", ".git")
_NOTHING = frozenset({"", "~", "null", "Null", "NULL"})

_LOG = logging.getLogger(__name__)
_warned: set[tuple[str, str]] = set()


@dataclass(frozen=True, slots=True)
class FileSetting:
    """One option in a file.

    Attributes:
        key: Its key, whole.
        value: Its value, checked and converted if millstream knows the option.
        file: Path of the file.
        line: Its line, from 1; None if that is not known.
    """

    key: str
    value: Any
    file: str
    line: int | None

    @property
    def place(self) -> str:
        """File and line, for people."""
        return self.file if self.line is None else f"{self.file}, line {self.line}"


def read_settings(environment: Mapping[str, str], directory: Path | None = None) -> list[FileSetting]:
    """Return the options of all files that count, later ones over earlier ones; warns of keys that look mistyped.

    Args:
        environment: Variables of the process.
        directory: Where to look for a project's file; by default the present directory.

    Raises:
        ConfigurationError: If a file is not there, cannot be read, or has a value that does not fit; names the line.
    """
    settings = [setting for path in _files(environment, directory) for setting in _read(path)]
    for setting in settings:
        _warn_if_mistyped(setting)
    return settings


def _files(environment: Mapping[str, str], directory: Path | None) -> Iterator[Path]:
    named = environment.get(FILE_VARIABLE)
    if named:
        yield Path(named).expanduser()
        return
    flink = environment.get(_FLINK_VARIABLE)
    if flink:
        if not Path(flink).is_dir() and (flink, "") not in _warned:
            _warned.add((flink, ""))
            _LOG.warning("%s names %s, which is no directory: no config.yaml is read", _FLINK_VARIABLE, flink)
        yield from [path for name in _FLINK_FILES if (path := Path(flink, name)).is_file()][:1]
    try:
        here = Path.cwd() if directory is None else directory
    except FileNotFoundError:  # removed while the process is in it
        return
    for each in _up_to_root(here):
        path = each / _PROJECT_FILE
        if path.is_file():
            if _is_trusted(path):
                yield path
            return


def _up_to_root(directory: Path) -> list[Path]:
    """Return a directory and those above it within the same project; itself alone outside of projects."""
    chain = [directory, *directory.parents]
    for number, each in enumerate(chain):
        if any((each / mark).exists() for mark in _ROOT_MARKS):
            return chain[: number + 1]
    return [directory]


def _is_trusted(path: Path) -> bool:
    """Return whether a file that was found, not named, is this user's: options may name what is to be run."""
    owner = path.stat().st_uid
    if owner in (os.getuid(), 0):
        return True
    if (str(path), "") not in _warned:
        _warned.add((str(path), ""))
        _LOG.warning(
            "%s is not read: it belongs to another user. --config or %s may name it", path, FILE_VARIABLE
        )
    return False


def _read(path: Path) -> Iterator[FileSetting]:
    parse = _PARSERS.get(path.suffix)
    if parse is None:
        raise ConfigurationError(
            f'configuration file "{path}" is of no kind that is known',
            detail="There are .toml, .yaml and .yml files.",
        )
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise ConfigurationError(
            f'configuration file "{path}" cannot be read: {reason}',
            hint=f"--config or {FILE_VARIABLE} names it.",
        ) from error
    for key, value, line in parse(text, str(path)):
        setting = FileSetting(key, value, str(path), line)
        yield FileSetting(key, _converted(setting), str(path), line)


def _converted(setting: FileSetting) -> Any:
    option = find_option(setting.key)
    if option is None:
        return setting.value
    try:
        return option.convert(setting.value)
    except ConfigurationError as error:
        raise ConfigurationError(
            f"{error.message} in {setting.place}", detail=error.detail, hint=error.hint
        ) from error


def _warn_if_mistyped(setting: FileSetting) -> None:
    key = setting.key
    if (setting.file, key) in _warned:
        return
    intended = find_intended_key(key)
    if intended is not None:
        _warned.add((setting.file, key))
        _LOG.warning('%s: no option is named "%s"; did you mean "%s"?', setting.place, key, intended)
    elif key.startswith("millstream.") and find_option(key) is None:
        _warned.add((setting.file, key))
        _LOG.warning('%s: no option is named "%s"; `millstream config` lists them', setting.place, key)


_Parsed = Iterator[tuple[str, Any, int | None]]


def _parse_toml(text: str, path: str) -> _Parsed:
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigurationError(f'configuration file "{path}" is not TOML: {error}') from error
    lines = _lines_of_toml(text)
    for key, value in _flat("", document):
        yield key, value, lines.get(key)


def _lines_of_toml(text: str) -> dict[str, int]:
    """Return the line of each key that stands on one line of its own with its value's beginning."""
    table, lines = "", dict[str, int]()
    for number, line in enumerate(text.splitlines(), 1):
        stripped = line.strip()
        if stripped.startswith("[") and not stripped.startswith("[["):
            table = _dotted(stripped.partition("]")[0].lstrip("["))
        elif "=" in stripped and not stripped.startswith("#"):
            key = _dotted(stripped.partition("=")[0])
            lines.setdefault(f"{table}.{key}" if table else key, number)
    return lines


def _dotted(key: str) -> str:
    """Return a key of TOML, bare or quoted or dotted, as text; empty if it is none.

    >>> _dotted("execution.'checkpointing.interval'")
    'execution.checkpointing.interval'
    """
    try:
        found: Any = tomllib.loads(f"{key} = 0")
    except tomllib.TOMLDecodeError:
        return ""
    parts = []
    while isinstance(found, dict):
        (part, found), *_ = found.items()
        parts.append(part)
    return ".".join(parts)


def _flat(prefix: str, table: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Return the keys of nested tables, whole; a table that is an option's value stays one."""
    for name, value in table.items():
        key = prefix + name
        if isinstance(value, dict) and not _takes_map(key):
            yield from _flat(f"{key}.", value)
        elif isinstance(value, list):
            yield key, _joined(key, value)
        else:
            yield key, value if isinstance(value, (str, int, float, dict)) else str(value)


def _takes_map(key: str) -> bool:
    option = find_option(key)
    return option is not None and option.type is OptionType.MAP


def _joined(key: str, parts: Sequence[Any]) -> str:
    """Return a list as an option's text: Flink separates by semicolons, its Python options by commas."""
    return ("," if key.startswith("python.") else ";").join(map(str, parts))


def _parse_yaml(text: str, path: str) -> _Parsed:
    import yaml  # only who has such a file waits for it

    try:
        # Nodes, not objects: each has its line, and every scalar is the text that stands there.
        root = yaml.compose(text, Loader=yaml.BaseLoader)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = "" if mark is None else f" at line {mark.line + 1}"
        # Not the error's own text: that shows the line, which may be a password's.
        reason = getattr(error, "problem", None) or type(error).__name__
        raise ConfigurationError(f'configuration file "{path}" is not YAML{where}: {reason}') from error
    if root is None:
        return
    if not isinstance(root, yaml.MappingNode):
        raise ConfigurationError(
            f'configuration file "{path}" holds no keys and values',
            detail="A line is of the form `key: value`.",
        )
    seen: dict[str, int] = {}
    for key, value, line in _flat_nodes("", root):
        if key in seen:
            raise ConfigurationError(
                f'configuration file "{path}" has "{key}" in line {seen[key]} and in line {line}'
            )
        seen[key] = line
        yield key, value, line


def _flat_nodes(prefix: str, mapping: Any) -> Iterator[tuple[str, Any, int]]:
    for name, node in mapping.value:
        key, line = f"{prefix}{name.value}", name.start_mark.line + 1
        if node.id == "mapping" and _takes_map(key):
            yield key, {each.value: value.value for each, value in node.value}, line
        elif node.id == "mapping":
            yield from _flat_nodes(f"{key}.", node)
        elif node.id == "sequence":
            yield key, _joined(key, [each.value for each in node.value]), line
        elif node.style is not None or node.value not in _NOTHING:
            yield key, node.value, line


_PARSERS = {".toml": _parse_toml, ".yaml": _parse_yaml, ".yml": _parse_yaml}

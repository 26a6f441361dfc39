"""The part of an environment that says which files a job takes along, and which checkpoints it makes."""

from __future__ import annotations

import logging
import os
from typing import Self

from millstream.base.errors import ConfigurationError
from millstream.config import options_checkpointing, options_python
from millstream.config.configuration import Configuration
from millstream.config.option_types import ConfigOption
from millstream.datastream.checkpoint_config import CheckpointConfig
from millstream.datastream.checkpointing_mode import CheckpointingMode

__all__ = ["CheckpointSettings", "JobFiles"]

_log = logging.getLogger(__name__)


class JobFiles:
    """Files, packages and archives of a job.

    Paths are of the machine where the program runs. The files are read when the job is executed and travel with
    it, so they need not be on any other host.
    """

    _configuration: Configuration

    def add_python_file(self, file_path: str) -> None:
        """Have the slots import a .py file, a package or directory, or a zip file (also whl and egg).

        A directory is searched for modules; if it is a package itself, it can be imported by its name, too.
        """
        self._add(options_python.PYTHON_FILES, file_path, first=True)

    def set_python_requirements(
        self, requirements_file_path: str, requirements_cache_dir: str | None = None
    ) -> None:
        """Have pip install packages for the slots, once on each host.

        Args:
            requirements_file_path: A requirements.txt.
            requirements_cache_dir: Directory of packages to install from, in place of an index.
        """
        value = requirements_file_path
        if requirements_cache_dir is not None:
            value += f"#{requirements_cache_dir}"
        self._configuration.set(options_python.PYTHON_REQUIREMENTS, value)

    def add_python_archive(self, archive_path: str, target_dir: str | None = None) -> None:
        """Have an archive (zip or tar) unpacked in the slots' working directory.

        Args:
            archive_path: The archive.
            target_dir: Directory that it becomes; by default, one named like the archive.
        """
        value = archive_path if target_dir is None else f"{archive_path}#{target_dir}"
        self._add(options_python.PYTHON_ARCHIVES, value)

    def set_python_executable(self, python_exec: str) -> None:
        """Have the slots run in an interpreter of your own, of the program's Python version, with millstream.

        Args:
            python_exec: Its path; a relative one leads into an archive.
        """
        self._configuration.set(options_python.PYTHON_EXECUTABLE, python_exec)

    def register_cached_file(self, file_path: str, name: str, executable: bool = False) -> None:
        """Give functions a copy of a file or directory: `runtime_context.get_distributed_cache().get_file(name)`.

        Raises:
            ConfigurationError: If path or name contain a comma or semicolon, or the name is taken.
        """
        if any(mark in text for mark in ",;" for text in (file_path, name)):
            raise ConfigurationError(
                f'file "{file_path}" was registered as "{name}"',
                detail="Neither may have a comma or semicolon.",
            )
        known = self._configuration.get(options_python.CACHED_FILES) or ""
        if any(entry.startswith(f"name:{name},") for entry in known.split(";")):
            raise ConfigurationError(f'a file is registered as "{name}" already')
        entry = f"name:{name},path:{file_path},executable:{str(executable).lower()}"
        self._configuration.set(options_python.CACHED_FILES, ";".join(filter(None, [known, entry])))

    def add_jars(self, *jars_path: str) -> None:
        """Take note of jars and warn of them: no operator or connector here is written in Java."""
        self._note(options_python.JARS, jars_path)

    def add_classpaths(self, *classpaths: str) -> None:
        """Take note of class paths and warn of them, as `add_jars` does."""
        self._note(options_python.CLASSPATHS, classpaths)

    def _note(self, option: ConfigOption, paths: tuple[str, ...]) -> None:
        known = Configuration.parse_list_value(self._configuration.get(option) or "")
        self._configuration.set(option, str([*known, *paths]))  # a list of YAML, as Flink writes it
        for path in paths:
            _log.warning(
                'jar "%s" is not used: connectors and formats of millstream are Python packages',
                os.path.basename(path),
            )

    def _add(self, option: ConfigOption, value: str, *, first: bool = False) -> None:
        if "," in value:
            raise ConfigurationError(
                f'path "{value}" has a comma', detail=f'Option "{option.key}" separates paths by commas.'
            )
        known = self._configuration.get(option)
        parts = [value, known] if first else [known, value]
        self._configuration.set(option, ",".join(part for part in parts if part))


class CheckpointSettings:
    """Checkpoints of a job; a short way to `get_checkpoint_config()`."""

    _configuration: Configuration

    def get_checkpoint_config(self) -> CheckpointConfig:
        """Return the settings of checkpoints; what is set there is set here."""
        return CheckpointConfig(self._configuration)

    def enable_checkpointing(self, interval: int, mode: CheckpointingMode | None = None) -> Self:
        """Set the time between checkpoints in milliseconds, and the mode.

        Raises:
            ConfigurationError: If the interval is not positive.
        """
        config = self.get_checkpoint_config().set_checkpoint_interval(interval)
        if mode is not None:
            config.set_checkpointing_mode(mode)
        return self

    def get_checkpoint_interval(self) -> int:
        """Return the time between checkpoints in milliseconds, -1 if there are none."""
        return self.get_checkpoint_config().get_checkpoint_interval()

    def get_checkpointing_mode(self) -> CheckpointingMode:
        """Return the mode of checkpoints."""
        return self.get_checkpoint_config().get_checkpointing_mode()

    def get_checkpointing_consistency_mode(self) -> CheckpointingMode:
        """Return the mode of checkpoints, under Flink 2's name."""
        return self.get_checkpointing_mode()

    def is_unaligned_checkpoints_enabled(self) -> bool:
        """Return the switch of `get_checkpoint_config()`."""
        return self.get_checkpoint_config().is_unaligned_checkpoints_enabled()

    def is_force_unaligned_checkpoints(self) -> bool:
        """Return the switch of `get_checkpoint_config()`."""
        return self.get_checkpoint_config().is_force_unaligned_checkpoints()

    def enable_changelog_state_backend(self, enabled: bool) -> Self:
        """Keep a switch; without effect: checkpoints are made of what changed anyway."""
        self._configuration.set(options_checkpointing.CHANGELOG_ENABLED, enabled)
        return self

    def is_changelog_state_backend_enabled(self) -> bool | None:
        """Return the switch that was kept, None if it was not set."""
        key = options_checkpointing.CHANGELOG_ENABLED.key
        return self._configuration.get_boolean(key, None)

    def set_default_savepoint_directory(self, directory: str) -> Self:
        """Set where savepoints go that are asked for without a directory."""
        self._configuration.set(options_checkpointing.SAVEPOINT_DIRECTORY, str(directory))
        return self

    def get_default_savepoint_directory(self) -> str | None:
        """Return where savepoints go that are asked for without a directory."""
        directory: str | None = self._configuration.get(options_checkpointing.SAVEPOINT_DIRECTORY)
        return directory

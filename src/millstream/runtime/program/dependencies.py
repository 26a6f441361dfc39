"""What a job's functions need beside themselves: files, packages, archives and an interpreter.

The driver packs them once into `Dependencies`, bytes and all, which travel at the head of the deployment; each
host lays them out once for each attempt (`runtime.slot.workspace`). Nothing has to be on a shared file system.

==============================  ============================  =================================================
option                          environment                   in the slots
==============================  ============================  =================================================
``python.files``                ``add_python_file``           importable
``python.requirements``         ``set_python_requirements``   installed by pip, importable
``python.archives``             ``add_python_archive``        unpacked in the working directory
``python.executable``           ``set_python_executable``     the interpreter
``python.pythonpath``                                         searched for modules, as it stands
``pipeline.cached-files``       ``register_cached_file``      ``RuntimeContext.get_distributed_cache()``
==============================  ============================  =================================================
"""

from __future__ import annotations

import io
import os
import tarfile
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from millstream.base.errors import ConfigurationError
from millstream.base.pyflink_names import is_installed
from millstream.config import options_python as options
from millstream.config.configuration import Configuration

__all__ = ["Archive", "CachedFile", "Dependencies", "ShippedFile", "collect_dependencies"]

MAX_BYTES = 1 << 30
"""All files of a job together; they travel with its operators."""


@dataclass(frozen=True, slots=True)
class ShippedFile:
    """A file or directory with its content.

    Attributes:
        name: Its own name, without directories.
        content: The bytes; of a directory, a zip of what is in it.
        is_directory: Whether it is one.
    """

    name: str
    content: bytes
    is_directory: bool = False


@dataclass(frozen=True, slots=True)
class Archive:
    """An archive to be unpacked in the working directory.

    Attributes:
        target: Name of the directory it becomes.
        file: The archive itself.
    """

    target: str
    file: ShippedFile


@dataclass(frozen=True, slots=True)
class CachedFile:
    """A file of the distributed cache.

    Attributes:
        name: Under which functions ask for it.
        file: The file or directory.
        executable: Whether it may be run.
    """

    name: str
    file: ShippedFile
    executable: bool


@dataclass(frozen=True, slots=True)
class Dependencies:
    """What every slot of a job gets.

    Attributes:
        python_files: To be importable.
        requirements: For pip; None if there are none.
        requirements_cache: Directory with the packages, if pip must look nowhere else.
        archives: To be unpacked.
        cached_files: The distributed cache.
        executable: Interpreter; None for Spark's own.
        python_path: Directories that are on every host already.
        pyflink_names: Whether `pyflink` names millstream in the program.
    """

    python_files: tuple[ShippedFile, ...] = ()
    requirements: ShippedFile | None = None
    requirements_cache: ShippedFile | None = None
    archives: tuple[Archive, ...] = ()
    cached_files: tuple[CachedFile, ...] = ()
    executable: str | None = None
    python_path: tuple[str, ...] = ()
    pyflink_names: bool = False

    @property
    def has_files(self) -> bool:
        """Whether there is anything to lay out on a host."""
        return bool(self.python_files or self.requirements or self.archives or self.cached_files)


def collect_dependencies(configuration: Configuration) -> Dependencies:
    """Read what the options name.

    Raises:
        ConfigurationError: If a file is missing, is not of a kind that can be used, or all are too large.
    """
    requirements, _, cache = (configuration.get(options.PYTHON_REQUIREMENTS) or "").partition("#")
    found = Dependencies(
        python_files=tuple(
            _importable(path) for path in split_paths(configuration.get(options.PYTHON_FILES))
        ),
        requirements=_read(requirements, options.PYTHON_REQUIREMENTS.key) if requirements else None,
        requirements_cache=_read(cache, options.PYTHON_REQUIREMENTS.key) if cache else None,
        archives=tuple(map(_archive, split_paths(configuration.get(options.PYTHON_ARCHIVES)))),
        cached_files=tuple(_cached_files(configuration.get(options.CACHED_FILES) or "")),
        executable=configuration.get(options.PYTHON_EXECUTABLE),
        python_path=tuple(filter(None, (configuration.get(options.PYTHON_PATH) or "").split(os.pathsep))),
        pyflink_names=is_installed(),
    )
    _check_size(found)
    return found


def split_paths(text: str | None) -> list[str]:
    """Return the parts of a list separated by commas, each once.

    >>> split_paths("a.py, b.zip#b,a.py")
    ['a.py', 'b.zip#b']
    """
    return list(dict.fromkeys(part.strip() for part in (text or "").split(",") if part.strip()))


def _read(path: str, key: str) -> ShippedFile:
    file = Path(path.removeprefix("file://")).expanduser()
    try:
        if file.is_dir():
            return ShippedFile(file.resolve().name, _zip(file), is_directory=True)
        return ShippedFile(file.name, file.read_bytes())
    except OSError as error:
        raise ConfigurationError(
            f'file "{path}" of option "{key}" cannot be read: {error.strerror}',
            hint="Give a path that exists where the program runs; it is sent to the slots from there.",
        ) from error


def _zip(directory: Path) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        for path in sorted(directory.rglob("*")):
            if "__pycache__" not in path.parts:
                archive.write(path, path.relative_to(directory))
    return buffer.getvalue()


def _importable(path: str) -> ShippedFile:
    file = _read(path, options.PYTHON_FILES.key)
    if file.is_directory or file.name.endswith(".py") or zipfile.is_zipfile(io.BytesIO(file.content)):
        return file
    raise ConfigurationError(
        f'Python cannot import from file "{path}"',
        detail="It is neither a .py file, a directory, nor a zip file (zip, whl, egg).",
        hint="Use add_python_archive(...) for files that are only read.",
    )


def _archive(text: str) -> Archive:
    path, _, target = text.partition("#")
    file = _read(path, options.PYTHON_ARCHIVES.key)
    if not file.is_directory and not (
        zipfile.is_zipfile(io.BytesIO(file.content)) or tarfile.is_tarfile(io.BytesIO(file.content))
    ):
        raise ConfigurationError(
            f'file "{path}" is not an archive',
            detail="Archives are zip files (zip, jar, whl, egg) or tar files, compressed or not.",
            hint="Use register_cached_file(...) for a plain file.",
        )
    target = target or file.name
    if os.path.isabs(target) or ".." in Path(target).parts:
        raise ConfigurationError(
            f'archive "{path}" was given the target directory "{target}"',
            detail="Archives are unpacked in the slots' working directory.",
        )
    return Archive(target, file)


def _cached_files(text: str) -> Iterator[CachedFile]:
    for entry in filter(None, (part.strip() for part in text.split(";"))):
        fields = dict(_pair(entry, part) for part in entry.split(","))
        if not {"name", "path"} <= set(fields):
            raise ConfigurationError(
                f'entry "{entry}" of option "{options.CACHED_FILES.key}" lacks name or path',
                detail="An entry is name:n,path:p or name:n,path:p,executable:true.",
            )
        file = _read(fields["path"], options.CACHED_FILES.key)
        yield CachedFile(fields["name"], file, fields.get("executable", "").lower() == "true")


def _pair(entry: str, part: str) -> tuple[str, str]:
    key, colon, value = part.partition(":")
    if not colon:
        raise ConfigurationError(
            f'entry "{entry}" of option "{options.CACHED_FILES.key}" has a part without a colon: "{part}"'
        )
    return key.strip(), value.strip()


def _check_size(found: Dependencies) -> None:
    files = [*found.python_files, found.requirements, found.requirements_cache]
    files += [archive.file for archive in found.archives]
    files += [cached.file for cached in found.cached_files]
    total = sum(len(file.content) for file in files if file is not None)
    if total > MAX_BYTES:
        largest = max((file for file in files if file is not None), key=lambda file: len(file.content))
        raise ConfigurationError(
            f"the job's files have {total:,} bytes, the largest is {largest.name!r}",
            detail=f"They travel to every host with the job; at most {MAX_BYTES:,} bytes do.",
            hint="Put large data where every host can read it, and give functions its path.",
        )

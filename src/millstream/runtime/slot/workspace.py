"""One host's copy of a job's files, shared by the slots of an attempt that live there.

::

    <temporary directory>/millstream-<user>/files/<job>-<attempt>/
        alive        a lock that every slot shares while it lives
        layout       a lock for the one that lays it out
        ready        written last: what is here is whole
        files/       on sys.path: Python files and packages
        packages/    on sys.path: what pip installed
        archives/    the slots' working directory
        cache/       the distributed cache

The first slot lays it out, the others wait for it. The last one to end removes it; if that one was killed, the
next job on the host does: a directory whose lock nobody shares is nobody's.
"""

from __future__ import annotations

import contextlib
import fcntl
import io
import os
import shutil
import stat
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from millstream.base.errors import JobDefinitionError
from millstream.files.private_files import NotPrivateError, check_private, private_directory
from millstream.runtime.program.dependencies import Dependencies, ShippedFile

__all__ = ["PYTHON_VARIABLE", "Workspace", "open_workspace", "sweep_workspaces", "workspace_name"]

PIP_TIMEOUT_S = 1_800
PYTHON_VARIABLE = "python"
_PARTS = ("files", "packages", "archives", "cache", "requirements", "wheels")


@dataclass(slots=True)
class Workspace:
    """Where a slot finds the job's files; keeps them until `close`.

    Attributes:
        python_path: For sys.path, in order, before everything else.
        working_directory: Where relative paths lead; None if the job has no archives.
        executable: The interpreter; None for the present one.
        cached_files: Path of each file of the distributed cache, by name.
    """

    python_path: tuple[str, ...] = ()
    working_directory: str | None = None
    executable: str | None = None
    cached_files: dict[str, str] = field(default_factory=dict)
    _root: Path | None = None
    _lock: IO[bytes] | None = None
    _environment_before: dict[str, str | None] = field(default_factory=dict)

    def enter(self) -> None:
        """Have this process import from here and, if there are archives, work in their directory.

        An interpreter that was chosen is named in the environment variable `python`, as in PyFlink's workers.
        """
        sys.path[:0] = self.python_path
        if self.executable is not None:
            self._environment_before = {PYTHON_VARIABLE: os.environ.get(PYTHON_VARIABLE)}
            os.environ[PYTHON_VARIABLE] = self.executable
        if self.working_directory is not None:
            os.chdir(self.working_directory)

    def close(self) -> None:
        """Let go of the files; the last one to do so removes them. The environment is as before `enter`."""
        for name, value in self._environment_before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
        self._environment_before = {}
        lock, self._lock = self._lock, None
        if lock is None or self._root is None:
            return
        with lock:
            if _try_exclusive(lock):
                shutil.rmtree(self._root, ignore_errors=True)


def open_workspace(dependencies: Dependencies, name: str, base: str | None = None) -> Workspace:
    """Lay the files out, or join the slot that did.

    Args:
        dependencies: The job's.
        name: Unique for the attempt, the same for all its slots.
        base: Directory for this user only to work in; by default, one in the system's temporary directory.

    Raises:
        NotPrivateError: If this user's directory is not for this user only.
        JobDefinitionError: If an archive does not unpack, pip fails, or the interpreter is not there.
    """
    if not dependencies.has_files:
        return Workspace(dependencies.python_path, executable=dependencies.executable)
    if base is None:
        directory = private_directory("files")
    else:
        directory = Path(base)
        directory.mkdir(mode=0o700, exist_ok=True)
        check_private(directory)
    _sweep(directory)
    root = directory / name
    lock = _share(root)
    try:
        with open(root / "layout", "ab") as layout:
            fcntl.flock(layout, fcntl.LOCK_EX)
            if not (root / "ready").exists():
                _lay_out(dependencies, root)
                (root / "ready").touch()
        return _describe(dependencies, root, lock)
    except BaseException:
        Workspace(_root=root, _lock=lock).close()
        raise


def workspace_name(job_id: str, attempt: int) -> str:
    """Return the name of an attempt's workspace."""
    return f"{job_id}-{attempt}"


def _share(root: Path) -> IO[bytes]:
    """Share the lock of a directory that is not being removed meanwhile."""
    while True:
        root.mkdir(mode=0o700, exist_ok=True)
        try:
            lock = open(root / "alive", "ab")  # noqa: SIM115 - held as long as the workspace
        except FileNotFoundError:
            continue
        fcntl.flock(lock, fcntl.LOCK_SH)
        with contextlib.suppress(FileNotFoundError):
            if os.path.samestat(os.stat(root / "alive"), os.fstat(lock.fileno())):
                return lock
        lock.close()


def _try_exclusive(lock: IO[bytes]) -> bool:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def sweep_workspaces() -> None:
    """Remove what killed slots of this user have left behind on this host."""
    with contextlib.suppress(NotPrivateError, OSError):  # nothing of ours lies there
        _sweep(private_directory("files"))


def _sweep(directory: Path) -> None:
    """Remove what killed slots left behind."""
    for root in directory.iterdir():
        with contextlib.suppress(OSError), open(root / "alive", "rb") as lock:
            if _try_exclusive(lock):
                shutil.rmtree(root, ignore_errors=True)


def _lay_out(dependencies: Dependencies, root: Path) -> None:
    for part in _PARTS:  # of a slot that was killed while it did this
        shutil.rmtree(root / part, ignore_errors=True)
    for number, file in enumerate(dependencies.python_files):
        _write(file, root / "files" / str(number))
    for archive in dependencies.archives:
        target = root / "archives" / archive.target
        target.mkdir(parents=True, exist_ok=True)
        _unpack(archive.file, target)
    for number, cached in enumerate(dependencies.cached_files):
        path = _write(cached.file, root / "cache" / str(number))
        if cached.executable and path.is_file():
            path.chmod(path.stat().st_mode | stat.S_IXUSR)
    if dependencies.requirements is not None:
        _install(dependencies, root)


def _write(file: ShippedFile, parent: Path) -> Path:
    parent.mkdir(parents=True)
    path = parent / file.name
    if file.is_directory:
        path.mkdir()
        _unpack(file, path)
    else:
        path.write_bytes(file.content)
    return path


def _unpack(file: ShippedFile, target: Path) -> None:
    data = io.BytesIO(file.content)
    try:
        if zipfile.is_zipfile(data):
            with zipfile.ZipFile(data) as archive:
                for member in archive.infolist():
                    _unpack_member(archive, member, target)
            return
        data.seek(0)
        with tarfile.open(fileobj=data) as tar:
            tar.extractall(target, filter="tar")
    except (zipfile.BadZipFile, tarfile.TarError, OSError) as error:
        raise JobDefinitionError(f'archive "{file.name}" does not unpack: {error}') from error


def _unpack_member(archive: zipfile.ZipFile, member: zipfile.ZipInfo, target: Path) -> None:
    """Unpack with permissions and symbolic links, which `ZipFile.extract` leaves out."""
    mode = member.external_attr >> 16
    if stat.S_ISLNK(mode):
        link = target / member.filename
        if not link.resolve().is_relative_to(target.resolve()):
            raise zipfile.BadZipFile(f"{member.filename} leads out of the directory")
        link.parent.mkdir(parents=True, exist_ok=True)
        link.symlink_to(archive.read(member).decode())
        return
    path = Path(archive.extract(member, target))
    if mode & 0o777 and path.is_file():
        path.chmod(mode & 0o777 | stat.S_IRUSR | stat.S_IWUSR)


def _install(dependencies: Dependencies, root: Path) -> None:
    """Have pip of the slots' own interpreter install the requirements."""
    requirements = dependencies.requirements
    assert requirements is not None
    path = _write(requirements, root / "requirements")
    command = [_executable(dependencies, root) or sys.executable, "-m", "pip", "install"]
    command += ["--disable-pip-version-check", "--no-input", "--quiet", "--no-warn-script-location"]
    command += ["--target", str(root / "packages"), "--requirement", str(path)]
    if dependencies.requirements_cache is not None:
        packages = _write(dependencies.requirements_cache, root / "wheels")
        command += ["--no-index", "--find-links", str(packages)]
    result = subprocess.run(command, capture_output=True, text=True, timeout=PIP_TIMEOUT_S, check=False)
    if result.returncode != 0:
        raise JobDefinitionError(
            f'pip could not install the requirements of "{requirements.name}"',
            detail="\n".join((result.stderr or result.stdout).strip().splitlines()[-10:]),
            hint="For hosts without a way out, give set_python_requirements(...) a directory of packages.",
        )


def _executable(dependencies: Dependencies, root: Path) -> str | None:
    """Return the interpreter; one with a relative path is looked for in the archives first."""
    executable = dependencies.executable
    if executable is not None and os.sep in executable and not os.path.isabs(executable):
        unpacked = root / "archives" / executable
        if unpacked.exists():
            return str(unpacked)
    return executable


def _describe(dependencies: Dependencies, root: Path, lock: IO[bytes]) -> Workspace:
    return Workspace(
        python_path=(*_import_paths(dependencies, root), *dependencies.python_path),
        working_directory=str(root / "archives") if dependencies.archives else None,
        executable=_executable(dependencies, root),
        cached_files={
            cached.name: str(root / "cache" / str(number) / cached.file.name)
            for number, cached in enumerate(dependencies.cached_files)
        },
        _root=root,
        _lock=lock,
    )


def _import_paths(dependencies: Dependencies, root: Path) -> Iterator[str]:
    for number, file in enumerate(dependencies.python_files):
        parent = root / "files" / str(number)
        if file.name.endswith(".py") or (parent / file.name / "__init__.py").exists():
            yield str(parent)
        if not file.name.endswith(".py"):
            yield str(parent / file.name)
    if dependencies.requirements is not None:
        yield str(root / "packages")

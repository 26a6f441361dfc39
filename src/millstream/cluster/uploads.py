"""Programs that were uploaded through the REST API: kept below the cluster's directory, run as applications.

::

    <directory>/uploads/<random>_<name>/
        upload.json      when it came, and what is run
        <name>           a Python file; or
        program/         what an archive holds, with a __main__.py

Names in archives are hostile: nothing is written outside of `program`, no link is made, and what is unpacked is
counted, not believed.
"""

from __future__ import annotations

import io
import json
import lzma
import re
import shutil
import stat
import struct
import uuid
import zipfile
import zlib
from collections.abc import Callable, Sequence
from pathlib import Path, PurePosixPath

from millstream.base.clock import Clock
from millstream.cluster.applications import Application, Program
from millstream.files.durable import make_directories, write_file
from millstream.rest.errors import RestError
from millstream.rest.programs import RunOrder, StartedJob, UploadedProgram
from millstream.runtime.control.channel import RemoteJob, find_jobs
from millstream.runtime.control.views import PlannedJobView

__all__ = ["UploadedPrograms"]

_RECORD = "upload.json"
_MAIN = "__main__.py"
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,99}\.(py|zip)")
_ID = re.compile(r"[0-9a-f]{32}_[A-Za-z0-9_][A-Za-z0-9._-]{0,99}\.(py|zip)")
_MOST_FILES = 10_000
_MOST_PROGRAMS = 1_000
_BROKEN = (
    zipfile.BadZipFile,
    zlib.error,
    lzma.LZMAError,
    struct.error,
    NotImplementedError,
    RuntimeError,
    EOFError,
    OSError,
    ValueError,
)
"""What reading a broken, encrypted or strange archive raises."""
_START_S = 8.0
_LOOK_S = 0.05


class UploadedPrograms:
    """Keeps and runs programs (`rest.programs.Programs`); any thread may ask.

    Args:
        directory: Of the cluster.
        submit: Gives a program to the dispatcher.
        find: Finds an application by its id.
        plan: Finds out what job a program would run.
        clock: Time.
        most_bytes: How large an upload may be, and what is in an archive.
        find_jobs: Finds the jobs that run.
    """

    def __init__(
        self,
        directory: Path,
        submit: Callable[[Program, str], Application],
        find: Callable[[str], Application],
        plan: Callable[[Program], PlannedJobView],
        clock: Clock,
        *,
        most_bytes: int,
        find_jobs: Callable[[], Sequence[RemoteJob]] = find_jobs,
    ) -> None:
        self.most_bytes = most_bytes
        self._root = directory / "uploads"
        self._submit = submit
        self._find = find
        self._plan = plan
        self._clock = clock
        self._find_jobs = find_jobs

    def list(self) -> Sequence[UploadedProgram]:
        """Return those that are kept, the latest first."""
        if not self._root.is_dir():
            return []
        found = [self._read(path) for path in self._root.iterdir() if _ID.fullmatch(path.name)]
        whole = [each for each in found if each is not None]
        return sorted(whole, key=lambda each: (-each.uploaded_ms, each.program_id))

    def _read(self, path: Path) -> UploadedProgram | None:
        try:
            record = json.loads((path / _RECORD).read_text(encoding="utf-8"))
        except FileNotFoundError:  # it is just being uploaded, or that was broken off
            return None
        return UploadedProgram(
            path.name, path.name.partition("_")[2], record["uploaded_ms"], record["entry"], str(self._root)
        )

    def add(self, name: str, content: bytes) -> UploadedProgram:
        """Keep one; it is there whole, or not at all.

        Raises:
            RestError: 400 if it is no program, or names do not fit; 409 if there are too many.
        """
        name = name.replace("\\", "/").rpartition("/")[2]
        if _NAME.fullmatch(name) is None:
            raise RestError(
                400,
                f"{name[:100]!r} is no program's name: it ends in .py or .zip, and has letters, digits, '.', '_', '-'",
            )
        if len(self.list()) >= _MOST_PROGRAMS:
            raise RestError(
                409, f"{_MOST_PROGRAMS} programs are kept already: delete some (DELETE /jars/:jarid)"
            )
        directory = self._root / f"{uuid.uuid4().hex}_{name}"
        make_directories(str(directory), mode=0o700)
        try:
            if name.endswith(".py"):
                entry = name
                _check_text(content)
                write_file(str(directory / name), content)
            else:
                entry = _MAIN
                _unpack(content, directory / "program", self.most_bytes)
            record = {"uploaded_ms": self._clock.now_ms(), "entry": entry}
            write_file(str(directory / _RECORD), json.dumps(record).encode())
        except BaseException:
            shutil.rmtree(directory, ignore_errors=True)
            raise
        found = self._read(directory)
        assert found is not None
        return found

    def remove(self, program_id: str) -> None:
        """Forget one; applications that run it and are started again would miss it.

        Raises:
            RestError: 404 if there is none.
        """
        directory = self._directory(program_id)
        (directory / _RECORD).unlink()
        shutil.rmtree(directory)

    def start(self, program_id: str, order: RunOrder) -> str:
        """Run one, and return the id of its application at once.

        Raises:
            RestError: 404 if there is none.
        """
        name = program_id.partition("_")[2]
        return self._submit(self._program(program_id, order), name.rpartition(".")[0]).application_id

    def plan(self, program_id: str, order: RunOrder) -> PlannedJobView:
        """Run one up to its first job, which is not run, and return that.

        Raises:
            RestError: 404 if there is none, 400 if it ended before it had a job, 503 if that takes long.
        """
        return self._plan(self._program(program_id, order))

    def _program(self, program_id: str, order: RunOrder) -> Program:
        directory = self._directory(program_id)
        name = program_id.partition("_")[2]
        path = directory / "program" / _MAIN if name.endswith(".zip") else directory / name
        return Program(
            str(path), tuple(order.arguments), dict(order.options), working_directory=str(path.parent)
        )

    def run(self, program_id: str, order: RunOrder) -> StartedJob:
        """Run one, and return its first job.

        Raises:
            RestError: 404 if there is none, 400 if it ended before it had a job, 503 if that takes long.
        """
        application_id = self.start(program_id, order)
        deadline = self._clock.monotonic() + _START_S
        while self._clock.monotonic() < deadline:
            now = self._find(application_id)
            mine = [job for job in self._find_jobs() if now.pid is not None and job.pid == now.pid]
            if mine:
                return StartedJob(mine[0].job_id, application_id)
            if now.has_ended:
                raise RestError(400, f"the program ended without a job: {now.status}. {now.message[-2000:]}")
            self._clock.wait(_LOOK_S)
        raise RestError(
            503,
            f"application {application_id} was started, and has no job yet; /jobs lists it when it has",
            headers=[("retry-after", "5")],
        )

    def _directory(self, program_id: str) -> Path:
        """Return a program's directory: of those that are there, found by name."""
        if any(each.program_id == program_id for each in self.list()):
            return self._root / program_id
        raise RestError(404, f"there is no program {program_id[:200]!r}; /jars lists those that there are")


def _check_text(content: bytes) -> None:
    """Refuse what is no text; whether it is Python is seen in a process of its own, which it may bring down."""
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise RestError(400, f"the file is no Python program: it is no UTF-8: {error}") from error
    if "\0" in text:
        raise RestError(400, "the file is no Python program: it holds zero bytes")


def _unpack(content: bytes, directory: Path, most_bytes: int) -> None:
    """Write an archive's files below a directory.

    Raises:
        RestError: 400 if it is none, has no `__main__.py`, or holds what is not to be.
    """
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            entries = [each for each in archive.infolist() if not each.is_dir()]
            if len(entries) > _MOST_FILES:
                raise RestError(400, f"the archive has {len(entries):,} files, more than {_MOST_FILES:,}")
            if _MAIN not in (each.filename for each in entries):
                raise RestError(400, f"the archive has no {_MAIN} at its top, which would be run")
            left = most_bytes
            for each in entries:
                target = directory.joinpath(*_parts(each))
                make_directories(str(target.parent), mode=0o700, sync=False)
                with archive.open(each) as file:
                    data = file.read(left + 1)
                left -= len(data)
                if left < 0:
                    raise RestError(413, f"the archive holds more than {most_bytes:,} bytes")
                write_file(str(target), data)
    except _BROKEN as error:
        raise RestError(400, f"the archive cannot be unpacked: {error}") from error


def _parts(entry: zipfile.ZipInfo) -> tuple[str, ...]:
    """Return the parts of an entry's path, if it stays below where it is unpacked."""
    name = entry.filename
    parts = PurePosixPath(name).parts
    kind = stat.S_IFMT(entry.external_attr >> 16)
    if kind not in (0, stat.S_IFREG):
        raise RestError(400, f"archive entry {name[:200]!r} is a link or device")
    bad = not parts or name.startswith("/") or "\\" in name or "\0" in name or ":" in parts[0]
    if (
        bad
        or any(part in ("..", ".") or len(part.encode()) > 255 for part in parts)
        or not name.isprintable()
    ):
        raise RestError(400, f"archive entry {name[:200]!r} does not stay within the program's directory")
    return parts

"""What running jobs tell other processes of this user: a small JSON file for each.

The directory is `millstream-<uid>/jobs` below the temporary directory, for its user only. A job writes its file, a
`WatermarksView`, about once a second, by renaming, so readers see whole files; it removes it at its end. Files of
processes that are gone are left out and removed by whoever reads.
"""

from __future__ import annotations

import json
import logging
import os
from pathlib import Path
from typing import Any

from millstream.files.private_files import find_private, private_directory, user_directory

__all__ = [
    "StatusFile",
    "is_alive",
    "process_start",
    "read_running_jobs",
    "status_directory",
]

_LOG = logging.getLogger("millstream")
_KEYS = (("pid", int), ("job_id", str), ("started_ms", int))


def status_directory() -> Path:
    """Return where the files lie; it need not exist."""
    return user_directory("jobs")


class StatusFile:
    """Writes one job's file; the job master's thread calls it.

    A file that cannot be written is no reason to fail: the first time it is logged, then no more are written.

    Args:
        job_id: Names the file.
    """

    def __init__(self, job_id: str) -> None:
        self._path = status_directory() / f"{job_id}.json"
        self._written = False
        self._failed = False

    def write(self, document: dict[str, Any]) -> None:
        """Replace the file; adds the process, so that readers can tell whether the job still runs."""
        if self._failed:
            return
        partial = self._path.with_suffix(".partial")
        try:
            private_directory("jobs")
            process = {"pid": os.getpid(), "process_start": process_start(os.getpid())}
            partial.write_text(json.dumps({**document, **process}), encoding="utf-8")
            os.replace(partial, self._path)
            self._written = True
        except OSError as error:
            self._failed = True
            _LOG.warning("status of the job is not written: %s", error)

    def remove(self) -> None:
        """Remove the file; called once, at the end of the job."""
        if self._written:
            self._path.unlink(missing_ok=True)


def read_running_jobs() -> list[dict[str, Any]]:
    """Return the documents of the jobs that run, by start.

    Raises:
        NotPrivateError: If the directory belongs to somebody else.
    """
    directory = find_private("jobs")
    if directory is None:
        return []
    documents = []
    for path in directory.glob("*.json"):
        document = _read(path)
        if document is None:
            continue
        if is_alive(document["pid"], document.get("process_start")):
            documents.append(document)
        else:
            path.unlink(missing_ok=True)
    return sorted(documents, key=lambda document: (document["started_ms"], document["job_id"]))


def _read(path: Path) -> dict[str, Any] | None:
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:  # the job has just ended
        return None
    except ValueError:
        _LOG.warning("status file is not JSON and is left out: %s", path)
        return None
    if not isinstance(document, dict) or not all(isinstance(document.get(key), kind) for key, kind in _KEYS):
        _LOG.debug("status file is of another version, and is left out: %s", path)
        return None
    return document


def is_alive(pid: int, started: str | None) -> bool:
    """Return whether a process still runs that had that number and that `process_start`."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:  # the number belongs to somebody else by now
        return False
    return started == process_start(pid)


def process_start(pid: int) -> str | None:
    """Return what tells a process from another that has its number later; None where that is not known.

    A process that has ended and that nobody has waited for has no start either.
    """
    try:
        # The name, in brackets, may hold anything; behind it come the state and, as 20th field, the start.
        fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2]
    except OSError:
        return None
    state, *rest = fields.split()
    return None if state in "ZX" else rest[18]

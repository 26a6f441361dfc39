"""The applications of a cluster, on disk: what a dispatcher that starts anew goes on with.

::

    <directory>/applications/<application id>/
        application.json     replaced as a whole at each change
        program/             the program, if it was uploaded
        recovery/            what its jobs leave for a later driver (high-availability.storageDir)
        checkpoints/         theirs, unless they name another place
        log/<start>.log      what each of its processes wrote
"""

from __future__ import annotations

import json
import logging
import os
import shutil
from pathlib import Path

from millstream.cluster.applications import (
    Application,
    ApplicationRecordError,
    application_from_json,
    application_to_json,
)
from millstream.files.durable import make_directories, sync_directory, write_file

__all__ = ["ApplicationStore"]

_log = logging.getLogger(__name__)
_RECORD = "application.json"


class ApplicationStore:
    """Keeps applications below a directory that outlives dispatchers; the dispatcher's thread calls it.

    Args:
        directory: Of the cluster; made if it is missing, for this user only.
    """

    def __init__(self, directory: str | Path) -> None:
        self._root = Path(directory) / "applications"
        make_directories(str(self._root), mode=0o700)

    def directory_of(self, application_id: str) -> Path:
        """Return an application's directory; it need not exist."""
        return self._root / application_id

    def read(self) -> list[Application]:
        """Return all applications; directories without a record, of submissions that were broken off, go.

        Raises:
            ApplicationRecordError: If a record cannot be understood; names the file.
        """
        applications = []
        for directory in sorted(self._root.iterdir()):
            path = directory / _RECORD
            try:
                document = json.loads(path.read_text(encoding="utf-8"))
            except FileNotFoundError:
                _log.info("a submission that was not brought to its end is removed: %s", directory)
                shutil.rmtree(directory)
                continue
            except ValueError as error:
                raise ApplicationRecordError(
                    f'file "{path}" is not JSON: {error}',
                    hint="Remove its directory if the application is not to run any more.",
                ) from error
            try:
                applications.append(application_from_json(document))
            except ApplicationRecordError as error:
                raise ApplicationRecordError(
                    f'file "{path}": {error.message}', detail=error.detail, hint=error.hint
                ) from error
        return applications

    def write(self, application: Application) -> None:
        """Note an application, durably.

        Raises:
            OSError: If that fails; what was noted before is still there.
        """
        directory = self.directory_of(application.application_id)
        make_directories(str(directory), mode=0o700)
        record = json.dumps(application_to_json(application), indent=1)
        write_file(str(directory / _RECORD), record.encode())

    def remove(self, application_id: str) -> None:
        """Remove all that is kept of an application, its record first."""
        directory = self.directory_of(application_id)
        (directory / _RECORD).unlink(missing_ok=True)
        sync_directory(str(directory))
        shutil.rmtree(directory)

    def log_file(self, application: Application) -> Path:
        """Return where the process of its last start writes."""
        return self.directory_of(application.application_id) / "log" / f"{application.starts}.log"

    def prepare_start(self, application: Application) -> None:
        """Make the directories that a process finds."""
        for name in ("log", "recovery", "checkpoints"):
            os.makedirs(self.directory_of(application.application_id) / name, mode=0o700, exist_ok=True)
